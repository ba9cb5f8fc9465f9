"""A process that reads a backlog is interrupted or killed: no message is read twice or lost."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from langmem_graph import Memory
from tests.support.backlog import fill, noting, owned

SESSIONS, TURNS = 10, 6


def filled(path: Path) -> list[str]:
    with Memory(path, embeddings="hash") as memory:
        return fill(memory.user("u"), SESSIONS, TURNS)


def started(path: Path, progress: Path, batches: int) -> "subprocess.Popen[bytes]":
    """A process that has read so many batches, and is in the middle of the next one."""
    command = [
        sys.executable,
        "-m",
        "tests.support.killed_flush",
        str(path),
        str(progress),
    ]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    limit = time.monotonic() + 120
    while not progress.exists() or len(progress.read_text().split()) < batches:
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < limit
        time.sleep(0.005)
    return process


def _rows(ledger: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def check_and_resume(path: Path, names: list[str], *, held_by_nobody: bool) -> None:
    """Each message waits or has its record, and the next flush reads what waits, once."""
    seen: list[str] = []
    # looked at before another process may claim a batch
    (ledger,) = path.rglob("ledger.db")
    unread = {n for (n,) in _rows(ledger, "SELECT message FROM unread")}
    recorded = {n for (n,) in _rows(ledger, "SELECT message FROM record_sources")}
    users = {n for (n,) in _rows(ledger, "SELECT n FROM messages WHERE role = 'user'")}
    assert not unread & recorded, "would be read twice"
    assert users <= unread | recorded, "neither read nor pending"
    assert unread
    assert recorded
    if held_by_nobody:
        assert _rows(ledger, "SELECT 1 FROM unread WHERE claimed_until > 0") == []
    with Memory(path, model=noting(seen), embeddings="hash") as memory:
        user = memory.user("u")
        before = owned(user)
        waiting = user.flush_forecast().messages
        assert waiting == len(unread), (
            "nothing is claimed by the process that has ended"
        )
        report = user.flush()
        assert (report.status, report.read, report.pending) == ("ok", waiting, 0)
        assert sorted([*before, *seen]) == names, "read again, or not at all"
        assert owned(user) == names
        assert _rows(ledger, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.long
def test_an_interrupted_flush_lets_go_of_everything_and_is_gone_on_with(
    tmp_path: Path,
) -> None:
    names = filled(tmp_path / "m")
    process = started(tmp_path / "m", tmp_path / "progress", batches=2)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 3
    assert (tmp_path / "progress").read_text().split()[-1] == "interrupted"
    check_and_resume(tmp_path / "m", names, held_by_nobody=True)


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(1, marks=pytest.mark.long),
        pytest.param(3, marks=pytest.mark.stress),
    ],
)
def test_a_killed_flush_is_gone_on_with(tmp_path: Path, batches: int) -> None:
    names = filled(tmp_path / "m")
    process = started(tmp_path / "m", tmp_path / "progress", batches)
    time.sleep(random.uniform(0, 0.2))
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    check_and_resume(tmp_path / "m", names, held_by_nobody=False)
