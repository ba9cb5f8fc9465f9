"""What is stopped in the middle is repaired, and nothing waits for itself or too long."""

import asyncio
import math
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import postgres_connection, postgres_schema
from langmem_graph.storage.postgres_index import PostgresIndex
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel
from tests.conftest import said
from tests.support.models import ANSWERS

USERS = 6


@contextmanager
def pool_of(database: str, most: int, **options: Any) -> Iterator[ConnectionPool]:
    with ConnectionPool(
        database, min_size=1, max_size=most, open=True, kwargs=options
    ) as pool:
        yield pool


@pytest.mark.parametrize("connections", [1, 3])
def test_reading_takes_one_connection_at_a_time(
    database: str, connections: int
) -> None:
    settings = Settings(storage=StorageSettings(busy_timeout_seconds=20.0))
    model = ScriptedChatModel(answers=ANSWERS, record=False)

    async def flush_all(memory: Memory) -> list[Any]:
        users = [memory.user(f"user {n}") for n in range(USERS)]
        return await asyncio.gather(*(user.aflush() for user in users))

    with (
        pool_of(database, connections) as pool,
        Memory(pool, embeddings="hash", model=model, settings=settings) as memory,
    ):
        for n in range(USERS):
            memory.user(f"user {n}").add(said("I like tea"), session_id="s")
        reports = asyncio.run(flush_all(memory))
    assert [report.status for report in reports] == ["ok"] * USERS


@pytest.mark.parametrize("options", [{}, {"autocommit": True}])
def test_a_pool_whose_rows_are_dicts(database: str, options: dict[str, Any]) -> None:
    options = {**options, "row_factory": dict_row, "prepare_threshold": 0}
    with (
        pool_of(database, 2, **options) as pool,
        Memory(pool, embeddings="hash") as memory,
    ):
        memory.user("ana").add(said("I like tea"), session_id="s")
        assert memory.user("ana").recall("tea").evidence
        with pool.connection() as connection:
            row = connection.execute("SELECT 1 AS one").fetchone()
            assert row == {"one": 1}


class KilledError(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("work", ["rebuild", "erase"])
def test_an_index_that_was_emptied_by_a_killed_process_is_filled_again(
    database: str, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptying = PostgresIndex.drop

    def killed(index: PostgresIndex) -> None:
        emptying(index)
        raise KilledError

    with Memory(database, embeddings="hash") as memory:
        ana = memory.user("ana")
        ana.add([said(f"tea number {n}") for n in range(5)], session_id="s")
    with Memory(database, embeddings="hash") as memory:
        assert memory.user("ana").doctor().indexed == 5
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(PostgresIndex, "drop", killed)
            getattr(memory.user("ana"), work)()
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").sessions()  # the first opening does what is due
        assert memory.user("ana").doctor().indexed == 5


def test_an_index_that_was_not_finished_is_made_again(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add(said("I like tea"), session_id="s")
    postgres_schema.prepare(database, ["ana"])
    named = "indexrelid::regclass::text LIKE '%hnsw_%'"
    valid = f"SELECT indisvalid FROM pg_index WHERE {named}"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"UPDATE pg_index SET indisvalid = false WHERE {named}")
        assert admin.execute(valid).fetchall() == [(False,)] * 2
        postgres_schema.prepare(database, ["ana"])
        assert admin.execute(valid).fetchall() == [(True,)] * 2


def test_preparing_takes_as_long_as_it_does(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = list[float]()

    def note(room: Any) -> None:
        with room.engine.connect() as connection:
            patience.append(connection.connection.dbapi_connection.answer_seconds)

    monkeypatch.setattr(postgres_schema, "_make_index", note)
    postgres_schema.prepare(database, ["ana"])
    assert patience == [math.inf]
    assert postgres_connection.Connection.answer_seconds < math.inf


def test_rooms_are_closed_together(database: str) -> None:
    settings = Settings(storage=StorageSettings(closing_seconds=1.0))
    memory = Memory(database, embeddings="hash", settings=settings)
    for name in ("ana", "bob", "eve"):
        memory.user(name).add(said("I like tea"), session_id="s")
        with memory._services.room(name) as room:
            reading: Future[object] = Future()  # a server that does not answer
            room.database._beside = reading  # type: ignore[attr-defined]
    begun = time.monotonic()
    memory.close()
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize("change", ["rebuild", "erase"])
def test_an_index_of_its_own_does_not_stand_in_the_way_of_another_embedder(
    database: str, change: str
) -> None:
    talk = [said(f"tea number {n}", id=f"{n}") for n in range(5)]
    with Memory(database, embeddings=HashEmbeddings(64)) as memory:
        memory.user("ana").add(talk, session_id="s")
    postgres_schema.prepare(database, ["ana"])
    with Memory(database, embeddings=HashEmbeddings(32)) as memory:
        ana = memory.user("ana")
        if change == "rebuild":
            ana.rebuild(reembed=True)
        else:
            ana.erase()
            ana.add(talk, session_id="s")
    with Memory(database, embeddings=HashEmbeddings(32)) as memory:
        health = memory.user("ana").doctor()
        assert (health.indexed, health.problems) == (5, [])
    postgres_schema.prepare(database, ["ana"])
    with psycopg.connect(database) as admin:
        named = "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'hnsw%'"
        names = [row[0] for row in admin.execute(named)]
        assert {name.rpartition("_")[2] for name in names} == {"32"}
        assert len(names) == 2


def test_a_search_uses_the_index_of_its_own(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = list[str]()

    def explain(_: Any, cursor: Any, statement: str, values: Any, *__: Any) -> None:
        if "<=>" in statement:
            asked = cursor.connection.cursor()
            asked.execute("SET LOCAL enable_sort = off")
            rows = asked.execute(f"EXPLAIN {statement}", values).fetchall()
            plans.append(" ".join(row[0] for row in rows))

    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add([said(f"tea {n}") for n in range(20)], session_id="s")
    postgres_schema.prepare(database, ["ana"])
    with Memory(database, embeddings="hash") as memory:
        sa.event.listen(sa.Engine, "before_cursor_execute", explain)
        try:
            assert memory.user("ana").doctor().reachable == 20
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", explain)
    assert plans
    assert all("using hnsw_" in plan for plan in plans), plans[0]
