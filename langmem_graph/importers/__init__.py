"""Reads conversation files of other programs into messages that `user.add` takes."""

from langmem_graph.importers._detect import read_conversations, read_records
from langmem_graph.importers._types import Conversation

__all__ = ["Conversation", "read_conversations", "read_records"]
