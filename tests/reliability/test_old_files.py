"""Files of every earlier version of the tables open, migrate, and go on."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import create_engine

from langmem_graph.ids_and_times import folder_name
from langmem_graph.memory import Memory
from langmem_graph.storage import migrations, tables
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.sqlite_database import Database
from langmem_graph.store import item_tables
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import HashEmbeddings
from tests.support.models import AnswersBySchema
from tests.support.writing import echo

LATER_COLUMNS = [("messages", "origin"), ("record_sources", "supporting")]
"""Columns that the third step adds to tables of the first two."""
HELD = "ALTER TABLE record_changes ADD COLUMN held BOOLEAN NOT NULL DEFAULT 0"
"""Makes the table of changes what it was from the third step to the fifth."""
TEXTS = [f"the trombone number {n} is in the attic" for n in range(8)]


def make_tables(file: Path, steps: Any, version: int) -> None:
    """An empty file as the first `version` steps left it, without the columns of later ones."""
    file.parent.mkdir(parents=True)
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        migrations.migrate(connection, steps[:version])
        if steps is migrations.MIGRATIONS:
            for table, column in LATER_COLUMNS if 0 < version < 3 else []:
                if sa.inspect(connection).has_table(table):
                    connection.exec_driver_sql(
                        f"ALTER TABLE {table} DROP COLUMN {column}"
                    )
            if 3 <= version < 6:
                connection.exec_driver_sql(HELD)
    engine.dispose()


def fill_first(file: Path) -> None:
    """Rows as the first version wrote them: two of the messages have no vector yet."""
    embedder = HashEmbeddings(64)
    vectors = np.array(embedder.embed_documents(TEXTS), dtype=np.float32)
    with closing(sqlite3.connect(file)) as db, db:
        meta = {"user_id": "u", "embedder": "HashEmbeddings:hash-64", "dimension": "64"}
        db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        total = vectors[:6].sum(axis=0).astype(np.float32).tobytes()
        db.execute("INSERT INTO sessions VALUES (1, 's', ?, 6)", (total,))
        columns = [row[1] for row in db.execute("PRAGMA table_info(messages)")]
        for n, text in enumerate(TEXTS, 1):
            role, at = ("user", "assistant")[n % 2], f"2024-05-0{n} 10:00:00.000000"
            extra = (
                json.dumps({"tool_calls": [{"name": "f", "args": {}}]})
                if n == 3
                else None
            )
            row = {"n": n, "message_id": f"id{n}", "session": 1, "role": role, "at": at}
            row |= {"text": text, "extra": extra, "chars": len(text), "is_question": 0}
            row |= {"added_at": at} | ({"origin": role} if "origin" in columns else {})
            marks = ",".join("?" * len(row))
            db.execute(
                f"INSERT INTO messages ({','.join(row)}) VALUES ({marks})",
                [*row.values()],
            )
            db.execute(
                "INSERT INTO words(rowid, own, before) VALUES (?, ?, '')", (n, text)
            )
            if n <= 6:
                vector = vectors[n - 1].tobytes()
                piece = (n, "messages", n, 0, 0, len(text), vector)
                db.execute("INSERT INTO vectors VALUES (?,?,?,?,?,?,?)", piece)
            task = "index" if n <= 6 else "embed"
            db.execute("INSERT INTO outbox(layer, item, task, attempts, claimed_until)"
                       " VALUES ('messages', ?, ?, 0, 0)", (n, task))  # fmt: skip


def test_the_hand_made_rows_name_the_embedder_as_today(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings=HashEmbeddings(64)) as memory:
        memory.user("u").add({"role": "user", "content": "hello"}, session_id="s")
        assert memory.user("u").doctor().embedder == "HashEmbeddings:hash-64"


@pytest.mark.parametrize("version", range(1, len(migrations.MIGRATIONS) + 1))
def test_a_ledger_of_every_version(tmp_path: Path, version: int) -> None:
    ledger = tmp_path / "m" / "users" / folder_name("u") / "ledger.db"
    make_tables(ledger, migrations.MIGRATIONS, version)
    fill_first(ledger)
    embedder = HashEmbeddings(64)
    with Memory(
        tmp_path / "m", embeddings=embedder, model=AnswersBySchema(Extraction=echo)
    ) as memory:
        user = memory.user("u")
        assert [row["content"] for row in user.export()] == TEXTS
        third, second = user.get_conversation(["id3", "id2"])
        assert third.tool_calls[0]["name"] == "f"
        assert (third.origin, second.origin) == ("assistant", "user")
        assert user.doctor(sample=0).problems == []
        assert user.search_conversation("trombone number 7")[0].message_id == "id8"
        recall = user.recall("trombone number 2")
        assert (recall.report.status, recall.evidence[0].message_id) == ("ok", "id3")
        user.add(
            {"role": "user", "content": "and a tuba in the cellar", "id": "t"},
            session_id="s",
        )
        report = user.flush()
        assert report.pending == 0
        assert user.search_records("tuba in the cellar")
        if version == 1:  # from then on every message counts as not read yet
            assert report.read == 9
            assert len(user.export_records()) == 5
        user.remember("The key is under the mat.")
        user.forget(message="id2")
    with Memory(tmp_path / "m", embeddings=embedder) as memory:
        health = memory.user("u").doctor(sample=0)
        assert (health.problems, health.messages, health.indexed) == (
            [],
            9,
            health.vectors,
        )
    with closing(sqlite3.connect(ledger)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (
            len(migrations.MIGRATIONS),
        )


def test_hashes_of_deleted_ids_are_dropped(tmp_path: Path) -> None:
    """Until version 9 some were made of a sentence's words alone, which can be guessed."""
    ledger = tmp_path / "m" / "users" / folder_name("u") / "ledger.db"
    make_tables(ledger, migrations.MIGRATIONS, 9)
    fill_first(ledger)
    noted = f"{tables.DELETED_ID}0b42d8a55022bd4708c5f83d2598bafa"
    with closing(sqlite3.connect(ledger)) as db, db:
        db.execute("INSERT INTO meta VALUES (?, '')", (noted,))
    with Memory(tmp_path / "m", embeddings=HashEmbeddings(64)) as memory:
        memory.user("u").recall("trombone")
    kept = b"".join(file.read_bytes() for file in ledger.parent.glob("ledger.db*"))
    assert noted.encode() not in kept


