"""A ChromaStore among processes, threads and loops."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from filelock import FileLock, Timeout

from langmem_graph.errors import ClosedMemoryError, MemoryLockedError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.store.shared_folder import SharedFolder
from tests.support.store_items import EAGER, NUTS, vectors_in


def test_one_directory_in_one_process_is_shared(tmp_path: Path) -> None:
    with (
        Memory(tmp_path, embeddings="hash") as memory,
        ChromaStore(tmp_path, embeddings="hash") as one,
    ):
        with ChromaStore(tmp_path, embeddings="hash") as two:
            two.put(("n",), "k", NUTS)
        with pytest.raises(ClosedMemoryError):
            two.get(("n",), "k")
        assert one.get(("n",), "k").value == NUTS
        memory.user("ana").add([{"role": "user", "content": "Hello"}], session_id="s")
    one.close()
    with pytest.raises(ClosedMemoryError):
        one.get(("n",), "k")


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    other = f"from langmem_graph import ChromaStore; ChromaStore({str(tmp_path)!r}, embeddings='hash')"
    with ChromaStore(tmp_path, embeddings="hash"):
        done = subprocess.run(
            [sys.executable, "-c", other], capture_output=True, text=True, check=False
        )
    assert MemoryLockedError.__name__ in done.stderr


def test_eight_threads(tmp_path: Path) -> None:
    with ChromaStore(
        tmp_path,
        embeddings="hash",
        settings=Settings(storage=StorageSettings(index_batch=16)),
    ) as store:

        def work(n: int) -> None:
            own = ("thread", str(n))
            for k in range(12):
                store.put(own, str(k), {"text": f"thread {n} wrote {k}"})
                store.put(("thread", "all"), "k", {"text": f"{n} {k}"})
                assert {
                    one.namespace for one in store.search(own, query=f"wrote {k}")
                } == {own}
            store.delete(own, "0")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(store.search(("thread",), limit=1_000)) == 8 * 11 + 1
        assert store.list_namespaces(max_depth=1) == [("thread",)]
    assert vectors_in(tmp_path) == 8 * 11 + 1


async def test_the_loop_is_never_blocked(tmp_path: Path) -> None:
    async with ChromaStore(tmp_path, embeddings="hash", settings=EAGER) as store:
        await store.aput(("warm",), "up", NUTS)
        with blockbuster_ctx():
            await asyncio.gather(*(store.aput(("n",), str(k), NUTS) for k in range(8)))
            assert len(await store.asearch(("n",), query="nuts")) == 8
            assert (await store.aget(("n",), "3")).value == NUTS
            await store.adelete(("n",), "3")
            assert await store.alist_namespaces() == [("n",), ("warm",)]
            await store.arebuild()


Events = tuple[threading.Event, threading.Event]


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Events]:
    """The first is set once an opening asks Chroma, which answers with the second."""
    asked, answered = threading.Event(), threading.Event()

    def ask(_: SharedFolder) -> None:
        asked.set()
        answered.wait(20)

    monkeypatch.setattr(SharedFolder, "_check_index", ask)
    yield asked, answered
    answered.set()


def test_a_chroma_that_does_not_answer_holds_up_no_other_directory(
    tmp_path: Path, stuck: Events
) -> None:
    begun = time.monotonic()
    here = Memory(tmp_path / "here", embeddings="hash")
    elsewhere = Memory(tmp_path / "elsewhere", embeddings="hash")
    opening = threading.Thread(
        target=lambda: ChromaStore(tmp_path / "here", embeddings="hash").close(),
        daemon=True,
    )
    opening.start()
    assert stuck[0].wait(10)
    Memory(tmp_path / "new", embeddings="hash").close()
    elsewhere.close()
    here.close()
    assert time.monotonic() - begun < 10


def test_an_opening_that_nobody_waits_for_keeps_its_directory_to_its_end(
    tmp_path: Path, stuck: Events
) -> None:
    asked, answered = stuck

    def interrupt() -> None:
        asked.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ChromaStore(tmp_path, embeddings="hash")
    assert time.monotonic() - begun < 10
    with pytest.raises(Timeout), FileLock(tmp_path / "lock", timeout=0):
        pass
    answered.set()
    with FileLock(tmp_path / "lock", timeout=10):
        pass
