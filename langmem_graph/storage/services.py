"""What one `Memory` shares with its users' memories: rooms, embedder and settings."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import ClosedMemoryError, LangMemGraphError, for_log
from langmem_graph.settings import Settings
from langmem_graph.storage import embed_and_index, extraction_queue, secure_delete
from langmem_graph.storage.directory import MemoryDirectory
from langmem_graph.storage.room import Room

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass
class Services:
    """Passed to every step instead of globals."""

    directory: MemoryDirectory
    embedder: Embedder
    settings: Settings
    read_only: bool
    closed: bool = False
    on_opened: Callable[[str], None] | None = None
    """Told of each user's room when it is first opened: something may be due there."""

    def has(self, user_id: str) -> bool:
        """False when nothing was ever stored of this user: reading then finds nothing.

        With `read_only` a missing user is an error instead, raised on opening the room.
        """
        self.check_open()
        return self.read_only or self.directory.has(user_id)

    @contextmanager
    def room(self, user_id: str) -> Iterator[Room]:
        """The user's room; work left due by an earlier process is done at its first opening."""
        self.check_open()
        with self.directory.room(user_id) as room:
            if not room.healed:
                room.healed = True
                _remove_traces(room)
                self._log_warnings(embed_and_index.drain_all(room, self.embedder, self.settings))
                if self.on_opened and _is_unread(room):
                    self.on_opened(user_id)
            yield room

    async def in_room(self, user_id: str, work: Callable[[Room], T]) -> T:
        """Do it with the user's room, in a worker thread."""

        def inside() -> T:
            with self.room(user_id) as room:
                return work(room)

        return await asyncio.to_thread(inside)

    async def in_known_room(self, user_id: str, work: Callable[[Room], T], nothing: T) -> T:
        """As `in_room`; `nothing` where nothing was ever stored of this user."""

        def inside() -> T:
            if not self.has(user_id):
                return nothing
            with self.room(user_id) as room:
                return work(room)

        return await asyncio.to_thread(inside)

    def close(self) -> None:
        """Finish due work as far as possible, then let go of everything."""
        self.closed = True
        try:
            if not (self.read_only or self.directory.is_foreign()):
                self._finish_due_work()
        finally:
            self.directory.release()

    def _finish_due_work(self) -> None:
        for user_id in self.directory.open_users():
            try:
                with self.directory.room(user_id) as room:
                    self._log_warnings(
                        embed_and_index.drain_all(room, self.embedder, self.settings)
                    )
            except LangMemGraphError as error:  # what is due stays due; the others still get theirs
                _log.warning("due work is left for the next opening: %s", for_log(error))

    def check_open(self) -> None:
        """Raise when this `Memory` was closed, even while another one shares the directory."""
        if self.closed:
            raise ClosedMemoryError("This Memory is closed. Open it again: Memory(path).")

    def _log_warnings(self, done: embed_and_index.Drained) -> None:
        for problem in done.logged:
            _log.warning("%s", problem)


def _remove_traces(room: Room) -> None:
    """Of what was being forgotten when the process before was killed."""
    if secure_delete.is_unfinished(room):
        with room.working:
            secure_delete.wipe_deleted(room)


def _is_unread(room: Room) -> bool:
    with room.database.read_transaction() as connection:
        return extraction_queue.count_unread(connection) > 0
