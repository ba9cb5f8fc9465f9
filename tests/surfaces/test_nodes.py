"""Recall and write nodes in a StateGraph, under invoke, ainvoke, stream and astream."""

import json
import operator
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.graphs import WAYS, chatbot, config, run, texts


@pytest.mark.parametrize("way", WAYS)
def test_a_second_thread_recalls_the_first(memory: Memory, way: str) -> None:
    model = ScriptedChatModel(script=["Noted.", "Aisle, as always."])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())
    run(graph, way, {"messages": [("user", "I always take an aisle seat.")]}, config())
    end = run(graph, way, {"messages": [("user", "Which seat?")]}, config(thread="t2"))

    assert texts(end["messages"]) == ["Which seat?", "Aisle, as always."]
    assert not end.get("memory_context")  # streamed values show every key of a graph
    shown, asked = model.requests[-1]
    assert "I always take an aisle seat." in str(shown.content)
    assert asked.content == "Which seat?"
    assert [m["content"] for m in memory.user("ana").export()] == [
        "I always take an aisle seat.", "Noted.", "Which seat?", "Aisle, as always.",
    ]  # fmt: skip
    assert [s.session_id for s in memory.user("ana").sessions()] == ["t1", "t2"]


async def test_nothing_blocks_the_loop(memory: Memory) -> None:
    model = ScriptedChatModel()
    graph = chatbot(memory, model, report=True, schema=MemoryState)
    await graph.ainvoke({"messages": "warm up"}, config())
    with blockbuster_ctx():
        end = await graph.ainvoke({"messages": "I like tea"}, config())
        parts = [
            p async for p in graph.astream({"messages": "tea?"}, config(thread="t2"))
        ]
    assert end["memory_report"]["write"]["status"] == "ok"
    assert [next(iter(part)) for part in parts] == ["recall", "chat", "write"]


def test_recalled_text_is_never_written_back(memory: Memory) -> None:
    memory.user("ana").add(said("My locker code is 4711.", id="m1"), session_id="old")
    echo = ScriptedChatModel(script=[lambda messages: AIMessage("You have a locker.")])

    def careless(state: MemoryState) -> dict[str, Any]:
        shown = with_memory(state)
        return {"messages": [*shown, echo.invoke(shown)]}  # recalled text in the state

    builder = StateGraph(MessagesState)
    builder.add_sequence(
        [
            ("recall", create_recall_node(memory)),
            careless,
            ("write", create_write_node(memory)),
        ]
    )
    builder.add_edge(START, "recall")
    graph = builder.compile()
    for n in range(3):
        graph.invoke({"messages": "What is my locker code?"}, config(thread=f"t{n}"))
    kept = [m["content"] for m in memory.user("ana").export()]
    assert sum("4711" in text for text in kept) == 1
    assert not any("<memory>" in text for text in kept)
    assert kept.count("You have a locker.") == 3


def test_every_message_of_the_turn_is_kept_by_id(memory: Memory) -> None:
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}
    turn = [
        SystemMessage("Be brief.", id="s"),
        HumanMessage("Weather in Oslo?", id="h1"),
        HumanMessage("And please in Celsius.", id="h2"),
        AIMessage("", tool_calls=[call], id="a1"),
        ToolMessage("4 degrees", tool_call_id="c1", id="t"),
        AIMessage([{"type": "text", "text": "Four degrees."}], id="a2"),
    ]
    builder = StateGraph(MemoryState)
    builder.add_node("write", create_write_node(memory, report=True))
    builder.add_edge(START, "write")
    graph = builder.compile()
    first = graph.invoke({"messages": turn}, config())
    again = graph.invoke({"messages": turn}, config())
    assert first["memory_report"]["write"]["stored"] == 6
    assert again["memory_report"]["write"]["stored"] == 0
    kept = memory.user("ana").export()
    assert [m["id"] for m in kept] == ["s", "h1", "h2", "a1", "t", "a2"]
    assert kept[3]["tool_calls"][0]["args"] == {"city": "Oslo"}


def test_a_stateless_client_that_resends_everything_adds_only_what_is_new(
    memory: Memory,
) -> None:
    model = ScriptedChatModel(script=["one", "two", "three", "four"])
    graph = chatbot(memory, model)
    conversation: list[tuple[str, str]] = []
    for text in ("hello", "my cat is Pico", "yes", "yes"):
        conversation.append(("user", text))
        end = graph.invoke({"messages": conversation}, config())
        conversation.append(("assistant", end["messages"][-1].content))
    kept = [m["content"] for m in memory.user("ana").export()]
    assert kept == [
        "hello",
        "one",
        "my cat is Pico",
        "two",
        "yes",
        "three",
        "yes",
        "four",
    ]


