"""Puts that wait together go into one transaction; none of them harms another."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp
from sqlalchemy import event

from langmem_graph.errors import InvalidInputError, LangMemGraphError, StorageError
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.store import items, writer
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.threads import is_interrupted
from tests.conftest import TroubledEmbeddings
from tests.support.store_items import NUTS, keys, vectors_in


def commits_of(store: ChromaStore) -> list[bool]:
    """Grows with every transaction; whether each of them writes."""
    seen: list[bool] = []
    engine = store._folder.database._engine
    event.listen(
        engine, "begin", lambda c: seen.append("writing" in c.get_execution_options())
    )
    return seen


class Held:
    """Holds the writer, so that what is put meanwhile waits."""

    def __init__(self, store: ChromaStore) -> None:
        self._store = store
        self._let_go, self._holding = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._store._folder.working:
            self._holding.set()
            self._let_go.wait(60)

    def __enter__(self) -> None:
        self._thread.start()
        self._holding.wait(60)

    def __exit__(self, *_: object) -> None:
        self._let_go.set()
        self._thread.join()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen within 30 s")


def put_together(store: ChromaStore, values: dict[str, Any]) -> dict[str, Any]:
    """Put each from a thread of its own while the writer is held; the errors by key."""

    def put(key: str) -> None:
        try:
            store.put(("n",), key, values[key])
        except StorageError as error:
            errors[key] = error

    errors: dict[str, Exception] = {}
    with ThreadPoolExecutor(len(values)) as pool:
        with Held(store):
            tasks = [pool.submit(put, key) for key in values]
            until(lambda: len(store._writer._waiting) == len(values))
        for task in tasks:
            task.result()
    return errors


def test_a_put_is_one_read_and_one_write(store: ChromaStore, tmp_path: Path) -> None:
    store.put(("n",), "first", NUTS)
    seen = commits_of(store)
    store.put(("n",), "k", {"text": "Bo likes pears."})
    assert seen == [False, True]
    with closing(sqlite3.connect(tmp_path / "store" / "items" / "ledger.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM items").fetchone() == (2,)
    assert vectors_in(tmp_path / "store") == 2


def test_what_waits_is_written_and_embedded_together(
    tmp_path: Path, troubled: TroubledEmbeddings
) -> None:
    with ChromaStore(tmp_path, embeddings=troubled) as store:
        seen = commits_of(store)
        errors = put_together(
            store, {str(n): {"text": f"note {n % 9}"} for n in range(20)}
        )
        assert (errors, troubled.calls, seen) == ({}, 1, [False, True])
        assert len(store.search(("n",), limit=99)) == vectors_in(tmp_path) == 20


def test_one_that_fails_fails_alone(
    store: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = items.write

    def full(connection: Any, puts: Iterable[Any], *made: Any, **by: Any) -> None:
        puts = list(puts)
        write(connection, puts, *made, **by)
        if any(put.key == "bad" for put in puts):
            raise StorageError("too large for the disk")

    monkeypatch.setattr(items, "write", full)
    errors = put_together(store, {key: {"text": key} for key in ("a", "bad", "b", "c")})
    assert {key: str(error) for key, error in errors.items()} == {
        "bad": "too large for the disk"
    }
    assert sorted(keys(store.search(("n",), query="a b c bad"))) == ["a", "b", "c"]


def test_a_writer_that_is_interrupted_leaves_the_others_to_themselves(
    store: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors_of, interrupted = type(store._writer)._vectors_of, []

    def interrupt(self: Any, *given: Any) -> Any:
        if not interrupted:
            interrupted.append(threading.current_thread())
            raise KeyboardInterrupt
        return vectors_of(self, *given)

    monkeypatch.setattr(type(store._writer), "_vectors_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        put_together(store, {str(n): {"text": str(n)} for n in range(5)})
    assert interrupted
    assert len(store.search(("n",))) == 4


async def test_a_cancelled_caller_takes_nobody_along(store: ChromaStore) -> None:
    with Held(store):
        tasks = [
            asyncio.create_task(store.aput(("n",), str(n), NUTS)) for n in range(30)
        ]
        await asyncio.to_thread(until, lambda: bool(store._writer._waiting))
        for task in tasks[::3]:
            task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    kinds = [asyncio.CancelledError, type(None), type(None)]
    assert [type(one) for one in done] == kinds * 10
    kept = keys(await store.asearch(("n",), limit=99))
    assert {str(n) for n in range(30) if n % 3} <= set(kept)


async def test_a_put_that_was_refused_is_not_carried_out_later(
    store: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(LangMemGraphError, match="No thread"):
            await store.aput(("n",), "k", {"text": "refused"})
    await asyncio.to_thread(store.put, ("n",), "k", NUTS)
    await store.aput(("n",), "other", NUTS)
    kept = await store.aget(("n",), "k")
    assert kept is not None
    assert kept.value == NUTS


async def test_a_put_that_is_thrown_away_is_not_carried_out(store: ChromaStore) -> None:
    put = store.abatch([PutOp(("n",), "k", NUTS)])
    put.send(None)
    put.close()
    await store.aput(("n",), "other", NUTS)
    assert await store.aget(("n",), "k") is None


def test_a_put_whose_loop_is_left_is_not_carried_out_by_another(
    store: ChromaStore,
) -> None:
    """Ctrl-C in `run_until_complete` leaves its tasks as they are."""
    loop = asyncio.new_event_loop()
    put = loop.create_task(store.aput(("n",), "k", {"text": "left"}))
    loop.call_soon(loop.stop)
    loop.run_forever()
    store.put(("n",), "k", NUTS)
    asyncio.run(store.aput(("n",), "other", NUTS))
    kept = store.get(("n",), "k")
    assert kept is not None
    assert kept.value == NUTS
    put.cancel()
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(put)
    loop.close()


async def test_a_cancelled_caller_interrupts_no_work_of_others(
    store: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread does what several callers wait for."""
    entered, cancelled = threading.Event(), threading.Event()
    seen = list[bool]()
    original = writer.embed_pieces

    def embed(*given: Any) -> Any:
        entered.set()
        cancelled.wait(30)
        seen.append(is_interrupted())
        return original(*given)

    monkeypatch.setattr(writer, "embed_pieces", embed)
    task = asyncio.create_task(store.aput(("n",), "first", NUTS))
    await asyncio.to_thread(entered.wait, 30)
    task.cancel()
    await asyncio.wait([task])
    cancelled.set()
    await store.aput(("n",), "second", NUTS)
    assert not any(seen)


