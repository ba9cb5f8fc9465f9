"""ChromaStore against LangGraph's own SqliteStore, and what a store must never do."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langmem_graph.errors import (
    ClosedMemoryError,
    EmbedderMismatchError,
    InvalidInputError,
    MemoryLockedError,
)
from langmem_graph.memory import Memory
from langmem_graph.settings import RankingSettings, Settings, StorageSettings
from langmem_graph.store import item_search
from langmem_graph.store.chroma_store import ChromaStore
from tests.conftest import TroubledEmbeddings

NUTS = {"text": "Alice eats no nuts."}
EAGER = Settings(storage=StorageSettings(index_batch=1))  # every vector goes to Chroma at once


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChromaStore]:
    with ChromaStore(tmp_path / "store", embeddings="hash") as opened:
        yield opened


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


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


# --- the same as SqliteStore ---------------------------------------------------------------------

LABELS = st.sampled_from(["a", "A", "ab", "a%", "a_", "a*", "[a]", "é", "a b", "日", "a/b", "a-b"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k%", "", "ключ", "k.1"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, 2.5])
WORDS = st.sampled_from(["", "x", "X", "xy", "'; --", "ü"])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS | st.none(),
        "s": WORDS | st.none(),
        "b": st.booleans(),
        "deep": st.recursive(WORDS | NUMBERS, lambda one: st.lists(one, max_size=2), max_leaves=3),
    },
)


def compared(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    ordered = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
    return values | st.dictionaries(ordered, values, min_size=1, max_size=2)


FILTERS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "n": compared(NUMBERS),
        "s": compared(WORDS),
        "b": st.booleans(),
        "missing": st.none() | WORDS,
    },
)
CONDITIONS = st.builds(
    MatchCondition,
    match_type=st.sampled_from(["prefix", "suffix"]),
    path=st.lists(LABELS | st.just("*"), min_size=1, max_size=3).map(tuple),
)
OPS = st.one_of(
    st.builds(GetOp, namespace=NAMESPACES, key=KEYS, refresh_ttl=st.just(False)),
    st.builds(
        PutOp,
        namespace=NAMESPACES,
        key=KEYS,
        value=VALUES | st.none(),
        index=st.sampled_from([None, False]),
        ttl=st.none(),
    ),
    st.builds(
        SearchOp,
        namespace_prefix=NAMESPACES | st.just(()),
        filter=FILTERS,
        limit=st.sampled_from([1, 3, 1_000]),
        offset=st.sampled_from([0, 0, 1]),
        query=st.none(),
        refresh_ttl=st.just(False),
    ),
    st.builds(
        ListNamespacesOp,
        match_conditions=st.none() | st.lists(CONDITIONS, max_size=2).map(tuple),
        max_depth=st.none() | st.integers(1, 3),
        limit=st.sampled_from([1, 1_000]),
        offset=st.sampled_from([0, 1]),
    ),
)


def seen(op: Any, result: Any) -> Any:
    """A result without times, and without an order where SqliteStore's is by chance."""
    if isinstance(op, GetOp):
        return result and (result.namespace, result.key, result.value)
    if isinstance(op, SearchOp):
        whole = op.limit == 1_000 and not op.offset
        rows = sorted((one.namespace, one.key, repr(one.value)) for one in result)
        return rows if whole else len(rows)
    if isinstance(op, ListNamespacesOp):
        return sorted(result) if op.limit == 1_000 and not op.offset else len(result)
    return result


@pytest.fixture(scope="module")
def shared() -> Iterator[ChromaStore]:
    folder = tempfile.mkdtemp()
    with ChromaStore(folder, embeddings="hash") as opened:
        yield opened
    shutil.rmtree(folder)


def emptied(store: ChromaStore) -> ChromaStore:
    every = store.search((), limit=10_000)
    store.batch([PutOp(one.namespace, one.key, None) for one in every])
    return store


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(OPS, min_size=1, max_size=8), min_size=1, max_size=6))
def test_it_answers_as_sqlite_store_does(shared: ChromaStore, batches: list[list[Any]]) -> None:
    from langgraph.store.sqlite import SqliteStore

    ours = emptied(shared)
    with SqliteStore.from_conn_string(":memory:") as theirs:
        theirs.setup()
        for ops in batches:
            answers = zip(ops, ours.batch(ops), theirs.batch(ops), strict=True)
            for op, our, their in answers:
                assert seen(op, our) == seen(op, their), op


