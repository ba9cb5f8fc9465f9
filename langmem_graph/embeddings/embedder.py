"""Wraps any LangChain embedder: its name, checked unit vectors, and pieces of long texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from langmem_graph.errors import EmbeddingError, InvalidInputError

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

Vectors = NDArray[np.float32]
Span = tuple[int, int]
PIECE_CHARS = 1_000  # for embedders that do not say where to split: about 250 tokens of English
NAME_FIELDS = ("model_name", "model", "model_id", "repo_id", "deployment")


@runtime_checkable
class Splitter(Protocol):
    """An embedder that can split texts so that each piece fits its context window."""

    def split(self, text: str) -> list[Span]:
        """Character spans that together cover the text, each within the window."""


class Embedder:
    """Wraps LangChain `Embeddings`; its vectors are finite, of unit length and of one size."""

    def __init__(self, embeddings: "Embeddings") -> None:
        self._embeddings = embeddings
        self.name = _name(embeddings)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (texts, size).

        Raises:
            EmbeddingError: the embedder raised an error or its answer is unusable.
        """
        try:
            answer = self._embeddings.embed_documents(list(texts))
        except Exception as error:  # every provider raises errors of its own
            raise EmbeddingError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        return self._checked(answer, len(texts))

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query, of shape (size,)."""
        try:
            answer = self._embeddings.embed_query(text)
        except Exception as error:
            raise EmbeddingError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        vector: Vectors = self._checked([answer], 1)[0]
        return vector

    def spans(self, text: str, limit: int) -> list[Span]:
        """Where to split a text so that every piece fits the embedder's window."""
        if isinstance(self._embeddings, Splitter):
            try:
                return self._embeddings.split(text)[:limit] or [(0, len(text))]
            except Exception as error:
                raise EmbeddingError(f"{self.name} cannot split a text: {error}") from error
        return _split_at_spaces(text)[:limit]

    def _checked(self, answer: object, expected: int) -> Vectors:
        try:
            vectors = np.asarray(answer, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EmbeddingError(f"{self.name} returned no rows of numbers: {error}") from error
        if vectors.ndim != 2 or vectors.shape[0] != expected or vectors.shape[1] == 0:
            raise EmbeddingError(
                f"{self.name} returned shape {vectors.shape} for {expected} texts."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
            raise EmbeddingError(f"{self.name} returned a zero, infinite or not-a-number vector.")
        unit: Vectors = vectors / lengths
        return unit


def _name(embeddings: "Embeddings") -> str:
    """The class and model of an embedder, which are recorded with its vectors."""
    named = (getattr(embeddings, field, None) for field in NAME_FIELDS)
    model = next((value for value in named if value and isinstance(value, str)), "")
    return f"{type(embeddings).__name__}:{model}" if model else type(embeddings).__name__


def _split_at_spaces(text: str) -> list[Span]:
    spans, start = [], 0
    while len(text) - start > PIECE_CHARS:
        space = text.rfind(" ", start + PIECE_CHARS // 2, start + PIECE_CHARS)
        end = space + 1 if space > 0 else start + PIECE_CHARS
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def load_embedder(embeddings: "Embeddings | str | None") -> Embedder:
    """The embedder for `Memory(embeddings=...)`.

    Args:
        embeddings: None is MiniLM on this machine; `"hash"` is the test embedder; another string
            is given to `langchain.embeddings.init_embeddings`; an object is used as it is.

    Raises:
        InvalidInputError: it is none of these, or the named embedder cannot be created.
    """
    if embeddings is None:
        from langmem_graph.embeddings.minilm import MiniLMEmbeddings

        return Embedder(MiniLMEmbeddings())
    if isinstance(embeddings, str):
        return Embedder(embeddings_by_name(embeddings))
    from langchain_core.embeddings import Embeddings

    if not isinstance(embeddings, Embeddings):
        raise InvalidInputError(
            f"embeddings must be a LangChain Embeddings object, a name or None, not {embeddings!r}."
        )
    return Embedder(embeddings)


def embeddings_by_name(name: str) -> "Embeddings":
    """The embedder that `init_embeddings` makes from this name, or, for `"hash"`, the test one."""
    if name == "hash":
        from langmem_graph.testing import HashEmbeddings

        return HashEmbeddings()
    from langchain.embeddings import init_embeddings
    from langchain_core.embeddings import Embeddings

    try:
        embeddings = init_embeddings(name)
    except Exception as error:  # every provider raises errors of its own
        raise InvalidInputError(
            f"No embedder {name!r}: {type(error).__name__}: {error} Give 'provider:model', e.g. "
            "'openai:text-embedding-3-small', or a LangChain Embeddings object."
        ) from error
    if not isinstance(embeddings, Embeddings):
        raise InvalidInputError(
            f"{name!r} is not an embedder. Give 'provider:model' or a LangChain Embeddings object."
        )
    return embeddings
