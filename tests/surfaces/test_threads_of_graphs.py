"""Under `invoke` a graph's work on files is kept apart from interrupts, as everywhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.extraction import graph as extraction_graph
from langmem_graph.graphs import create_write_graph
from langmem_graph.storage.memory_directory import MemoryDirectory
from langmem_graph.testing import ScriptedChatModel, recite
from tests.conftest import said

CONFIG: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "t"}}
TURN: Any = {"messages": [("user", "I like tea.")]}


class WrongError(Exception):
    """Ends a run of extraction."""


def agent(memory: Memory, _: pytest.MonkeyPatch) -> Any:
    model = ScriptedChatModel(script=recite)
    return create_agent(model, middleware=[MemoryMiddleware(memory)]).invoke


def write_graph(memory: Memory, _: pytest.MonkeyPatch) -> Any:
    return create_write_graph(memory).invoke


def failing_write_graph(memory: Memory, patch: pytest.MonkeyPatch) -> Any:
    async def fail(*_: object) -> Any:
        raise WrongError

    first, *_ = extraction_graph.STEPS
    fail.__name__ = first.__name__
    patch.setattr(extraction_graph, "STEPS", (fail, *extraction_graph.STEPS[1:]))
    return create_write_graph(memory).invoke


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    model = ScriptedChatModel(answers={"Extraction": {"memories": []}})
    with Memory(tmp_path / "m", embeddings="hash", model=model) as opened:
        yield opened


@pytest.mark.parametrize("run", [agent, write_graph, failing_write_graph])
def test_no_room_is_entered_in_the_main_thread(
    run: Callable[..., Any], memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.user("ana").add(said("I like coffee."), session_id="s")
    threads = list[threading.Thread]()
    entering = MemoryDirectory.room

    def noting(*given: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return entering(*given, **options)

    monkeypatch.setattr(MemoryDirectory, "room", noting)
    with suppress(WrongError):
        run(memory, monkeypatch)(TURN, CONFIG)
    assert threads
    assert threading.main_thread() not in threads
