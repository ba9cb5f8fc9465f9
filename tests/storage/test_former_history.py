"""Ledgers that kept a record's history in three tables: their effects make what was stored.

`former-history.zip` has the ledgers of two users, made by random changes, takings back, forgetting
and expiry with the last version that wrote those tables; `former-history.json` has what it answered.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import SchemaTooNewError, StorageError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.storage import (
    former_history,
    migrations,
    record_effects,
    record_queries,
)
from langmem_graph.storage.effects import fold
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.record_writes import Change, Words
from langmem_graph.storage.tables import records
from langmem_graph.testing import HashEmbeddings

DATA = Path(__file__).parents[1] / "support" / "data"
ANSWERED: dict[str, Any] = json.loads((DATA / "former-history.json").read_text())
FORMER_VERSION = 8


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with zipfile.ZipFile(DATA / "former-history.zip") as written:
        written.extractall(tmp_path)
    return tmp_path


def opened(place: Path, **options: Any) -> Memory:
    return Memory(place, embeddings=HashEmbeddings(64), **options)


def answers(user: UserMemory) -> dict[str, Any]:
    """What the former version was asked."""
    rows = user.export_records(history=True)
    return {
        "records": [
            {name: value for name, value in row.items() if name != "labels"}
            for row in rows
        ],
        "holding": [row["record_id"] for row in user.export_records()],
        "held": {
            at: [row["record_id"] for row in user.export_records(as_of=at)]
            for at in ANSWERED["u"]["held"]
        },
    }


def versions(place: Path) -> set[int]:
    found = set()
    for ledger in place.rglob("ledger.db"):
        with closing(sqlite3.connect(ledger)) as db:
            found.add(db.execute("PRAGMA user_version").fetchone()[0])
    return found


def tables(place: Path) -> set[str]:
    found = set()
    for ledger in place.rglob("ledger.db"):
        with closing(sqlite3.connect(ledger)) as db:
            found |= {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    return found


@pytest.mark.parametrize("user", ANSWERED)
def test_what_was_stored_is_made_by_effects(place: Path, user: str) -> None:
    with opened(place) as memory:
        found = json.loads(json.dumps(answers(memory.user(user)), default=str))
        for row in found["records"]:
            if row.get("status") == "hidden":
                # when a hidden record ended was not stored
                row.pop("valid_to", None)
        assert found == ANSWERED[user]
        room = memory._services.room(user)
        with (
            room as opened_room,
            opened_room.database.read_transaction(EVERYTHING) as connection,
        ):
            numbers = list(connection.scalars(select(records.c.n)))
            made = record_effects.effects_of(connection, numbers)
            for row in connection.execute(select(records)):
                folded = vars(fold(made[row.n]))
                assert folded == {name: row._mapping[name] for name in folded}


def test_a_memory_that_was_converted_goes_on(place: Path) -> None:
    with opened(place) as memory:
        user = memory.user("u")
        assert user.doctor(sample=0).problems == []
        before = {one.record_id: one.status for one in user.records(limit=99)}
        ended = next(name for name, status in before.items() if status == "active")
        user.remember("A key lies under the mat.")
        new = user.correct(ended, "It was otherwise.")
        user.undo(new.record_id)
        assert {
            one.record_id: one.status
            for one in user.records(limit=99)
            if one.record_id in before
        } == before
        for row in user.export():
            user.forget(message=row["id"])
        assert user.export_records() == []
        assert memory.user("v").records()
    assert not {"history", "record_changes"} & tables(place)


KILLED = """
import os, signal, sys
from langmem_graph import Memory
from langmem_graph.storage import former_history
from langmem_graph.testing import HashEmbeddings

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(former_history, sys.argv[2], kill)
Memory(sys.argv[1], embeddings=HashEmbeddings(64)).user("u").records()
"""


@pytest.mark.parametrize("step", ["_former", "_check", "_convert_removed", "drop"])
def test_a_conversion_that_is_killed_changes_nothing_and_is_done_again(
    place: Path, step: str
) -> None:
    words = [sys.executable, "-c", KILLED, str(place), step]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert versions(place) == {FORMER_VERSION}
    assert {"history", "record_changes"} <= tables(place)
    assert "effects" not in tables(place)
    with opened(place) as memory:
        assert [row["record_id"] for row in memory.user("u").export_records()] == (
            ANSWERED["u"]["holding"]
        )


def test_a_dry_run_says_what_it_would_do(place: Path) -> None:
    result = CliRunner().invoke(app, ["migrate", str(place), "--dry-run"])
    said = " ".join(result.output.split())
    newest = len(migrations.MIGRATIONS)
    become = f"version {FORMER_VERSION} would become {newest}"
    assert f"{become}, with 49 effects upon 17 records. Nothing was changed." in said
    assert f"{become}, with 20 effects upon 12 records. Nothing was changed." in said
    assert versions(place) == {FORMER_VERSION}
    with opened(place) as memory:
        memory.user("u").records()
    (place / "users" / "odd").mkdir()
    (place / "users" / "odd" / "ledger.db").write_text("no ledger at all")
    said = " ".join(
        CliRunner().invoke(app, ["migrate", str(place), "--dry-run"]).output.split()
    )
    assert f"version {newest}, nothing to do." in said
    assert "odd: it would fail. It cannot be read: file is not a database" in said


def test_a_history_that_does_not_make_what_is_stored_is_left_as_it_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide(conversion: Any) -> None:
        conversion._add("hide", {"status": "hidden"})

    monkeypatch.setattr(former_history._Conversion, "_agree", hide)
    with opened(place) as memory, pytest.raises(StorageError, match="does not make"):
        memory.user("v").records()
    assert versions(place) == {FORMER_VERSION}


def test_a_former_version_refuses_what_was_converted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place) as memory:
        memory.user("u").records()
    former = migrations.MIGRATIONS[:FORMER_VERSION]
    monkeypatch.setattr(migrations, "MIGRATIONS", former)
    with opened(place) as memory, pytest.raises(SchemaTooNewError, match="Upgrade"):
        memory.user("u").records()


def test_what_was_removed_on_request_can_still_be_put_back(place: Path) -> None:
    """Kept words of a change are those of its effect now; a record of which nothing was
    left is shown again by its creation.
    """
    kept = (
        "INSERT INTO removed_words (request, layer, item, former) VALUES (?, ?, ?, ?)"
    )
    quote = json.dumps({"quote": "kept words", "agreed_quote": None})
    shown = json.dumps({"text": "kept text", "status": "active", "event": None})
    counts = {}
    for ledger in place.rglob("ledger.db"):
        with closing(sqlite3.connect(ledger)) as db, db:
            (change, message) = db.execute(
                "SELECT n, message FROM record_changes"
            ).fetchone()
            (record,) = db.execute(
                "SELECT record FROM history WHERE op = 'create'"
            ).fetchone()
            db.execute(kept, (message, "record_changes", change, quote))
            db.execute(kept, (message, "records", record, shown))
            db.execute(kept, (message, "history", 1, "{}"))
            counts[ledger] = (message, record)
    with opened(place) as memory:
        for user in ANSWERED:
            memory.user(user).records()
    for ledger, (message, record) in counts.items():
        with closing(sqlite3.connect(ledger)) as db:
            rows = db.execute(
                "SELECT layer, item, former FROM removed_words ORDER BY n"
            ).fetchall()
            (of_words, of_record, of_creation) = [
                (layer, item, json.loads(former)) for layer, item, former in rows
            ]
            said = "SELECT message FROM effects WHERE n = ?"
            made = "SELECT record, op FROM effects WHERE n = ?"
            assert (of_words[0], of_words[2]["quote"]) == ("effects", "kept words")
            assert db.execute(said, (of_words[1],)).fetchone() == (message,)
            assert of_record == ("records", record, {"text": "kept text"})
            assert of_creation[0] == "effects"
            assert of_creation[2]["new_values"]["status"] == "active"
            assert db.execute(made, (of_creation[1],)).fetchone() == (record, "create")


def test_words_stay_what_they_are_when_they_are_stored(place: Path) -> None:
    with opened(place) as memory:
        user = memory.user("v")
        name = user.export_records()[0]["record_id"]
        room = memory._services.room("v")
        with room as entered, entered.database.write_transaction() as connection:
            n = record_queries.numbers_of(connection, [name])[name]
            words = Words(
                "confirms", record_queries.citing(connection, [n])[n][0], "yes"
            )
            stored = dict(vars(words))
            change = Change.new("model")
            record_effects.change_record(connection, n, "confirm", change, {}, words)
            assert vars(words) == stored


def test_another_programs_file_is_named_by_a_dry_run(tmp_path: Path) -> None:
    folder = tmp_path / "users" / "odd"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "ledger.db")) as db:
        db.executescript("CREATE TABLE notes (x); PRAGMA user_version = 3")
    result = CliRunner().invoke(app, ["migrate", str(tmp_path), "--dry-run"])
    assert result.exit_code == 0
    assert "it would fail." in " ".join(result.output.split())
