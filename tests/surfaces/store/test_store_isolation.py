"""Namespaces of a ChromaStore that look alike stay apart."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

from langmem_graph.settings import RankingSettings, Settings, StorageSettings
from langmem_graph.store import items
from langmem_graph.store.chroma_store import ChromaStore
from tests.support.store_items import NUTS, emptied, keys

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
    monkeypatch.setattr(items, "_SMALL", 10)
    narrow = Settings(
        storage=StorageSettings(index_batch=1),
        ranking=RankingSettings(dense_candidates=5),
    )
    with ChromaStore(tmp_path, embeddings="hash", settings=narrow) as store:
        crowd = [PutOp(("crowd",), str(n), {"t": f"red apple {n}"}) for n in range(60)]
        store.batch(
            [*crowd, *(PutOp(("few",), str(n), {"t": f"pear {n}"}) for n in range(12))]
        )
        assert len(store.search(("few",), query="red apple", limit=5)) == 5
        assert keys(store.search(("few",), query="red apple", limit=5)) == keys(
            store.search(("few",), query="red apple", limit=12)[:5]
        )
        assert keys(store.search(("crowd",), query="red apple 31", limit=2))[0] == "31"
        only = store.search(
            ("crowd",), query="red apple", filter={"t": {"$eq": "red apple 7"}}
        )
        assert keys(only) == ["7"]
