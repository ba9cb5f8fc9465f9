"""Filters on PostgreSQL, and a database that was prepared before there were any."""

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from langmem_graph.errors import StorageError
from langmem_graph.memory import Memory
from langmem_graph.storage import postgres_schema
from langmem_graph.storage.tables_and_migrations import vectors
from tests.conftest import said
from tests.postgres.test_rooms import rooms_of
from tests.support import filtered


@pytest.mark.parametrize(("messages", "filters"), [
    (300, 12), pytest.param(3_000, 1_000, marks=[pytest.mark.stress, pytest.mark.timeout(3_600)])
])  # fmt: skip
def test_it_finds_what_comparing_all_finds(database: str, messages: int, filters: int) -> None:
    with Memory(database, embeddings="hash", settings=filtered.SETTINGS) as memory:
        user = memory.user("ana")
        known, carried = filtered.fill(user, messages)
        filtered.check(user, known, carried, seed=3, count=filters)


OLDER = {
    1: (
        "DROP TABLE langmem_graph.message_values, langmem_graph.totals",
        "ALTER TABLE langmem_graph.postings DROP COLUMN size",
    ),
    2: ("ALTER TABLE langmem_graph.messages ALTER text SET STATISTICS 100", "ANALYZE"),
}
"""What makes a prepared database one of an older version."""


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_is_brought_up_to_date(database: str, version: int) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add(said("an old word", id="old"), session_id="s")
        memory.user("ana").add(said("forgotten", id="forgotten"), session_id="s")
        memory.user("ana").forget(message="forgotten")
    with psycopg.connect(database, autocommit=True) as connection:
        for command in OLDER[version]:
            connection.execute(command)
        connection.execute("ALTER TABLE langmem_graph.numbers DROP COLUMN deleted")
        connection.execute("UPDATE langmem_graph.version SET version = %s", [version])
    with pytest.raises(StorageError, match="langmem-graph migrate URL"):
        Memory(database, embeddings="hash")
    assert postgres_schema.prepare(database) == postgres_schema.VERSION
    assert sampled(database) == set()
    with Memory(database, embeddings="hash") as memory:
        ana = memory.user("ana")
        ana.add(said("a new word", id="new"), session_id="s", metadata={"project": "atlas"})
        found = [ana.search_conversation("word", where=where) for where in (
            {"project": "atlas"}, {"project": {"$exists": False}}, {"session_id": "s"}
        )]  # fmt: skip
        assert [sorted(hit.message_id for hit in hits) for hits in found] == [
            ["new"], ["old"], ["new", "old"]
        ]  # fmt: skip
        assert counted(memory) == (3, 2)  # of three vectors one was deleted
        ana.forget(message="new")
        assert counted(memory) == (1, 1)
        memory.user("bob").add(said("x", id="b"), session_id="s", metadata={"project": "atlas"})
    with psycopg.connect(database) as connection:  # a superuser sees all; the role its room alone
        values = "SELECT count(*) FROM langmem_graph.message_values"
        assert connection.execute(values).fetchone() == (1,)
        connection.execute("SET LOCAL ROLE langmem_graph_rooms")
        assert connection.execute(values).fetchone() == (0,)


def sampled(database: str) -> set[Any]:
    """The columns of which ANALYZE has kept values that are neither numbers nor rooms."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ANALYZE")
        return set(connection.execute(
            "SELECT s.tablename, s.attname FROM pg_stats s JOIN information_schema.columns c"
            " ON (c.table_schema, c.table_name, c.column_name)"
            " = (s.schemaname, s.tablename, s.attname) WHERE s.schemaname = 'langmem_graph'"
            " AND c.udt_name NOT IN ('uuid', 'int2', 'int4', 'int8', 'float8')"
        ))  # fmt: skip


def counted(memory: Memory) -> tuple[int, int]:
    """The greatest number of a vector of Ana's, and how many there are."""
    database = rooms_of(memory, "ana")
    return database.read(database.stored_vectors)


def test_vectors_are_counted_without_reading_them(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        ana, every = memory.user("ana"), sa.select(sa.func.count()).select_from(vectors)
        ana.add([said(f"heron {n}", id=f"m{n}") for n in range(6)], session_id="s")
        for gone in ("m2", "m5", None):
            if gone:
                ana.forget(message=gone)
            ana.add(said(f"after {gone}"), session_id="s")
            own = rooms_of(memory, "ana")
            assert counted(memory)[1] == own.read(lambda connection: connection.scalar(every))
        ana.rebuild(reembed=True)
        assert counted(memory)[1] == 7
