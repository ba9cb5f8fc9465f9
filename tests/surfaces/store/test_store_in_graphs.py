"""A ChromaStore in graphs and under LangMem's tools."""

import asyncio
import warnings
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from langmem_graph.store.chroma_store import ChromaStore


@tool
def keep(text: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Keep a text."""
    store.put(("kept",), "k", {"text": text})
    return "kept"


def look(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    found = runtime.store.search(("kept",), query="nuts")
    return {"messages": [AIMessage(found[0].value["text"])]}


async def look_async(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    found = await runtime.store.asearch(("kept",), query="nuts")
    return {"messages": [AIMessage(found[0].value["text"])]}


def graph_with(store: BaseStore, node: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([keep]))
    builder.add_node("look", node)
    builder.add_edge(START, "tools")
    builder.add_edge("tools", "look")
    return builder.compile(store=store)


def call(text: str) -> dict[str, Any]:
    one = {"name": "keep", "args": {"text": text}, "id": "1"}
    return {"messages": [AIMessage("", tool_calls=[one])]}


async def test_a_graph_uses_it(store: ChromaStore) -> None:
    sync = graph_with(store, look)
    answer = await asyncio.to_thread(sync.invoke, call("Ana eats no nuts"))
    assert answer["messages"][-1].content == "Ana eats no nuts"
    with blockbuster_ctx():
        answer = await graph_with(store, look_async).ainvoke(call("Bo eats no nuts"))
    assert answer["messages"][-1].content == "Bo eats no nuts"


def test_langmems_tools_run_on_it(store: ChromaStore) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import uses what LangGraph deprecates
        langmem = pytest.importorskip("langmem", reason="langmem is not installed")
    manage = langmem.create_manage_memory_tool(
        namespace=("memories", "{user}"), store=store
    )
    look = langmem.create_search_memory_tool(
        namespace=("memories", "{user}"), store=store
    )
    ana, bo = ({"configurable": {"user": name}} for name in ("ana", "bo"))
    manage.invoke({"content": "Ana eats no nuts.", "action": "create"}, config=ana)
    (kept,) = store.search(("memories", "ana"))
    assert "no nuts" in look.invoke({"query": "nuts"}, config=ana)
    assert "no nuts" not in look.invoke({"query": "nuts"}, config=bo)
    changed = {"id": kept.key, "action": "update", "content": "Ana eats nuts again."}
    manage.invoke(changed, config=ana)
    assert "again" in look.invoke({"query": "nuts"}, config=ana)
    manage.invoke({"id": kept.key, "action": "delete"}, config=ana)
    assert store.search(("memories",)) == []
