"""After `forget` and `erase` no word is left in any page, or the report says that one may be."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import postgres_database, postgres_vacuum
from langmem_graph.storage.postgres_database import ROLE
from tests.conftest import said

SOON = Settings(storage=StorageSettings(busy_timeout_seconds=0.3))


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    """What is to be forgotten is what was said last: nothing is written over its place."""
    with Memory(database, embeddings="hash", settings=SOON) as opened:
        for user, canary in (("bob", "zebra"), ("ana", "kumquat")):
            own = opened.user(user)
            own.add([said(f"bees {n}", id=f"m{n}") for n in range(20)], session_id="s")
            # is kept outside its row
            long = " ".join(str(7_919 * n) for n in range(2_000))
            own.add(
                [said(f"my {canary} {long}", id="x"), said(canary, id="y")],
                session_id="s",
            )
            own.add_records({"text": f"Has a {canary}.", "source_message_ids": ["y"]})
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("ANALYZE")  # it keeps samples of columns
        yield opened


def holding(database: str, word: str) -> set[str]:
    """The files of the database with this word, by the names of their tables and indexes."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CHECKPOINT")
        place = "SELECT current_setting('data_directory') || '/base/' || oid FROM pg_database"
        (folder,) = admin.execute(
            f"{place} WHERE datname = current_database()"
        ).fetchone()
        named = admin.execute(
            "SELECT pg_relation_filenode(oid)::text, relname FROM pg_class"
        )
        names = dict(named.fetchall())
    files = [file for file in Path(folder).iterdir() if file.is_file()]
    held = [
        file.name.split(".")[0] for file in files if word.encode() in file.read_bytes()
    ]
    return {names.get(name, name) for name in held}


def forget(memory: Memory) -> Any:
    own = memory.user("ana")
    own.forget(message="x")
    return own.forget(message="y")


def test_no_page_holds_a_forgotten_word(memory: Memory, database: str) -> None:
    assert {"messages", "records", "postings", "postings_pkey"} <= holding(
        database, "kumquat"
    )
    report = forget(memory)
    assert (report.messages, report.records, report.traces_left) == (1, 1, False)
    assert holding(database, "kumquat") == set()
    assert memory.user("bob").erase().traces_left is False
    assert holding(database, "zebra") == set()
    assert len(memory.user("ana").export()) == 20
    assert memory.user("ana").doctor(sample=0).ok


def test_no_page_holds_a_word_that_has_expired(memory: Memory, database: str) -> None:
    own = memory.user("ana")
    own.add(said("my papaya", id="old", at="2020-01-01"), session_id="t")
    row = {"record_id": "r", "text": "Has a papaya.", "source_message_ids": ["old"]}
    own.add_records(
        [row, {**row, "record_id": "s", "text": "Has fruit.", "supersedes": ["r"]}]
    )
    assert {"messages", "records", "postings"} <= holding(database, "papaya")
    memory.keep_days(messages=30)
    (report,) = memory.expire()
    assert (report.user_id, report.messages, report.records) == ("ana", 1, 2)
    assert report.traces_left is False
    assert holding(database, "papaya") == set()
    assert len(own.export()) == 22
    assert own.doctor(sample=0).ok


def test_what_an_old_snapshot_keeps_is_told_and_removed_later(
    memory: Memory, database: str
) -> None:
    with psycopg.connect(database) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1 FROM langmem_graph.version")
        assert forget(memory).traces_left
        assert memory.user("bob").erase().traces_left
        assert "kumquat" in "".join(
            row[0] for row in reader.execute("SELECT text FROM langmem_graph.messages")
        )
    assert holding(database, "kumquat")
    with Memory(database, embeddings="hash", settings=SOON) as next_one:
        next_one.user("ana").export()
    assert holding(database, "kumquat") == holding(database, "zebra") == set()


class KilledError(Exception):
    """Stands for the end of a process."""


