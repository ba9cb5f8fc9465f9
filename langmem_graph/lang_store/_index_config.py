"""What LangGraph's `IndexConfig` means here: which embedder, and which fields."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langgraph.store.base import IndexConfig, ensure_embeddings

from langmem_graph.embeddings._embedder import Embedder, Vectors, load_embedder
from langmem_graph.errors import EmbeddingError, InvalidInputError
from langmem_graph.lang_store._operations import check_paths

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


class _Sized(Embedder):
    """An embedder whose vectors must have the size that was announced."""

    def __init__(self, embedder: Embedder, size: int) -> None:
        super().__init__(embedder._embeddings)
        self._size = size

    def _checked(self, answer: object, expected: int) -> Vectors:
        vectors = super()._checked(answer, expected)
        if vectors.shape[1] != self._size:
            raise EmbeddingError(
                f"{self.name} returned {vectors.shape[1]} numbers per text; index['dims'] says "
                f"{self._size}. Correct or leave out dims."
            )
        return vectors


def fields_of(index: IndexConfig | None) -> Sequence[str]:
    """The paths that are indexed by default."""
    return check_paths((index or {}).get("fields") or ["$"])


def embedder_of(embeddings: "Embeddings | str | None", index: IndexConfig | None) -> Embedder:
    """The embedder that either argument names.

    Raises:
        InvalidInputError: when both do, or neither can be used.
    """
    named = (index or {}).get("embed")
    if named is not None and embeddings is not None:
        raise InvalidInputError("Give the embedder once: as embeddings or as index['embed'].")
    embedder = load_embedder(_as_embeddings(named) if embeddings is None else embeddings)
    size = (index or {}).get("dims")
    return embedder if size is None else _Sized(embedder, size)


def _as_embeddings(named: Any) -> "Embeddings | str | None":
    if named is None or isinstance(named, str):
        return named
    wrapped = ensure_embeddings(named)
    if hasattr(wrapped, "afunc") and not hasattr(wrapped, "func"):
        raise InvalidInputError(
            "index['embed'] is an async function; the store embeds in worker threads. Give a "
            "synchronous function or a LangChain Embeddings object."
        )
    return wrapped
