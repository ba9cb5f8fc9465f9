"""One scale for the cosines of all embedders."""

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from langmem_graph.embeddings.cosine_scale import (
    PLAIN,
    UNIT,
    CosineScale,
    measured_scale,
)
from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from tests.conftest import TroubledEmbeddings


class Squeezed(Embeddings):
    """MiniLM with a large part that all texts share, so that all cosines are high."""

    model_name = "squeezed"

    def __init__(self) -> None:
        self._inner = MiniLMEmbeddings()
        self.calls = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        return [[*vector, 2.0] for vector in self._inner.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_the_scale_of_minilm_is_the_measured_one() -> None:
    measured = measured_scale(Embedder(MiniLMEmbeddings()).embed)
    assert measured.unrelated == pytest.approx(
        MiniLMEmbeddings.cosine_scale.unrelated, abs=0.01
    )
    assert measured.alike == pytest.approx(
        MiniLMEmbeddings.cosine_scale.alike, abs=0.01
    )


def test_an_embedder_of_high_cosines_is_stretched() -> None:
    embedder = Embedder(Squeezed())
    assert embedder.scale.unrelated > 0.7
    scaled = embedder.scale.of(
        np.array([embedder.scale.unrelated, embedder.scale.alike, 0.0])
    )
    assert scaled == pytest.approx([0.0, UNIT, 0.0])


def test_it_is_measured_once(tmp_path: object) -> None:
    squeezed = Squeezed()
    with Memory(f"{tmp_path}/m", embeddings=squeezed) as memory:
        user = memory.user("ana")
        user.add([("user", "I like tea.")], session_id="s")
        user.search_conversation("tea")
        calls = squeezed.calls
        user.search_conversation("coffee")
        assert squeezed.calls == calls + 1


def test_an_embedder_that_fails_leaves_cosines_as_they_are() -> None:
    troubled = TroubledEmbeddings()
    embedder = Embedder(troubled)
    troubled.down = True
    assert embedder.scale == PLAIN
    troubled.down = False
    assert embedder.scale != PLAIN


def test_an_embedder_that_tells_nothing_apart_is_not_stretched_without_end() -> None:
    flat = CosineScale(unrelated=0.9, alike=0.9)
    assert flat.of(np.array([1.0]))[0] == pytest.approx(2.0)
    assert HashEmbeddings.cosine_scale == PLAIN