@pytest.mark.parametrize(
    "wanted",
    [
        {"tags": ["x", "y"]},
        {"tags": "x"},
        {"who": {"name": "Ana"}},
        {"who": {"age": {"$gt": 3}}},
        {"who.name": "Ana"},
        {"who": {"$eq": {"name": "Ana", "age": 4}}},
    ],
)
def test_nested_filters_are_those_of_the_in_memory_store(
    store: ChromaStore, wanted: dict[str, Any]
) -> None:
    other = InMemoryStore()
    for one in (store, other):
        one.put(("n",), "k", {"tags": ["x", "y"], "who": {"name": "Ana", "age": 4}})
    assert keys(store.search(("n",), filter=wanted)) == keys(other.search(("n",), filter=wanted))


@pytest.mark.parametrize(
    "wanted", [{"a": {"$in": [1]}}, {"a": {"$regex": "x"}}, {"a": {"b": {"$no": 1}}}]
)
def test_unknown_operators_are_refused_even_where_nothing_is(
    store: ChromaStore, wanted: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="operator"):
        store.search(("nobody",), filter=wanted)


def test_a_batch_reads_the_state_before_it_and_a_later_put_wins(store: ChromaStore) -> None:
    store.put(("n",), "k", {"v": 0})
    put, search, got, *_ = store.batch(
        [
            PutOp(("n",), "k", {"v": 1}),
            SearchOp(("n",)),
            GetOp(("n",), "k"),
            PutOp(("n",), "k", {"v": 2}),
            PutOp(("n",), "gone", {"v": 3}),
            PutOp(("n",), "gone", None),
        ]
    )
    assert (put, search[0].value, got.value) == (None, {"v": 0}, {"v": 0})
    assert store.get(("n",), "k").value == {"v": 2}
    assert store.get(("n",), "gone") is None


