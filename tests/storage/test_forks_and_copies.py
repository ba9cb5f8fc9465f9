"""Forks while other threads use memory, copies of what holds open files, and closing elsewhere."""

import copy
import importlib
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import ForkedProcessError, InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.rooms import RoomAccess
from langmem_graph.storage import memory_directory
from langmem_graph.storage.memory_directory import MemoryDirectory
from langmem_graph.storage.sqlite_database import Database
from langmem_graph.store import ChromaStore
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.conftest import said

REFUSED, WORKED, SOMETHING_ELSE = 7, 0, 1


def in_child(work: Callable[[], object]) -> int:
    """How the work ends in a forked child: refused, worked, another error, or hung (negative)."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            work()
        except ForkedProcessError:
            os._exit(REFUSED)
        except BaseException:  # noqa: BLE001  # the child must not go on as a test
            os._exit(SOMETHING_ELSE)
        os._exit(WORKED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def held_in(
    patch: pytest.MonkeyPatch, owner: type, name: str, work: Callable[[], object]
) -> Iterator[None]:
    """Another thread does the work, and waits inside one function until the block ends."""
    inside, go_on = threading.Event(), threading.Event()
    original = getattr(owner, name)

    def waiting(*arguments: object, **options: object) -> object:
        if threading.current_thread() is thread:
            inside.set()
            go_on.wait(60)
        return original(*arguments, **options)

    thread = threading.Thread(target=work)
    patch.setattr(owner, name, waiting)
    thread.start()
    assert inside.wait(60)
    yield
    go_on.set()
    thread.join()


def opened_anew(path: Path) -> Callable[[], object]:
    def work() -> None:
        with Memory(path, embeddings="hash") as memory:
            memory.user("u").add(said("hello"), session_id="s")

    return work


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (MemoryDirectory, "_take_lock"),
        (Database, "_prepare"),
        (MemoryDirectory, "_close"),
    ],
)
def test_a_fork_while_a_thread_opens_or_closes_a_memory_is_refused_and_never_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    opened_anew(tmp_path / "before")()  # imports all
    with held_in(monkeypatch, owner, name, opened_anew(tmp_path / "parent")):
        assert in_child(opened_anew(tmp_path / "child")) == REFUSED
    assert in_child(opened_anew(tmp_path / "child")) == WORKED
    opened_anew(tmp_path / "parent")()


def test_a_fork_while_a_thread_uses_a_store_is_refused_and_never_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChromaStore(tmp_path / "parent", embeddings="hash") as store:
        reading = held_in(
            monkeypatch, ChromaStore, "_read", lambda: store.get(("a",), "k")
        )
        with reading:
            assert in_child(opened_anew(tmp_path / "child")) == REFUSED
        assert in_child(opened_anew(tmp_path / "child")) == WORKED
        assert in_child(store.close) == WORKED
        opening = held_in(
            monkeypatch,
            Database,
            "_prepare",
            lambda: ChromaStore(tmp_path / "other", embeddings="hash").close(),
        )
        with opening:
            assert in_child(opened_anew(tmp_path / "child")) == REFUSED
        assert store.get(("a",), "k") is None


def test_an_idle_memory_of_the_parent_is_no_obstacle(
    memory: Memory, tmp_path: Path
) -> None:
    memory.user("u").add(said("hello", id="1"), session_id="s")
    assert in_child(opened_anew(tmp_path / "child")) == WORKED
    assert not memory_directory._FORKED_IN_USE.is_set()
    assert memory.user("u").search_conversation("hello")[0].message_id == "1"


def test_a_model_of_the_parent_is_refused_even_if_its_lock_was_held_at_the_fork(
    tmp_path: Path,
) -> None:
    with Memory(
        tmp_path, embeddings="hash", model=ScriptedChatModel(answers={})
    ) as memory:
        assert memory._pipelines is not None
        held, let_go = threading.Event(), threading.Event()
        lock = memory._pipelines.loop._lock

        def hold() -> None:
            with lock:
                held.set()
                let_go.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        assert in_child(memory.user("u").flush) == REFUSED
        assert in_child(memory.close) == WORKED
        let_go.set()
        thread.join()


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_is_refused_or_safe_and_never_closes_the_original(
    memory: Memory, copied: Callable[[Any], Any]
) -> None:
    user = memory.user("u")
    user.add(said("hello", id="1"), session_id="s")
    with ChromaStore(memory.path, embeddings="hash") as store:
        with memory._services.room("u") as room:
            files = (memory, store, room.index, memory._services.directory)
        for held in files:
            with pytest.raises(InvalidInputError, match="cannot be copied"):
                copied(held)
        tool = create_memory_tools(memory, user_id="u")[1]
        memory._access = RoomAccess(lambda *_: True, 5)
        team = memory.shared("team", as_user="u")
        for view in (user, user.as_retriever(), team, MemoryMiddleware(memory), tool):
            try:
                copied(view)
            except InvalidInputError as error:
                assert "cannot be copied" in str(error)
        assert store.get(("a",), "k") is None
    assert copy.copy(user).search_conversation("hello")[0].message_id == "1"
    assert user.search_conversation("hello")[0].message_id == "1"


def test_a_module_that_is_loaded_again_knows_what_is_open(memory: Memory) -> None:
    original = dict(vars(memory_directory))
    try:
        importlib.reload(memory_directory)
        with memory_directory.MemoryDirectory.open(
            memory.path, memory.settings, chroma=None, read_only=False
        ).room("u", create=True):
            pass
    finally:
        vars(memory_directory).update(original)
    memory.user("u").add(said("hello"), session_id="s")
