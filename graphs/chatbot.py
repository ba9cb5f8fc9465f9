"""A chatbot that remembers its users across conversations: recall → chat → write.

`graph` is the chatbot. `studio` is the same with everything in view, for LangGraph
Studio: with LANGMEM_GRAPH_MODEL each step of recall and write is drawn, and what was
recalled is in the events and in the thread's state, which `forget` and `erase` do not
reach.

The model is the one that OPENAI_API_KEY reaches, or CHAT_MODEL and CHAT_BASE_URL name.
Without any, a scripted model recites what memory gave it.
"""

import os
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import (
    MemoryState,
    UserContext,
    create_recall_graph,
    create_recall_node,
    create_write_graph,
    create_write_node,
    with_memory,
)
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel, recite

memory = Memory.from_environment()
configured = load_chat_model(
    os.environ.get("CHAT_MODEL"), os.environ.get("CHAT_BASE_URL")
)
model = configured or ScriptedChatModel(script=recite, record=False)


class StudioState(MemoryState, total=False):
    """The state of `studio`: messages, what was recalled, how it was found, and what
    was stored.
    """

    memory_recall: dict[str, Any]


async def chat(state: MemoryState) -> dict[str, Any]:
    """One answer; the recalled text is in the request alone."""
    return {"messages": [await model.ainvoke(with_memory(state))]}


def around_chat(name: str, state: Any, recall: Any, write: Any) -> Any:
    """The graph of the three; its input is `messages` alone."""
    builder = StateGraph(state, input_schema=MessagesState, context_schema=UserContext)
    builder.add_node("recall", recall)
    builder.add_node("chat", chat)
    builder.add_node("write", write)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.add_edge("chat", "write")
    return builder.compile(name=name)


graph = around_chat(
    "chatbot", MessagesState, create_recall_node(memory), create_write_node(memory)
)
shown: dict[str, Any] = {"show_context": True}
if memory.has_model:
    recall: Any = create_recall_graph(memory, show_loop=True, **shown)
    studio = around_chat("studio", StudioState, recall, create_write_graph(memory))
else:
    node, write = (
        create_recall_node(memory, **shown),
        create_write_node(memory, report=True),
    )
    studio = around_chat("studio", StudioState, node, write)
