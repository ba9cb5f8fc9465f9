"""Processes, threads, forks and closing: one writes, and what was acknowledged stays."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from langmem_graph.errors import (
    ChatModelError,
    ClosedMemoryError,
    ForkedProcessError,
    ReadOnlyError,
    StorageError,
)
from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.memory import Memory
from langmem_graph.storage.reading import EVERYTHING
from tests.conftest import said

Reopen = Callable[..., Memory]
PRAGMAS = {
    "synchronous": 2,
    "secure_delete": 1,
    "foreign_keys": 1,
    "journal_mode": "wal",
}
_OPEN = "from langmem_graph import Memory; import sys; Memory(sys.argv[1], embeddings='hash')"


def test_a_second_process_is_refused_and_told_of_the_server(memory: Memory) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(memory.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "MemoryLockedError" in done.stderr
    assert "chroma run" in done.stderr


def test_a_second_memory_in_this_process_shares_the_first(memory: Memory) -> None:
    with Memory(memory.path, embeddings="hash") as second:
        second.user("u").add(said("hello", id="1"), session_id="s")
        assert memory.user("u").search_conversation("hello")[0].message_id == "1"
    assert memory.user("u").search_conversation("hello")[0].message_id == "1"


def test_another_process_may_look_while_this_one_writes(memory: Memory) -> None:
    memory.user("u").add(said("the trombone is in the attic", id="1"), session_id="s")
    code = (
        "from langmem_graph import Memory; import sys\n"
        "m = Memory(sys.argv[1], embeddings='hash', read_only=True)\n"
        "hits = m.user('u').search_conversation('trombone')\n"
        "print(hits[0].message_id, 'chromadb' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(memory.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "False"]


def test_read_only_changes_nothing_and_says_so(reopen: Reopen, tmp_path: Path) -> None:
    reopen().user("u").add([said("hello", id="1"), said("bye", id="2")], session_id="s")
    user = reopen(read_only=True).user("u")
    assert user.search_conversation("hello")[0].message_id == "1"
    assert user.recall("hello").report.status == "ok"
    assert user.doctor().ok
    for call in (lambda: user.add(said("x"), session_id="s"), user.erase, user.rebuild):
        with pytest.raises(ReadOnlyError):
            call()
    with pytest.raises(StorageError, match="Nothing is stored"):
        reopen(read_only=True).user("other").search_conversation("x")
    with pytest.raises(StorageError, match="no memory"):
        Memory(tmp_path / "nowhere", embeddings="hash", read_only=True)


def _use_after_fork(memory: Memory, answers: Any) -> None:
    try:
        memory.user("u").search_conversation("hello")
    except ForkedProcessError as error:
        answers.put(str(error))
    memory.close()


def test_use_after_fork_is_refused_and_the_parent_goes_on(memory: Memory) -> None:
    memory.user("u").add(said("hello", id="1"), session_id="s")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = os.fork()
    if child == 0:
        _use_after_fork(memory, answers)
        os._exit(0)
    os.waitpid(child, 0)
    assert "forked" in answers.get()
    assert memory.user("u").search_conversation("hello")[0].message_id == "1"


def test_a_commit_is_written_through_and_what_is_deleted_is_overwritten(
    memory: Memory,
) -> None:
    """No test can cut the power, so SQLite is asked what it would do."""
    with (
        memory._services.room("u", create=True) as room,
        room.database.read_transaction(EVERYTHING) as ledger,
    ):
        asked = {name: ledger.exec_driver_sql(f"PRAGMA {name}") for name in PRAGMAS}
        assert {name: answer.scalar() for name, answer in asked.items()} == PRAGMAS


def test_a_closed_memory_says_so(memory: Memory) -> None:
    user = memory.user("u")
    memory.close()
    memory.close()
    with pytest.raises(ClosedMemoryError):
        user.search_conversation("x")


def test_a_model_that_cannot_answer_in_a_schema_is_refused(tmp_path: Path) -> None:
    """Else each of its errors would count as an answer, and what it is to read be given up."""
    words = FakeListChatModel(responses=["hello"])
    for make in (
        lambda: Memory(tmp_path / "m", embeddings="hash", model=words),
        lambda: create_goal_graph(lambda query, k: [], model=words),
    ):
        with pytest.raises(
            ChatModelError, match=r"FakeListChatModel.*with_structured_output"
        ):
            make()
    Memory(tmp_path / "m", embeddings="hash").close()


def test_an_unusable_model_is_refused_and_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(ChatModelError, match="no-such-provider"):
        Memory(tmp_path, model="no-such-provider:x", embeddings="hash")
    with pytest.raises(ChatModelError, match="a name such as"):
        Memory(tmp_path, model=42, embeddings="hash")
    with Memory(tmp_path, embeddings="hash") as memory:
        assert memory.user("u").sessions() == []


_WRITER = """
import sys
from langmem_graph import Memory, Settings
memory = Memory(sys.argv[1], embeddings="hash", settings=Settings(storage={"index_batch": 8}))
user = memory.user("u")
for n in range(100_000):
    report = user.add(
        [
            {"role": "user", "content": f"message number {n} part {p}", "id": f"{n}.{p}"}
            for p in range(3)
        ],
        session_id=f"s{n // 10}",
    )
    print(" ".join(report.stored), flush=True)
"""


@pytest.mark.parametrize(
    "acknowledged",
    [
        7,
        pytest.param(60, marks=pytest.mark.long),
        *(pytest.param(n, marks=pytest.mark.stress) for n in (1, 23)),
    ],
)
def test_sigkill_while_adding_loses_nothing_acknowledged(
    tmp_path: Path, acknowledged: int
) -> None:
    path = tmp_path / "memory"
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    promised = [
        line.split()
        for line, _ in zip(writer.stdout, range(acknowledged), strict=False)
    ]
    writer.send_signal(signal.SIGKILL)
    promised += [line.split() for line in writer.stdout if line.endswith("\n")]
    writer.wait()
    writer.stdout.close()
    ids = [message_id for line in promised for message_id in line]
    with Memory(path, embeddings="hash") as memory:
        user = memory.user("u")
        assert [message.id for message in user.get_conversation(ids)] == ids
        health = user.doctor(sample=0)
        assert (health.problems, health.waiting_to_embed, health.waiting_to_index) == (
            [],
            0,
            0,
        )
        assert health.indexed == health.vectors == health.messages >= len(ids)
        # a call's messages are stored together or not at all
        assert health.messages % 3 == 0
        last = user.get_conversation(ids[-1])[0]
        assert last.id in {
            hit.message_id for hit in user.search_conversation(last.text, k=10)
        }


def test_threads_of_two_users_write_and_read_at_once(memory: Memory) -> None:
    problems: list[BaseException] = []

    def work(user_id: str, thread: int) -> None:
        try:
            user = memory.user(user_id)
            for n in range(12):
                user.add(
                    said(f"{user_id} says {n} in {thread}", id=f"{thread}.{n}"),
                    session_id=thread,
                )
                hits = user.search_conversation(f"says {n}", k=50)
                assert all(hit.text.startswith(user_id) for hit in hits)
        except BaseException as problem:  # noqa: BLE001  # reported by the assert below
            problems.append(problem)

    threads = [
        threading.Thread(target=work, args=(u, t))
        for u in ("ann", "bob")
        for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for user_id in ("ann", "bob"):
        health = memory.user(user_id).doctor()
        assert (health.messages, health.vectors, health.problems) == (48, 48, [])
