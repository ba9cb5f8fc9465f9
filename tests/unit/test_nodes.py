"""Recall and write nodes in a StateGraph, under invoke, ainvoke, stream and astream."""

import asyncio
import json
import logging
import operator
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send
from langgraph_sdk.auth.types import StudioUser
from pydantic import BaseModel
from typing_extensions import TypedDict

from langmem_graph.errors import InvalidInputError, LangMemGraphError, MissingUserError
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools.memory_tools import create_memory_tools
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
        parts = [p async for p in graph.astream({"messages": "tea?"}, config(thread="t2"))]
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


def test_a_stateless_client_that_resends_everything_adds_only_what_is_new(memory: Memory) -> None:
    model = ScriptedChatModel(script=["one", "two", "three", "four"])
    graph = chatbot(memory, model)
    conversation: list[tuple[str, str]] = []
    for text in ("hello", "my cat is Pico", "yes", "yes"):
        conversation.append(("user", text))
        end = graph.invoke({"messages": conversation}, config())
        conversation.append(("assistant", end["messages"][-1].content))
    kept = [m["content"] for m in memory.user("ana").export()]
    assert kept == ["hello", "one", "my cat is Pico", "two", "yes", "three", "yes", "four"]


@pytest.mark.parametrize("thread", ["fixed", "new", None])
@pytest.mark.parametrize("sent", ["everything", "words"])
def test_a_stateless_client_is_never_doubled(memory: Memory, thread: str | None, sent: str) -> None:
    """With one thread, a new one per run, or none; sending tool messages back, or only words."""
    call = {"name": "clock", "args": {}, "id": "c"}
    conversation: list[Any] = []

    def chat(state: MessagesState) -> dict[str, Any]:
        number = len([m for m in state["messages"] if m.type == "human"])
        asks = AIMessage("", tool_calls=[{**call, "id": f"c{number}"}])
        return {"messages": [asks, ToolMessage("noon", tool_call_id=f"c{number}"), AIMessage("ok")]}

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
    assert [m["content"] for m in memory.user("ana").export()] == ["hello", "one", "cat?", "two"]


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
        builder.add_node(branch, lambda _, branch=branch: {"messages": [AIMessage(branch)]})
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
            Send("write", {"messages": [HumanMessage(f"part {n}", id=str(n))]}) for n in "abc"
        ],
        ["write"],
    )
    builder.compile().invoke({"messages": "go"}, config())
    assert sorted(m["content"] for m in memory.user("ana").export()) == [
        "part a",
        "part b",
        "part c",
    ]


def test_a_client_that_sends_only_the_new_turn_loses_no_repetition(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["ok"]))
    for _ in range(3):
        graph.invoke({"messages": [("user", "yes")]}, config())
    assert [m["content"] for m in memory.user("ana").export()] == ["yes", "ok"] * 3