@pytest.mark.parametrize("version", range(3, 6))
def test_changes_that_waited_for_a_yes_are_dropped(
    tmp_path: Path, version: int
) -> None:
    """They were never carried out; those that were are kept."""
    ledger = tmp_path / "m" / "users" / folder_name("u") / "ledger.db"
    make_tables(ledger, migrations.MIGRATIONS, version)
    fill_first(ledger)
    at = "2024-06-01 10:00:00.000000"
    record = {"n": 1, "record_id": "r", "text": TEXTS[0], "kind": "fact"}
    record |= {"facet": "none", "confirmation": "confirmed", "status": "superseded"}
    record |= {"priority": 0, "content_hash": "h", "made_by": "model"}
    record |= dict.fromkeys(("entities", "verbatim"), "[]")
    times = ("said_at", "valid_from", "valid_to", "created_at", "updated_at")
    record |= dict.fromkeys(times, at)
    change = {"record": 1, "relation": "ended", "message": 1, "made_by": "model"}
    with closing(sqlite3.connect(ledger)) as db, db:
        _insert(db, "records", record)
        _insert(db, "record_sources", {"record": 1, "message": 1, "supporting": 0})
        for quote, held in (("the trombone", 0), ("in the attic", 1)):
            own = {"change": quote, "quote": quote, "undone": held, "held": held}
            _insert(db, "record_changes", {**change, **own, "at": at})
    with Memory(tmp_path / "m", embeddings=HashEmbeddings(64)) as memory:
        user = memory.user("u")
        assert [one.quote for one in user.changes("r")] == ["the trombone"]
        assert user.doctor(sample=0).problems == []
    with closing(sqlite3.connect(ledger)) as db:
        rows = db.execute(
            "SELECT quote, undone FROM effects WHERE message IS NOT NULL"
        ).fetchall()
    assert rows == [("the trombone", 0)]


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    marks = ",".join("?" * len(row))
    db.execute(
        f"INSERT INTO {table} ({','.join(row)}) VALUES ({marks})", [*row.values()]
    )


