"""A long life: what opening, memory, files and disk come to; they grow at most linearly."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from tests.conftest import said

_LOOK = """
import json, os, sys, time
import numpy as np
from langmem_graph import Memory
def rss():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
path, user, number = sys.argv[1:]
import chromadb, langmem_graph.retrieval.fast_recall
before = rss()
start = time.perf_counter()
with Memory(path, embeddings="hash") as memory:
    own = memory.user(user)
    own.recall("number 7 garden")
    opened = time.perf_counter() - start
    times = []
    for n in range(60):
        start = time.perf_counter()
        own.recall(f"number {n * 37} of the garden near the lake")
        times.append(time.perf_counter() - start)
    files = len(os.listdir("/proc/self/fd"))
    grown = rss() - before
print(json.dumps({
    "open_s": opened, "recall_p50_ms": float(np.percentile(times, 50)) * 1e3,
    "recall_p95_ms": float(np.percentile(times, 95)) * 1e3, "rss_mb": grown, "open_files": files,
}))
"""


def look(path: Path, user: str, messages: int) -> dict[str, float]:
    """What a fresh process sees: opening with the first recall, memory, open files."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, str(path), user, str(messages)],
        capture_output=True,
        text=True,
        check=True,
    )
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {
        **json.loads(done.stdout.splitlines()[-1]),
        "disk_kb": size / 1_000 / messages,
    }


def texts(first: int, count: int) -> list[dict[str, Any]]:
    places = ("lake", "hill", "station", "market", "library", "harbour", "bridge")
    return [
        said(
            f"Entry number {n} of the garden near the {places[n % 7]}, row {n % 911}.",
            id=f"m{n}",
        )
        for n in range(first, first + count)
    ]


def grow(path: Path, first: int, last: int) -> float:
    start = time.perf_counter()
    with Memory(path, embeddings="hash") as memory:
        for n in range(first, last, 1_000):
            report = memory.user("ana").add(texts(n, 1_000), session_id=f"s{n // 100}")
            assert len(report.stored) == 1_000
    return (last - first) / (time.perf_counter() - start)


def _one_user(path: Path, steps: tuple[int, ...]) -> dict[int, dict[str, float]]:
    seen, before = {}, 0
    for messages in steps:
        speed = grow(path, before, messages)
        seen[messages] = {**look(path, "ana", messages), "adds_per_s": speed}
        shown = ", ".join(
            f"{name} {value:.2f}" for name, value in seen[messages].items()
        )
        print(f"\n{messages:,} messages: {shown}")
        before = messages
    return seen


def assert_at_most_linear(seen: dict[int, dict[str, float]], *measured: str) -> None:
    """Ten times the messages may cost ten times as much, with a fifth for noise; files nothing."""
    (small, first), *_, (large, last) = seen.items()
    times = large / small
    for name in measured:
        assert last[name] <= 1.2 * times * max(first[name], 1e-3), name
    assert last["disk_kb"] <= 1.2 * first["disk_kb"]
    assert last["open_files"] <= first["open_files"] + 8


@pytest.mark.stress
def test_growth_is_at_most_linear(tmp_path: Path) -> None:
    assert_at_most_linear(_one_user(tmp_path / "m", (1_000, 3_000)), "rss_mb")


@pytest.mark.stress
@pytest.mark.timeout(1_500)
def test_a_hundred_thousand_messages_of_one_user(tmp_path: Path) -> None:
    seen = _one_user(tmp_path / "m", (25_000, 50_000, 100_000))
    assert_at_most_linear(seen, "open_s", "recall_p50_ms", "rss_mb")


def _many_users(path: Path, users: int, settings: Settings) -> None:
    start, most = time.perf_counter(), 0
    with Memory(path, embeddings="hash", settings=settings) as memory:
        for n in range(users):
            memory.user(f"user {n}").add(texts(n, 20), session_id="s")
            most = max(most, len(list(Path("/proc/self/fd").iterdir())))
        spent = time.perf_counter() - start
        for n in range(0, users, max(1, users // 50)):
            assert len(memory.user(f"user {n}").export()) == 20
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(
        f"\n{users:,} users with 20 messages each: {spent:.0f} s, at most {most} open files, "
        f"{size / users / 1_000:.0f} kB a user; a fresh process: {look(path, 'user 7', 20 * users)}"
    )
    assert most < 60 + 12 * settings.storage.max_open_users


@pytest.mark.stress
def test_open_files_are_bounded(tmp_path: Path) -> None:
    _many_users(tmp_path / "m", 16, Settings(storage=StorageSettings(max_open_users=4)))


@pytest.mark.stress
@pytest.mark.timeout(1_500)
def test_a_thousand_users(tmp_path: Path) -> None:
    _many_users(tmp_path / "m", 1_000, Settings())
