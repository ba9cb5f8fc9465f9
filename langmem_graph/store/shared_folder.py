"""The folder of a store: its ledger and its Chroma, shared by all stores of this process."""

import logging
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from filelock import FileLock
from sqlalchemy import Connection

from langmem_graph.errors import (
    ClosedMemoryError,
    EmbedderMismatchError,
    EmbeddingError,
    ForkedProcessError,
    IndexUnavailableError,
)
from langmem_graph.settings import Settings
from langmem_graph.storage import tables
from langmem_graph.storage.chroma_index import VectorIndex
from langmem_graph.storage.directory import WAIT_SECONDS, MemoryDirectory
from langmem_graph.storage.sqlite import Database
from langmem_graph.store import item_tables
from langmem_graph.store.item_tables import MIGRATIONS

_log = logging.getLogger(__name__)

FOLDER = "items"
LAYER = "items"
_REMEDY = "ChromaStore(path).rebuild()"
_SHELVES: dict[MemoryDirectory, "SharedFolder"] = {}
_GUARD = threading.Lock()


class SharedFolder:
    """What a store's reads and writes go through.

    Args:
        root: the directory, open for writing.
        settings: of the store that opened it first.
    """

    def __init__(self, root: MemoryDirectory, settings: Settings) -> None:
        self._root = root
        self._folder = root.path / FOLDER
        self._folder.mkdir(exist_ok=True)
        self.working = threading.RLock()  # one thread at a time does due work
        self.database = Database(
            self._folder / "ledger.db",
            busy_timeout=settings.storage.busy_timeout_seconds,
            migrations=MIGRATIONS,
        )
        self.index = self._open_index()
        # Processes that share a server take turns writing to it, as in a user's room.
        self.indexing: AbstractContextManager[object] = (
            nullcontext() if self.index.embedded else FileLock(self._folder / "index.lock")
        )
        self._stores = 0
        self._guests = 0
        self._left = threading.Condition()
        self._check_index()

    @classmethod
    def enter(cls, root: MemoryDirectory, settings: Settings) -> "SharedFolder":
        """The directory's shelf; several stores of one process share one."""
        with _GUARD:
            shelf = _SHELVES.get(root) or cls(root, settings)
            _SHELVES[root] = shelf
            shelf._stores += 1
            return shelf

    def leave(self) -> None:
        """One store less; the last one closes the files, once nobody is inside."""
        with _GUARD:
            self._stores -= 1
            if self._stores:
                return
            _SHELVES.pop(self._root, None)
            with self._left:
                if not self._left.wait_for(lambda: not self._guests, WAIT_SECONDS):
                    _log.warning("closing %s while calls are still running", self._folder)
            self.index.close()
            self.database.close()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The files stay open for as long as the block runs."""
        if self._root.is_foreign():
            raise ForkedProcessError(
                "This ChromaStore was opened before the process forked; its files do not survive "
                "that. Open it in the child instead."
            )
        with self._left:
            if not self._stores:
                raise ClosedMemoryError("This store is closed. Open it again: ChromaStore(path).")
            self._guests += 1
        try:
            yield
        finally:
            with self._left:
                self._guests -= 1
                self._left.notify_all()

    # --- the index -------------------------------------------------------------------------------

    def _open_index(self) -> VectorIndex:
        with self.database.read_transaction() as connection:
            name = str(tables.get_meta(connection, "ledger_id"))
            directory = tables.get_meta(connection, "chroma") or _new_directory()
        return self._index(name, directory)

    def _index(self, name: str, directory: str) -> VectorIndex:
        if self._root.server is not None:
            return VectorIndex(name, connect=self._root.server, remedy=_REMEDY)
        return VectorIndex(name, directory=self._folder / directory, remedy=_REMEDY)

    def _check_index(self) -> None:
        """If the index is elsewhere now, was damaged or has lost vectors, it is filled anew."""
        with self.database.read_transaction() as connection:
            known = tables.get_meta(connection, "index") in (None, self.index.identity)
            expected = item_tables.count_indexed(connection)
        if not known or (expected and self._is_damaged(expected)):
            _log.warning("the index of %s is incomplete and will be rebuilt", self._folder)
            self.renew_index()
            return
        with self.database.write_transaction() as connection:
            self._remember_index(connection)

    def _is_damaged(self, expected: int) -> bool:
        try:
            return self.index.count(LAYER) < expected
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            return self.index.embedded  # a server that does not answer may only be away

    def renew_index(self) -> None:
        """Start an empty index, to be filled from the ledger: nothing is embedded again."""
        if self.index.embedded:
            self.index.close()  # a damaged Chroma cannot be opened again at the same path
            self.index = self._index(self.index.name, _new_directory())
        else:
            self._drop_collection()
        with self.database.write_transaction() as connection:
            item_tables.index_everything_again(connection)
            self._remember_index(connection)
        for old in self._folder.glob("chroma-*"):
            if old.name != self.index.place:
                shutil.rmtree(old, ignore_errors=True)

    def _drop_collection(self) -> None:
        try:
            self.index.drop()
        except IndexUnavailableError as error:  # what is left there is overwritten by number
            _log.warning("%s", error)

    def _remember_index(self, connection: Connection) -> None:
        tables.set_meta(connection, "index", self.index.identity)
        if self.index.embedded:
            tables.set_meta(connection, "chroma", self.index.place)

    # --- the embedder ----------------------------------------------------------------------------

    def check_embedder(self, name: str, size: int | None = None) -> None:
        """Raise when the stored vectors were made by another embedder, or are of another size."""
        with self.database.read_transaction() as connection:
            stored = tables.get_meta(connection, "embedder")
            numbers = tables.get_meta(connection, "dimension")
        if stored not in (None, name):
            raise EmbedderMismatchError(
                f"This store's vectors were made by {stored}, it was opened with {name}. Open it "
                f"with {stored}, or embed everything anew: store.rebuild(reembed=True)"
            )
        if size is not None and numbers not in (None, str(size)):
            raise EmbeddingError(
                f"The embedder returned {size} numbers; the stored vectors have {numbers}. To "
                "embed everything anew: store.rebuild(reembed=True)"
            )


def _new_directory() -> str:
    return f"chroma-{uuid.uuid4().hex[:8]}"