def test_migrated_and_new_tables_are_the_same(tmp_path: Path) -> None:
    for version in range(len(migrations.MIGRATIONS) + 1):
        file = tmp_path / str(version) / "ledger.db"
        make_tables(file, migrations.MIGRATIONS, version)
        engine = create_engine(f"sqlite:///{file}")
        with engine.begin() as connection:
            migrations.migrate(connection, migrations.MIGRATIONS)
        engine.dispose()
    every = [
        _shape(tmp_path / str(v) / "ledger.db")
        for v in range(len(migrations.MIGRATIONS) + 1)
    ]
    assert all(shape == every[0] for shape in every)


@pytest.mark.parametrize("steps", [migrations.MIGRATIONS, item_tables.MIGRATIONS])
def test_a_new_file_is_what_all_steps_make(tmp_path: Path, steps: Any) -> None:
    make_tables(tmp_path / "steps" / "ledger.db", steps, len(steps))
    ids = set()
    for name in ("new", "another"):
        file = tmp_path / f"{name}.db"
        with closing(Database(file, busy_timeout=5, steps=steps)) as database:
            ids.add(
                database.read(lambda c: tables.get_meta(c, "ledger_id"), EVERYTHING)
            )
        assert _shape(file) == _shape(tmp_path / "steps" / "ledger.db")
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (len(steps),)
            assert db.execute("SELECT count(*) FROM meta").fetchone() == (1,)
    assert len(ids) == 2


def _shape(file: Path) -> list[Any]:
    """Every table with its columns, whatever their order, and every index."""
    with closing(sqlite3.connect(file)) as db:
        things = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        columns = [
            (name, *column[1:4], column[5])
            for kind, name, _ in things
            if kind == "table"
            for column in db.execute(f"PRAGMA table_info({name})")
        ]
    return sorted([*columns, *(one for one in things if one[0] != "table")], key=str)


@pytest.mark.parametrize("version", range(1, len(migrations.MIGRATIONS) + 1))
def test_old_files_are_read_beside_and_left_alone(tmp_path: Path, version: int) -> None:
    """A reader may not migrate: it says so, or reads, and never changes the file."""
    from langmem_graph.errors import StorageError

    ledger = tmp_path / "m" / "users" / folder_name("u") / "ledger.db"
    make_tables(ledger, migrations.MIGRATIONS, version)
    fill_first(ledger)
    before = ledger.read_bytes()
    with Memory(
        tmp_path / "m", embeddings=HashEmbeddings(64), read_only=True
    ) as memory:
        user = memory.user("u")
        if version == len(migrations.MIGRATIONS):
            assert user.search_conversation("trombone number 7")[0].message_id == "id8"
        else:
            with pytest.raises(StorageError, match="older"):
                user.search_conversation("trombone number 7")
    assert ledger.read_bytes() == before


def age_store(file: Path, version: int) -> None:
    """Take out of a store's ledger what later steps than the first `version` added."""
    with closing(sqlite3.connect(file)) as db, db:
        if version < 2:
            db.execute("DROP INDEX items_by_expiry")
            for column in ("ttl", "expires_at"):
                db.execute(f"ALTER TABLE items DROP COLUMN {column}")
        db.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", range(1, len(item_tables.MIGRATIONS) + 1))
def test_a_store_of_every_version(tmp_path: Path, version: int) -> None:
    ledger = tmp_path / "items" / "ledger.db"
    with ChromaStore(tmp_path, embeddings="hash") as store:
        store.put(("a",), "k", {"text": "the trombone is in the attic"})
    today = _shape(ledger)
    age_store(ledger, version)
    with ChromaStore(tmp_path, embeddings="hash") as store:
        assert store.search(("a",), query="trombone", limit=1)[0].key == "k"
        store.put(("a",), "other", {"text": "the tuba is in the cellar"}, ttl=-1)
        assert store.search(("a",), query="tuba", limit=1)[0].key == "other"
        assert store.sweep_ttl() == 1
        assert [one.key for one in store.search(("a",))] == ["k"]
    assert [one for one in _shape(ledger) if one[0] != "items"] == [
        one for one in today if one[0] != "items"
    ]
