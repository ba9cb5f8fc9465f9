"""Leaving: erasing, closing and deleting while others work; nothing acknowledged into a void."""

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from langmem_graph.errors import (
    ClosedMemoryError,
    EmbedderMismatchError,
    ForkedProcessError,
    StorageError,
)
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from tests.conftest import TroubledEmbeddings, said
from tests.support.files import folder

Reopen = Callable[..., Memory]


def test_an_add_is_never_acknowledged_into_a_deleted_folder(reopen: Reopen) -> None:
    memory = reopen()
    user = memory.user("u")
    user.add(said("before", id="1"), session_id="s")
    shutil.rmtree(folder(memory, "u"))
    assert user.add(said("after", id="2"), session_id="s").stored == ["2"]
    assert [row["id"] for row in reopen().user("u").export()] == ["2"]


def test_a_folder_deleted_in_the_middle_of_an_add_makes_it_fail(memory: Memory) -> None:
    user = memory.user("u")
    user.add(said("before", id="1"), session_id="s")
    with (
        memory._services.directory.room("u") as room,
        pytest.raises(StorageError, match="deleted"),
        room.database.write_transaction(),
    ):
        shutil.rmtree(folder(memory, "u"))


def test_a_reader_does_not_keep_an_erased_user(memory: Memory) -> None:
    memory.user("u").add(said("canary secret", id="1"), session_id="s")
    with Memory(memory.path, embeddings="hash", read_only=True) as reader:
        assert reader.user("u").search_conversation("canary")
        memory.user("u").erase()
        with pytest.raises(StorageError, match="Nothing is stored"):
            reader.user("u").search_conversation("canary")
        memory.user("u").add(said("something new", id="2"), session_id="s")
        assert [row["id"] for row in reader.user("u").export()] == ["2"]


def test_erase_finishes_beside_searches(memory: Memory) -> None:
    user = memory.user("u")
    user.add([said(f"text {n}", id=str(n)) for n in range(50)], session_id="s")
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            user.search_conversation("text 7")

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    start = time.monotonic()
    report = user.erase()
    stop.set()
    for thread in threads:
        thread.join()
    assert report.messages == 50
    assert time.monotonic() - start < 20
    assert user.export() == []


def test_an_erasure_that_was_killed_is_finished_at_the_next_opening(
    reopen: Reopen,
) -> None:
    memory = reopen()
    memory.user("u").add(said("canary", id="1"), session_id="s")
    room = folder(memory, "u")
    memory.close()
    (room / "ledger.db").unlink()
    (room / "rest").write_text("canary")
    assert reopen().user("u").erase().files > 0
    assert not room.exists()
    left = room.with_name(".erased-half")
    left.mkdir()
    (left / "rest").write_text("canary")
    reopen()
    assert not left.exists()


def test_a_damaged_ledger_is_a_clear_error_and_can_be_erased(reopen: Reopen) -> None:
    memory = reopen()
    memory.user("u").add([said(f"text {n}") for n in range(50)], session_id="s")
    ledger = folder(memory, "u") / "ledger.db"
    memory.close()
    ledger.write_bytes(b"garbage" * 1_000)
    user = reopen().user("u")
    for call in (user.export, user.doctor, lambda: user.add(said("x"), session_id="s")):
        with pytest.raises(StorageError, match="cannot be used"):
            call()
    user.erase()
    assert user.add(said("new", id="1"), session_id="s").stored == ["1"]


def test_a_folder_of_another_user_is_refused(memory: Memory) -> None:
    memory.user("alice").add(said("alice's secret", id="1"), session_id="s")
    shutil.copytree(folder(memory, "alice"), folder(memory, "bob"))
    with pytest.raises(StorageError, match="another user"):
        memory.user("bob").export()


class SlowEmbeddings(HashEmbeddings):
    """Takes its time, so that a call is under way while something else happens."""

    started = threading.Event()

    def embed_query(self, text: str) -> list[float]:
        self.started.set()
        time.sleep(0.6)
        return super().embed_query(text)


def test_close_waits_for_the_call_under_way(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", embeddings=SlowEmbeddings())
    user = memory.user("u")
    user.add(said("hello", id="1"), session_id="s")
    SlowEmbeddings.started.clear()
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(user.search_conversation("hello"))
    )
    thread.start()
    SlowEmbeddings.started.wait()
    memory.close()
    assert found, "closed before the search had ended"
    thread.join()
    with FileLock(tmp_path / "m" / "lock", timeout=0):
        until = time.monotonic() + 30  # Chroma closes its file in a thread of its own
        while left := [
            link for link in _open_files() if str(tmp_path / "m" / "users") in link
        ]:
            assert time.monotonic() < until, left
            time.sleep(0.05)


def _open_files() -> list[str]:
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        if entry.is_symlink():
            try:
                links.append(str(entry.readlink()))
            except FileNotFoundError:
                continue
    return links


def test_a_closed_memory_is_closed_even_while_another_shares_the_directory(
    memory: Memory,
) -> None:
    with Memory(memory.path / "x" / "..", embeddings="hash") as second:
        user = second.user("u")
    with pytest.raises(ClosedMemoryError):
        user.add(said("x"), session_id="s")
    assert memory.user("u").add(said("x", id="1"), session_id="s").stored == ["1"]


