"""Filters on PostgreSQL, and a database that was prepared before there were any."""

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from langmem_graph.errors import StorageError
from langmem_graph.filters import parsed
from langmem_graph.memory import Memory
from langmem_graph.storage import postgres_schema
from tests.conftest import said
from tests.retrieval.test_where import largest_filters, outside, words_that_pass
from tests.support import filtered


@pytest.mark.parametrize(("messages", "filters"), [
    (300, 12), pytest.param(3_000, 1_000, marks=[pytest.mark.stress, pytest.mark.timeout(3_600)])
])  # fmt: skip
def test_it_finds_what_comparing_all_finds(
    database: str, messages: int, filters: int
) -> None:
    with Memory(database, embeddings="hash", settings=filtered.SETTINGS) as memory:
        user = memory.user("ana")
        known, carried = filtered.fill(user, messages)
        filtered.check(user, known, carried, seed=3, count=filters)


@pytest.mark.parametrize("contexts", [
    8, pytest.param(500, marks=[pytest.mark.stress, pytest.mark.timeout(3_600)])
])  # fmt: skip
def test_nothing_from_outside_is_shown(database: str, contexts: int) -> None:
    outside(database, contexts)


def test_words_are_looked_up_among_what_passes(database: str) -> None:
    words_that_pass(database)


