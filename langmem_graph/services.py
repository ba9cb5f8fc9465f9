"""What one `Memory` shares with its users' memories: rooms, embedder and settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from langmem_graph.config import Settings
from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.store import outbox
from langmem_graph.store.room import Room
from langmem_graph.store.root import Root


@dataclass(frozen=True)
class Services:
    """Passed to every step instead of globals."""

    root: Root
    embedder: Embedder
    settings: Settings
    read_only: bool

    @contextmanager
    def room(self, user_id: str) -> Iterator[Room]:
        """The user's room; work left due by an earlier process is done at its first opening."""
        with self.root.room(user_id) as room:
            if not room.healed:
                room.healed = True
                outbox.drain(room, self.embedder, self.settings, all_vectors=True)
            yield room
