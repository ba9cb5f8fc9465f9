"""Embedders: MiniLM on ONNX Runtime, and any LangChain `Embeddings`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langmem_graph.embeddings.minilm import MiniLMEmbeddings

__all__ = ["MiniLMEmbeddings"]


def __getattr__(name: str) -> Any:
    if name == "MiniLMEmbeddings":
        from langmem_graph.embeddings.minilm import MiniLMEmbeddings

        return MiniLMEmbeddings
    raise AttributeError(name)
