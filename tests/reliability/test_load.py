"""Many threads, tasks and processes on one memory: no error, nothing lost, and how long it took."""

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from langmem_graph.memory import Memory
from langmem_graph.settings import (
    ExtractionSettings,
    ReasoningSettings,
    Settings,
    StorageSettings,
)
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel
from tests.conftest import said
from tests.support.chroma_server import Server
from tests.support.hanging import LIMIT, ends
from tests.support.loopback import loopback_alone
from tests.support.models import ANSWERS

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
        return "; ".join(
            f"{len(own):,} × {kind}: {p95(own)}" for kind, own in self.of.items()
        )


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


async def awork(
    memory: Memory, who: str, until: float, times: Times
) -> tuple[str, list[str]]:
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


def assert_nothing_lost(
    memory: Memory, acknowledged: list[tuple[str, list[str]]]
) -> int:
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
        return await asyncio.gather(
            *(awork(memory, f"a{n}", until, atimes) for n in range(50))
        )

    with Memory(path, embeddings="hash", settings=SMALL) as memory:
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(8) as pool:
            threads = [
                pool.submit(work, memory, f"t{n}", until, times) for n in range(8)
            ]
            done = asyncio.run(tasks(until)) + [one.result() for one in threads]
        kept = assert_nothing_lost(memory, done)
    atimes.of.pop("search")
    return (
        f"8 threads and 50 tasks, {seconds:.0f} s, 3 users: {kept:,} messages, 0 errors, 0 lost\n"
        f"  threads: {times.report()}\n  tasks: {atimes.report()}"
    )


@pytest.mark.enable_socket
@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.stress)])
def test_threads_and_tasks(tmp_path: Path, seconds: float) -> None:
    assert "0 lost" in _under_load(tmp_path / "m", seconds)


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(600)
def test_threads_and_tasks_for_two_minutes(tmp_path: Path) -> None:
    print("\n" + _under_load(tmp_path / "m", 120))


# --- with embedders and models that hang, raise and are slow ---

TROUBLED = Settings(
    embed_seconds=0.5,
    extraction=ExtractionSettings(debounce_seconds=0.0, call_seconds=0.5),
    reasoning=ReasoningSettings(seconds=3, call_seconds=0.5),
    storage=StorageSettings(index_batch=64, closing_seconds=5),
)
ERRORS = (
    ConnectionError("out"),
    SystemExit(3),
    KeyboardInterrupt(),
    StopIteration("x"),
)


