"""Rooms of a PostgreSQL database: both walls, several writers, erasure, and clear errors."""

import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg_pool import ConnectionPool

from langmem_graph.errors import (
    ClosedMemoryError,
    InvalidInputError,
    NothingStoredError,
    SchemaTooNewError,
    StorageError,
)
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import postgres_database, postgres_schema
from langmem_graph.storage.postgres_database import ROLE, PostgresDatabase, room_of
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.tables import ALL_TABLES, get_meta, messages
from tests.conftest import said
from tests.storage.test_call_log import AT, note, write

QUICK = Settings(storage=StorageSettings(lease_seconds=1.0, busy_timeout_seconds=2.0))


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, embeddings="hash") as opened:
        yield opened


def rooms_of(memory: Memory, user: str) -> PostgresDatabase:
    directory: Any = memory._services.directory
    opened: PostgresDatabase = directory._database(user)
    return opened


@pytest.fixture
def two(memory: Memory) -> Memory:
    return filled(memory)


@pytest.fixture(scope="module")
def read(kept: str) -> Iterator[Memory]:
    """The same for tests that change nothing."""
    with Memory(kept, embeddings="hash") as opened:
        yield filled(opened)


def filled(memory: Memory) -> Memory:
    for user in ("ana", "bob"):
        memory.user(user).add(said(f"{user} keeps bees", id="m1"), session_id="s")
        row = {
            "text": f"{user} has bees.",
            "source_message_ids": ["m1"],
            "subject": "user",
        }
        assert memory.user(user).add_records(row).stored
    return memory


def test_what_one_is_told_is_found_by_this_user_alone(read: Memory) -> None:
    for user, other in (("ana", "bob"), ("bob", "ana")):
        own = read.user(user)
        assert [hit.text for hit in own.search_conversation("bees")] == [
            f"{user} keeps bees"
        ]
        assert other not in own.recall("bees").context
        assert own.doctor(sample=0).problems == []