def test_as_many_values_as_a_filter_may_have(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        largest_filters(memory)


@pytest.mark.parametrize("layer", ["messages", "records"])
def test_a_filter_is_looked_up_for_each_row(database: str, layer: str) -> None:
    """With joins instead, the time of a search would grow with the messages that pass."""
    with Memory(database, embeddings="hash") as memory:
        user = memory.user("ana")
        user.add(
            said("the budget of bees", metadata={"project": "atlas"}), session_id="s"
        )
        where = parsed({"project": "atlas"})
        with (
            memory._services.room("ana") as room,
            room.database.read_transaction(where) as connection,
        ):
            seen = {"messages": connection.messages, "records": connection.records}
            query = sa.select(seen[layer].c.n)
            words = str(
                query.compile(connection, compile_kwargs={"literal_binds": True})
            )
            plan = connection.exec_driver_sql(f"EXPLAIN {words}").scalars().all()
    assert any("SubPlan" in line for line in plan), plan
    assert not any("Semi Join" in line or "Anti Join" in line for line in plan), plan


OLDER = {
    1: (
        "DROP TABLE langmem_graph.message_values, langmem_graph.totals",
        "ALTER TABLE langmem_graph.postings DROP COLUMN size",
    ),
    2: ("ALTER TABLE langmem_graph.messages ALTER text SET STATISTICS 100", "ANALYZE"),
    3: (
        "ALTER TABLE langmem_graph.postings DROP CONSTRAINT postings_pkey,"
        " ADD PRIMARY KEY (room, words, term, item)",
    ),
    4: (),
    5: (),
}
"""What makes a prepared database one of an older version, beside what all had."""
FORMER = (
    "CREATE TABLE langmem_graph.history (room uuid, n bigint, change text, record bigint,"
    " op text, at timestamp, by text, reason text, before json)",
    "CREATE TABLE langmem_graph.record_changes (room uuid, n bigint, change text,"
    " record bigint, relation text, by_record bigint, since timestamp, message bigint,"
    " quote text, agreed_message bigint, agreed_quote text, made_by text, at timestamp,"
    " undone boolean)",
    "INSERT INTO langmem_graph.history SELECT room, n, change, record, op, at, by, reason,"
    ' CASE WHEN op <> \'create\' THEN \'{"status": "active", "valid_to": null}\'::json END'
    " FROM langmem_graph.effects",
    "INSERT INTO langmem_graph.record_changes SELECT room, n, change, record, relation,"
    " by_record, since, message, quote, agreed_message, agreed_quote, by, at, undone"
    " FROM langmem_graph.effects WHERE message IS NOT NULL",
    "DROP TABLE langmem_graph.effects",
)
"""What all older versions had in place of effects."""
HELD = (
    "ALTER TABLE langmem_graph.record_changes ADD held boolean NOT NULL DEFAULT false",
    "ALTER TABLE langmem_graph.record_changes ALTER held DROP DEFAULT",
    "INSERT INTO langmem_graph.record_changes (room, change, record, relation, message,"
    " quote, made_by, at, undone, held) SELECT room, change, record, relation, message,"
    " 'it waits', made_by, at, true, true FROM langmem_graph.record_changes",
)
"""What versions before 5 had: changes could wait, and one does."""


def test_hashes_of_deleted_ids_are_dropped(database: str) -> None:
    """Until version 6 some were made of a sentence's words alone, which can be guessed."""
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add(said("forgotten", id="forgotten"), session_id="s")
        memory.user("ana").forget(message="forgotten")
    kept = "SELECT count(*) FROM langmem_graph.meta WHERE starts_with(key, 'deleted:')"
    with psycopg.connect(database, autocommit=True) as connection:
        assert connection.execute(kept).fetchone() == (1,)
        connection.execute("UPDATE langmem_graph.version SET version = 6")
        assert postgres_schema.prepare(database) == postgres_schema.VERSION
        assert connection.execute(kept).fetchone() == (0,)


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_is_brought_up_to_date(database: str, version: int) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add(said("an old word", id="old"), session_id="s")
        memory.user("ana").add(said("forgotten", id="forgotten"), session_id="s")
        memory.user("ana").forget(message="forgotten")
        told = {"relation": "ended", "message_id": "old", "quote": "an old word"}
        row = {"text": "An old word.", "record_id": "r", "changes": [told]}
        memory.user("ana").add_records(row | {"source_message_ids": ["old"]})
    with psycopg.connect(database, autocommit=True) as connection:
        for command in OLDER[version]:
            connection.execute(command)
        for command in (*FORMER, *(HELD if version < 5 else ())):
            connection.execute(command)
        connection.execute("UPDATE langmem_graph.version SET version = %s", [version])
    with pytest.raises(StorageError, match="langmem-graph migrate URL"):
        Memory(database, embeddings="hash")
    tried = postgres_schema.rehearse(database)
    assert (tried.version, tried.records, tried.effects) == (version, 1, 2)
    with pytest.raises(StorageError, match="langmem-graph migrate URL"):
        Memory(database, embeddings="hash")
    assert postgres_schema.prepare(database) == postgres_schema.VERSION
    assert sampled(database) == set()
    with psycopg.connect(database) as connection:
        key = "SELECT indexdef FROM pg_indexes WHERE indexname = 'postings_pkey'"
        (words,) = connection.execute(key).fetchone() or ("",)
        kept = "SELECT op, quote, undone FROM langmem_graph.effects ORDER BY n"
        assert connection.execute(kept).fetchall() == [
            ("create", None, False),
            ("end", "an old word", False),
        ]
    assert "(room, words, term, item) INCLUDE (own, before, size)" in words
    with Memory(database, embeddings="hash") as memory:
        ana = memory.user("ana")
        assert [one.quote for one in ana.changes("r")] == ["an old word"]
        ana.add(
            said("a new word", id="new"), session_id="s", metadata={"project": "atlas"}
        )
        found = [ana.search_conversation("word", where=where) for where in (
            {"project": "atlas"}, {"project": {"$exists": False}}, {"session_id": "s"}
        )]  # fmt: skip
        assert [sorted(hit.message_id for hit in hits) for hits in found] == [
            ["new"], ["old"], ["new", "old"]
        ]  # fmt: skip
        ana.forget(message="new")
        memory.user("bob").add(
            said("x", id="b"), session_id="s", metadata={"project": "atlas"}
        )
    # a superuser sees all; the role its room alone
    with psycopg.connect(database) as connection:
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
