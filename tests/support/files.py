"""Where memory keeps its files."""

from pathlib import Path

from langmem_graph.memory import Memory
from langmem_graph.messages import folder_name


def folder(memory: Memory, user_id: str) -> Path:
    return memory.path / "users" / folder_name(user_id)