def test_a_batch_that_cannot_be_done_does_nothing(store: ChromaStore) -> None:
    for bad in (
        PutOp(("n",), "bad", {"v": object()}),
        PutOp(("n",), "bad", {1: "v"}),
        PutOp(("n",), "bad", {"v": [{1: "a", "1": "b"}]}),
        PutOp(("n",), "bad", NUTS, index="text"),
        PutOp((), "bad", NUTS),
        PutOp(("n", "\ud800"), "bad", NUTS),
        SearchOp(("n",), limit=-1),
        SearchOp(("n",), limit=1.5),  # type: ignore[arg-type]
        ListNamespacesOp(limit=None),  # type: ignore[arg-type]
        ListNamespacesOp(match_conditions=(MatchCondition("infix", ("n",)),)),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            store.batch([PutOp(("n",), "good", NUTS), bad])
    with pytest.raises(NotImplementedError, match="ttl"):
        store.batch([PutOp(("n",), "good", NUTS, ttl=1.0)])
    with pytest.raises(NotImplementedError):
        store.put(("n",), "k", NUTS, ttl=1.0)
    assert store.search(()) == []


def test_pages_are_newest_first_and_do_not_overlap(store: ChromaStore) -> None:
    for n in range(7):
        store.put(("n",), str(n), {"even": n % 2 == 0})
    store.put(("n",), "0", {"even": True, "changed": 1})
    pages = [keys(store.search(("n",), limit=3, offset=start)) for start in (0, 3, 6, 9)]
    assert pages == [["0", "6", "5"], ["4", "3", "2"], ["1"], []]
    assert keys(store.search(("n",), filter={"even": True}, limit=2, offset=1)) == ["6", "4"]
    assert len(store.search(("n",), limit=2**70)) == len(store.search(("n",), limit=7))
    assert store.search(("n",), offset=2**70) == []
    asked = {"query": "even", "limit": 3}
    ranked = [keys(store.search(("n",), offset=start, **asked)) for start in (0, 3, 6)]
    assert sorted(chain(*ranked)) == list("0123456")


def test_times_tell_creation_from_change(store: ChromaStore) -> None:
    store.put(("n",), "k", {"v": 1})
    first = store.get(("n",), "k")
    store.put(("n",), "k", {"v": 2})
    second = store.get(("n",), "k")
    assert second.created_at == first.created_at == first.updated_at < second.updated_at
    assert second.created_at.tzinfo is not None


def test_any_json_comes_back(store: ChromaStore) -> None:
    value = {"": None, "n": 2**70, "f": 0.1, "b": [True, {"日": []}], "s": "\0 \ud83d 🐕"}
    store.put(("n",), "k", value)
    assert store.get(("n",), "k").value == value
    assert keys(store.search(("n",), query="🐕 日")) == ["k"]


# --- isolation -----------------------------------------------------------------------------------

TWINS = [
    (("mem", "u1"), ("mem", "u10")),
    (("acme",), ("acme-corp",)),
    (("acme",), ("ACME",)),
    (("a_b",), ("axb",)),
    (("a%",), ("abc",)),
    (("a*",), ("ab",)),
    (("[ab]",), ("a",)),
    (("é",), ("e\u0301",)),
    (("ß",), ("ss",)),
    (("user",), ("user\n",)),
    (("user",), ("user/",)),
    (("user",), ("user-", "x")),
    (("日本",), ("日本語",)),
    (("x" * 600,), ("x" * 601,)),
]


@pytest.mark.parametrize(("own", "other"), TWINS + [(b, a) for a, b in TWINS])
@pytest.mark.parametrize("query", [None, "secret nuts"])
def test_twins_never_see_each_other(
    shared: ChromaStore, own: tuple[str, ...], other: tuple[str, ...], query: str | None
) -> None:
    store = emptied(shared)
    store.put(other, "k", {"text": "secret nuts"})
    store.put((*other, "below"), "k", {"text": "secret nuts"})
    assert store.search(own, query=query) == []
    assert store.get(own, "k") is None
    assert store.list_namespaces(prefix=own) == []
    store.delete(own, "k")
    assert len(store.search(other, query=query)) == 2


@pytest.mark.parametrize("labels", [("a.b",), ("a", ""), ("a", 7), ("a\0",)])
def test_labels_that_langgraph_refuses(store: ChromaStore, labels: Any) -> None:
    for op in (PutOp(labels, "k", NUTS), GetOp(labels, "k"), SearchOp(labels)):
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph", "x"), "k", NUTS)


def test_a_text_is_no_namespace(store: ChromaStore) -> None:
    """Its letters would be labels, and `al` would find what is of `alice`."""
    for use in (
        lambda: store.put("alice", "k", {"text": "nuts"}),  # type: ignore[arg-type]
        lambda: store.get("alice", "k"),  # type: ignore[arg-type]
        lambda: store.delete("alice", "k"),  # type: ignore[arg-type]
        lambda: store.search("al"),  # type: ignore[arg-type]
        lambda: store.list_namespaces(prefix="al"),  # type: ignore[arg-type]
        lambda: store.list_namespaces(suffix="ce"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidNamespaceError, match="tuple of labels"):
            use()


def test_a_large_namespace_does_not_hide_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_search, "_SMALL", 10)
    narrow = Settings(
        storage=StorageSettings(index_batch=1), ranking=RankingSettings(dense_candidates=5)
    )
    with ChromaStore(tmp_path, embeddings="hash", settings=narrow) as store:
        crowd = [PutOp(("crowd",), str(n), {"t": f"red apple {n}"}) for n in range(60)]
        store.batch([*crowd, *(PutOp(("few",), str(n), {"t": f"pear {n}"}) for n in range(12))])
        assert len(store.search(("few",), query="red apple", limit=5)) == 5
        assert keys(store.search(("few",), query="red apple", limit=5)) == keys(
            store.search(("few",), query="red apple", limit=12)[:5]
        )
        assert keys(store.search(("crowd",), query="red apple 31", limit=2))[0] == "31"
        only = store.search(("crowd",), query="red apple", filter={"t": {"$eq": "red apple 7"}})
        assert keys(only) == ["7"]


# --- search --------------------------------------------------------------------------------------


def test_meaning_and_words_rank(store: ChromaStore) -> None:
    store.put(("n",), "nuts", NUTS)
    store.put(("n",), "order", {"text": "The order has the number QX-7731."})
    store.put(("n",), "garden", {"text": "The garden needs water."})
    store.put(("n",), "hidden", {"text": "Alice eats nuts."}, index=False)
    best, *_, last = store.search(("n",), query="Alice nuts")
    assert best.key == "nuts"
    assert 0 < best.score <= 1.0001
    assert (last.key, last.score) == ("hidden", None)
    assert keys(store.search(("n",), query="QX-7731", limit=1)) == ["order"]


@pytest.mark.parametrize("ranking", ["hybrid", "rrf", "dense", "words"])
def test_every_ranking_finds_the_right_one(tmp_path: Path, ranking: Any) -> None:
    method = Settings(ranking=RankingSettings(method=ranking))
    with ChromaStore(tmp_path, embeddings="hash", settings=method) as store:
        for n, word in enumerate("apple pear plum cherry fig".split()):
            store.put(("n",), str(n), {"text": f"I like a {word} in the morning"})
        found = store.search(("n",), query="cherry morning")
    assert (found[0].key, len(found)) == ("3", 5)


def test_indexed_paths(tmp_path: Path) -> None:
    index: Any = {"fields": ["title"]}
    value = {"title": "Weather", "body": "kangaroo", "parts": [{"t": "wombat"}, {"t": "emu"}]}
    with ChromaStore(tmp_path, embeddings="hash", index=index) as store:
        store.put(("n",), "default", value)
        store.put(("n",), "body", value, index=["body"])
        store.put(("n",), "parts", value, index=["parts[*].t", "missing"])
        for query, best in (("weather", "default"), ("kangaroo", "body"), ("emu", "parts")):
            assert keys(store.search(("n",), query=query, limit=1)) == [best]
        store.put(("n",), "body", value, index=["title"])
        assert store.search(("n",), query="kangaroo", limit=1)[0].score < 0.5


def test_a_changed_item_is_found_by_its_new_words_alone(tmp_path: Path) -> None:
    with ChromaStore(tmp_path, embeddings="hash", settings=EAGER) as store:
        store.put(("n",), "k", {"text": "likes tea"}, index=["text"])
        store.put(("n",), "k", {"text": "drinks coffee"}, index=["text"])
        assert store.search(("n",), query="tea")[0].score == pytest.approx(0, abs=0.2)
        assert store.search(("n",), query="drinks coffee")[0].score == pytest.approx(1)
        store.delete(("n",), "k")
        assert store.search((), query="coffee") == []


def test_an_unchanged_text_is_not_embedded_again(
    tmp_path: Path, troubled: TroubledEmbeddings
) -> None:
    with ChromaStore(tmp_path, embeddings=troubled, index={"fields": ["text"]}) as store:
        store.put(("n",), "k", NUTS | {"seen": 1})
        calls = troubled.calls
        store.put(("n",), "k", NUTS | {"seen": 2})
        assert (troubled.calls, store.get(("n",), "k").value["seen"]) == (calls, 2)


def test_embed_of_the_index_configuration(tmp_path: Path) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, float("nut" in text)] for text in texts]

    async def later(texts: list[str]) -> list[list[float]]:
        return embed(texts)

    with ChromaStore(tmp_path / "1", index={"dims": 2, "embed": embed}) as store:
        store.put(("n",), "other", {"text": "none"})
        store.put(("n",), "k", NUTS)
        assert keys(store.search(("n",), query="nut", limit=1)) == ["k"]
    with pytest.raises(InvalidInputError, match="synchronous"):
        ChromaStore(tmp_path / "2", index={"dims": 2, "embed": later})
    with pytest.raises(InvalidInputError, match="once"):
        ChromaStore(tmp_path / "2", embeddings="hash", index={"dims": 2, "embed": embed})
    with pytest.raises(InvalidInputError, match="paths"):
        ChromaStore(tmp_path / "2", embeddings="hash", index={"fields": "text"})  # type: ignore[typeddict-item]


