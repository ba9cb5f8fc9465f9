"""A lock that is fair to those who wait."""

import logging
import shutil
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock
from sqlalchemy import Connection

from langmem_graph.errors import (
    EmbedderMismatchError,
    EmbeddingError,
    IndexUnavailableError,
    StorageError,
)
from langmem_graph.settings import Settings
from langmem_graph.storage import (
    due_work,
    extraction_queue,
    message_queries,
    stored_vectors,
    tables,
)
from langmem_graph.storage.chroma_index import VectorIndex
from langmem_graph.storage.sqlite import Database

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_log = logging.getLogger(__name__)


class FairLock:
    """A lock that a thread which let go of it gets again only after one that waited.

    A plain lock may be taken again before anybody else wakes up: a large add, which works batch by
    batch, would keep a small one waiting to its end.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._own = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._own.acquire()

    def __exit__(self, *error: object) -> None:
        self._own.release()


class Room:
    """What one user's reads and writes go through; made by `Root`.

    Args:
        folder: the user's folder.
        user_id: recorded in the ledger, so that a folder can be told.
        connect: gives a Chroma server's client; None is Chroma embedded in the folder.
        read_only: read beside a running writer; Chroma is not opened.
    """

    def __init__(
        self,
        folder: Path,
        user_id: str,
        settings: Settings,
        *,
        connect: "Callable[[], ClientAPI] | None" = None,
        read_only: bool = False,
    ) -> None:
        self.folder = folder
        self.user_id = user_id
        self.read_only = read_only
        self.working = FairLock()  # one thread at a time does the room's due work
        self.healed = read_only
        self.database = Database(
            folder / "ledger.db",
            busy_timeout=settings.storage.busy_timeout_seconds,
            read_only=read_only,
        )
        self.index = self._index(connect)
        # A Chroma server that took writes of several processes at once sometimes misses some
        # vectors in its queries until it restarts; taking turns makes that rarer.
        self.indexing: AbstractContextManager[object] = (
            nullcontext() if self.index.embedded else FileLock(folder / "index.lock")
        )
        if not read_only:
            self._settle_in(user_id)

    def _index(self, connect: "Callable[[], ClientAPI] | None") -> VectorIndex:
        with self.database.read_transaction() as connection:
            name = str(tables.get_meta(connection, "ledger_id"))
            directory = tables.get_meta(connection, "chroma") or _new_directory()
        if connect is not None:
            return VectorIndex(name, connect=connect)
        return VectorIndex(name, directory=self.folder / directory)

    def renew_index(self) -> None:
        """Start an empty index: a new directory, since a damaged Chroma cannot be opened again.

        With a server the collection is dropped instead.
        """
        if not self.index.embedded:
            self.index.drop()
            return
        self.index.close()
        self.index = VectorIndex(self.index.name, directory=self.folder / _new_directory())
        with self.database.write_transaction() as connection:
            self._remember_index(connection)
        for old in self.folder.glob("chroma-*"):
            if old.name != self.index.place:
                shutil.rmtree(old)

    def _remember_index(self, connection: Connection) -> None:
        tables.set_meta(connection, "index", self.index.identity)
        if self.index.embedded:
            tables.set_meta(connection, "chroma", self.index.place)

    def _settle_in(self, user_id: str) -> None:
        with self.database.write_transaction() as connection:
            owner = tables.get_meta(connection, "user_id") or user_id
            if owner != user_id:
                raise StorageError(
                    f"The folder {self.folder.name} holds the memory of another user. It was "
                    "copied or renamed; export and import that user's messages instead."
                )
            tables.set_meta(connection, "user_id", user_id)
            if self.index.embedded:
                due_work.free_all_claims(connection)
                extraction_queue.free_all(connection)
            self._check_index(connection)

    def _check_index(self, connection: Connection) -> None:
        """If the index is elsewhere now, or has lost vectors, everything is due for it again."""
        held = message_queries.counts(connection)
        waiting = stored_vectors.count_waiting_vectors(connection)
        known_place = tables.get_meta(connection, "index") in (None, self.index.identity)
        self._remember_index(connection)
        if held.vectors == waiting and known_place:
            return
        if not known_place or self._lost_vectors(connection):
            _log.warning("the index of %s is incomplete and will be rebuilt", self.folder.name)
            due_work.index_everything_again(connection)

    def _lost_vectors(self, connection: Connection) -> bool:
        expected = stored_vectors.indexed_vector_ids(connection)
        try:
            return any(self.index.count(layer) < len(ids) for layer, ids in expected.items() if ids)
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            return False

    def check_embedder(self, name: str) -> None:
        """Raise when the stored vectors were made by another embedder."""
        with self.database.read_transaction() as connection:
            stored = tables.get_meta(connection, "embedder")
        if stored not in (None, name):
            raise EmbedderMismatchError(
                f"This user's vectors were made by {stored}, the memory was opened with {name}. "
                f"Open it with {stored}, or embed everything anew: "
                "langmem-graph rebuild --reembed --user USER"
            )

    def check_dimension(self, size: int) -> None:
        """Raise when a query's vector cannot be compared with the stored ones."""
        with self.database.read_transaction() as connection:
            stored = tables.get_meta(connection, "dimension")
        if stored not in (None, str(size)):
            raise EmbeddingError(
                f"The embedder returned {size} numbers; the stored vectors have {stored}."
            )

    def close(self) -> None:
        """Release the files."""
        self.index.close()
        self.database.close()


def _new_directory() -> str:
    return f"chroma-{uuid.uuid4().hex[:8]}"