def test_what_is_in_view_is_not_quoted_again(memory: Memory) -> None:
    model = ScriptedChatModel(script=["noted"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())
    graph.invoke({"messages": "I play the cello."}, config())
    graph.invoke({"messages": "What do I play?"}, config())
    assert texts(model.requests[-1]) == ["I play the cello.", "noted", "What do I play?"]


def test_the_beginning_of_a_long_conversation_can_come_back(memory: Memory) -> None:
    model = ScriptedChatModel(script=["noted"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())
    for text in ("I play the cello.", *(f"chatter {n}" for n in range(8)), "cello play?"):
        graph.invoke({"messages": text}, config())
    assert any(
        "<memory>" in text and "I play the cello." in text for text in texts(model.requests[-1])
    )


# --- who and where -----------------------------------------------------------------------------


def test_no_user_id_names_the_three_places(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel())
    for way in WAYS:
        with pytest.raises(MissingUserError) as problem:
            run(graph, way, {"messages": "hi"}, config(user=None))
        for place in ("configurable", "context", "authentication"):
            assert place in str(problem.value)


@dataclass
class Context:
    user_id: str = ""
    language: str = "en"


def test_the_user_id_comes_from_any_of_the_three_places(memory: Memory) -> None:
    def write(user: Any = None, context: Any = None, **more: Any) -> None:
        builder = StateGraph(MessagesState, context_schema=Context)
        builder.add_node("write", create_write_node(memory))
        builder.add_edge(START, "write")
        graph = builder.compile()
        graph.invoke({"messages": "hi"}, config(user, **more), context=context)

    write(user="a")
    write(user=7)
    write(context=Context(user_id="b"))
    write(context={"user_id": "c"})
    write(langgraph_auth_user_id="d")
    write(user="e", context=Context(user_id="e"), langgraph_auth_user_id="e")
    write(user="f", langgraph_auth_user_id="")  # a server without authentication
    studio = StudioUser("langgraph-studio-user")
    write(user="g", langgraph_auth_user_id=studio.identity, langgraph_auth_user=studio)
    for user in ("a", 7, "b", "c", "d", "e", "f", "g"):
        assert len(memory.user(user).export()) == 1, user


@pytest.mark.parametrize(
    "places",
    [
        {"user": "victim", "langgraph_auth_user_id": "mallory"},
        {"user": "victim", "context": {"user_id": "mallory"}},
        {"user": "victim", "langgraph_auth_user_id": "langgraph-studio-user"},
    ],
)
def test_places_that_disagree_are_refused(memory: Memory, places: dict[str, Any]) -> None:
    memory.user("victim").add(said("secret"), session_id="s")
    builder = StateGraph(MemoryState, context_schema=Context)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_edge(START, "recall")
    context = places.pop("context", None)
    with pytest.raises(InvalidInputError, match="do not agree") as problem:
        builder.compile().invoke({"messages": "secret?"}, config(**places), context=context)
    assert "victim" not in str(problem.value)


def test_the_application_may_decide_the_user(memory: Memory) -> None:
    fixed = chatbot(memory, ScriptedChatModel(), user_id="house")
    fixed.invoke({"messages": "fixed"}, config(user="other"))
    by_tenant = chatbot(
        memory,
        ScriptedChatModel(),
        user_id=lambda config: (
            f"{config['configurable']['tenant']}/{config['configurable']['who']}"
        ),
    )
    by_tenant.invoke({"messages": "derived"}, config(user=None, tenant="acme", who="bo"))
    assert memory.user("house").export()[0]["content"] == "fixed"
    assert memory.user("acme/bo").export()[0]["content"] == "derived"
    assert not memory.user("other").export()


def test_the_session_is_session_id_else_thread_else_how_it_begins(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["x"]))
    graph.invoke({"messages": "1"}, config(session_id="chosen"))
    graph.invoke({"messages": "2"}, config(thread="thread"))
    conversation = [("user", "3"), ("assistant", "x"), ("user", "4")]
    graph.invoke({"messages": conversation[:1]}, config(thread=None))
    graph.invoke({"messages": conversation}, config(thread=None))
    sessions = memory.user("ana").sessions()
    assert [s.session_id for s in sessions[:2]] == ["chosen", "thread"]
    assert [s.messages for s in sessions] == [2, 2, 4]


def test_a_thread_that_two_users_share_keeps_their_words_apart(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["ok"]), checkpointer=InMemorySaver())
    for user, text in (
        ("ana", "my PIN is 4711"),
        ("bob", "hello"),
        ("bob", "again"),
        ("ana", "me"),
    ):
        graph.invoke({"messages": text}, config(user))
    kept = {user: [m["content"] for m in memory.user(user).export()] for user in ("ana", "bob")}
    assert kept["bob"] == ["hello", "ok", "again", "ok"]
    assert kept["ana"] == ["my PIN is 4711", "ok", "me", "ok"]


def test_what_a_failed_turn_recalled_is_shown_to_nobody_else(memory: Memory) -> None:
    memory.user("ana").add(said("ana's PIN is 4711"), session_id="old")
    model = ScriptedChatModel(script=[RuntimeError("down"), "hello bob"])

    def chat(state: MemoryState) -> dict[str, Any]:
        return {"messages": [model.invoke(with_memory(state))]}

    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_node("chat", chat)
    builder.add_conditional_edges(
        START, lambda state: "recall" if "PIN" in str(state["messages"][-1].content) else "chat"
    )
    builder.add_edge("recall", "chat")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": "PIN?"}, config("ana"))
    graph.invoke({"messages": "hi"}, config("bob"))
    assert "4711" in str(model.requests[0])
    assert "4711" not in str(model.requests[1])


