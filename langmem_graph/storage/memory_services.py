"""The dependencies that one `Memory` shares with its users: directory, embedder and settings."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import ClosedMemoryError, LangMemGraphError, for_log
from langmem_graph.settings import Settings
from langmem_graph.storage import outbox_worker, pending_messages, secure_delete
from langmem_graph.storage.directory_and_lock import MemoryDirectory
from langmem_graph.storage.user_room import Room

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass
class Services:
    """Gives access to users' rooms, with the embedder and the settings that work there needs.

    Args:
        directory: the memory's directory, which opens the rooms.
        embedder: turns texts and queries into vectors.
        settings: the memory's settings.
        read_only: whether the memory was opened with `read_only=True`.
        closed: whether `close` was called.
        on_opened: called with the user's id when a room is first opened and messages are pending.
    """

    directory: MemoryDirectory
    embedder: Embedder
    settings: Settings
    read_only: bool
    closed: bool = False
    on_opened: Callable[[str], None] | None = None

    def has(self, user_id: str) -> bool:
        """Whether this user has a ledger; without one there is nothing to read.

        With `read_only` this is always true, and opening the room raises an error for a user
        without a ledger.
        """
        self.check_open()
        return self.read_only or self.directory.has(user_id)

    @contextmanager
    def room(self, user_id: str) -> Iterator[Room]:
        """Open the user's room; work that an earlier process left due is done the first time."""
        self.check_open()
        with self.directory.room(user_id) as room:
            if not room.healed:
                room.healed = True
                secure_delete.finish_deletion(room)
                self.drain(room).log(_log)
                if self.on_opened and room.database.read(pending_messages.count_unread):
                    self.on_opened(user_id)
            yield room

    def read(self, user_id: str, query: Callable[[Connection], T], nothing: T) -> T:
        """The result of a query in a read transaction, or `nothing` for a user without a ledger."""
        if not self.has(user_id):
            return nothing
        with self.room(user_id) as room:
            return room.database.read(query)

    async def in_room(self, user_id: str, work: Callable[[Room], T]) -> T:
        """Do the work with the user's room, in a worker thread."""
        return await asyncio.to_thread(self._in_room, user_id, work)

    async def in_known_room(self, user_id: str, work: Callable[[Room], T], nothing: T) -> T:
        """Like `in_room`, but the result is `nothing` for a user without a ledger."""

        def inside() -> T:
            return self._in_room(user_id, work) if self.has(user_id) else nothing

        return await asyncio.to_thread(inside)

    def _in_room(self, user_id: str, work: Callable[[Room], T]) -> T:
        with self.room(user_id) as room:
            return work(room)

    def embed_new(self, room: Room, layer: str, numbers: Iterable[int]) -> outbox_worker.Drained:
        """Embed the items just stored, and index their layer if a full batch of vectors waits."""
        stored = list(numbers)
        rows = range(min(stored, default=0), max(stored, default=-1) + 1)
        batch = self.settings.storage.index_batch
        work = outbox_worker.DueWork(room, self.embedder, self.settings, at_least=batch)
        return work.drain(layer, rows)

    def drain(self, room: Room, *, at_least: int = 1) -> outbox_worker.Drained:
        """Do all due work of a room; index a layer if `at_least` of its vectors are waiting."""
        work = outbox_worker.DueWork(room, self.embedder, self.settings, at_least=at_least)
        return work.drain_all()

    def close(self) -> None:
        """Finish due work as far as possible, then release the directory."""
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
                    self.drain(room).log(_log)
            except LangMemGraphError as error:  # one user's failure must not stop the others' work
                _log.warning("due work is left for the next opening: %s", for_log(error))

    def check_open(self) -> None:
        """Raise if this `Memory` was closed, even while another one shares the directory."""
        if self.closed:
            raise ClosedMemoryError("This Memory is closed. Open it again: Memory(path).")
