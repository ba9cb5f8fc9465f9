"""Many threads, tasks and processes on one memory: no error, nothing lost, and how long it took."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from tests.conftest import said
from tests.support.chroma_server import Server
from tests.support.loopback import loopback_alone

USERS = ("ann", "bob", "eve")
SMALL = Settings(storage=StorageSettings(index_batch=64))


def message(who: str, n: int) -> dict[str, Any]:
    return said(f"{who} writes number {n} about the garden", id=f"{who}-{n}")


def p95(seconds: list[float]) -> str:
    half, most = (f"{np.percentile(seconds, share) * 1e3:.0f} ms" for share in (50, 95))
    return f"p50 {half}, p95 {most}"


class Times:
    """Milliseconds of what was done, by kind."""

    def __init__(self) -> None:
        self.of: dict[str, list[float]] = {"add": [], "recall": [], "search": []}

    def report(self) -> str:
        return "; ".join(f"{len(own):,} × {kind}: {p95(own)}" for kind, own in self.of.items())


def work(memory: Memory, who: str, until: float, times: Times) -> tuple[str, list[str]]:
    """A thread: write, recall, search, in turn; the ids that were acknowledged."""
    user, kept = memory.user(USERS[int(who[1:]) % len(USERS)]), []
    while time.monotonic() < until:
        n, start = len(kept), time.perf_counter()
        report = user.add([message(who, n)], session_id=who)
        assert not report.rejected
        kept += report.stored
        written = time.perf_counter()
        found = user.recall(f"number {n} garden")
        recalled = time.perf_counter()
        assert found.report.status == "ok"
        user.search_conversation(f"{who} garden")
        times.of["add"].append(written - start)
        times.of["recall"].append(recalled - written)
        times.of["search"].append(time.perf_counter() - recalled)
    return user.id, kept


async def awork(memory: Memory, who: str, until: float, times: Times) -> tuple[str, list[str]]:
    """The same as a task."""
    user, kept = memory.user(USERS[int(who[1:]) % len(USERS)]), []
    while time.monotonic() < until:
        n, start = len(kept), time.perf_counter()
        report = await user.aadd([message(who, n)], session_id=who)
        kept += report.stored
        written = time.perf_counter()
        found = await user.arecall(f"number {n} garden")
        assert found.report.status == "ok"
        times.of["add"].append(written - start)
        times.of["recall"].append(time.perf_counter() - written)
    return user.id, kept


def assert_nothing_lost(memory: Memory, acknowledged: list[tuple[str, list[str]]]) -> int:
    stored = {user: {row["id"] for row in memory.user(user).export()} for user in USERS}
    for user, ids in acknowledged:
        assert set(ids) <= stored[user]
    total = sum(len(ids) for _, ids in acknowledged)
    assert total == sum(map(len, stored.values()))
    for user in USERS:
        health = memory.user(user).doctor(sample=0)
        assert (health.problems, health.vectors) == ([], health.messages)
    return total


def _under_load(path: Path, seconds: float) -> str:
    times, atimes = Times(), Times()

    async def tasks(until: float) -> list[tuple[str, list[str]]]:
        return await asyncio.gather(*(awork(memory, f"a{n}", until, atimes) for n in range(50)))

    with Memory(path, embeddings="hash", settings=SMALL) as memory:
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(8) as pool:
            threads = [pool.submit(work, memory, f"t{n}", until, times) for n in range(8)]
            done = asyncio.run(tasks(until)) + [one.result() for one in threads]
        kept = assert_nothing_lost(memory, done)
    atimes.of.pop("search")
    return (
        f"8 threads and 50 tasks, {seconds:.0f} s, 3 users: {kept:,} messages, 0 errors, 0 lost\n"
        f"  threads: {times.report()}\n  tasks: {atimes.report()}"
    )


@pytest.mark.enable_socket
@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.long)])
def test_threads_and_tasks(tmp_path: Path, seconds: float) -> None:
    assert "0 lost" in _under_load(tmp_path / "m", seconds)


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(600)
def test_threads_and_tasks_for_two_minutes(tmp_path: Path) -> None:
    print("\n" + _under_load(tmp_path / "m", 120))


# --- processes on one Chroma server ---

_PROCESS = """
import json, sys, time
from pathlib import Path
from langmem_graph import Memory, Settings
from tests.reliability.test_load import Times, message
path, url, who, seconds = sys.argv[1:]
times, kept = Times(), {"ann": [], "bob": [], "eve": []}
small = Settings(storage={"index_batch": 16})
with Memory(path, chroma=url, embeddings="hash", settings=small) as memory:
    until, n = time.monotonic() + float(seconds), 0
    while time.monotonic() < until or n < 3:
        user = list(kept)[n % 3]
        start = time.perf_counter()
        kept[user] += memory.user(user).add([message(who, n)], session_id=who).stored
        written = time.perf_counter()
        found = memory.user(user).recall(f"{who} number {n} garden")
        assert found.report.status == "ok", found.report
        times.of["add"].append(written - start)
        times.of["recall"].append(time.perf_counter() - written)
        n += 1
print(json.dumps({"kept": kept, "times": times.of}))
"""


@pytest.fixture
def server(tmp_path: Path, socket_enabled: None) -> Iterator[Server]:
    with loopback_alone():
        running = Server(tmp_path / "server")
        yield running
        running.stop()


def _processes(server: Server, path: Path, seconds: float) -> str:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, str(path), server.url, f"p{n}", str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    outcomes = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 4, outcomes
    done = [json.loads(out) for out, _ in outcomes]
    acknowledged = [(user, ids) for one in done for user, ids in one["kept"].items()]
    times = Times()
    times.of.pop("search")
    for kind in times.of:
        times.of[kind] = [value for one in done for value in one["times"][kind]]
    with Memory(path, chroma=server.url, embeddings="hash", settings=SMALL) as memory:
        kept = assert_nothing_lost(memory, acknowledged)
    return (
        f"4 processes on one Chroma server, {seconds:.0f} s: {kept:,} messages, 0 errors, 0 lost; "
        f"{times.report()}"
    )


@pytest.mark.enable_socket
@pytest.mark.long
def test_processes_on_one_server(server: Server, tmp_path: Path) -> None:
    assert "0 lost" in _processes(server, tmp_path / "m", 10)


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(600)
def test_processes_on_one_server_for_two_minutes(server: Server, tmp_path: Path) -> None:
    print("\n" + _processes(server, tmp_path / "m", 120))