async def test_two_users_at_once_do_not_mix(memory: Memory) -> None:
    model = ScriptedChatModel(script=["ok"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())

    async def talk(user: str) -> None:
        for n in range(8):
            mine = config(user, thread=f"{user}-{n}")
            await graph.ainvoke({"messages": f"my secret is {user}{n}"}, mine)

    await asyncio.gather(talk("acme"), talk("acme-corp"))
    for user, other in (("acme", "acme-corp"), ("acme-corp", "acme")):
        kept = " ".join(m["content"] for m in memory.user(user).export())
        assert f"my secret is {user}7" in kept
        assert f"my secret is {other}1" not in kept
    for request in model.requests:
        owner = "acme-corp" if "acme-corp" in str(request[-1].content) else "acme"
        for message in request:
            assert ("acme-corp" in str(message.content)) <= (owner == "acme-corp")


def test_blocks_and_calls_in_view_are_not_quoted_again(memory: Memory) -> None:
    blocks = [{"type": "text", "text": "I play"}, {"type": "text", "text": "the cello."}]
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
    graph.invoke({"messages": [*said_before, HumanMessage("cello?", id="h2")]}, config())
    shown = str(model.requests[-1][-2].content)
    assert "<memory>" in shown  # the first answer was not sent back
    assert "cello" not in shown


# --- when things go wrong ------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_failing_memory_does_not_fail_the_turn(
    memory: Memory, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory.user("ana").add(said("hello"), session_id="s")
    graph = chatbot(memory, ScriptedChatModel(script=["fine"]), report=True, schema=MemoryState)
    memory.close()
    with caplog.at_level(logging.WARNING):
        end = run(graph, way, {"messages": "hello?"}, config())
    assert texts(end["messages"]) == ["hello?", "fine"]
    assert end["memory_context"] == ""
    for step in ("recall", "write"):
        report = end["memory_report"][step]
        assert report["status"] == "failed"
        assert "ClosedMemoryError" in report["error"]
        assert f"memory_{step} failed" in caplog.text
    assert "hello" not in caplog.text


@pytest.mark.parametrize("way", WAYS)
def test_fail_closed_raises(memory: Memory, way: str) -> None:
    graph = chatbot(memory, ScriptedChatModel(), fail_closed=True)
    memory.close()
    with pytest.raises(LangMemGraphError, match="closed"):
        run(graph, way, {"messages": "hello?"}, config())


@pytest.mark.parametrize("way", WAYS)
def test_the_directory_gone_in_mid_run(memory: Memory, way: str) -> None:
    def vandal(_: list[Any]) -> str:
        shutil.rmtree(memory.path)
        return "done"

    graph = chatbot(memory, ScriptedChatModel(script=[vandal]), report=True, schema=MemoryState)
    end = run(graph, way, {"messages": "two"}, config())
    assert end["memory_report"]["write"]["status"] == "ok"
    assert [m["content"] for m in memory.user("ana").export()] == ["two", "done"]  # made anew


@pytest.mark.parametrize("way", WAYS)
def test_the_directory_becoming_unusable_in_mid_run(memory: Memory, way: str) -> None:
    def vandal(_: list[Any]) -> str:
        shutil.rmtree(memory.path)
        memory.path.write_text("a file where the directory was")
        return "done"

    graph = chatbot(memory, ScriptedChatModel(script=[vandal]), report=True, schema=MemoryState)
    end = run(graph, way, {"messages": "two"}, config())
    assert end["messages"][-1].content == "done"
    assert end["memory_report"]["write"]["status"] == "failed"
    assert "StorageError" in end["memory_report"]["write"]["error"]
    memory.path.unlink()


def test_the_model_raising_after_recall_loses_nothing(memory: Memory) -> None:
    model = ScriptedChatModel(script=[RuntimeError("model is down"), "back again"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="model is down"):
        graph.invoke({"messages": "remember: blue"}, config())
    graph.invoke({"messages": "still there?"}, config())
    kept = [m["content"] for m in memory.user("ana").export()]
    assert kept == ["remember: blue", "still there?", "back again"]


def test_no_messages_are_nothing_to_do(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["hello"]), report=True, schema=MemoryState)
    end = graph.invoke({"messages": []}, config())
    assert end["memory_report"]["recall"]["status"] == "skipped"
    assert [m["content"] for m in memory.user("ana").export()] == ["hello"]
    graph = chatbot(memory, ScriptedChatModel(script=["ok"]), report=True, schema=MemoryState)
    end = graph.invoke({"messages": [HumanMessage([{"type": "image", "url": "x"}])]}, config())
    assert end["memory_report"]["recall"]["status"] == "skipped"
    assert end["memory_report"]["write"]["rejected"] == ["no text in the message"]


def test_a_message_that_cannot_be_stored_is_said(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["ok"]), report=True, schema=MemoryState)
    end = graph.invoke({"messages": [HumanMessage("half \ud800 a character")]}, config())
    assert end["memory_report"]["write"]["status"] == "degraded"
    assert "surrogate" in end["memory_report"]["write"]["rejected"][0]
    assert "were not stored" in caplog.text


def test_odd_messages_are_kept(memory: Memory) -> None:
    odd = AIMessage(
        "See the date.", tool_calls=[{"name": "f", "args": {"at": date(2025, 1, 1)}, "id": "1"}]
    )
    graph = chatbot(memory, ScriptedChatModel())
    graph.invoke({"messages": [ChatMessage("Too long.", role="critic"), odd]}, config())
    critic, call, *_ = memory.user("ana").export()
    assert (critic["role"], critic["name"], critic["content"]) == (
        "assistant",
        "critic",
        "Too long.",
    )
    assert call["tool_calls"][0]["args"] == {"at": "2025-01-01"}


