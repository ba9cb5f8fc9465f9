"""Embedders: MiniLM, other models on ONNX Runtime, any LangChain `Embeddings`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langmem_graph.embeddings.minilm import MiniLMEmbeddings
    from langmem_graph.embeddings.onnx_model import OnnxEmbeddings

__all__ = ["MiniLMEmbeddings", "OnnxEmbeddings"]


def __getattr__(name: str) -> Any:
    if name == "MiniLMEmbeddings":
        from langmem_graph.embeddings.minilm import MiniLMEmbeddings

        return MiniLMEmbeddings
    if name == "OnnxEmbeddings":
        from langmem_graph.embeddings.onnx_model import OnnxEmbeddings

        return OnnxEmbeddings
    raise AttributeError(name)
