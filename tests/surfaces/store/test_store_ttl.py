"""Times to live of a store's items."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langgraph.store.base import GetOp, Item

from langmem_graph.storage import record_writes
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.store.items import Reading
from tests.support.settings import nested
from tests.support.store_items import EAGER, NUTS, keys

HOUR = 60.0


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[ChromaStore]:
    """A store whose items live for an hour, if nothing else is said."""
    ttl = {"default_ttl": HOUR}
    with ChromaStore(tmp_path, embeddings="hash", ttl=ttl, settings=EAGER) as opened:  # type: ignore[arg-type]
        yield opened


def rows(store: ChromaStore, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store._folder.folder / "ledger.db")) as ledger, ledger:
        return ledger.execute(statement).fetchall()


def ends(store: ChromaStore) -> dict[str, timedelta]:
    """How long the items have still to live."""
    found = rows(
        store, "SELECT key, expires_at FROM items WHERE expires_at IS NOT NULL"
    )
    now = datetime.now(UTC).replace(tzinfo=None)
    return {str(key): datetime.fromisoformat(str(end)) - now for key, end in found}


def expire(store: ChromaStore) -> None:
    """Let all times to live have passed."""
    rows(
        store,
        "UPDATE items SET expires_at = '2020-01-01 00:00:00.000000' WHERE ttl IS NOT NULL",
    )


def nearly(minutes: float) -> object:
    return pytest.approx(minutes * 60, abs=55)


def test_when_items_end(lasting: ChromaStore) -> None:
    assert lasting.supports_ttl
    lasting.put(("n",), "default", NUTS)
    lasting.put(("n",), "own", NUTS, ttl=5)
    lasting.put(("n",), "part", NUTS, ttl=1e-05)
    lasting.put(("n",), "never", NUTS, ttl=None)
    lasting.put(("n",), "changed", NUTS, ttl=5)
    lasting.put(("n",), "changed", NUTS, ttl=None)
    seconds = {key: end.total_seconds() for key, end in ends(lasting).items()}
    assert seconds == {"default": nearly(HOUR), "own": nearly(5), "part": nearly(0)}


def test_an_expired_item_leaves_everything(lasting: ChromaStore) -> None:
    lasting.put(("n",), "old", {"text": "xylophone"})
    lasting.put(("n",), "kept", NUTS, ttl=None)
    assert lasting._folder.index.count("items") == 2
    assert lasting.sweep_ttl() == 0
    expire(lasting)
    assert lasting.sweep_ttl() == 1
    assert lasting.get(("n",), "old") is None
    tables = ("items", "texts", "vectors", "text_words")
    counts = [rows(lasting, f"SELECT count(*) FROM {table}") for table in tables]
    assert counts == [[(1,)]] * 4
    assert lasting._folder.index.count("items") == 1
    assert (
        rows(lasting, "SELECT rowid FROM text_words WHERE text_words MATCH 'xylophone'")
        == []
    )
    assert keys(lasting.search(("n",), query="xylophone")) == ["kept"]


def test_reading_begins_a_time_to_live_anew(lasting: ChromaStore) -> None:
    for key in ("get", "search", "query", "left", "never"):
        lasting.put((key,), key, NUTS, ttl=None if key == "never" else HOUR)
    expire(lasting)
    lasting.get(("left",), "left", refresh_ttl=False)
    lasting.search(("left",), refresh_ttl=False)
    lasting.list_namespaces()
    lasting.get(("get",), "get")
    lasting.search(("search",))
    lasting.search(("query",), query="nuts")
    lasting.search(("never",))
    now = {key: end > timedelta() for key, end in ends(lasting).items()}
    assert now == {"get": True, "search": True, "query": True, "left": False}
    assert ends(lasting)["get"].total_seconds() == nearly(HOUR)
    lasting.ttl_config = {"refresh_on_read": False}
    expire(lasting)
    lasting.get(("get",), "get")
    assert ends(lasting)["get"] < timedelta()


def test_expired_items_are_omitted_only_if_so_configured(lasting: ChromaStore) -> None:
    for key in ("a", "b"):
        lasting.put(("gone",), key, NUTS)
    lasting.put(("kept",), "k", NUTS, ttl=None)
    expire(lasting)
    never = {"refresh_ttl": False}
    assert lasting.get(("gone",), "a", refresh_ttl=False) is not None
    assert len(lasting.search((), refresh_ttl=False)) == 3
    lasting.ttl_config = {"omit_expired": True}
    assert lasting.get(("gone",), "a") is None
    assert keys(lasting.search((), limit=1)) == ["k"]
    assert lasting.search(("gone",)) == []
    assert keys(lasting.search((), query="nuts", **never)) == ["k"]  # type: ignore[arg-type]
    assert keys(lasting.search((), filter=NUTS, **never)) == ["k"]  # type: ignore[arg-type]
    assert lasting.list_namespaces() == [("kept",)]
    assert ends(lasting)["a"] < timedelta(), "what is omitted is not read"


def test_an_item_is_gone_at_the_very_moment_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttl = {"default_ttl": HOUR, "omit_expired": True}
    with ChromaStore(tmp_path, embeddings="hash", ttl=ttl, settings=EAGER) as store:  # type: ignore[arg-type]
        store.put(("n",), "ends", NUTS)
        [(end,)] = rows(store, "SELECT expires_at FROM items")
        for microsecond, held in ((1, ["ends"]), (0, [])):
            now = datetime.fromisoformat(str(end)) - timedelta(microseconds=microsecond)
            monkeypatch.setattr(record_writes, "now", lambda moment=now: moment)
            found = store.get(("n",), "ends", refresh_ttl=False)
            assert [item.key for item in [found] if item] == held
            assert keys(store.search(("n",), refresh_ttl=False)) == held
        assert store.sweep_ttl() == 1


def test_the_sweeper(lasting: ChromaStore) -> None:
    swept = threading.Event()
    sweep = lasting.sweep_ttl

    def watched() -> int:
        found = sweep()
        swept.set()
        return found

    lasting.sweep_ttl = watched  # type: ignore[method-assign]
    lasting.put(("n",), "k", NUTS)
    expire(lasting)
    running = lasting.start_ttl_sweeper(0.0005)
    assert lasting.start_ttl_sweeper() is running
    assert swept.wait(60)
    assert lasting.search(("n",)) == []
    assert lasting.stop_ttl_sweeper(60)
    assert running.result(0) is None
    again = lasting.start_ttl_sweeper()
    assert again.cancel()
    lasting._sweeper.join(60)
    assert lasting.stop_ttl_sweeper()
    lasting.start_ttl_sweeper()
    lasting.close()
    assert not lasting._sweeper.is_alive()


def test_closing_does_not_wait_for_a_sweep_that_does_not_end(tmp_path: Path) -> None:
    swept, ended = threading.Event(), threading.Event()

    def stuck() -> int:
        swept.set()
        ended.wait(60)
        return 0

    settings = nested(storage__closing_seconds=0.2)
    store = ChromaStore(
        tmp_path / "s", embeddings="hash", settings=settings, ttl={"default_ttl": 1}
    )
    store.sweep_ttl = stuck  # type: ignore[method-assign]
    store.start_ttl_sweeper(0.0005)
    assert swept.wait(60)
    store.close()
    assert store._sweeper.is_alive()
    ended.set()
    store._sweeper.join(60)


def test_nothing_sweeps_without_a_configuration(store: ChromaStore) -> None:
    assert store.start_ttl_sweeper().done()
    assert store.stop_ttl_sweeper()
    store.put(("n",), "k", NUTS, ttl=-1)
    assert keys(store.search(("n",), refresh_ttl=False)) == ["k"]
    assert store.sweep_ttl() == 1


def test_an_item_put_for_good_while_it_is_read_stays(
    lasting: ChromaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasting.put(("n",), "key", NUTS)
    read = Reading.get

    def put_meanwhile(self: Reading, op: GetOp) -> Item | None:
        found = read(self, op)
        lasting.put(("n",), "key", NUTS, ttl=None)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Reading, "get", put_meanwhile)
        lasting.get(("n",), "key")
    assert (lasting.sweep_ttl(), keys(lasting.search(("n",)))) == (0, ["key"])
