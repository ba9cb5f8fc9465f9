"""A chatbot that remembers its users across conversations: recall → chat → write.

The model is the one that OPENAI_API_KEY reaches, or CHAT_MODEL and CHAT_BASE_URL name. Without
any, a scripted model recites what memory gave it.
"""

import os
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import (
    MemoryState,
    UserContext,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel, recite

memory = Memory.from_environment()
configured = load_chat_model(os.environ.get("CHAT_MODEL"), os.environ.get("CHAT_BASE_URL"))
model = configured or ScriptedChatModel(script=recite, record=False)


async def chat(state: MemoryState) -> dict[str, Any]:
    """One answer; the recalled text is in the request alone."""
    return {"messages": [await model.ainvoke(with_memory(state))]}


builder = StateGraph(MessagesState, context_schema=UserContext)
builder.add_node("recall", create_recall_node(memory))
builder.add_node("chat", chat)
builder.add_node("write", create_write_node(memory))
builder.add_edge(START, "recall")
builder.add_edge("recall", "chat")
builder.add_edge("chat", "write")
graph = builder.compile(name="chatbot")
