"""Reads conversation files of other programs into messages that `user.add` takes."""

from langmem_graph.importers.chat_jsonl import Conversation
from langmem_graph.importers.detect import read_conversations, read_records

__all__ = ["Conversation", "read_conversations", "read_records"]
