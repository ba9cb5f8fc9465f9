"""ChromaStore answers as LangGraph's own SqliteStore does."""

from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langmem_graph.store.chroma_store import ChromaStore
from tests.support.examples import examples
from tests.support.store_items import NUTS, emptied, keys

LABELS = st.sampled_from(
    ["a", "A", "ab", "a%", "a_", "a*", "[a]", "é", "a b", "日", "a/b", "a-b"]
)
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k%", "", "ключ", "k.1"])
DEEP: dict[str, Any] = {}
for _ in range(3_000):
    DEEP = {"a": DEEP}
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, 2.5])
WORDS = st.sampled_from(["", "x", "X", "xy", "'; --", "ü"])

VALUES = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS | st.none(),
        "s": WORDS | st.none(),
        "b": st.booleans(),
        "deep": st.recursive(
            WORDS | NUMBERS, lambda one: st.lists(one, max_size=2), max_leaves=3
        ),
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


@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(batches=st.lists(st.lists(OPS, min_size=1, max_size=8), min_size=1, max_size=6))
def test_it_answers_as_sqlite_store_does(
    shared: ChromaStore, batches: list[list[Any]]
) -> None:
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
    assert keys(store.search(("n",), filter=wanted)) == keys(
        other.search(("n",), filter=wanted)
    )


@pytest.mark.parametrize(
    "wanted", [{"a": {"$in": [1]}}, {"a": {"$regex": "x"}}, {"a": {"b": {"$no": 1}}}]
)
def test_unknown_operators_are_refused_even_where_nothing_is(
    store: ChromaStore, wanted: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="operator"):
        store.search(("nobody",), filter=wanted)


def test_a_batch_reads_the_state_before_it_and_a_later_put_wins(
    store: ChromaStore,
) -> None:
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
        PutOp(("n",), "bad", {"v": [float("nan")]}),
        PutOp(("n",), "bad", {"v": float("-inf")}),
        PutOp(("n",), "bad", {"v": "half a \ud83d"}),
        PutOp(("n",), "bad", {"v": "two halves \ud83d\udc15"}),
        PutOp(("n",), "bad", {"\udc15": 1}),
        PutOp(("n",), "bad", NUTS, ttl=float("nan")),
        PutOp(("n",), "bad", NUTS, ttl=1e300),
        PutOp(("n",), "bad", NUTS, ttl="5"),  # type: ignore[arg-type]
        PutOp(("n",), "bad", NUTS, index="text"),
        PutOp((), "bad", NUTS),
        PutOp(("n", "\ud800"), "bad", NUTS),
        SearchOp(("n",), limit=-1),
        SearchOp(("n",), limit=1.5),  # type: ignore[arg-type]
        SearchOp(("n",), filter=5),  # type: ignore[arg-type]
        SearchOp(("n",), filter={"a": {1: "b"}}),
        SearchOp(("n",), filter=DEEP),
        ListNamespacesOp(limit=None),  # type: ignore[arg-type]
        ListNamespacesOp(max_depth="x"),  # type: ignore[arg-type]
        ListNamespacesOp(match_conditions=(MatchCondition("infix", ("n",)),)),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            store.batch([PutOp(("n",), "good", NUTS), bad])
    assert store.search(()) == []


def test_a_page_may_be_larger_than_any_number_of_items(store: ChromaStore) -> None:
    store.put(("n",), "k", NUTS)
    for query in (None, "nuts"):
        assert keys(store.search(("n",), query=query, limit=2**70)) == ["k"]
        assert store.search(("n",), query=query, offset=2**70) == []


def test_pages_are_newest_first_and_do_not_overlap(store: ChromaStore) -> None:
    for n in range(7):
        store.put(("n",), str(n), {"even": n % 2 == 0})
    store.put(("n",), "0", {"even": True, "changed": 1})
    pages = [
        keys(store.search(("n",), limit=3, offset=start)) for start in (0, 3, 6, 9)
    ]
    assert pages == [["0", "6", "5"], ["4", "3", "2"], ["1"], []]
    assert keys(store.search(("n",), filter={"even": True}, limit=2, offset=1)) == [
        "6",
        "4",
    ]
    assert len(store.search(("n",), limit=2**70)) == len(store.search(("n",), limit=7))
    assert store.search(("n",), offset=2**70) == []
    asked = {"query": "even", "limit": 3}
    ranked = [keys(store.search(("n",), offset=start, **asked)) for start in (0, 3, 6)]
    assert sorted(chain(*ranked)) == list("0123456")


def test_namespaces_are_listed_by_their_ends(store: ChromaStore) -> None:
    for namespace in (("ana", "notes"), ("bob", "notes"), ("notes", "old")):
        store.put(namespace, "k", NUTS)
    assert store.list_namespaces(suffix=("notes",)) == [
        ("ana", "notes"),
        ("bob", "notes"),
    ]


def test_times_tell_creation_from_change(store: ChromaStore) -> None:
    store.put(("n",), "k", {"v": 1})
    first = store.get(("n",), "k")
    store.put(("n",), "k", {"v": 2})
    second = store.get(("n",), "k")
    assert second.created_at == first.created_at == first.updated_at < second.updated_at
    assert second.created_at.tzinfo is not None


def test_any_json_comes_back(store: ChromaStore) -> None:
    value = {"": None, "n": 2**70, "f": 0.1, "b": [True, {"日": []}], "s": "\0 🐕"}
    store.put(("n",), "k", value)
    assert store.get(("n",), "k").value == value
    assert keys(store.search(("n",), query="🐕 日")) == ["k"]
