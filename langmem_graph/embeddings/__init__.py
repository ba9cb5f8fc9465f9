"""Embedders: MiniLM on ONNX Runtime, any LangChain `Embeddings`, and one for tests."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langmem_graph.embeddings.minilm import MiniLMEmbeddings
    from langmem_graph.testing import HashEmbeddings

__all__ = ["HashEmbeddings", "MiniLMEmbeddings"]


def __getattr__(name: str) -> Any:
    if name == "HashEmbeddings":
        from langmem_graph.testing import HashEmbeddings

        return HashEmbeddings
    if name == "MiniLMEmbeddings":
        from langmem_graph.embeddings.minilm import MiniLMEmbeddings

        return MiniLMEmbeddings
    raise AttributeError(name)
