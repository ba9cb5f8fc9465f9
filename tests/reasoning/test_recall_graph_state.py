"""The recall graph's state: what a turn begins with, and what a checkpointer saves."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from langmem_graph.graphs.nodes import (
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from tests.support.goals import ASKED
from tests.support.reasoning import ANA, calls, chat
from tests.support.recalled import PALM, PUPPY, SAID, acting, good


def test_a_second_turn_of_a_thread_begins_anew(open_memory: Any) -> None:
    memory = open_memory(acting())
    builder = StateGraph(MessagesState)
    builder.add_sequence([("recall", create_recall_graph(memory)), ("chat", chat([]))])
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    for _ in range(2):
        done = graph.invoke({"messages": [HumanMessage(PALM)]}, config)
    assert len(done["messages"]) == 4
    direct = create_recall_graph(memory).invoke({"messages": done["messages"][2:]}, ANA)
    assert len(direct["memory_recall"]["trace"]) == 5


def test_what_is_in_view_is_not_quoted(open_memory: Any) -> None:
    user = open_memory(acting()).user("ana")
    found = user.recall(PALM, mode="auto", in_view=["m1"])
    assert PUPPY not in found.context
    assert "m1" not in {hit.message_id for hit in found.evidence}


def test_nothing_asked_is_nothing_to_reason_about(open_memory: Any) -> None:
    model = good()
    graph = create_recall_graph(open_memory(model))
    done = graph.invoke({"messages": [AIMessage("Hello!")]}, ANA)
    assert done["memory_context"] == ""
    assert calls(model) == []


def test_the_budget_of_the_context_is_kept(open_memory: Any) -> None:
    user = open_memory(acting()).user("ana")
    found = user.recall(PALM, mode="auto", max_tokens=150)
    assert 0 < found.report.context_tokens <= 150
    assert found.context.splitlines()[5] == f'  - 2025-03-01 10:00 user [m1]: "{PUPPY}"'
    tiny = user.recall(PALM, mode="auto", max_tokens=1)
    assert tiny.context == ""


def test_nothing_recalled_is_in_an_applications_checkpoints(open_memory: Any) -> None:
    memory = open_memory(good())
    saver = InMemorySaver()
    builder = StateGraph(Plain)
    builder.add_node("recall", create_recall_graph(memory))
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    graph.invoke({"messages": [HumanMessage(ASKED)]}, config)
    saved = f"{saver.blobs}{saver.writes}"
    assert ASKED in saved
    assert not [text for text in SAID.values() if text in saved]


def _saved(saver: InMemorySaver) -> str:
    return f"{saver.storage}{saver.blobs}{saver.writes}"


@pytest.mark.parametrize("show_loop", [False, True])
def test_what_a_checkpointer_saves_is_json(open_memory: Any, show_loop: bool) -> None:
    """A server gives a graph its own checkpointer; what it saves needs no class of this package."""
    saver = InMemorySaver()
    graph = create_recall_graph(open_memory(good()), show_loop=show_loop)
    served = graph.copy(update={"checkpointer": saver})
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    for _ in range(2):
        done = served.invoke({"messages": [HumanMessage(ASKED)]}, config)
    state = served.get_state(config).values
    assert state["proof"]["status"] == "grounded"
    assert state["recall"] == done["memory_recall"]
    assert json.loads(json.dumps(done["memory_recall"])) == done["memory_recall"]
    assert "langmem_graph" not in _saved(saver)


def test_a_shown_loop_is_saved_as_json(open_memory: Any) -> None:
    saver = InMemorySaver()
    builder = StateGraph(Plain)
    builder.add_node("recall", create_recall_graph(open_memory(good()), show_loop=True))
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    graph.invoke({"messages": [HumanMessage(ASKED)]}, config)
    saved = _saved(saver)
    assert [text for text in SAID.values() if text in saved]
    assert "langmem_graph" not in saved


class Plain(TypedDict):
    messages: list[Any]


def test_messages_without_ids_keep_their_context(open_memory: Any) -> None:
    memory = open_memory(good())
    seen: list[str] = []

    class Own(TypedDict, total=False):
        messages: list[Any]
        memory_context: str
        memory_question: str

    def chat(state: Own) -> dict[str, Any]:
        seen.append(str(with_memory(state)[0].content))
        return {"messages": state["messages"]}

    builder = StateGraph(Own)
    builder.add_sequence([("recall", create_recall_graph(memory)), ("chat", chat)])
    builder.add_edge(START, "recall")
    builder.compile().invoke({"messages": [{"role": "user", "content": ASKED}]}, ANA)
    assert SAID["m4"] in seen[0]


@pytest.mark.parametrize("mode", ["fast", "auto"])
def test_nodes_work_outside_a_graph(open_memory: Any, mode: Any) -> None:
    memory = open_memory(good())
    done = create_recall_node(memory, mode=mode).invoke(
        {"messages": [HumanMessage(ASKED)]}, ANA
    )
    assert SAID["m4"] in done["memory_context"]
    create_write_node(memory, extraction="manual").invoke(
        {"messages": [HumanMessage("hi")]}, ANA
    )


def test_spent_time_is_that_of_one_turn(open_memory: Any) -> None:
    memory = open_memory(acting())
    served = create_recall_graph(memory).copy(update={"checkpointer": InMemorySaver()})
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    for _ in range(2):
        done = served.invoke({"messages": [HumanMessage(PALM)]}, config)
    spent = done["memory_recall"]["report"]["milliseconds"]
    assert spent["first_lookup"] <= spent["total"]
    assert len(done["memory_recall"]["trace"]) == 5
