"""Search in a ChromaStore."""

from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.settings import RankingSettings, Settings
from langmem_graph.store.chroma_store import ChromaStore
from tests.conftest import TroubledEmbeddings
from tests.support.store_items import EAGER, NUTS, keys


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
    value = {
        "title": "Weather",
        "body": "kangaroo",
        "parts": [{"t": "wombat"}, {"t": "emu"}],
    }
    with ChromaStore(tmp_path, embeddings="hash", index=index) as store:
        store.put(("n",), "default", value)
        store.put(("n",), "body", value, index=["body"])
        store.put(("n",), "parts", value, index=["parts[*].t", "missing"])
        for query, best in (
            ("weather", "default"),
            ("kangaroo", "body"),
            ("emu", "parts"),
        ):
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
    with ChromaStore(
        tmp_path, embeddings=troubled, index={"fields": ["text"]}
    ) as store:
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
        assert store.index_config == {"fields": ["$"], "dims": 2, "embed": embed}
        assert store.embeddings.embed_query("nut") == [1.0, 1.0]
    with pytest.raises(InvalidInputError, match="synchronous"):
        ChromaStore(tmp_path / "2", index={"dims": 2, "embed": later})
    with pytest.raises(InvalidInputError, match="once"):
        ChromaStore(
            tmp_path / "2", embeddings="hash", index={"dims": 2, "embed": embed}
        )
    with pytest.raises(InvalidInputError, match="paths"):
        ChromaStore(tmp_path / "2", embeddings="hash", index={"fields": "text"})  # type: ignore[typeddict-item]


def test_wrong_dims_are_said_and_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ChromaStore(tmp_path, embeddings="hash", index={"dims": 3}) as store:
        store.put(("n",), "k", NUTS)
        assert keys(store.search(("n",), query="nuts")) == ["k"]
    assert "index['dims'] says 3" in caplog.text


def test_the_url_of_a_database_is_refused_and_makes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="AsyncPostgresStore") as refused:
        ChromaStore("postgresql://app:secret@db/memory")
    assert "secret" not in str(refused.value)
    monkeypatch.setenv("LANGMEM_GRAPH_DIR", "postgresql://app@db/memory")
    with pytest.raises(InvalidInputError, match="directory"):
        ChromaStore.from_environment()
    assert list(tmp_path.iterdir()) == []