def test_an_embedder_that_cannot_split_fails_no_add_and_no_close(
    tmp_path: Path,
) -> None:
    class Broken(HashEmbeddings):
        def split(self, text: str) -> list[tuple[int, int]]:
            raise RuntimeError("no tokenizer")

    memory = Memory(tmp_path / "m", embeddings=Broken())
    report = memory.user("u").add(said("hello", id="1"), session_id="s")
    assert (report.stored, report.not_yet_embedded) == (["1"], ["1"])
    memory.close()
    with FileLock(tmp_path / "m" / "lock", timeout=0):
        pass


def test_pending_work_is_never_embedded_by_another_embedder(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    user.add(said("one apple", id="1"), session_id="s")
    troubled.down = True
    user.add(said("two pears", id="2"), session_id="s")
    with pytest.raises(EmbedderMismatchError):
        # the same size
        reopen(embeddings="hash").user("u").search_conversation("pears")
    troubled.down = False
    user = reopen(embeddings=troubled).user("u")
    (hit, *_) = user.search_conversation("two pears", ranking="dense")
    assert (hit.message_id, round(hit.score, 3)) == ("2", 1.0)


def test_reembed_drops_nothing_when_the_embedder_is_down(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    user.add(said("one apple", id="1"), session_id="s")
    troubled.down = True
    with pytest.raises(Exception, match="the embedder is out"):
        user.rebuild(reembed=True)
    assert user.doctor().vectors == 1


def test_first_searches_of_many_threads_open_chroma_once(reopen: Reopen) -> None:
    for _ in range(3):
        user = reopen().user("u")
        user.add([said(f"text {n}") for n in range(20)], session_id="s")
        with ThreadPoolExecutor(8) as threads:
            recalls = list(threads.map(user.recall, ["text 3"] * 8))
        assert [recall.report.status for recall in recalls] == ["ok"] * 8


def test_reading_of_nobody_makes_nobody(memory: Memory) -> None:
    user = memory.user("nobody")
    assert (user.search_conversation("x"), user.export(), user.sessions()) == (
        [],
        [],
        [],
    )
    assert user.recall("x").context == ""
    assert "Nothing is stored" in user.doctor().problems[0]
    assert "Nothing is stored" in user.rebuild().problems[0]
    assert user.erase().model_dump() == {
        "messages": 0,
        "files": 0,
        "bytes": 0,
        "traces_left": False,
        "shared_rooms": {},
        "warnings": [],
    }
    assert list((memory.path / "users").iterdir()) == []


def test_an_interrupted_add_does_not_bring_an_erased_user_back(tmp_path: Path) -> None:
    erased, looked_at = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        if text == "late":
            os.kill(os.getpid(), signal.SIGINT)
            erased.wait(30)
            looked_at.set()
        return text

    with Memory(tmp_path / "m", embeddings="hash", redact=redact) as memory:
        user = memory.user("u")
        user.add(said("first"), session_id="s")
        with pytest.raises(KeyboardInterrupt):
            user.add(said("late"), session_id="s")
        assert user.erase().messages == 1
        erased.set()
        assert looked_at.wait(30)
        ended_threads()
        assert memory.users() == []


async def test_an_add_that_was_left_while_it_waited_stores_nothing(
    memory: Memory,
) -> None:
    user = memory.user("u")
    await user.aadd(said("first", id="1"), session_id="s")
    with (
        memory._services.room("u") as room,
        room.database.write_transaction(),
        pytest.raises(TimeoutError),
    ):
        await asyncio.wait_for(user.aadd(said("late"), session_id="s"), 0.3)
    ended_threads()
    assert [row["id"] for row in user.export()] == ["1"]


def ended_threads() -> None:
    """Wait for what goes on in threads that a process waits for, too."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(30)
            assert not thread.is_alive()


def test_a_child_gets_its_error_even_if_a_lock_was_held_at_the_fork(
    memory: Memory,
) -> None:
    memory.user("u").add(said("hello"), session_id="s")
    holding, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with memory._services.directory._guard:
            holding.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            memory.user("u").search_conversation("hello")
        except ForkedProcessError:
            os._exit(7)
        os._exit(1)
    let_go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_small_add_does_not_wait_for_a_large_one(tmp_path: Path) -> None:
    begun, batches = threading.Event(), []

    class Busy(HashEmbeddings):
        """Keeps the interpreter to itself, so that a lock it lets go of is its own again."""

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            batches.append(len(texts))
            begun.set()
            until = time.perf_counter() + 0.05
            while time.perf_counter() < until:
                pass
            return super().embed_documents(texts)

    with Memory(tmp_path / "m", embeddings=Busy()) as memory:
        user = memory.user("u")
        talk = [said(f"text {n}", id=str(n)) for n in range(64 * 40)]
        thread = threading.Thread(target=lambda: user.add(talk, session_id="bulk"))
        thread.start()
        begun.wait()
        before = len(batches)
        report = user.add(said("a short one", id="short"), session_id="other")
        waited = len(batches) - before
        thread.join()
        assert waited <= 12, f"it waited for {waited} of 40 batches"
        assert report.not_yet_embedded == []
        assert user.doctor().problems == []
