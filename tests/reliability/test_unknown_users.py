"""Users of whom nothing is stored, or who were erased: no call makes them a folder."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from langmem_graph.errors import InvalidInputError
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.support.files import folder
from tests.support.isolation import ASKED, Send, config_of
from tests.support.models import AnswersBySchema, steady_model
from tests.support.settings import nested
from tests.support.traces import hits
from tests.support.writing import echo, turn

WHO = "mira@example.com"


class Form(BaseModel):
    """A form of an application's."""

    name: str


CITED = {"text": "Nobody said so.", "source_message_ids": ["m1"]}
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "add": (([{"role": "user", "content": ""}],), {"session_id": "s"}),
    "add_records": ((CITED,), {}),
    **{
        name: ((), {})
        for name in ("sessions", "export", "export_records", "files", "erase")
    },
    **{
        name: ((), {})
        for name in ("flush", "flush_forecast", "drain", "doctor", "rebuild")
    },
    **{name: ((), {}) for name in ("calls", "usage", "overview", "records")},
    **{
        name: (("What?",), {})
        for name in ("recall", "search_records", "search_conversation")
    },
    **{
        name: (("m1",), {})
        for name in ("get_records", "get_conversation", "history", "changes")
    },
    **{name: (("m1",), {}) for name in ("undo", "read_file", "hide", "unhide")},
    "records_of": ((Form,), {}),
    "expire": ((), {}),
    **{name: (("m1",), {}) for name in ("conversation", "made_of", "neighbours")},
    **{name: (("2026-01-01", "2026-02-01"), {}) for name in ("schedule", "compare")},
    "forget_preview": ((), {"message": "m1"}),
    "correct": (("r1", "Somebody said so."), {}),
    "forget": ((), {"message": "m1"}),
    "ground": ((Send, "Send the note."), {}),
}
"""Every public method of a user that is no way to store anything, with arguments."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path = tmp_path_factory.mktemp("unknown") / "m"
    with open_at(path, steady_model()) as memory:
        yield memory


def open_at(path: Path, model: Any, **settings: Any) -> Memory:
    quick = nested(extraction__debounce_seconds=0.0, **settings)
    return Memory(
        path, model=model, embeddings="hash", causal_scorer="none", settings=quick
    )


def left_of(memory: Memory, user: str = WHO) -> list[Any]:
    return [
        *folder(memory, user).parent.glob(f"{folder(memory, user).name}*"),
        *hits(memory.path, [user]),
    ]


def test_every_method_is_tried() -> None:
    twins = {name for name in dir(UserMemory) if hasattr(UserMemory, f"a{name}")}
    assert twins - {"remember", "keep_days"} == set(CALLS)  # these store something


@pytest.mark.parametrize("name", CALLS)
def test_no_method_makes_a_folder_for_an_unknown_user(
    shared: Memory, name: str
) -> None:
    given, options = CALLS[name]
    user = shared.user(f"{name} {WHO}")
    with suppress(InvalidInputError):
        getattr(user, name)(*given, **options)
    with suppress(InvalidInputError):
        asyncio.run(getattr(user, f"a{name}")(*given, **options))
    assert left_of(shared, user.id) == []


def by_reasoning(memory: Memory, who: str) -> None:
    memory.user(who).recall("What?", mode="reason")
    memory.user(who).as_retriever().invoke("What?")


def by_background(memory: Memory, who: str) -> None:
    memory.user(who).flush_soon()
    assert memory.user(who).drain(20)


def by_graphs(memory: Memory, who: str) -> None:
    builder = StateGraph(MemoryState)
    builder.add_node(
        "recall", create_recall_node(memory, mode="auto", read_your_writes=True)
    )
    builder.add_node("write", create_write_node(memory))
    builder.add_edge(START, "recall")
    builder.compile().invoke(ASKED, config_of(who))
    create_recall_graph(memory, answer=True).invoke(ASKED, config_of(who))
    for given in ({"messages": []}, {"messages": [("assistant", "")]}):
        report = create_write_graph(memory).invoke(given, config_of(who))[
            "memory_report"
        ]
        assert report["read"]["status"] == "ok"


def by_tools(memory: Memory, who: str) -> None:
    for tool in create_memory_tools(memory):
        if tool.name != "remember":
            given = {"record_ids": ["m1"], "message_ids": ["m1"], "record_id": "r1"}
            tool.invoke(
                {**given, "query": "x", "name": "x", "text": "x"}, config_of(who)
            )


@pytest.mark.parametrize("way", [by_reasoning, by_background, by_graphs, by_tools])
def test_no_surface_makes_a_folder(
    shared: Memory, way: Callable[[Memory, str], None]
) -> None:
    way(shared, f"{way.__name__} {WHO}")
    assert left_of(shared, f"{way.__name__} {WHO}") == []


def test_closing_does_not_undo_an_erasure(tmp_path: Path) -> None:
    with open_at(tmp_path / "m", AnswersBySchema(Extraction=echo)) as memory:
        user = memory.user(WHO)
        user.add(turn("My word is xylophonics."), session_id="s")
        user.flush_soon()
        assert user.drain(20)
        assert user.erase().messages == 2
    assert left_of(memory) == []


class Thinking:
    """A model's extraction that waits, once, until it may answer."""

    def __init__(self) -> None:
        self.begun, self.may_answer = threading.Event(), threading.Event()

    def __call__(self, question: str) -> dict[str, Any]:
        self.begun.set()
        assert self.may_answer.wait(60)
        return echo(question)


def by_flush(memory: Memory) -> Any:
    return memory.user(WHO).flush().status


def by_write_graph(memory: Memory) -> Any:
    graph = create_write_graph(memory)
    return graph.invoke({"messages": []}, config_of(WHO))["memory_report"]["read"][
        "status"
    ]


def by_async_write_graph(memory: Memory) -> Any:
    done = asyncio.run(
        create_write_graph(memory).ainvoke({"messages": []}, config_of(WHO))
    )
    return done["memory_report"]["read"]["status"]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("way", [by_flush, by_write_graph, by_async_write_graph])
def test_extraction_under_way_does_not_undo_an_erasure(
    tmp_path: Path, way: Callable[[Memory], Any], again: bool
) -> None:
    model = Thinking()
    done: list[Any] = []
    with open_at(tmp_path / "m", AnswersBySchema(Extraction=model)) as memory:
        user = memory.user(WHO)
        user.add(turn("My word is xylophonics."), session_id="s")
        thread = threading.Thread(target=lambda: done.append(way(memory)))
        thread.start()
        assert model.begun.wait(60)
        user.erase()
        if again:  # the same row numbers
            user.add(turn("Now about apples."), session_id="s")
        model.may_answer.set()
        thread.join()
        assert done == ["ok"]
        assert again or left_of(memory) == []
    assert hits(memory.path, ["xylophonics"]) == []
    assert again or left_of(memory) == []