@pytest.mark.parametrize(
    "table", postgres_schema.ROOM_TABLES, ids=lambda table: table.name
)
def test_the_role_sees_no_other_room_when_statements_do_not_name_it(
    read: Memory, table: sa.Table
) -> None:
    """The first wall is removed: statements as they are, without the compiler's room."""
    with rooms_of(read, "ana").read_transaction(EVERYTHING) as connection:
        rooms = connection.scalars(sa.text(f"SELECT DISTINCT room FROM {table}")).all()
    assert set(rooms) <= {room_of("ana")}


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda table: table.name)
def test_statements_name_the_room_when_the_role_sees_all(
    read: Memory, table: sa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall is removed: a superuser, for whom row-level security does not hold."""
    monkeypatch.setattr(postgres_database, "ROLE", "postgres")
    own, count = rooms_of(read, "ana"), sa.select(sa.func.count()).select_from(table)
    everything = sa.text(f"SELECT count(*) FROM {table.name}")
    mine = sa.text(f"SELECT count(*) FROM {table.name} WHERE room = :room")
    with own.write_transaction() as connection:
        held = connection.scalar(mine, {"room": own.room})
        assert connection.scalar(count) == held
        assert connection.scalar(everything) >= 2 * held  # it could see them
        first = table.columns[0]
        connection.execute(sa.update(table).values({first: first}))
        nothing = connection.execute(sa.delete(table).where(sa.false()))
        assert nothing.rowcount == 0
        connection.rollback()


def test_a_delete_without_conditions_deletes_the_own_rows_alone(
    two: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "ROLE", "postgres")
    with rooms_of(two, "ana").write_transaction() as connection:
        unread = next(table for table in ALL_TABLES if table.name == "unread")
        assert connection.execute(sa.delete(unread)).rowcount == 1
    with rooms_of(two, "bob").read_transaction(EVERYTHING) as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(unread)) == 1


@pytest.mark.parametrize("command", ["insert", "update", "delete"])
def test_no_row_of_another_room_can_be_written(read: Memory, command: str) -> None:
    row = {"room": room_of("bob"), "key": "x", "value": "y"}
    meta = "langmem_graph.meta"
    commands = {
        "insert": f"INSERT INTO {meta} (room, key, value) VALUES (:room, :key, :value)",
        "update": f"UPDATE {meta} SET value = :value WHERE room = :room",
        "delete": f"DELETE FROM {meta} WHERE room = :room",
    }
    refused = pytest.raises(StorageError, match="row-level security")
    with (
        refused if command == "insert" else nullcontext(),
        rooms_of(read, "ana").write_transaction() as connection,
    ):
        assert connection.execute(sa.text(commands[command]), row).rowcount == 0
    assert read.user("bob").doctor(sample=0).ok


def test_the_role_owns_nothing_and_cannot_log_in(database: str) -> None:
    with psycopg.connect(database) as connection:
        role = connection.execute(
            "SELECT rolcanlogin, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = %s",
            [ROLE],
        ).fetchone()
        owned = connection.execute(
            "SELECT count(*) FROM pg_class JOIN pg_roles r ON r.oid = relowner WHERE rolname = %s",
            [ROLE],
        ).fetchone()
        unguarded = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'langmem_graph'::regnamespace"
            " AND relkind = 'r' AND NOT relrowsecurity ORDER BY relname"
        ).fetchall()
    assert (role, owned) == ((False, False, False), (0,))
    assert unguarded == [("version",), ("work",)]


def test_settings_end_with_their_transaction(read: Memory) -> None:
    """As PgBouncer needs it: the connection that the next one gets has no room and no role."""
    engine = rooms_of(read, "ana").engine
    with rooms_of(read, "ana").read_transaction(EVERYTHING):
        pass
    with engine.connect() as connection:
        query = sa.text("SELECT current_setting('app.room', true), current_user")
        assert tuple(connection.execute(query).one()) in {
            ("", "postgres"),
            (None, "postgres"),
        }


def test_characters_that_postgresql_cannot_store_come_back(memory: Memory) -> None:
    text = "zero \0 and \ue000 and \ue000\ue001 and \\x00"
    memory.user("ana").add(said(text, id="m1"), session_id="s\ue000")
    assert [(row["id"], row["content"]) for row in memory.user("ana").export()] == [
        ("m1", text)
    ]


def test_two_memories_write_the_same_user_and_read_it_at_once(database: str) -> None:
    with (
        Memory(database, embeddings="hash") as one,
        Memory(database, embeddings="hash") as other,
    ):
        for n in range(6):
            writer, reader = (one, other) if n % 2 else (other, one)
            writer.user("ana").add(
                said(f"unusual{n} thing", id=f"m{n}"), session_id="s"
            )
            found = reader.user("ana").search_conversation(f"unusual{n}")
            assert found[0].message_id == f"m{n}"


def test_a_user_erased_by_another_process_stays_erased(database: str) -> None:
    with (
        Memory(database, embeddings="hash") as one,
        Memory(database, embeddings="hash") as other,
    ):
        one.user("ana").add(said("secret", id="m1"), session_id="s")
        held = rooms_of(one, "ana")
        held.ledger_id = held.read(partial(get_meta, key="ledger_id"), EVERYTHING)
        assert other.user("ana").erase().messages == 1
        with (
            pytest.raises(StorageError, match="erased by another process"),
            held.write_transaction(),
        ):
            pass
        assert one.user("ana").export() == []
        one.user("ana").add(said("new", id="m2"), session_id="s")
        assert [row["id"] for row in other.user("ana").export()] == ["m2"]
    with psycopg.connect(database) as connection:
        left = {
            str(table): connection.execute(
                f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%secret%'"
            ).fetchone()
            for table in postgres_schema.ROOM_TABLES
        }
    assert set(left.values()) == {(0,)}


def test_a_pool_of_the_application_is_used_and_stays_open(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=4, open=True) as pool:
        with Memory(pool, embeddings="hash") as memory:
            memory.user("ana").add(said("bees", id="m1"), session_id="s")
            assert memory.user("ana").recall("bees").evidence
        with pool.connection() as connection:
            assert connection.execute(
                "SELECT count(*) FROM langmem_graph.messages"
            ).fetchone() == (1,)


def test_a_full_pool_is_an_error_of_ours_within_its_time(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1, open=True) as pool:
        full = pytest.raises(StorageError, match="All its connections are in use")
        with (
            Memory(pool, embeddings="hash", settings=QUICK) as memory,
            pool.connection(),
            full,
        ):
            memory.user("ana").export()


def test_other_writers_of_a_room_are_waited_for_but_not_for_ever(database: str) -> None:
    with Memory(database, embeddings="hash", settings=QUICK) as memory:
        memory.user("ana").add(said("bees", id="m1"), session_id="s")
        with rooms_of(memory, "ana").write_transaction():
            with pytest.raises(StorageError, match="lock timeout"):
                memory.user("ana").add(said("more", id="m2"), session_id="s")
            memory.user("bob").add(said("others go on", id="m1"), session_id="s")


def test_an_error_quotes_no_row(read: Memory) -> None:
    twice = sa.insert(messages).from_select(
        [column.name for column in messages.columns], sa.select(messages)
    )
    with (
        pytest.raises(StorageError, match="duplicate key") as told,
        rooms_of(read, "ana").write_transaction() as connection,
    ):
        connection.execute(twice)
    assert "m1" not in str(told.value) and "bees" not in str(told.value)


def test_a_connection_that_was_lost_is_made_anew(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add(said("bees", id="m1"), session_id="s")
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'langmem-graph'"
            )
        assert memory.user("ana").recall("bees").evidence


def test_what_is_wrong_with_the_database_is_said(empty: str) -> None:
    with pytest.raises(StorageError, match="langmem-graph migrate"):
        Memory(empty, embeddings="hash")
    postgres_schema.prepare(empty)
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute("UPDATE langmem_graph.version SET version = 99")
    with pytest.raises(SchemaTooNewError, match="version 99"):
        Memory(empty, embeddings="hash")
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute("UPDATE langmem_graph.version SET version = 0")
    with pytest.raises(StorageError, match="older than"):
        Memory(empty, embeddings="hash")
    with pytest.raises(StorageError, match="cannot be used") as told:
        Memory("postgresql://me:secret@/none?host=/nowhere", embeddings="hash")
    assert "secret" not in str(told.value)
    with pytest.raises(InvalidInputError):
        Memory("postgresql://host:port/name", embeddings="hash")


@pytest.mark.parametrize(
    "option",
    [
        "options=S3CRET",
        "options=-c%20S3CRET",
        "options=--S3CRET",
        "options=S3%5CCRET",
        "options=-c%20work_mem=1MB%20S3CRET",
        "options=-c%20local_preload_libraries=S3CRET",
        f"client_encoding={'S3CRET' * 20}",
    ],
)
def test_what_the_server_says_of_an_option_is_not_quoted(
    kept: str, option: str
) -> None:
    with pytest.raises(StorageError, match="not shown") as refused:
        Memory(f"{kept}&{option}", embeddings="hash")
    assert "S3CRET" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "version",
    [
        "SELECT 'nine' AS version",
        "SELECT 5 AS release",
        "SELECT 5 AS version, 1 AS build",
        "SELECT 5 AS version LIMIT 0",
    ],
)
def test_another_programs_table_of_this_name_is_left(empty: str, version: str) -> None:
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA langmem_graph")
        admin.execute(f"CREATE TABLE langmem_graph.version AS {version}")
    for work in (postgres_schema.prepare, Memory):
        with pytest.raises(StorageError, match="another program's"):
            work(empty)


def test_a_login_without_rights_and_a_server_without_pgvector(
    database: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE ROLE weak LOGIN")
    try:
        lacks = f"GRANT {ROLE} TO it"
        with pytest.raises(StorageError, match=lacks):
            Memory(database.replace("postgres:@", "weak@"), embeddings="hash")
        with pytest.raises(StorageError, match=lacks):
            postgres_schema.prepare(empty.replace("postgres:@", "weak@"))
    finally:
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("DROP ROLE weak")
    monkeypatch.setattr(
        postgres_schema, "_commands", lambda: ["CREATE EXTENSION nowhere"]
    )
    with pytest.raises(StorageError, match="needs pgvector"):
        postgres_schema.prepare(empty)


def test_nothing_is_made_for_a_user_who_is_only_read(memory: Memory) -> None:
    assert memory.user("nobody").recall("bees").evidence == []
    assert memory.user("nobody").erase().messages == 0
    with pytest.raises(NothingStoredError), memory._services.room("nobody"):
        pass
    assert memory._services.directory.users() == []


def test_users_and_usage_are_told_room_by_room(memory: Memory) -> None:
    for name in ("bob", "ana"):
        memory.user(name).add([said("bees"), said("two")], session_id="s")
        write(memory, [note("extract")], [], name)
    assert [(one.user_id, one.messages, one.to_read) for one in memory.users()] == [
        ("ana", 2, 2),
        ("bob", 2, 2),
    ]
    (line,) = memory.usage().lines
    assert (line.day, line.calls, line.input_tokens) == (AT.date(), 2, 18)
    assert memory.user("ana").usage(since=AT).calls == 1


def test_read_only_changes_nothing(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add(said("bees", id="m1"), session_id="s")
    with Memory(database, embeddings="hash", read_only=True) as looking:
        assert looking.user("ana").recall("bees").evidence
        with pytest.raises(Exception, match="read_only"):
            looking.user("ana").add(said("x", id="m2"), session_id="s")


def test_a_closed_memory_says_so(database: str) -> None:
    memory = Memory(database, embeddings="hash")
    memory.close()
    memory.close()
    with pytest.raises(ClosedMemoryError):
        memory.user("ana").recall("bees")


def test_forgotten_words_leave_all_tables(memory: Memory, database: str) -> None:
    ana = memory.user("ana")
    ana.add(
        [said("the kumquat is mine", id="m1"), said("yes", id="m2")], session_id="s"
    )
    ana.add_records({"text": "Has a kumquat.", "source_message_ids": ["m1"]})
    report = ana.forget(message="m1")
    assert (report.messages, report.records, report.traces_left) == (1, 1, False)
    with psycopg.connect(database) as connection:
        for table in postgres_schema.ROOM_TABLES:
            row = connection.execute(
                f"SELECT count(*) FROM {table} t WHERE t::text ~ 'kumquat'"
            )
            assert row.fetchone() == (0,), table
    assert ana.doctor(sample=0).ok


def test_numbers_are_counted_in_each_room_and_never_given_twice(two: Memory) -> None:
    ana = two.user("ana")
    ana.add(said("second", id="m2"), session_id="s")
    ana.forget(message="m2")
    ana.add(said("third", id="m3"), session_id="s")
    with rooms_of(two, "ana").read_transaction(EVERYTHING) as connection:
        assert connection.scalars(
            sa.select(messages.c.n).order_by(messages.c.n)
        ).all() == [1, 3]


def test_work_of_a_process_that_ended_is_taken_over(database: str) -> None:
    with Memory(database, embeddings="hash", settings=QUICK) as memory:
        ana = memory.user("ana")
        ana.add(said("bees", id="m1"), session_id="s")
        # as a killed one left it
        with rooms_of(memory, "ana").write_transaction() as connection:
            connection.exec_driver_sql("DELETE FROM vectors")
            connection.exec_driver_sql(
                "INSERT INTO outbox (layer, item, task, attempts, claimed_by, claimed_until)"
                " VALUES ('messages', 1, 'embed', 0, 'gone', 0)"
                " ON CONFLICT (room, layer, item) DO UPDATE SET task = 'embed', claimed_until = 0"
            )
    with Memory(database, embeddings="hash", settings=QUICK) as memory:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with rooms_of(memory, "ana").read_transaction(EVERYTHING) as connection:
                if connection.scalar(sa.text("SELECT count(*) FROM vectors")):
                    break
            time.sleep(0.2)
        else:
            pytest.fail("nobody did the work")


def test_many_threads_of_one_process(memory: Memory) -> None:
    def write(name: int) -> None:
        for n in range(10):
            message = said(f"word{name}x{n}", id=f"{name}-{n}")
            memory.user(f"u{n % 2}").add(message, session_id=f"{name}")

    threads = [threading.Thread(target=write, args=[name]) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for user in ("u0", "u1"):
        assert len(memory.user(user).export()) == 40
        assert memory.user(user).doctor(sample=0).ok
