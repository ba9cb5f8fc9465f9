"""One process writes at a time; whoever comes second is refused and told what to do."""

import errno
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    MemoryLockedError,
    StorageError,
)
from langmem_graph.memory import Memory
from langmem_graph.store.chroma_store import ChromaStore
from tests.conftest import said

OPEN = """
import sys
from langmem_graph import Memory
from langmem_graph.errors import MemoryLockedError
try:
    memory = Memory(sys.argv[1], embeddings="hash")
except MemoryLockedError as error:
    print("refused", "chroma='http://" in str(error), "read_only=True" in str(error))
else:
    print("writes", flush=True)
    sys.stdin.read()
    memory.close()
"""


def opener(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", OPEN, str(path)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said_by(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(3, marks=pytest.mark.long),
        pytest.param(6, marks=pytest.mark.stress),
    ],
)
def test_of_several_processes_one_writes(tmp_path: Path, count: int) -> None:
    processes = [opener(tmp_path / "m") for _ in range(count)]
    answers = Counter(map(said_by, processes))
    for process in processes:
        process.communicate("")
    assert answers == {"writes": 1, "refused True True": count - 1}
    with Memory(tmp_path / "m", embeddings="hash"):  # free again
        pass


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    process = opener(tmp_path / "m")
    assert said_by(process) == "writes"
    process.kill()
    process.communicate()
    with Memory(tmp_path / "m", embeddings="hash"):
        pass


FORK = """
import os, signal, sys
signal.alarm(60)  # of the parent alone
from langmem_graph import Memory
from langmem_graph.errors import ForkedProcessError, MemoryLockedError

memory = Memory(sys.argv[1], embeddings="hash")
user = memory.user("u")
user.add({"role": "user", "content": "hello", "id": "1"}, session_id="s")
child = os.fork()
if child == 0:
    for call in (lambda: user.add({"role": "user", "content": "x"}, session_id="s"), user.erase):
        try:
            call()
        except ForkedProcessError as error:
            print("refused", "chroma='http://" in str(error), flush=True)
    try:
        Memory(sys.argv[1], embeddings="hash")
    except MemoryLockedError:
        print("locked", flush=True)
    memory.close()
    del memory, user
    sys.exit()  # an orderly exit: whatever is finalized here must not free the parent's lock
os.waitpid(child, 0)
print("parent", user.add({"role": "user", "content": "more"}, session_id="s").rejected, flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_a_forked_child_neither_writes_nor_frees_the_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, str(tmp_path / "m")]
    parent = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    told = [said_by(parent) for _ in range(4)]
    assert told == ["refused True", "refused True", "locked", "parent []"]
    with pytest.raises(MemoryLockedError):
        Memory(tmp_path / "m", embeddings="hash")
    parent.communicate("")
    assert parent.returncode == 0
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        assert [row["content"] for row in memory.user("u").export()] == [
            "hello",
            "more",
        ]


def test_a_closed_memory_erases_nothing(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", embeddings="hash")
    user = memory.user("u")
    user.add(said("hello", id="1"), session_id="s")
    memory.close()
    with pytest.raises(ClosedMemoryError):
        user.erase()
    with Memory(tmp_path / "m", embeddings="hash") as another:
        with pytest.raises(ClosedMemoryError):
            user.erase()
        assert len(another.user("u").export()) == 1


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.parametrize("missing", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
@pytest.mark.parametrize("kind", [Memory, ChromaStore])
def test_a_disk_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, kind: type
) -> None:
    """A lock that is a mere file would outlive a killed process, and SQLite needs true ones too."""

    def no_lock(*_: object) -> None:
        raise OSError(missing, os.strerror(missing))

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", no_lock)
        for _ in range(2):  # the first leaves no file that would lock the second out
            with pytest.raises(StorageError, match="on a local disk"):
                kind(tmp_path / "m", embeddings="hash")
    with kind(tmp_path / "m", embeddings="hash"):
        pass


def test_a_library_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(*_: object) -> None:
        raise NotImplementedError("no locks on this system")

    monkeypatch.setattr("filelock.FileLock._acquire", no_lock)
    with pytest.raises(StorageError, match="chroma='http://"):
        Memory(tmp_path / "m", embeddings="hash")


@pytest.mark.long
def test_the_store_obeys_the_same_lock(tmp_path: Path) -> None:
    with ChromaStore(tmp_path / "m", embeddings="hash") as store:
        store.put(("a",), "k", {"text": "hello"})
        second = opener(tmp_path / "m")
        assert said_by(second) == "refused True True"
        second.communicate("")
        if (child := os.fork()) == 0:
            try:
                store.put(("a",), "k", {"text": "from the child"})
            except ForkedProcessError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        item = store.get(("a",), "k")
        assert item is not None
        assert item.value == {"text": "hello"}
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        memory.user("u").add(said("hello"), session_id="s")