async def test_a_cancelled_caller_leaves_the_others_their_vectors(
    store: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It searches, too, so that its own thread does the work of the group."""
    seen = list[bool]()
    original = writer.embed_pieces

    def embed(*given: Any) -> Any:
        entered.set()
        cancelled.wait(30)
        seen.append(is_interrupted())
        return original(*given)

    entered, cancelled = threading.Event(), threading.Event()
    monkeypatch.setattr(writer, "embed_pieces", embed)
    with Held(store):
        mixed = [SearchOp(("n",), query="nuts"), PutOp(("n",), "first", NUTS)]
        first = asyncio.create_task(store.abatch(mixed))
        await asyncio.to_thread(until, lambda: bool(store._writer._waiting))
        second = asyncio.create_task(store.aput(("n",), "second", NUTS))
        await asyncio.to_thread(until, lambda: len(store._writer._waiting) == 2)
    await asyncio.to_thread(entered.wait, 30)
    first.cancel()
    await asyncio.wait([first])
    cancelled.set()
    await second
    assert seen == [False]


async def test_asynchronous_callers_share_transactions(store: ChromaStore) -> None:
    await store.aput(("n",), "k", NUTS)
    seen = commits_of(store)
    with Held(store):
        puts = [
            asyncio.create_task(store.aput(("n",), str(n), NUTS)) for n in range(200)
        ]
        async with asyncio.timeout(30):  # reading does not wait for the writer
            gets = [await store.aget(("n",), "k") for _ in range(3)]
    await asyncio.gather(*puts)
    assert [one.value for one in gets if one] == [NUTS] * 3
    assert sum(seen) <= 3
    assert len(await store.asearch(("n",), limit=999)) == 201


async def test_each_asynchronous_caller_has_its_own_error(store: ChromaStore) -> None:
    await store.aput(("n",), "k", NUTS)
    calls: list[list[Any]] = [
        [GetOp(("n",), "k")],
        [PutOp(("n",), "bad", {"v": float("nan")})],
        [PutOp(("n",), "good", NUTS)],
        [SearchOp(("n",), limit=-1)],
        [SearchOp(("n",), query="nuts", filter={"a": {"$in": [1]}})],
        [GetOp(("n",), "k"), PutOp(("n",), "k", None)],
    ]
    answers = await asyncio.gather(*map(store.abatch, calls), return_exceptions=True)
    kinds = [type(answer) for answer in answers]
    bad = InvalidInputError
    assert kinds == [list, bad, list, bad, bad, list]
    assert keys(await store.asearch(("n",))) == ["good"]


def test_a_full_disk_after_the_commit_is_no_error_of_the_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise StorageError("no space left")

    small = Settings(storage=StorageSettings(index_batch=1))
    with ChromaStore(tmp_path, embeddings="hash", settings=small) as store:
        with monkeypatch.context() as patched:
            patched.setattr(items.item_tables, "settle", full)
            store.put(("n",), "k", NUTS)
        assert "no space left" in caplog.text
        assert keys(store.search(("n",), query="nuts")) == ["k"]


def test_vectors_of_two_sizes_cost_no_item(
    tmp_path: Path, troubled: TroubledEmbeddings
) -> None:
    with ChromaStore(tmp_path, embeddings=troubled) as store:
        store.put(("n",), "k", NUTS)
        troubled.answer = lambda vectors: [vector[:9] for vector in vectors]
        store.put(("n",), "short", {"text": "Bo likes pears."})
        assert sorted(keys(store.search(("n",)))) == ["k", "short"]
    with ChromaStore(tmp_path, embeddings=troubled) as store:
        assert vectors_in(tmp_path) == 1
        troubled.answer = lambda vectors: vectors
    with ChromaStore(tmp_path, embeddings=troubled):
        assert vectors_in(tmp_path) == 2