@pytest.mark.parametrize("thread", ["fixed", "new", None])
@pytest.mark.parametrize("sent", ["everything", "words"])
def test_a_stateless_client_is_never_doubled(
    memory: Memory, thread: str | None, sent: str
) -> None:
    """With one thread, a new one per run, or none; sending tool messages back, or only words."""
    call = {"name": "clock", "args": {}, "id": "c"}
    conversation: list[Any] = []

    def chat(state: MessagesState) -> dict[str, Any]:
        number = len([m for m in state["messages"] if m.type == "human"])
        asks = AIMessage("", tool_calls=[{**call, "id": f"c{number}"}])
        return {
            "messages": [
                asks,
                ToolMessage("noon", tool_call_id=f"c{number}"),
                AIMessage("ok"),
            ]
        }

    builder = StateGraph(MessagesState)
    builder.add_sequence([("first", create_write_node(memory)), chat])
    builder.add_sequence([("write", create_write_node(memory))])
    builder.add_edge(START, "first")
    builder.add_edge("chat", "write")
    graph = builder.compile()
    for number, text in enumerate(("hello", "time?", "yes", "yes")):
        conversation.append(HumanMessage(text))
        where = {"fixed": "t", "new": f"t{number}"}.get(str(thread))
        fresh = [m.model_copy(update={"id": None}) for m in conversation]
        end = graph.invoke({"messages": fresh}, config(thread=where))
        new = end["messages"][len(conversation) :]
        conversation += [m for m in new if sent == "everything" or m.text == "ok"]
    roles = [m["role"] for m in memory.user("ana").export()]
    assert roles == ["user", "assistant", "tool", "assistant"] * 4


def test_a_retry_after_a_failing_model_is_not_stored_twice(memory: Memory) -> None:
    model = ScriptedChatModel(script=["one", RuntimeError("down"), "two"])
    builder = StateGraph(MessagesState)
    builder.add_sequence(
        [
            ("first", create_write_node(memory)),
            ("chat", lambda state: {"messages": [model.invoke(state["messages"])]}),
            ("write", create_write_node(memory)),
        ]
    )
    builder.add_edge(START, "first")
    graph = builder.compile()
    graph.invoke({"messages": [("user", "hello")]}, config())
    retried = {"messages": [("user", "hello"), ("assistant", "one"), ("user", "cat?")]}
    with pytest.raises(RuntimeError):
        graph.invoke(retried, config())
    graph.invoke(retried, config())
    assert [m["content"] for m in memory.user("ana").export()] == [
        "hello",
        "one",
        "cat?",
        "two",
    ]


class Plain(TypedDict):
    messages: Annotated[list[Any], operator.add]


def test_messages_that_never_get_an_id(memory: Memory) -> None:
    builder = StateGraph(Plain)
    builder.add_sequence(
        [
            ("first", create_write_node(memory)),
            ("chat", lambda _: {"messages": [{"role": "assistant", "content": "ok"}]}),
            ("write", create_write_node(memory)),
        ]
    )
    builder.add_edge(START, "first")
    graph = builder.compile()
    for text in ("yes", "no", "yes"):
        graph.invoke({"messages": [{"role": "user", "content": text}]}, config())
    kept = [m["content"] for m in memory.user("ana").export()]
    assert kept == ["yes", "ok", "no", "ok", "yes", "ok"]


def test_parallel_branches_may_recall_and_write(memory: Memory) -> None:
    memory.user("ana").add(said("I like jazz"), session_id="s")
    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory, report=True))
    builder.add_node("recall too", create_recall_node(memory, report=True, k=1))
    builder.add_node("note", create_write_node(memory, report=True))
    for branch in ("left", "right"):
        builder.add_node(
            branch, lambda _, branch=branch: {"messages": [AIMessage(branch)]}
        )
        builder.add_node(f"write {branch}", create_write_node(memory, report=True))
        builder.add_edge(["recall", "recall too", "note"], branch)
        builder.add_edge(branch, f"write {branch}")
    for first in ("recall", "recall too", "note"):
        builder.add_edge(START, first)
    end = builder.compile().invoke({"messages": "jazz?"}, config())
    assert end["memory_report"]["write"]["status"] == "ok"
    kept = [m["content"] for m in memory.user("ana").export()]
    assert sorted(kept) == ["I like jazz", "jazz?", "left", "right"]


