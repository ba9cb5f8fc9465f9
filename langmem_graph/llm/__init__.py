"""Language models: which one talks, and stand-ins for when there is none."""

from langmem_graph.llm.chat_model import load_chat_model
from langmem_graph.llm.reciting import RecitingChatModel
from langmem_graph.llm.rehearsed import RehearsedChatModel

__all__ = ["RecitingChatModel", "RehearsedChatModel", "load_chat_model"]
