"""A small chatbot with memory, and every way to run a graph."""

import asyncio
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.memory import Memory

WAYS = ("invoke", "ainvoke", "stream", "astream")


def config(user: Any = "ana", thread: str | None = "t1", **more: Any) -> dict[str, Any]:
    places = {"user_id": user, "thread_id": thread, **more}
    return {
        "configurable": {
            name: value for name, value in places.items() if value is not None
        }
    }


def chatbot(
    memory: Memory,
    model: Any,
    *,
    checkpointer: Any = None,
    schema: Any = MessagesState,
    **options: Any,
) -> Any:
    def chat(state: MemoryState) -> dict[str, Any]:
        return {"messages": [model.invoke(with_memory(state))]}

    builder = StateGraph(schema)
    builder.add_node("recall", create_recall_node(memory, **options))
    builder.add_node("chat", chat)
    builder.add_node("write", create_write_node(memory, **options))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.add_edge("chat", "write")
    return builder.compile(checkpointer=checkpointer)


def run(graph: Any, way: str, *args: Any) -> Any:
    """The graph's last state, whichever way it is run."""

    async def last_streamed() -> Any:
        return [part async for part in graph.astream(*args, stream_mode="values")][-1]

    if way == "ainvoke":
        return asyncio.run(graph.ainvoke(*args))
    if way == "astream":
        return asyncio.run(last_streamed())
    if way == "stream":
        return list(graph.stream(*args, stream_mode="values"))[-1]
    return graph.invoke(*args)


def texts(messages: list[Any]) -> list[str]:
    return [str(message.content) for message in messages]