class Trouble:
    """Now and then makes a call slow, raise an error of any kind, or hang until the end."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._end = threading.Event()
        self.met = {"slow": 0, "raised": 0, "hung": 0}

    def meet(self) -> None:
        chance = self._random.random()
        if self._end.is_set() or chance > 0.17:
            return
        kind = "slow" if chance > 0.07 else "raised" if chance > 0.01 else "hung"
        self.met[kind] += 1
        if kind == "raised":
            raise self._random.choice(ERRORS)
        self._end.wait(0.05 if kind == "slow" else None)

    def end(self) -> None:
        self._end.set()

    def before(self, answer: Any) -> Callable[[str], Any]:
        def troubled(question: str) -> Any:
            self.meet()
            return answer(question) if callable(answer) else answer

        return troubled


class TroubledEmbeddings(HashEmbeddings):
    """The hash embedder, with trouble."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self._trouble = trouble

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self._trouble.meet()
        return [super(TroubledEmbeddings, self).embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def steps(
    user: Any, who: str, n: int
) -> list[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
    """What one round calls: the kind, the method and its arguments."""
    query = f"number {n} garden"
    calls: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
        (
            "add",
            "add",
            ([message(who, n), ("assistant", "I see.")],),
            {"session_id": who},
        ),
        ("recall", "recall", (query,), {}),
        ("search", "search_conversation", (query,), {}),
    ]
    if n % 6 == 3:
        calls.append(("reason", "recall", (query,), {"mode": "reason"}))
    if n % 12 == 6:
        calls.append(("flush", "flush", (), {}))
    return calls


async def through_trouble(
    memory: Memory, who: str, until: float, times: Times, *, is_async: bool
) -> tuple[str, list[str]]:
    """Rounds of calls, synchronous or not; the ids that were acknowledged."""
    user: Any = memory.user(USERS[int(who[1:]) % len(USERS)])
    kept, n = list[str](), 0
    while time.monotonic() < until:
        for kind, name, args, options in steps(user, who, n):
            start = time.perf_counter()
            call = getattr(user, f"a{name}" if is_async else name)
            done = await call(*args, **options) if is_async else call(*args, **options)
            times.of.setdefault(kind, []).append(time.perf_counter() - start)
            kept += done.stored if kind == "add" else []
        user.flush_soon()
        n += 1
    return user.id, kept


def _under_trouble(path: Path, seconds: float) -> str:
    embedding, thinking = Trouble(), Trouble()
    model = ScriptedChatModel(
        answers={name: thinking.before(answer) for name, answer in ANSWERS.items()},
        record=False,
    )
    times, embeddings = Times(), TroubledEmbeddings(embedding)
    memory = Memory(path, embeddings=embeddings, model=model, settings=TROUBLED)

    def thread(who: str, until: float) -> tuple[str, list[str]]:
        return asyncio.run(through_trouble(memory, who, until, times, is_async=False))

    async def tasks(until: float) -> list[tuple[str, list[str]]]:
        names = (f"a{n}" for n in range(50))
        return await asyncio.gather(
            *(
                through_trouble(memory, who, until, times, is_async=True)
                for who in names
            )
        )

    until = time.monotonic() + seconds
    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(thread, f"t{n}", until) for n in range(8)]
        done = asyncio.run(tasks(until)) + [one.result() for one in threads]
    longest = {kind: round(max(own), 1) for kind, own in times.of.items()}
    flush = longest.pop("flush", 0.0)  # it goes on for as long as others write
    assert max(longest.values()) < LIMIT, longest
    assert ends(memory.close) is None
    embedding.end()
    thinking.end()
    with Memory(path, embeddings=embeddings) as memory:
        lost = 0
        for user, ids in done:
            lost += len(set(ids) - {row["id"] for row in memory.user(user).export()})
        health = [memory.user(user).doctor(sample=0) for user in USERS]
    assert (lost, [one.problems for one in health]) == (0, [[]] * 3)
    met = {
        name: trouble.met
        for name, trouble in (("embedder", embedding), ("model", thinking))
    }
    return (
        f"8 threads and 50 tasks, {seconds:.0f} s, trouble met: {met}\n"
        f"  {sum(len(ids) for _, ids in done):,} messages, {sum(h.records for h in health):,} "
        f"records; 0 hangs, 0 lost; longest in seconds {longest}, flush {flush}\n  {times.report()}"
    )


@pytest.mark.long
@pytest.mark.enable_socket
@pytest.mark.timeout(300)
def test_hanging_raising_and_slow_embedders_and_models(tmp_path: Path) -> None:
    report = _under_trouble(tmp_path / "m", 3)
    print("\n" + report)
    assert "0 hangs, 0 lost" in report


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(900)
def test_hanging_raising_and_slow_embedders_and_models_for_two_minutes(
    tmp_path: Path,
) -> None:
    print("\n" + _under_trouble(tmp_path / "m", 120))


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


def _processes(server: Server, path: Path, count: int, seconds: float) -> str:
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                _PROCESS,
                str(path),
                server.url,
                f"p{n}",
                str(seconds),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(count)
    ]
    outcomes = [process.communicate() for process in running]
    ended = [process.returncode for process in running]
    last_lines = [
        errors[-2_000:]
        for (_, errors), code in zip(outcomes, ended, strict=True)
        if code
    ]
    assert ended == [0] * count, "\n---\n".join(last_lines)
    done = [json.loads(out) for out, _ in outcomes]
    acknowledged = [(user, ids) for one in done for user, ids in one["kept"].items()]
    times = Times()
    times.of.pop("search")
    for kind in times.of:
        times.of[kind] = [value for one in done for value in one["times"][kind]]
    with Memory(path, chroma=server.url, embeddings="hash", settings=SMALL) as memory:
        kept = assert_nothing_lost(memory, acknowledged)
    return (
        f"{count} processes on one Chroma server, {seconds:.0f} s: {kept:,} messages, 0 errors, "
        f"0 lost; {times.report()}"
    )


@pytest.mark.enable_socket
@pytest.mark.long
def test_processes_on_one_server(server: Server, tmp_path: Path) -> None:
    assert "0 lost" in _processes(server, tmp_path / "m", 2, 1)


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(600)
def test_processes_on_one_server_for_two_minutes(
    server: Server, tmp_path: Path
) -> None:
    print("\n" + _processes(server, tmp_path / "m", 4, 120))
