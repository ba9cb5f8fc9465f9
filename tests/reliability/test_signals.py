"""`close` and `add` where a signal interrupted work on the memory, and at a program's end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from langmem_graph import runtime
from langmem_graph.errors import ClosedMemoryError, LangMemGraphError, StorageError
from langmem_graph.memory import Memory
from langmem_graph.runtime import LoopThread
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.storage import add_messages, outbox_worker
from langmem_graph.storage.chroma_index import VectorIndex
from langmem_graph.storage.memory_directory import MemoryDirectory
from langmem_graph.storage.user_room import FairLock
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.store.writer import Writer
from tests.conftest import said
from tests.support.hanging import ends
from tests.support.models import steady_model

SETTINGS = Settings(
    extraction=ExtractionSettings(debounce_seconds=0.0),
    storage=StorageSettings(closing_seconds=1, index_batch=2, busy_timeout_seconds=1),
)
PLACES: dict[str, tuple[Any, str]] = {
    "in the guard of the directory": (MemoryDirectory, "_check_open"),
    "in a write transaction": (add_messages, "append"),
    "before the work": (outbox_worker, "embed_pieces"),
    "in the lock of the work": (outbox_worker.vector_rows, "store_vectors"),
    "in a write to Chroma": (VectorIndex, "_open"),
}
"""Where the signal comes, while the main thread adds: the handler runs on top of its frames."""


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Any]]]:
    """Runs a handler once inside a function; what it returned or raised is noted."""

    def interrupt(where: Any, name: str, handler: Callable[[], Any]) -> list[Any]:
        original, outcome = getattr(where, name), list[Any]()

        def wrapped(*args: Any, **options: Any) -> Any:
            if not outcome and threading.current_thread().name == "interrupted":
                outcome.append("running")
                try:
                    outcome[0] = handler()
                except Exception as error:  # noqa: BLE001  # it is what the test looks at
                    outcome[0] = error
            return original(*args, **options)

        monkeypatch.setattr(where, name, wrapped)
        return outcome

    yield interrupt


def named(work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        threading.current_thread().name = "interrupted"
        return work()

    return run


@pytest.mark.parametrize("place", PLACES)
def test_closing_in_a_handler_ends_and_what_is_due_is_done_later(
    tmp_path: Path, interrupted: Callable[..., list[Any]], place: str
) -> None:
    memory = Memory(tmp_path / "m", embeddings="hash", settings=SETTINGS)
    ana = memory.user("ana")
    ana.add(said("the first", id="0"), session_id="s")
    outcome = interrupted(*PLACES[place], memory.close)
    added = ends(
        named(lambda: ana.add([said("a", id="1"), said("b", id="2")], session_id="s"))
    )
    assert outcome == [None]
    kept = added.stored if not isinstance(added, Exception) else []
    assert kept or isinstance(added, LangMemGraphError)
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        stored = {row["id"] for row in memory.user("ana").export()}
        assert {"0", *kept} <= stored
        assert memory.user("ana").doctor(sample=0).ok


@pytest.mark.parametrize("place", PLACES)
def test_adding_in_a_handler_ends_and_nothing_acknowledged_is_lost(
    tmp_path: Path, interrupted: Callable[..., list[Any]], place: str
) -> None:
    memory = Memory(tmp_path / "m", embeddings="hash", settings=SETTINGS)
    ana = memory.user("ana")
    ana.add(said("the first", id="0"), session_id="s")
    late = lambda: ana.add(said("late", id="late"), session_id="s")  # noqa: E731
    outcome = interrupted(*PLACES[place], late)
    added = ends(
        named(lambda: ana.add([said("a", id="1"), said("b", id="2")], session_id="s"))
    )
    assert added.stored == ["1", "2"]
    assert isinstance(outcome[0], StorageError) or outcome[0].stored == ["late"]
    kept = {"0", "1", "2"} | (set() if isinstance(outcome[0], Exception) else {"late"})
    ends(memory.close)
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        assert {row["id"] for row in memory.user("ana").export()} == kept
        assert memory.user("ana").doctor(sample=0).ok


def test_a_store_closes_in_a_handler(
    tmp_path: Path, interrupted: Callable[..., list[Any]]
) -> None:
    store = ChromaStore(tmp_path / "m", embeddings="hash", settings=SETTINGS)
    store.put(("a",), "before", {"text": "the house"})
    outcome = interrupted(Writer, "_vectors_of", store.close)
    put = ends(named(lambda: store.put(("a",), "k", {"text": "the garden"})))
    assert outcome == [None]
    assert isinstance(put, ClosedMemoryError)  # texts are embedded before the commit
    with ChromaStore(tmp_path / "m", embeddings="hash") as store:
        assert store.get(("a",), "before")
        assert store.get(("a",), "k") is None


def test_closing_twice_at_once_ends(
    tmp_path: Path, interrupted: Callable[..., list[Any]]
) -> None:
    memory = Memory(
        tmp_path / "m", embeddings="hash", model=steady_model(), settings=SETTINGS
    )
    other = Memory(tmp_path / "m", embeddings="hash")
    memory.user("ana").add(said("hello", id="1"), session_id="s")
    memory.user("ana").flush_soon()
    outcome = interrupted(LoopThread, "close", memory.close)
    assert ends(named(memory.close)) is None
    assert outcome == [None]
    assert other.user("ana").export()  # its own use of the directory goes on
    assert ends(other.close) is None


def test_a_closing_that_is_interrupted_gives_back_what_was_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's end is under way as the signal comes."""
    slow = steady_model()
    slow.delay = 2.0
    memory = Memory(tmp_path / "m", embeddings="hash", model=slow, settings=SETTINGS)
    model = steady_model()
    other = Memory(tmp_path / "m", embeddings="hash", model=model, settings=SETTINGS)
    memory.user("ana").add(said("hello", id="1"), session_id="s")
    flush = threading.Thread(target=ends, args=[memory.user("ana").flush])
    flush.start()
    time.sleep(1.0)  # it waits for the model now

    def interrupted(*given: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return wait(*given)

    monkeypatch.setattr(runtime, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory.close()
    monkeypatch.undo()
    memory.close()
    flush.join()
    assert other.user("ana").flush().read == 1
    other.close()


def test_a_fair_lock_knows_its_threads_and_has_a_limit() -> None:
    lock = FairLock()
    lock.seconds = 0.05
    with lock:
        with pytest.raises(StorageError, match="interrupted"), lock:
            pass
        assert isinstance(ends(lock.__enter__), StorageError)
    with lock:
        pass
    assert ends(lock.__enter__) is None


SCRIPT = """
import atexit, os, signal, sys, threading, time
from langmem_graph import Memory, Settings
from tests.support.models import steady_model
path, how, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
settings = Settings(storage={"closing_seconds": 2, "index_batch": 4, "busy_timeout_seconds": 2})
memory = Memory(path, embeddings="hash", model=steady_model(), settings=settings)
ana, kept = memory.user("ana"), open(path + ".kept", "a", buffering=1)

def add(name):
    for stored in ana.add({"role": "user", "content": name, "id": name}, session_id="s").stored:
        kept.write(stored + "\\n")

def handler(*_):
    if how == "add":
        add("late")
    memory.close()
    sys.exit(0)

def at_exit():
    add("late")
    print(ana.flush().status)

if how == "atexit":
    atexit.register(at_exit)
    add("first")
    sys.exit(0)
signal.signal(signal.SIGTERM, handler)
add("warm")
threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM)).start()
n = 0
while True:
    n += 1
    add(f"m{n}")
    ana.flush_soon()
"""


def run(path: Path, how: str, seconds: float = 0.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, str(path), how, str(seconds)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False
    )


def assert_kept(path: Path) -> None:
    kept = set(Path(f"{path}.kept").read_text().split())
    with Memory(path, embeddings="hash") as memory:
        stored = {row["id"] for row in memory.user("ana").export()}
        assert kept <= stored
        assert memory.user("ana").doctor(sample=0).ok


@pytest.mark.stress
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["close", "add"])
@pytest.mark.parametrize("seconds", [0.3, 0.61, 0.97])
def test_a_process_that_is_told_to_end_ends(
    tmp_path: Path, how: str, seconds: float
) -> None:
    done = run(tmp_path / "m", how, seconds)
    # 1: an error of ours in the handler's add
    assert done.returncode in (0, 1), done.stderr
    assert done.returncode == 0 or "StorageError" in done.stderr, done.stderr
    assert_kept(tmp_path / "m")


@pytest.mark.long
def test_a_handler_at_exit_adds_and_flushes(tmp_path: Path) -> None:
    done = run(tmp_path / "m", "atexit")
    assert done.returncode == 0, done.stderr
    # LangChain may start no threads
    assert done.stdout.strip() in ("ok", "partial"), done.stderr
    assert_kept(tmp_path / "m")
