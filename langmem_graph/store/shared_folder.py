"""The folder of a store: its ledger and vector index, shared by all stores of this
process.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from langmem_graph.errors import ClosedMemoryError, IndexUnavailableError, StorageError
from langmem_graph.settings import Settings
from langmem_graph.storage import tables
from langmem_graph.storage.memory_directory import MemoryDirectory
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.sqlite_database import explained_files
from langmem_graph.storage.user_room import FairLock, LedgerFolder, closed_on_error
from langmem_graph.store import item_tables

_log = logging.getLogger(__name__)
FOLDER = "items"
LAYER = "items"
_OPEN: dict[MemoryDirectory, "SharedFolder"] = {}


class SharedFolder(LedgerFolder):
    """The folder through which all reading and writing of a store goes."""

    rebuild = "ChromaStore(path).rebuild()"
    reembed = "store.rebuild(reembed=True)"

    def __init__(self, directory: MemoryDirectory, settings: Settings) -> None:
        folder = directory.path / FOLDER
        with explained_files(folder):
            folder.mkdir(exist_ok=True)
        migrations = item_tables.MIGRATIONS
        super().__init__(
            folder, settings, server=directory.server, migrations=migrations
        )
        self.database.check_lock = directory.check_lock
        self._directory = directory
        self.working = FairLock()
        """Held by the one thread that writes, or does a batch of due work."""
        self._stores = 0
        self._call_ended = threading.Condition()

    @classmethod
    def enter(cls, directory: MemoryDirectory, settings: Settings) -> "SharedFolder":
        """The directory's shared folder, opened for the first store of this process."""
        with directory.store_guard:
            shared = _OPEN.get(directory)
            if shared is None:
                shared = cls(directory, settings)
                with closed_on_error(shared):
                    shared._check_index()
                _OPEN[directory] = shared
            shared._stores += 1
            return shared

    def leave(self, until: float) -> None:
        """End one store's use; the last one closes the files when calls have ended, or
        then.
        """
        with self._directory.store_guard:
            self._stores -= 1
            if self._stores:
                return
            _OPEN.pop(self._directory, None)
            self.database.ended.set()
            with self._call_ended:
                if not self._call_ended.wait_for(
                    lambda: not self._directory.store_calls, until - monotonic()
                ):
                    _log.warning(
                        "closing %s while calls are still running", self.folder
                    )
            self.close()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Keep the files open for as long as the block runs."""
        self._directory.check_process()
        with self._call_ended:
            if not self._stores:
                raise ClosedMemoryError(
                    "This store is closed. Open it again: ChromaStore(path)."
                )
            self._directory.store_calls += 1
        try:
            yield
        finally:
            with self._call_ended:
                self._directory.store_calls -= 1
                self._call_ended.notify_all()

    def _check_index(self) -> None:
        """If the index is in another place now, is damaged or has lost vectors, fill a
        new one.
        """
        with self.database.read_transaction(EVERYTHING) as connection:
            place = tables.get_meta(connection, "index")
            expected = item_tables.count_indexed(connection)
        if place not in (None, self.index.identity) or (
            expected and self._is_damaged(expected)
        ):
            _log.warning(
                "the index of %s is incomplete and will be rebuilt", self.folder
            )
            self.renew_index()
            return
        with self.database.write_transaction() as connection:
            self._remember_index(connection)

    def _is_damaged(self, expected: int) -> bool:
        try:
            return self.index.count(LAYER) < expected
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            # a server that does not answer may be back later
            return self.index.embedded

    def renew_index(self) -> None:
        """Start an empty index and mark every vector as due for it; nothing is embedded
        again.
        """
        try:
            super().renew_index()
        # old vectors and files do no harm
        except (IndexUnavailableError, StorageError) as error:
            _log.warning("%s", error)
        with self.database.write_transaction() as connection:
            item_tables.index_everything_again(connection)
            self._remember_index(connection)
