"""Due work is looked for without locking the ledger for writing, and done where there is any."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langgraph.store.base import PutOp

from langmem_graph import threads
from langmem_graph.errors import EmbedderMismatchError
from langmem_graph.memory import Memory
from langmem_graph.storage import memory_services, outbox_worker
from langmem_graph.storage.chroma_index import VectorIndex
from langmem_graph.store import writer
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import HashEmbeddings
from tests.conftest import TroubledEmbeddings, said
from tests.support.settings import nested

Reopen = Callable[..., Memory]
ONE_BY_ONE = nested(storage__index_batch=1, storage__embed_batch=1)


@contextmanager
def _transactions() -> Iterator[list[bool]]:
    """Of each transaction that begins inside, whether it writes."""
    seen: list[bool] = []

    def note(connection: sa.Connection) -> None:
        seen.append(bool(connection.get_execution_options().get("writing")))

    sa.event.listen(sa.Engine, "begin", note)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "begin", note)


def test_where_nothing_is_due_nothing_is_locked(reopen: Reopen) -> None:
    reopen().user("u").add(said("hello", id="1"), session_id="s")
    memory = reopen()
    with _transactions() as opening:
        memory.user("u").search_conversation("hello")
    assert sum(opening) == 2  # tables are brought up to date, old claims given up
    with _transactions() as adding:
        memory.user("u").add(said("hello", id="1"), session_id="s")
    assert sum(adding) == 1  # the add itself
    with _transactions() as closing:
        memory.close()
    assert closing == [False]


def test_closing_does_what_is_due_of_both_layers(reopen: Reopen) -> None:
    user = reopen().user("u")
    user.add(said("the trombone is in the attic", id="1"), session_id="s")
    user.remember("The trombone is in the attic.")
    # what is remembered is a message too
    assert user.doctor(sample=0).waiting_to_index == 3
    health = reopen(read_only=True).user("u").doctor(sample=0)
    assert (health.vectors, health.waiting_to_index) == (3, 0)


def test_a_single_text_that_failed_is_tried_at_the_next_add(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    troubled.down = True
    assert user.add([said("first", id="1")], session_id="s").not_yet_embedded == ["1"]
    troubled.down = False
    user.add([said("second", id="2")], session_id="s")
    assert user.doctor(sample=0).waiting_to_embed == 0


def test_what_failed_is_tried_at_the_next_add(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    troubled.down = True
    talk = [said("first", id="1"), said("second", id="2")]
    assert user.add(talk, session_id="s").not_yet_embedded == ["1", "2"]
    troubled.down = False
    assert user.add(talk, session_id="s").stored == []
    assert user.doctor(sample=0).waiting_to_embed == 0


def test_another_embedder_is_named_and_what_is_embedded_is_indexed(
    reopen: Reopen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen(embeddings=HashEmbeddings(64))
    memory.user("u").add(said("hello", id="1"), session_id="s")
    with monkeypatch.context() as patch:
        patch.setattr(memory._services, "_finish_due_work", lambda *_: None)
        memory.close()
    user = reopen(embeddings=HashEmbeddings(32)).user("u")
    assert user.doctor(sample=0).waiting_to_index == 0
    assert "hash-64" in caplog.text
    with pytest.raises(EmbedderMismatchError):
        user.search_conversation("hello")


@contextmanager
def _interrupted_at(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> Iterator[list[str]]:
    """An interrupt from the keyboard at the first call; notes each."""
    original, calls = getattr(where, name), list[str]()

    def wrapped(*given: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            until = time.monotonic() + 10
            while not threads.is_interrupted() and time.monotonic() < until:
                time.sleep(0.01)
        return original(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, wrapped)
        with pytest.raises(KeyboardInterrupt):
            yield calls
        for thread in threading.enumerate():
            if "(run)" in thread.name:
                thread.join(30)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "kind, where, name, options",
    [
        ("memory", VectorIndex, "upsert", {}),
        ("memory", outbox_worker, "embed_pieces", {"reembed": True}),
        ("store", VectorIndex, "upsert", {}),
        ("store", writer, "embed_pieces", {"reembed": True}),
    ],
)
def test_a_rebuild_that_is_interrupted_stops_and_the_rest_stays_due(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    where: Any,
    name: str,
    options: dict[str, bool],
    is_async: bool,
) -> None:
    given: Any = {"embeddings": "hash", "settings": ONE_BY_ONE}
    with ExitStack() as stack:
        if kind == "memory":
            user = stack.enter_context(Memory(tmp_path / "m", **given)).user("u")
            talk = [said(f"text {n}", id=str(n)) for n in range(9)]
            user.add(talk, session_id="s")
            rebuild, arebuild = user.rebuild, user.arebuild
        else:
            store = stack.enter_context(ChromaStore(tmp_path / "m", **given))
            store.batch([PutOp(("n",), str(n), {"t": f"text {n}"}) for n in range(9)])
            rebuild, arebuild = store.rebuild, store.arebuild
        with _interrupted_at(monkeypatch, where, name) as calls:
            if is_async:
                asyncio.run(arebuild(**options))
            rebuild(**options)
        assert calls == [name]
        if kind == "memory":
            assert user.rebuild(**options).ok
        else:
            store.rebuild(**options)
            assert len(store.search(("n",), query="text", limit=99)) == 9


def test_of_much_that_is_due_a_call_does_a_portion(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_services, "PORTION", 3)
    memory = reopen()
    memory.user("u").add(
        [said(f"text {n}", id=str(n)) for n in range(20)], session_id="s"
    )
    with monkeypatch.context() as patch:
        patch.setattr(memory._services, "_finish_due_work", lambda *_: None)
        memory.close()
    with monkeypatch.context() as patch:
        patch.setattr(
            memory_services.Services, "_continued", lambda _, room, done: done
        )
        user = reopen(settings=ONE_BY_ONE).user("u")
        assert user.recall("text 7").evidence
        assert user.doctor(sample=0).waiting_to_index == 17
    user.add([said("one more", id="more")], session_id="s")
    until = time.monotonic() + 30
    while user.doctor(sample=0).waiting_to_index and time.monotonic() < until:
        time.sleep(0.05)
    assert user.doctor().indexed == 21
