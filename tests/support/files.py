"""Where memory keeps its files."""

from pathlib import Path

from langmem_graph.ids_and_times import folder_name
from langmem_graph.memory import Memory


def folder(memory: Memory, user_id: str) -> Path:
    return memory.path / "users" / folder_name(user_id)