def test_wrong_dims_are_said_and_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ChromaStore(tmp_path, embeddings="hash", index={"dims": 3}) as store:
        store.put(("n",), "k", NUTS)
        assert keys(store.search(("n",), query="nuts")) == ["k"]
    assert "index['dims'] says 3" in caplog.text


# --- what happens when something fails -----------------------------------------------------------


def vectors_in(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "items" / "ledger.db")) as ledger:
        return int(ledger.execute("SELECT count(*) FROM vectors").fetchone()[0])


def test_everything_is_there_after_reopening(reopen: Callable[..., ChromaStore]) -> None:
    store = reopen()
    store.put(("n", "deep"), "k", NUTS)
    before = store.get(("n", "deep"), "k")
    store = reopen()
    assert store.get(("n", "deep"), "k") == before
    assert keys(store.search(("n",), query="nuts")) == ["k"]
    assert store.list_namespaces() == [("n", "deep")]


@pytest.mark.parametrize("damage", ["delete", "scribble"])
def test_chroma_is_filled_anew_from_the_ledger(
    reopen: Callable[..., ChromaStore], tmp_path: Path, troubled: TroubledEmbeddings, damage: str
) -> None:
    store = reopen(embeddings=troubled)
    store.batch([PutOp(("n",), str(n), {"text": f"note number {n}"}) for n in range(30)])
    store.close()
    calls = troubled.calls
    for folder in (tmp_path / "store" / "items").glob("chroma-*"):
        if damage == "delete":
            shutil.rmtree(folder)
        else:
            (folder / "chroma.sqlite3").write_bytes(b"no database")
    store = reopen(embeddings=troubled)
    assert troubled.calls == calls
    assert store._folder.index.count("items") == 30
    assert keys(store.search(("n",), query="note number 17", limit=1)) == ["17"]


