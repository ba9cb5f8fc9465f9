"""A chatbot as a LangGraph StateGraph: recall before the model, write after it.

python examples/state_graph_chatbot.py                        offline, a scripted model
answers python examples/state_graph_chatbot.py --base-url http://localhost:11434/v1
--model llama3.2
"""

import argparse
import tempfile
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel, recite

CONVERSATIONS = {
    "monday": ["Hi! I am vegan, and I cannot stand coriander.", "I live in Porto."],
    "friday": ["What should I cook tonight?"],
}


def build(memory: Memory, model: Any) -> Any:
    """The five lines: two nodes around your own."""

    def chat(state: MemoryState) -> dict[str, Any]:
        return {"messages": [model.invoke(with_memory(state))]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_node("chat", chat)
    builder.add_node("write", create_write_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.add_edge("chat", "write")
    return builder.compile(checkpointer=InMemorySaver())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument("--model", help="its model")
    chosen = options.parse_args()
    configured = load_chat_model(chosen.model, chosen.base_url)
    model = configured or ScriptedChatModel(script=recite)
    with tempfile.TemporaryDirectory() as directory, Memory(directory) as memory:
        chatbot = build(memory, model)
        for thread, lines in CONVERSATIONS.items():
            print(f"--- {thread}: a thread of its own")
            for line in lines:
                config = {"configurable": {"thread_id": thread, "user_id": "ana"}}
                answer = chatbot.invoke({"messages": [("user", line)]}, config)
                print(f"you: {line}\nbot: {answer['messages'][-1].text}")


if __name__ == "__main__":
    main()
