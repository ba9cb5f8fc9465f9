"""A writing process is killed: nothing acknowledged is lost, and nothing is done by halves."""

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.files import folder
from tests.support.killed_writer import POINTS, open_memory, text_of, write
from tests.support.processes import PROCESSES
from tests.support.traces import hits


@dataclass
class Promised:
    """What the writer was told before it died."""

    stored: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    maybe_forgotten: str | None = None


def promised(file: Path) -> Promised:
    told = Promised()
    for line in file.read_text().splitlines():
        what, *ids = line.split()
        if what == "stored":
            told.stored += ids
        elif what == "forgetting":
            told.maybe_forgotten = ids[0]
        elif what == "forgot":
            told.forgotten += ids
            told.maybe_forgotten = None
    return told


def killed_once(where: Path, chance: random.Random) -> tuple[str, Path]:
    """Where a writer was killed, and its folder; one that ended first is tried again, earlier."""
    point = chance.choice(POINTS) if chance.random() < 0.6 else None
    call, before = chance.choice([1, 2, 3, 5, 8, 13, 21]), chance.random() < 0.5
    seconds = chance.uniform(0, 2.5)
    for number in range(8):
        own = where / str(number)
        own.mkdir(parents=True)
        if _is_killed(own, point, call, before, seconds):
            when = "before" if before else "after"
            return (
                f"{when} call {call} of {point}" if point else f"after {seconds:.2f} s",
                own,
            )
        call, seconds = max(1, call // 2), seconds / 2
    raise AssertionError(f"never killed at {point}")


def _is_killed(
    where: Path, point: str | None, call: int, before: bool, seconds: float
) -> bool:
    """False when the writer came to its end before."""
    file = where / "promises"
    task = (str(where / "m"), str(file), point, call, before)
    writer = PROCESSES.Process(target=write, args=task)
    writer.start()
    if point is None:
        while not (file.exists() and file.read_text()):
            time.sleep(0.005)
        time.sleep(seconds)
        os.kill(writer.pid, signal.SIGKILL)
    writer.join(120)
    assert writer.exitcode in (0, -signal.SIGKILL), f"{point} {call} {before}"
    return writer.exitcode == -signal.SIGKILL


def check(where: Path, told: Promised) -> None:
    """Open it again: nothing lost, nothing by halves, and the index is the ledger's."""
    with open_memory(where / "m") as memory:
        user = memory.user("u")
        held = {row["id"]: row["content"] for row in user.export()}
        _check_messages(held, told)
        gone = [one for one in told.forgotten if one not in held]
        if told.maybe_forgotten and told.maybe_forgotten not in held:
            gone.append(told.maybe_forgotten)
        ledger = folder(memory, "u") / "ledger.db"
        _check_records(ledger)
        user.flush()
        _check_all_read(ledger, held)
        health = user.doctor(sample=0)
        assert (health.problems, health.waiting_to_embed) == ([], 0)
    with open_memory(where / "m") as memory, memory._services.room("u") as room:
        _check_index(ledger, room)
        words = [f"thing{one.split('.')[0]} " for one in gone]
        assert hits(folder(memory, "u"), [w.strip() + "." for w in words]) == []


def _check_messages(held: dict[str, str], told: Promised) -> None:
    lost = set(told.stored) - held.keys() - set(told.forgotten) - {told.maybe_forgotten}
    assert not lost, "acknowledged messages are gone"
    assert not set(told.forgotten) & held.keys(), "forgotten messages are there"
    for message_id, text in held.items():
        assert text == text_of(*map(int, message_id.split(".")))
    forgotten = {
        one.split(".")[0] for one in [*told.forgotten, told.maybe_forgotten or ""]
    }
    parts = Counter(message_id.split(".")[0] for message_id in held)
    assert {parts[n] for n in parts if n not in forgotten} <= {3}, (
        "a call was stored by halves"
    )


def _rows(ledger: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def _check_records(ledger: Path) -> None:
    """A message waits to be read or has its record, never both nor neither; changes are whole."""
    unread = {n for (n,) in _rows(ledger, "SELECT message FROM unread")}
    recorded = {n for (n,) in _rows(ledger, "SELECT message FROM record_sources")}
    users = {n for (n,) in _rows(ledger, "SELECT n FROM messages WHERE role = 'user'")}
    assert not unread & recorded, "read twice"
    assert users <= unread | recorded, "neither read nor due"
    _check_whole(ledger)


def _check_whole(ledger: Path) -> None:
    without = "SELECT n FROM records WHERE n NOT IN (SELECT {} FROM {} WHERE {})"
    for column, table, condition in (
        ("record", "record_sources", "1"),
        ("record", "effects", "op = 'create'"),
        ("rowid", "record_words", "1"),
    ):
        assert _rows(ledger, without.format(column, table, condition)) == []
    replaced = "SELECT n FROM records WHERE status = 'superseded' AND n NOT IN ({})"
    by = "SELECT target FROM links WHERE kind = 'supersedes'"
    assert _rows(ledger, replaced.format(by)) == []
    assert (
        _rows(
            ledger, replaced.format("SELECT record FROM effects WHERE op = 'supersede'")
        )
        == []
    )
    assert _rows(ledger, "PRAGMA foreign_key_check") == []
    assert _rows(ledger, "PRAGMA integrity_check") == [("ok",)]


def _check_all_read(ledger: Path, held: dict[str, str]) -> None:
    """Every user message has exactly one record of its own."""
    assert _rows(ledger, "SELECT * FROM unread") == []
    own = _rows(
        ledger,
        "SELECT m.message_id, count(s.record) FROM messages m"
        " LEFT JOIN record_sources s ON s.message = m.n WHERE m.role = 'user' GROUP BY m.n",
    )
    assert {count for _, count in own} <= {1}, own
    assert len(own) == sum(not one.endswith(".1") for one in held)
    _check_whole(ledger)


def _check_index(ledger: Path, room: Any) -> None:
    """Chroma holds exactly the vectors of what is true, and the full-text indexes every row."""
    for layer, table in (("messages", "messages"), ("records", "records")):
        true = "status = 'active'" if table == "records" else "role != 'system'"
        expected = f"SELECT n FROM vectors WHERE layer = '{layer}' AND item IN"
        wanted = {
            n
            for (n,) in _rows(
                ledger, f"{expected} (SELECT n FROM {table} WHERE {true})"
            )
        }
        found = room.index._with_collection(
            layer, lambda held: held.get(include=[])["ids"]
        )
        assert {int(n) for n in found} == wanted, layer
    assert _rows(ledger, "SELECT count(*) FROM outbox") == [(0,)]
    for words, table in (("words", "messages"), ("record_words", "records")):
        (there,), (rows,) = (
            *_rows(ledger, f"SELECT count(*) FROM {words}"),
            *_rows(ledger, f"SELECT count(*) FROM {table}"),
        )
        assert there == rows


def run(where: Path, runs: int, seed: int) -> Iterator[str]:
    for number in range(runs):
        killed, own = killed_once(
            where / str(number), random.Random(f"{seed} {number}")
        )
        told = promised(own / "promises")
        print(f"{number}: killed {killed}, {len(told.stored)} acknowledged", flush=True)
        check(own, told)
        yield killed


@pytest.mark.long
def test_killed_at_some_points(tmp_path: Path) -> None:
    assert len(list(run(tmp_path, 2, seed=random.randrange(10**6)))) == 2


@pytest.mark.stress
@pytest.mark.timeout(3_000)
def test_killed_200_times(tmp_path: Path) -> None:
    """0 lost, 0 by halves, the index equal to the ledger."""
    places = list(run(tmp_path, 200, seed=1))
    print(
        f"{len(places)} killed: 0 acknowledged messages lost, 0 batches by halves, indexes equal"
    )


def test_every_point_is_there() -> None:
    """A point that was renamed would kill nobody."""
    from importlib import import_module

    for point in POINTS:
        module, _, name = point.partition(":")
        owner = import_module(f"langmem_graph.{module}")
        for one in name.split("."):
            owner = getattr(owner, one)
