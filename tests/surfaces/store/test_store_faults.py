"""A ChromaStore that is reopened, and one whose embedder or index fails."""

import asyncio
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langmem_graph.errors import EmbedderMismatchError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage.sqlite_database import Database
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import HashEmbeddings
from langmem_graph.threads import AT_ONCE
from tests.conftest import TroubledEmbeddings
from tests.support.settings import nested
from tests.support.store_items import EAGER, NUTS, keys, vectors_in


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., ChromaStore]]:
    opened: list[ChromaStore] = []

    def open_again(**options: Any) -> ChromaStore:
        while opened:
            opened.pop().close()
        options.setdefault("embeddings", "hash")
        opened.append(ChromaStore(tmp_path / "store", **options))
        return opened[-1]

    yield open_again
    while opened:
        opened.pop().close()


def indexed(store: ChromaStore) -> int:
    with store._inside():
        return store._folder.index.count("items")


def test_everything_is_there_after_reopening(
    reopen: Callable[..., ChromaStore],
) -> None:
    store = reopen()
    store.put(("n", "deep"), "k", NUTS)
    before = store.get(("n", "deep"), "k")
    store = reopen()
    assert store.get(("n", "deep"), "k") == before
    assert keys(store.search(("n",), query="nuts")) == ["k"]
    assert store.list_namespaces() == [("n", "deep")]


def test_nothing_is_due_of_a_deleted_item(
    reopen: Callable[..., ChromaStore], tmp_path: Path, troubled: TroubledEmbeddings
) -> None:
    store = reopen(embeddings=troubled)
    troubled.down = True
    store.put(("n",), "k", NUTS)
    store.delete(("n",), "k")
    [ledger] = (tmp_path / "store").rglob("ledger.db")
    with closing(sqlite3.connect(ledger)) as opened:
        assert opened.execute("SELECT count(*) FROM unembedded").fetchone() == (0,)


@pytest.mark.parametrize("damage", ["delete", "scribble"])
def test_chroma_is_filled_anew_from_the_ledger(
    reopen: Callable[..., ChromaStore],
    tmp_path: Path,
    troubled: TroubledEmbeddings,
    damage: str,
) -> None:
    store = reopen(embeddings=troubled)
    store.batch(
        [PutOp(("n",), str(n), {"text": f"note number {n}"}) for n in range(30)]
    )
    store.close()
    calls = troubled.calls
    for folder in (tmp_path / "store" / "items").glob("chroma-*"):
        if damage == "delete":
            shutil.rmtree(folder)
        else:
            (folder / "chroma.sqlite3").write_bytes(b"no database")
    store = reopen(embeddings=troubled)
    assert troubled.calls == calls
    assert indexed(store) == 30
    assert keys(store.search(("n",), query="note number 17", limit=1)) == ["17"]


def test_chroma_holds_what_is_current(tmp_path: Path) -> None:
    with ChromaStore(tmp_path, embeddings="hash", settings=EAGER) as store:
        for n in range(6):
            store.put(("n",), str(n % 3), {"text": f"note number {n}"})
        store.delete(("n",), "0")
        assert indexed(store) == 2
        store.rebuild()
        assert indexed(store) == 2
        assert keys(store.search(("n",), query="number 5", limit=1)) == ["2"]


