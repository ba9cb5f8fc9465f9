"""`show_context=True` puts the recalled text into the stream event and the final state."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph.graphs import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.reasoning import ANA
from tests.support.recalled import PUPPY


def of_nodes(memory: Memory, **options: Any) -> Any:
    def chat(state: MemoryState) -> Any:
        return {
            "messages": [ScriptedChatModel(script=["Hm."]).invoke(with_memory(state))]
        }

    builder = StateGraph(MemoryState, input_schema=MessagesState)
    recall, write = create_recall_node(memory, **options), create_write_node(memory)
    builder.add_sequence([("recall", recall), ("chat", chat), ("write", write)])
    builder.add_edge(START, "recall")
    return builder.compile()


def of_middleware(memory: Memory, **options: Any) -> Any:
    middleware = MemoryMiddleware(memory, extraction="manual", **options)
    return create_agent(ScriptedChatModel(script=["Hm."]), middleware=[middleware])


ASKED: Any = {"messages": [("user", "Where can I buy a sago palm for the puppy?")]}
Build = Callable[..., Any]


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("build", [of_nodes, of_middleware])
async def test_the_event_and_the_final_state_have_it(
    memory: Memory, build: Build, way: str
) -> None:
    memory.user("ana").add([said(PUPPY)], session_id="s")
    graph, options = (
        build(memory, show_context=True),
        {"stream_mode": ["custom", "values"]},
    )
    if way == "stream":
        parts = list(graph.stream(ASKED, ANA, **options))
    else:
        parts = [part async for part in graph.astream(ASKED, ANA, **options)]
    (event,) = [
        part for kind, part in parts if kind == "custom" and "recall" in part["event"]
    ]
    assert PUPPY in event["context"]
    _, end = parts[-1]
    assert end["memory_report"]["recall"]["context"] == event["context"]
    assert not end.get("memory_context")  # the turn is answered


@pytest.mark.parametrize("build", [of_nodes, of_middleware])
def test_otherwise_no_text_is_in_them(memory: Memory, build: Build) -> None:
    memory.user("ana").add([said(PUPPY)], session_id="s")
    parts = list(
        build(memory, report=True).stream(ASKED, ANA, stream_mode=["custom", "values"])
    )
    assert parts[-1][1]["memory_report"]["recall"]["message_ids"]
    reports = [
        part if kind == "custom" else part.get("memory_report") for kind, part in parts
    ]
    assert PUPPY not in str(reports)
