"""LangGraph's long-term store interface on a ledger and Chroma: `ChromaStore`."""

from langmem_graph.store.chroma_store import ChromaStore

__all__ = ["ChromaStore"]