def test_fan_out_with_send(memory: Memory) -> None:
    builder = StateGraph(MemoryState)
    builder.add_node("write", create_write_node(memory, report=True))
    builder.add_conditional_edges(
        START,
        lambda _: [
            Send("write", {"messages": [HumanMessage(f"part {n}", id=str(n))]})
            for n in "abc"
        ],
        ["write"],
    )
    builder.compile().invoke({"messages": "go"}, config())
    assert sorted(m["content"] for m in memory.user("ana").export()) == [
        "part a",
        "part b",
        "part c",
    ]


def test_a_client_that_sends_only_the_new_turn_loses_no_repetition(
    memory: Memory,
) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["ok"]))
    for _ in range(3):
        graph.invoke({"messages": [("user", "yes")]}, config())
    assert [m["content"] for m in memory.user("ana").export()] == ["yes", "ok"] * 3


def test_what_is_in_view_is_not_quoted_again(memory: Memory) -> None:
    model = ScriptedChatModel(script=["noted"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())
    graph.invoke({"messages": "I play the cello."}, config())
    graph.invoke({"messages": "What do I play?"}, config())
    assert texts(model.requests[-1]) == [
        "I play the cello.",
        "noted",
        "What do I play?",
    ]


def test_the_beginning_of_a_long_conversation_can_come_back(memory: Memory) -> None:
    model = ScriptedChatModel(script=["noted"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())
    for text in (
        "I play the cello.",
        *(f"chatter {n}" for n in range(8)),
        "cello play?",
    ):
        graph.invoke({"messages": text}, config())
    assert any(
        "<memory>" in text and "I play the cello." in text
        for text in texts(model.requests[-1])
    )


def test_blocks_and_calls_in_view_are_not_quoted_again(memory: Memory) -> None:
    blocks = [
        {"type": "text", "text": "I play"},
        {"type": "text", "text": "the cello."},
    ]
    call = {"name": "tune", "args": {"what": "cello"}, "id": "c1"}
    said_before = [
        HumanMessage(blocks, id="h1"),
        AIMessage("", tool_calls=[call], id="a1"),
        ToolMessage("cello tuned", tool_call_id="c1", id="t1"),
        AIMessage("Done.", id="a2"),
    ]
    model = ScriptedChatModel(script=["noted"])
    graph = chatbot(memory, model)
    graph.invoke({"messages": said_before}, config())
    graph.invoke(
        {"messages": [*said_before, HumanMessage("cello?", id="h2")]}, config()
    )
    shown = str(model.requests[-1][-2].content)
    assert "<memory>" in shown  # the first answer was not sent back
    assert "cello" not in shown


def test_reports_and_events_are_json_and_say_what_was_spent(memory: Memory) -> None:
    memory.user("ana").add(said("I like jazz", id="m1"), session_id="s")
    graph = chatbot(memory, ScriptedChatModel(), report=True, schema=MemoryState)
    parts = list(
        graph.stream({"messages": "jazz?"}, config(), stream_mode=["custom", "values"])
    )
    events = [part for mode, part in parts if mode == "custom"]
    assert [event["event"] for event in events] == ["memory_recall", "memory_write"]
    reports = parts[-1][1]["memory_report"]
    assert json.loads(json.dumps(reports)) == reports
    assert reports["recall"]["message_ids"] == ["m1"]
    assert reports["recall"]["llm_calls"] == 0
    assert reports["recall"]["milliseconds"]["total"] > 0
    assert reports["write"]["stored"] == 2
    assert reports["write"]["milliseconds"]["total"] > 0
    assert "I like jazz" not in json.dumps(events)


def test_without_report_the_state_holds_no_report(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel(), schema=MemoryState)
    assert not graph.invoke({"messages": "hi"}, config())["memory_report"]


def test_a_short_id_in_view_hides_nothing_of_another_conversation(
    memory: Memory,
) -> None:
    """Clients count the messages of each conversation from 1."""
    memory.user("ana").add(said("I am allergic to nuts.", id="1"), session_id="old")
    asked = {"messages": [HumanMessage("Am I allergic to nuts?", id="1")]}
    found = create_recall_node(memory).invoke(asked, config())
    assert "I am allergic to nuts." in found["memory_context"]