@pytest.mark.parametrize("options", [{"k": 0}, {"max_tokens": -5}, {"k": 2.5}])
def test_options_are_checked_where_the_node_is_made(memory: Memory, options: Any) -> None:
    with pytest.raises(InvalidInputError, match="above 0"):
        create_recall_node(memory, **options)


@pytest.mark.parametrize(
    "make",
    [
        create_recall_node,
        create_write_node,
        create_recall_graph,
        create_write_graph,
        create_grounding_graph,
        create_memory_tools,
        MemoryMiddleware,
    ],
)
def test_what_is_no_memory_is_refused_where_it_is_given(
    memory: Memory, make: Callable[..., Any]
) -> None:
    """At run time it would look like a memory that fails, and every turn would go on without."""
    for wrong in ("./memory", Path("memory"), Memory, memory.user("ana"), None):
        with pytest.raises(InvalidInputError, match=r"not a Memory.*Memory\(path\)"):
            make(wrong)


def test_settings_that_are_none_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"settings must be.*Settings\(\)"):
        Memory(tmp_path, settings={"context__k": 3})  # type: ignore[arg-type]


def test_an_unusable_thread_id_does_not_fail_the_turn(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["ok"]), report=True, schema=MemoryState)
    end = graph.invoke({"messages": "hi"}, config(thread=" "))
    assert end["messages"][-1].content == "ok"
    assert end["memory_report"]["write"]["status"] == "failed"


class Elsewhere(MessagesState):
    history: Annotated[list[Any], add_messages]


class Wrong(BaseModel):
    question: str = ""


@pytest.mark.parametrize("make", [create_recall_node, create_write_node])
def test_a_state_without_messages_is_a_clear_error(
    memory: Memory, make: Callable[..., Any]
) -> None:
    builder = StateGraph(Wrong)
    builder.add_node("memory", make(memory))
    builder.add_edge(START, "memory")
    with pytest.raises(InvalidInputError, match="messages_key"):
        builder.compile().invoke({"question": "hi"}, config())


def test_messages_may_be_elsewhere(memory: Memory) -> None:
    builder = StateGraph(Elsewhere)
    builder.add_node("write", create_write_node(memory, messages_key="history"))
    builder.add_edge(START, "write")
    builder.compile().invoke({"history": [("user", "over here")]}, config())
    assert memory.user("ana").export()[0]["content"] == "over here"


class Typed(BaseModel):
    messages: Annotated[list[Any], add_messages] = []
    memory_context: str = ""
    memory_report: Annotated[dict[str, Any], operator.or_] = {}


def test_a_pydantic_state(memory: Memory) -> None:
    memory.user("ana").add(said("I like jazz"), session_id="s")
    builder = StateGraph(Typed)
    builder.add_node("recall", create_recall_node(memory, report=True))
    builder.add_node("write", create_write_node(memory, report=True))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "write")
    end = builder.compile().invoke({"messages": "jazz?"}, config())
    assert "I like jazz" in end["memory_context"]  # nothing has been answered yet
    assert {"recall", "write"} == set(end["memory_report"])


@dataclass
class Own:
    messages: Annotated[list[Any], add_messages]
    memory_context: str = ""


def test_a_state_class_of_ones_own(memory: Memory) -> None:
    memory.user("ana").add(said("I like jazz"), session_id="s")
    model = ScriptedChatModel()
    builder = StateGraph(Own)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_node("chat", lambda state: {"messages": [model.invoke(with_memory(state))]})
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.compile().invoke({"messages": "jazz?"}, config())
    assert "I like jazz" in str(model.requests[0][0].content)


def test_a_model_node_that_cannot_see_memory_says_so() -> None:
    with pytest.raises(InvalidInputError, match="MemoryState"):
        with_memory({"messages": [HumanMessage("hi")]})


# --- reports and events --------------------------------------------------------------------------


def test_reports_and_events_are_json_and_say_what_was_spent(memory: Memory) -> None:
    memory.user("ana").add(said("I like jazz", id="m1"), session_id="s")
    graph = chatbot(memory, ScriptedChatModel(), report=True, schema=MemoryState)
    parts = list(graph.stream({"messages": "jazz?"}, config(), stream_mode=["custom", "values"]))
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


@pytest.mark.parametrize("owner", ["junk", ["ana"], {"user": "ana"}, {"user": "ana", "since": {}}])
def test_a_client_that_sends_an_odd_owner_is_served(memory: Memory, owner: Any) -> None:
    builder = StateGraph(MemoryState)
    builder.add_node("write", create_write_node(memory))
    builder.add_edge(START, "write")
    asked = {"messages": [HumanMessage("I like tea.")], "memory_owner": owner}
    done = builder.compile().invoke(asked, config())
    assert done["memory_owner"]["user"] == "ana"
    assert [one["content"] for one in memory.user("ana").export()] == ["I like tea."]
