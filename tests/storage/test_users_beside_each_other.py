"""One user's slow or locked folder: no other user waits for it, and all errors are ours."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from langmem_graph.errors import StorageError
from langmem_graph.memory import Memory
from langmem_graph.storage import memory_directory
from langmem_graph.storage.user_room import FolderRoom
from tests.conftest import said
from tests.support.files import folder
from tests.support.settings import nested

Reopen = Callable[..., Memory]


@contextmanager
def locked(memory: Memory, user: str) -> Iterator[None]:
    """Another program holds the write lock of the user's ledger."""
    with closing(sqlite3.connect(folder(memory, user) / "ledger.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def begun(work: Callable[[], Any]) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def use(memory: Memory, user: str) -> None:
    """Everything that needs the guard which all users share."""
    memory.user(user).add(said(f"{user} has a pear"), session_id="s")
    assert memory.user(user).recall("pear").context
    memory.user(user).erase()
    assert user not in memory._services.directory.open_users()


def test_a_ledger_that_is_locked_at_its_opening_delays_nobody_else(
    reopen: Reopen,
) -> None:
    memory = reopen()
    memory.user("a").add(said("hello", id="1"), session_id="s")
    memory = reopen()
    with ThreadPoolExecutor(1) as pool, locked(memory, "a"):
        of_a = pool.submit(memory.user("a").export)
        while not memory._services.directory._reserved:  # until it is being opened
            time.sleep(0.01)
        use(memory, "b")
        assert not of_a.done()
    assert [row["id"] for row in of_a.result()] == ["1"]


class Stopped:
    """A function that waits until it may go on, and is itself for other users."""

    def __init__(
        self, function: Callable[..., Any], about: Callable[..., bool]
    ) -> None:
        self.function, self.about = function, about
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, *given: Any) -> Any:
        if self.about(*given):
            self.begun.set()
            assert self.may_go_on.wait(60)
        return self.function(*given)


def test_deleting_a_large_folder_delays_nobody_else(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.user("a").add(said("hello", id="1"), session_id="s")
    of_a = folder(memory, "a")
    slow = Stopped(memory_directory.remove_folder, lambda where: where == of_a)
    monkeypatch.setattr(memory_directory, "remove_folder", slow)
    with begun(memory.user("a").erase) as erasing:
        assert slow.begun.wait(60)
        use(memory, "b")
        assert not erasing.done()
        slow.may_go_on.set()
    assert erasing.result().messages == 1


def test_closing_an_idle_folder_delays_nobody_else_and_the_next_call_waits_for_it(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen(settings=nested(storage__max_open_users=1))
    memory.user("a").add(said("hello", id="1"), session_id="s")
    slow = Stopped(FolderRoom.close, lambda room: room.user_id == "a")
    monkeypatch.setattr(FolderRoom, "close", lambda room: slow(room))  # noqa: PLW0108  # a method
    with begun(lambda: memory.user("c").add(said("hello"), session_id="s")) as of_c:
        assert slow.begun.wait(60)
        use(memory, "b")
        with begun(memory.user("a").export) as of_a:
            assert not of_c.done()
            assert not of_a.done()
            slow.may_go_on.set()
        assert [row["id"] for row in of_a.result()] == ["1"]


def test_a_room_that_cannot_be_closed_leaves_its_user_usable(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen(settings=nested(storage__max_open_users=1))
    memory.user("a").add(said("hello", id="1"), session_id="s")
    with monkeypatch.context() as patch:
        patch.setattr(FolderRoom, "close", lambda _: exec("raise OSError('busy')"))
        with pytest.raises(OSError, match="busy"):
            memory.user("b").sessions()
            memory.user("b").add(said("hello"), session_id="s")
    assert memory.user("a").erase().messages == 1
    assert memory.user("b").erase().files > 0


def test_too_many_calls_for_a_locked_ledger_get_an_error_of_ours(
    reopen: Reopen,
) -> None:
    memory = reopen(settings=nested(storage__busy_timeout_seconds=0.5))
    user = memory.user("a")
    user.add(said("hello"), session_id="s")
    room = memory._services.directory._folders[folder(memory, "a").name]
    pool = room.database._engine.pool
    pool._timeout, pool._max_overflow = 0.1, 0  # however slowly the calls come
    with locked(memory, "a"), ThreadPoolExecutor(60) as threads:
        calls = [
            threads.submit(user.add, said(f"{n}"), session_id="s") for n in range(60)
        ]
        problems = [call.exception() for call in calls]
    assert {type(problem) for problem in problems} == {StorageError}
    told = {str(problem.__cause__).split()[0] for problem in problems if problem}
    assert told >= {"QueuePool", "database"}  # the latter is locked
    assert all("try again" in str(problem) for problem in problems)