def test_chroma_holds_what_is_current(tmp_path: Path) -> None:
    with ChromaStore(tmp_path, embeddings="hash", settings=EAGER) as store:
        for n in range(6):
            store.put(("n",), str(n % 3), {"text": f"note number {n}"})
        store.delete(("n",), "0")
        assert store._folder.index.count("items") == 2
        store.rebuild()
        assert store._folder.index.count("items") == 2
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


def test_one_bad_text_blocks_no_other(tmp_path: Path, troubled: TroubledEmbeddings) -> None:
    troubled.poison = "poison"
    with ChromaStore(tmp_path, embeddings=troubled) as store:
        store.batch([PutOp(("n",), t, {"text": t}) for t in ("apple", "poison", "pear")])
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


# --- processes, threads, loops -------------------------------------------------------------------


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
    other = (
        f"from langmem_graph import ChromaStore; ChromaStore({str(tmp_path)!r}, embeddings='hash')"
    )
    with ChromaStore(tmp_path, embeddings="hash"):
        done = subprocess.run(
            [sys.executable, "-c", other], capture_output=True, text=True, check=False
        )
    assert MemoryLockedError.__name__ in done.stderr


def test_eight_threads(tmp_path: Path) -> None:
    with ChromaStore(
        tmp_path, embeddings="hash", settings=Settings(storage=StorageSettings(index_batch=16))
    ) as store:

        def work(n: int) -> None:
            own = ("thread", str(n))
            for k in range(12):
                store.put(own, str(k), {"text": f"thread {n} wrote {k}"})
                store.put(("thread", "all"), "k", {"text": f"{n} {k}"})
                assert {one.namespace for one in store.search(own, query=f"wrote {k}")} == {own}
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


# --- in graphs -----------------------------------------------------------------------------------


@tool
def keep(text: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Keep a text."""
    store.put(("kept",), "k", {"text": text})
    return "kept"


def look(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    found = runtime.store.search(("kept",), query="nuts")
    return {"messages": [AIMessage(found[0].value["text"])]}


async def look_async(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    found = await runtime.store.asearch(("kept",), query="nuts")
    return {"messages": [AIMessage(found[0].value["text"])]}


def graph_with(store: BaseStore, node: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([keep]))
    builder.add_node("look", node)
    builder.add_edge(START, "tools")
    builder.add_edge("tools", "look")
    return builder.compile(store=store)


def call(text: str) -> dict[str, Any]:
    one = {"name": "keep", "args": {"text": text}, "id": "1"}
    return {"messages": [AIMessage("", tool_calls=[one])]}


async def test_a_graph_uses_it(store: ChromaStore) -> None:
    sync = graph_with(store, look)
    answer = await asyncio.to_thread(sync.invoke, call("Ana eats no nuts"))
    assert answer["messages"][-1].content == "Ana eats no nuts"
    with blockbuster_ctx():
        answer = await graph_with(store, look_async).ainvoke(call("Bo eats no nuts"))
    assert answer["messages"][-1].content == "Bo eats no nuts"


def test_langmems_tools_run_on_it(store: ChromaStore) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import uses what LangGraph deprecates
        langmem = pytest.importorskip("langmem", reason="langmem is not installed")
    manage = langmem.create_manage_memory_tool(namespace=("memories", "{user}"), store=store)
    look = langmem.create_search_memory_tool(namespace=("memories", "{user}"), store=store)
    ana, bo = ({"configurable": {"user": name}} for name in ("ana", "bo"))
    manage.invoke({"content": "Ana eats no nuts.", "action": "create"}, config=ana)
    (kept,) = store.search(("memories", "ana"))
    assert "no nuts" in look.invoke({"query": "nuts"}, config=ana)
    assert "no nuts" not in look.invoke({"query": "nuts"}, config=bo)
    changed = {"id": kept.key, "action": "update", "content": "Ana eats nuts again."}
    manage.invoke(changed, config=ana)
    assert "again" in look.invoke({"query": "nuts"}, config=ana)
    manage.invoke({"id": kept.key, "action": "delete"}, config=ana)
    assert store.search(("memories",)) == []
