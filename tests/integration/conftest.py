"""A directory with two users' memory, for a server."""

from pathlib import Path

import pytest

from langmem_graph.memory import Memory
from tests.conftest import said


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return two_users(tmp_path)


def two_users(home: Path) -> Path:
    """Make a memory in which two users have said something, and one has a record."""
    with Memory(home / "memory", embeddings="hash") as memory:
        ana = memory.user("ana")
        ana.add(said("I always take an aisle seat.", id="m1"), session_id="old")
        row = {
            "text": "Ana prefers aisle seats.",
            "source_message_ids": ["m1"],
            "record_id": "r1",
        }
        ana.add_records([row])
        memory.user("bob").add(
            said("I always take a window seat.", id="b1"), session_id="old"
        )
    return home