@pytest.fixture
def half_erased(
    memory: Memory, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A database in which a process that was erasing was killed after its commit."""

    def killed(*_: object) -> bool:
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(postgres_vacuum, "remove_deleted", killed)
        memory.user("ana").erase()
    memory.close()
    assert holding(database, "kumquat")
    yield database
    with Memory(database, embeddings="hash") as opened:
        assert [user.user_id for user in opened.users()] == ["bob"]


def rooms_left(database: str) -> list[int]:
    """How many rooms have facts, and how many are listed."""
    with psycopg.connect(database) as admin:
        counts = (
            "SELECT count(DISTINCT room) FROM langmem_graph.meta",
            "SELECT count(*) FROM langmem_graph.work",
        )
        return [admin.execute(one).fetchone()[0] for one in counts]


def test_erasing_again_removes_what_a_killed_erasure_left(half_erased: str) -> None:
    with (
        psycopg.connect(half_erased) as reader,
        Memory(half_erased, embeddings="hash", settings=SOON) as opened,
    ):
        ana = opened.user("ana")
        reader.execute("SELECT count(*) FROM langmem_graph.messages")
        for _ in range(2):
            report = ana.erase()
            assert (report.messages, report.traces_left) == (0, True)
        reader.rollback()
        assert (ana.erase().traces_left, ana.erase().traces_left) == (False, False)
    assert holding(half_erased, "kumquat") == set()
    assert rooms_left(half_erased) == [1, 1]


def test_who_is_erased_in_part_may_begin_anew(half_erased: str) -> None:
    with Memory(half_erased, embeddings="hash", settings=SOON) as opened:
        opened.user("ana").add(said("I like tea"), session_id="s")
        assert holding(half_erased, "kumquat") == set()
        assert rooms_left(half_erased) == [2, 2]
        assert len(opened.user("ana").export()) == 1
        opened.user("ana").erase()
    assert rooms_left(half_erased) == [1, 1]


@pytest.mark.parametrize("largest", [postgres_vacuum.REWRITTEN_BYTES, 0])
def test_another_process_takes_over_what_a_killed_erasure_left_once(
    half_erased: str, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_vacuum.remove_deleted, "__defaults__", (largest,))
    quick = Settings(storage=StorageSettings(lease_seconds=1.0))
    with Memory(half_erased, embeddings="hash", settings=quick):
        until = time.monotonic() + 20
        while rooms_left(half_erased)[1] > 1:
            assert time.monotonic() < until
            time.sleep(0.2)
    assert bool(holding(half_erased, "kumquat")) is (largest == 0)
    with Memory(half_erased, embeddings="hash", settings=SOON) as opened:
        assert opened.user("ana").erase().traces_left is (largest == 0)


def test_a_table_in_use_is_not_waited_for_in_a_queue(
    memory: Memory, database: str
) -> None:
    with psycopg.connect(database) as reader:
        # it holds its lock
        reader.execute("SELECT count(*) FROM langmem_graph.messages")
        assert forget(memory).traces_left
        assert memory.user("bob").search_conversation("bees 3")
    assert memory.user("ana").forget(message="m19").traces_left is False
    assert holding(database, "kumquat") == set()


def test_a_login_that_may_not_rewrite_the_tables_says_so(
    memory: Memory, database: str
) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE app LOGIN; GRANT {ROLE} TO app")
    url = database.replace("postgres:@", "app@")
    try:
        # it does not wait for half a minute
        with Memory(url, embeddings="hash") as application:
            assert forget(application).traces_left
        result = CliRunner().invoke(app, ["migrate", url, "--rewrite"])
        assert "as the tables' owner" in str(result.exception)
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("GRANT MAINTAIN ON ALL TABLES IN SCHEMA langmem_graph TO app")
        with Memory(url, embeddings="hash") as application:
            # who else reads?
            assert application.user("ana").forget(message="m19").traces_left
            with psycopg.connect(database, autocommit=True) as admin:
                admin.execute("GRANT pg_read_all_stats TO app")
            assert application.user("ana").forget(message="m18").traces_left is False
        assert holding(database, "kumquat") == set()
    finally:
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("DROP OWNED BY app; DROP ROLE app")


def test_large_tables_are_rewritten_by_a_command(
    memory: Memory, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = postgres_vacuum.remove_deleted.__defaults__
    assert clean == (postgres_vacuum.REWRITTEN_BYTES,)
    monkeypatch.setattr(postgres_vacuum.remove_deleted, "__defaults__", (0,))
    assert forget(memory).traces_left
    assert holding(database, "kumquat")
    assert memory.user("ana").recall("bees").evidence
    result = CliRunner().invoke(app, ["migrate", database, "--rewrite"])
    assert result.exit_code == 0, result.output
    assert holding(database, "kumquat") == set()
    with psycopg.connect(database) as admin:
        noted = admin.execute(
            "SELECT count(*) FROM langmem_graph.meta WHERE key = 'traces_left'"
        )
        assert noted.fetchone() == (0,)


def test_nobody_else_waits_for_an_old_snapshot(memory: Memory, database: str) -> None:
    with (
        psycopg.connect(database) as reader,
        Memory(database, embeddings="hash") as patient,
    ):
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1 FROM langmem_graph.version")
        began = time.monotonic()
        own = patient.user("ana")
        forgetting = threading.Thread(target=own.forget, kwargs={"message": "x"})
        forgetting.start()
        time.sleep(0.5)
        own.add(said("more bees", id="more"), session_id="s")
        patient.close()
        forgetting.join(30)
        with Memory(database, embeddings="hash") as again:
            assert again.user("ana").recall("more bees").evidence
        assert time.monotonic() - began < 10
    memory.user("ana").forget(message="y")
    assert holding(database, "kumquat") == set()


@pytest.mark.parametrize(
    "isolation",
    [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.READ_COMMITTED],
    ids=["a snapshot", "a table"],
)
def test_no_connection_is_kept_while_others_are_waited_for(
    memory: Memory,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    isolation: psycopg.IsolationLevel,
) -> None:
    """Else some forgettings at once would keep all connections from everybody."""
    directory: Any = memory._services.directory
    pool = directory._engine.pool
    kept = list[int]()

    def waited(*_: object) -> bool:
        until = time.monotonic() + 1  # other threads may be at their end
        while pool.checkedout() and time.monotonic() < until:
            time.sleep(0.01)
        kept.append(pool.checkedout())
        return len(kept) < 2

    monkeypatch.setattr(postgres_database, "waited", waited)
    with psycopg.connect(database) as reader:
        reader.isolation_level = isolation
        reader.execute("SELECT count(*) FROM langmem_graph.messages")
        assert forget(memory).traces_left
    assert kept[:2] == [0, 0]
