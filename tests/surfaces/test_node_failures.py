"""Nodes when memory, model, input, options or state are not as they should be."""

import logging
import operator
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

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
def test_failing_memory_does_not_fail_the_turn(
    memory: Memory, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory.user("ana").add(said("hello"), session_id="s")
    graph = chatbot(
        memory, ScriptedChatModel(script=["fine"]), report=True, schema=MemoryState
    )
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

    graph = chatbot(
        memory, ScriptedChatModel(script=[vandal]), report=True, schema=MemoryState
    )
    end = run(graph, way, {"messages": "two"}, config())
    assert end["messages"][-1].content == "done"
    # another process may hold a new one
    assert "lock" in end["memory_report"]["write"]["error"]


@pytest.mark.parametrize("way", WAYS)
def test_the_directory_becoming_unusable_in_mid_run(memory: Memory, way: str) -> None:
    def vandal(_: list[Any]) -> str:
        shutil.rmtree(memory.path)
        memory.path.write_text("a file where the directory was")
        return "done"

    graph = chatbot(
        memory, ScriptedChatModel(script=[vandal]), report=True, schema=MemoryState
    )
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
    graph = chatbot(
        memory, ScriptedChatModel(script=["hello"]), report=True, schema=MemoryState
    )
    end = graph.invoke({"messages": []}, config())
    assert end["memory_report"]["recall"]["status"] == "skipped"
    assert [m["content"] for m in memory.user("ana").export()] == ["hello"]
    graph = chatbot(
        memory, ScriptedChatModel(script=["ok"]), report=True, schema=MemoryState
    )
    end = graph.invoke(
        {"messages": [HumanMessage([{"type": "image", "url": "x"}])]}, config()
    )
    assert end["memory_report"]["recall"]["status"] == "skipped"
    assert end["memory_report"]["write"]["rejected"] == ["no text in the message"]
    assert end["memory_report"]["write"]["dropped"] == {"image": 1}
    assert end["memory_report"]["write"]["status"] == "ok"


def test_a_message_that_cannot_be_stored_is_said(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    graph = chatbot(
        memory, ScriptedChatModel(script=["ok"]), report=True, schema=MemoryState
    )
    end = graph.invoke(
        {"messages": [HumanMessage("half \ud800 a character")]}, config()
    )
    assert end["memory_report"]["write"]["status"] == "degraded"
    assert "surrogate" in end["memory_report"]["write"]["rejected"][0]
    assert "were not stored" in caplog.text


def test_odd_messages_are_kept(memory: Memory) -> None:
    odd = AIMessage(
        "See the date.",
        tool_calls=[{"name": "f", "args": {"at": date(2025, 1, 1)}, "id": "1"}],
    )
    graph = chatbot(memory, ScriptedChatModel())
    graph.invoke({"messages": [ChatMessage("Too long.", role="critic"), odd]}, config())
    critic, call, *_ = memory.user("ana").export()
    # the role of an agent is no name of a person
    assert (critic["role"], critic.get("name")) == ("assistant", None)
    assert critic["content"] == "Too long."
    assert call["tool_calls"][0]["args"] == {"at": "2025-01-01"}


@pytest.mark.parametrize("options", [{"k": 0}, {"max_tokens": -5}, {"k": 2.5}])
def test_options_are_checked_where_the_node_is_made(
    memory: Memory, options: Any
) -> None:
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
    for wrong in ("./memory", Path("memory"), Memory, None):
        with pytest.raises(InvalidInputError, match=r"not a Memory.*Memory\(path\)"):
            make(wrong)


def test_one_users_memory_in_the_place_of_the_memory_is_told_apart(
    memory: Memory,
) -> None:
    with pytest.raises(
        InvalidInputError, match=r"Give the Memory itself, not memory\.user"
    ):
        create_recall_node(memory.user("ana"))  # type: ignore[arg-type]


def test_a_key_that_was_meant_to_name_the_user_is_named(memory: Memory) -> None:
    config: Any = {
        "configurable": {"userId": "ana", "thread_id": "t"},
        "metadata": {"user": "x"},
    }
    with pytest.raises(MissingUserError) as raised:
        create_recall_node(memory).invoke(
            {"messages": [HumanMessage("Which seat?")]}, config
        )
    assert "not read from configurable.userId, metadata.user. Give it in" in str(
        raised.value
    )


def test_settings_that_are_none_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"settings must be.*Settings\(\)"):
        Memory(tmp_path, settings={"context__k": 3})  # type: ignore[arg-type]


def test_an_unusable_thread_id_does_not_fail_the_turn(memory: Memory) -> None:
    graph = chatbot(
        memory, ScriptedChatModel(script=["ok"]), report=True, schema=MemoryState
    )
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
    builder.add_node(
        "chat", lambda state: {"messages": [model.invoke(with_memory(state))]}
    )
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.compile().invoke({"messages": "jazz?"}, config())
    assert "I like jazz" in str(model.requests[0][0].content)


def test_a_model_node_that_cannot_see_memory_says_so() -> None:
    with pytest.raises(InvalidInputError, match="MemoryState"):
        with_memory({"messages": [HumanMessage("hi")]})
