"""Several processes write the same users at once, and some are killed: nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import postgres_schema

WRITER = """
import sys, threading
from langmem_graph import Memory, Settings
url, name, users, threads, promises = sys.argv[1:]
memory = Memory(url, embeddings="hash", settings=Settings(storage={"lease_seconds": 2.0}))
written = open(promises, "a")

def write(thread):
    n = 0
    while True:
        n += 1
        user = f"u{(n + thread) % int(users)}"
        own = f"{name}-{thread}-{n}"
        message = {"role": "user", "content": f"{own} word{n} happened to {user}", "id": own}
        told = memory.user(user).add(message, session_id=f"s{n // 10}")
        for stored in told.stored:
            written.write(f"{user} {stored}\\n")
            written.flush()

for thread in range(int(threads)):
    threading.Thread(target=write, args=[thread], daemon=True).start()
threading.Event().wait()
"""
ENOUGH = 20  # messages, however slow the machine is


def trial(
    database: str, where: Path, seconds: float, every: float, users: int, threads: int
) -> Counter[str]:
    """Two writers for these seconds, one of which is killed and begun anew now and then."""
    chance, started, ends = random.Random(5), 0, time.monotonic() + seconds
    running: dict[int, subprocess.Popen[bytes]] = {}

    def start(place: int) -> None:
        nonlocal started
        started += 1
        words = [
            database,
            f"w{started}",
            str(users),
            str(threads),
            str(where / f"{started}"),
        ]
        running[place] = subprocess.Popen([sys.executable, "-c", WRITER, *words])

    for place in range(2):
        start(place)
    while time.monotonic() < ends or len(_promises(where)) <= ENOUGH:
        time.sleep(every)
        place = chance.randrange(2)
        os.kill(running[place].pid, signal.SIGKILL)
        running[place].wait()
        start(place)
    for process in running.values():
        process.kill()
        process.wait()
    return check(database, _promises(where), users)


def _promises(where: Path) -> list[str]:
    lines = [line for file in where.iterdir() for line in file.read_text().splitlines()]
    return [line for line in lines if len(line.split()) == 2]


def check(database: str, promised: list[str], users: int) -> Counter[str]:
    found = Counter[str](promised=len(promised))
    settings = Settings(storage=StorageSettings(lease_seconds=1.0))
    with Memory(database, embeddings="hash", settings=settings) as memory:
        for number in range(users):
            user = memory.user(f"u{number}")
            rows = {row["id"]: row["content"] for row in user.export()}
            own = {line.split()[1] for line in promised if line.split()[0] == user.id}
            found["lost"] += len(own - rows.keys())
            found["foreign"] += sum(
                not text.endswith(user.id) for text in rows.values()
            )
            found["stored"] += len(rows)
            until = time.monotonic() + 30
            while user.doctor(sample=0).waiting_to_embed and time.monotonic() < until:
                # what a killed process left is taken over after its lease
                time.sleep(0.5)
            health = user.doctor(sample=0)
            found["not embedded"] += health.waiting_to_embed
            found["problems"] += len(health.problems)
            one = next(iter(own))
            hits = user.search_conversation(one.replace("-", " "), k=5)
            found["not found"] += one not in {hit.message_id for hit in hits}
    with psycopg.connect(database) as connection:
        twice = "SELECT count(*) - count(DISTINCT (room, message_id)) FROM langmem_graph.messages"
        found["doubled"] += connection.execute(twice).fetchone()[0]
        index = (
            "SELECT count(*) FROM langmem_graph.neighbours n FULL JOIN langmem_graph.vectors v"
            " USING (room, layer, n) LEFT JOIN langmem_graph.outbox o"
            " ON (o.room, o.layer, o.item) = (v.room, v.layer, v.item)"
            " WHERE o.item IS NULL AND (v.n IS NULL OR n.n IS NULL)"
        )
        found["index differs"] += connection.execute(index).fetchone()[0]
    print(dict(found))
    return found


def assert_whole(found: Counter[str]) -> None:
    assert found["promised"] > ENOUGH
    wrong = (
        "lost",
        "doubled",
        "foreign",
        "not embedded",
        "problems",
        "not found",
        "index differs",
    )
    assert {name: found[name] for name in wrong} == dict.fromkeys(wrong, 0)


@pytest.mark.timeout(200)
def test_two_processes_of_which_some_are_killed(database: str, tmp_path: Path) -> None:
    assert_whole(trial(database, tmp_path, seconds=8, every=4, users=5, threads=3))


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_two_processes_for_two_minutes(database: str, tmp_path: Path) -> None:
    assert_whole(trial(database, tmp_path, seconds=120, every=10, users=20, threads=8))


def test_two_processes_prepare_a_database_at_once(empty: str) -> None:
    words = [sys.executable, "-m", "langmem_graph", "migrate", empty]
    both = [subprocess.Popen(words) for _ in range(2)]
    assert [process.wait(timeout=100) for process in both] == [0, 0]
    assert postgres_schema.prepare(empty) == postgres_schema.VERSION
