"""Language models: which one talks, and a stand-in for when there is none."""

from langmem_graph.llm.chat_model import load_chat_model
from langmem_graph.llm.reciting import RecitingChatModel

__all__ = ["RecitingChatModel", "load_chat_model"]
