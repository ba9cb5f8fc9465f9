"""LangGraph's long-term store interface on a ledger and Chroma: `ChromaStore`."""

from langmem_graph.lang_store.chroma_store import ChromaStore

__all__ = ["ChromaStore"]
