"""Language models: which one is asked, and how."""

from langmem_graph.llm.chat_models import load_chat_model

__all__ = ["load_chat_model"]