def test_a_failing_embedder_loses_nothing(
    reopen: Callable[..., ChromaStore],
    troubled: TroubledEmbeddings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = reopen(embeddings=troubled)
    troubled.down = True
    store.put(("n",), "early", NUTS)
    assert "found by their words alone" in caplog.text
    assert keys(store.search(("n",), query="nuts")) == ["early"]
    troubled.down = False
    store.put(("n",), "late", {"text": "Something else."})
    assert vectors_in(tmp_path / "store") == 2
    troubled.down = True
    store.put(("n",), "last", {"text": "The last one."})
    store.close()
    troubled.down = False
    store = reopen(embeddings=troubled)
    assert vectors_in(tmp_path / "store") == 3
    assert all(one.score is not None for one in store.search(("n",), query="one"))


def test_all_that_is_due_is_embedded_batch_by_batch(
    tmp_path: Path, troubled: TroubledEmbeddings
) -> None:
    settings = Settings(storage=StorageSettings(embed_batch=2))
    with ChromaStore(tmp_path, embeddings=troubled, settings=settings) as store:
        troubled.down = True
        store.batch([PutOp(("n",), str(n), {"text": f"plum {n}"}) for n in range(5)])
        troubled.down = False
        store.rebuild()
        assert vectors_in(tmp_path) == 5


def test_a_put_of_several_batches_is_embedded_whole(tmp_path: Path) -> None:
    settings = Settings(storage=StorageSettings(embed_batch=2))
    with ChromaStore(tmp_path, embeddings="hash", settings=settings) as store:
        store.batch([PutOp(("n",), str(n), {"text": f"plum {n}"}) for n in range(5)])
        assert vectors_in(tmp_path) == 5


def test_one_bad_text_blocks_no_other(
    tmp_path: Path, troubled: TroubledEmbeddings
) -> None:
    troubled.poison = "poison"
    with ChromaStore(tmp_path, embeddings=troubled) as store:
        store.batch(
            [PutOp(("n",), t, {"text": t}) for t in ("apple", "poison", "pear")]
        )
        assert vectors_in(tmp_path) == 2
        assert keys(store.search(("n",), query="poison", limit=1)) == ["poison"]
        for n in range(6):
            store.put(("n",), str(n), {"text": f"plum {n}"})
        calls = troubled.calls
        store.put(("n",), "6", {"text": "plum 6"})
        assert troubled.calls == calls + 1  # the bad one is left alone by now


def test_another_embedder_is_told_and_embeds_anew(
    reopen: Callable[..., ChromaStore], troubled: TroubledEmbeddings
) -> None:
    reopen().put(("n",), "k", NUTS)
    store = reopen(embeddings=troubled)
    store.put(("n",), "new", {"text": "pears"})
    with pytest.raises(EmbedderMismatchError, match=r"rebuild\(reembed=True\)"):
        store.search(("n",), query="nuts")
    store.rebuild(reembed=True)
    found = store.search(("n",), query="nuts")
    assert (found[0].key, len(found)) == ("k", 2)
    assert all(one.score is not None for one in found)


def test_deleted_words_leave_the_files(tmp_path: Path) -> None:
    with ChromaStore(tmp_path, embeddings="hash") as store:
        store.put(("n",), "k", {"text": "xylophonist"})
        store.delete(("n",), "k")
        store.rebuild()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"xylophonist" in file.read_bytes()]


def test_closing_waits_for_no_reader_that_a_rebuild_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaning = threading.Event()
    checkpoint = Database.checkpoint

    def begin(database: Database) -> bool:
        cleaning.set()
        return checkpoint(database)

    monkeypatch.setattr(Database, "checkpoint", begin)
    patient = nested(storage__busy_timeout_seconds=20, storage__closing_seconds=20)
    store = ChromaStore(tmp_path, embeddings="hash", settings=patient)
    store.put(("n",), "k", NUTS)
    with closing(sqlite3.connect(tmp_path / "items" / "ledger.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM items").fetchone()
        rebuilding = threading.Thread(target=store.rebuild)
        rebuilding.start()
        assert cleaning.wait(60)
        began = time.monotonic()
        store.close()
        rebuilding.join(60)
        assert time.monotonic() - began < 10


class SlowEmbeddings(HashEmbeddings):
    """Takes a while where it is told to."""

    seconds = 0.0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        time.sleep(self.seconds)
        return super().embed_documents(texts)


async def test_a_cancelled_write_is_not_carried_out_later(tmp_path: Path) -> None:
    slow = SlowEmbeddings()
    store = ChromaStore(tmp_path / "store", embeddings=slow)
    slow.seconds = 1.0
    seats = ("seats",)
    under_way = [
        asyncio.create_task(store.aput(("busy",), f"{n}", {"text": "busy"}))
        for n in range(AT_ONCE)
    ]
    await asyncio.sleep(0.1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.aput(seats, "ana", {"text": "old"}), 0.2)
    await asyncio.gather(*under_way)
    slow.seconds = 0.0
    await asyncio.to_thread(store.put, seats, "ana", {"text": "new"})
    await store.aput(("other",), "one", {"text": "unrelated"})
    kept = await store.aget(seats, "ana")
    assert kept is not None and kept.value == {"text": "new"}
    await store.aclose()


def test_two_threads_that_close_a_store_release_it_once(tmp_path: Path) -> None:
    place = tmp_path / "memory"
    with Memory(place, embeddings="hash") as memory:
        memory.user("ana").add([("user", "I like tea.")], session_id="s")
        slow = SlowEmbeddings()
        store = ChromaStore(
            place,
            embeddings=slow,
            ttl={"default_ttl": 60, "sweep_interval_minutes": 0.001},
        )
        store.start_ttl_sweeper()
        slow.seconds = 1.0
        threads = [
            threading.Thread(target=store.put, args=(("a",), "k", {"text": "x"}))
        ]
        threads += [threading.Thread(target=store.close) for _ in range(2)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        for thread in threads:
            thread.join()
        added = memory.user("ana").add([("user", "I like milk.")], session_id="s")
        assert len(added.stored) == 1
