"""Chat models, structured calls, prompts, and the schemas of the answers."""

from langmem_graph.llm.chat_models import load_chat_model

__all__ = ["load_chat_model"]
