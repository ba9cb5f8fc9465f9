"""A user's room: the ledger and the vector index, opened together.

`LedgerFolder` is what the folder of a user and that of a `ChromaStore` have in common.
A room on PostgreSQL is in `postgres_rooms.py`.
"""

import logging
import shutil
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import delete

from langmem_graph.errors import (
    EmbedderMismatchError,
    EmbeddingError,
    IndexUnavailableError,
    StorageError,
)
from langmem_graph.settings import Settings
from langmem_graph.storage import (
    full_text,
    message_queries,
    outbox_rows,
    pending_messages,
    vector_rows,
)
from langmem_graph.storage.chroma_index import REBUILD, ChromaServer, VectorIndex
from langmem_graph.storage.directory_lock import IndexTurn
from langmem_graph.storage.migrations import Steps
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.sqlite_database import Database, explained_files
from langmem_graph.storage.tables import (
    TRACES_LEFT,
    get_all_meta,
    get_meta,
    meta,
    note_owner,
    owner_of,
    set_meta,
)

if TYPE_CHECKING:
    from langmem_graph.storage.postgres_database import PostgresDatabase
    from langmem_graph.storage.postgres_index import PostgresIndex

_log = logging.getLogger(__name__)


class FairLock:
    """A lock that threads get in the order in which they asked for it.

    A plain lock may be taken again before anybody else wakes up: a large add, which
    works batch by batch, would keep a small one waiting to its end. A thread that has
    it already, interrupted by a signal, or does not get it within these seconds, gets a
    `StorageError`.
    """

    def __init__(self) -> None:
        self.seconds = 120.0
        self._turns: list[int] = []
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        own = threading.get_ident()
        with self._changed:
            if own in self._turns:
                raise StorageError(
                    "This thread was interrupted in other work on this memory."
                )
            self._turns.append(own)
            try:
                if not self._changed.wait_for(
                    lambda: self._turns[0] == own, self.seconds
                ):
                    raise StorageError(
                        "Other work on this memory takes too long; try again."
                    )
            except BaseException:
                self.__exit__()
                raise

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._turns.remove(threading.get_ident())
            self._changed.notify_all()


class OpenLedger:
    """A ledger with its vector index, on whichever engine."""

    rebuild = REBUILD
    """How a user builds the index anew."""
    reembed = "langmem-graph rebuild --reembed --user USER"
    """How a user embeds everything anew."""
    name: str
    """What logs call it: no user's id."""
    read_only: bool
    database: "Database | PostgresDatabase"
    index: "VectorIndex | PostgresIndex"
    indexing: AbstractContextManager[object] = nullcontext()
    """Held while vectors are written into the index."""

    def check_embedder(self, name: str, within: Reading | None = None) -> str | None:
        """Raise if the stored vectors were made by another embedder; returns their
        dimension.
        """
        facts = get_all_meta(within) if within is not None else self._known_facts()
        facts = self.database.read(get_all_meta, EVERYTHING) if facts is None else facts
        self.check_made_by(facts.get("embedder"), name)
        return facts.get("dimension")

    def check_made_by(self, stored: str | None, name: str) -> None:
        """Raise if the embedder that made the stored vectors is not the one of this
        name.
        """
        if stored not in (None, name):
            raise EmbedderMismatchError(
                f"The stored vectors were made by {stored}, but this was opened with "
                f"{name}. "
                f"Open it with {stored}, or embed everything anew: {self.reembed}"
            )

    def _known_facts(self) -> dict[str, str] | None:
        """The facts about the ledger, where this call has read them already."""
        return None

    def check_dimension(self, size: int, stored: str | None) -> None:
        """Raise if a query's vector has another size than the stored ones."""
        if stored not in (None, str(size)):
            raise EmbeddingError(
                f"The embedder returned {size} numbers; the stored vectors have "
                f"{stored}. Use the "
                f"embedder as it was before, or embed everything anew: {self.reembed}"
            )

    def _fact(self, key: str) -> str | None:
        return self.database.read(
            lambda connection: get_meta(connection, key), EVERYTHING
        )

    def close(self) -> None:
        """Release what is open."""
        self.index.close()
        self.database.close()


@contextmanager
def closed_on_error(ledger: OpenLedger) -> Iterator[None]:
    """Close a ledger whose opening fails in the block."""
    try:
        yield
    except BaseException:
        ledger.close()
        raise


class LedgerFolder(OpenLedger):
    """A folder, which exists, with a ledger and its vector index.

    Args:
        server: a Chroma server; None means Chroma embedded in the folder.
        read_only: read beside a running writer; Chroma is then not opened.
        migrations: steps that create the ledger's tables; None means those of a user's
            ledger.
    """

    database: Database
    index: VectorIndex

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        server: ChromaServer | None = None,
        read_only: bool = False,
        migrations: Steps | None = None,
    ) -> None:
        self.folder = folder
        self.name = folder.name
        self.read_only = read_only
        self.callers: list[int] = []
        """The threads of the calls that are using it."""
        self.database = Database(
            folder / "ledger.db",
            busy_timeout=settings.storage.busy_timeout_seconds,
            read_only=read_only,
            steps=migrations,
        )
        self._server = server
        with self.database.read_transaction(EVERYTHING) as connection:
            name = str(get_meta(connection, "ledger_id"))
            directory = get_meta(connection, "chroma") or _new_directory()
        self.index = self._index(name, directory)
        # A Chroma server that took writes of several processes at once sometimes misses
        # some vectors in its queries until it restarts; taking turns makes that rarer.
        turn = IndexTurn(folder, settings.storage.busy_timeout_seconds)
        self.indexing = nullcontext() if self.index.embedded else turn

    def _index(self, name: str, directory: str) -> VectorIndex:
        if self._server is not None:
            return VectorIndex(name, server=self._server, remedy=self.rebuild)
        return VectorIndex(name, directory=self.folder / directory, remedy=self.rebuild)

    def renew_index(self) -> None:
        """Start an empty index.

        An embedded one gets a new directory, since a damaged Chroma cannot be opened
        again at the same path. With a server the collections are dropped.
        """
        if not self.index.embedded:
            self.index.drop()
            return
        self.index.close()
        self.index = self._index(self.index.name, _new_directory())
        with self.database.write_transaction() as connection:
            self._remember_index(connection)
        with explained_files(self.folder):
            for old in self.folder.glob("chroma-*"):
                if old.name != self.index.place:
                    shutil.rmtree(old)

    def _remember_index(self, connection: Reading) -> None:
        set_meta(connection, "index", self.index.identity)
        if self.index.embedded:
            set_meta(connection, "chroma", self.index.place)


class Room(OpenLedger, ABC):
    """One user's ledger, through which all reading and writing for this user goes."""

    user_id: str
    working: FairLock
    """Held by the one thread that does the room's due work."""
    traces_left: str | None = None
    """Names the last deletion whose words are still in the index, in pages or in the
    write-ahead log.
    """
    _cleaned: str | None = None
    """Names the last deletion whose words are in no table of words and in no index."""
    healed = False
    """Whether work that an earlier process left due has been done."""
    is_due = True
    """Whether an earlier process may have left any."""

    @abstractmethod
    def renew_index(self) -> None:
        """Start an empty index."""

    @abstractmethod
    def clean_after_deletion(self) -> None:
        """Remove deleted words from full-text tables and from the index."""

    def finish_deletion(self, seconds: float | None = None) -> None:
        """Remove deleted words if a deletion was noted, by this call or an
        earlier one; see `empty_log`.

        Where Chroma cannot be reached, they are removed from the log all the same, and
        `traces_left` stays.
        """
        with self.working:
            left = self._fact(TRACES_LEFT)
            is_known = left == self.traces_left
            self.traces_left = left
            if left is None:
                return
            try:
                if left != self._cleaned:
                    self.clean_after_deletion()
                    self._cleaned = left
            except IndexUnavailableError as error:
                level = logging.DEBUG if is_known else logging.WARNING
                _log.log(level, "deleted words are still in the index: %s", error)
        self.empty_log(seconds)

    def empty_log(self, seconds: float | None = None) -> None:
        """Remove deleted words from pages and log, unless somebody keeps them
        in use for so long; other work goes on meanwhile.
        """
        left = self.traces_left
        if left is None or not self.database.checkpoint(seconds):
            return
        if left != self._cleaned:
            return
        with self.working:
            with self.database.write_transaction() as connection:
                noted = (meta.c.key == TRACES_LEFT) & (meta.c.value == left)
                connection.execute(delete(meta).where(noted))
            if self.traces_left == left:  # no other deletion came meanwhile
                self.traces_left = None


class FolderRoom(LedgerFolder, Room):
    """A user's folder. The user's id is recorded in it, so that a copied folder is
    noticed.
    """

    def __init__(
        self,
        folder: Path,
        user_id: str,
        settings: Settings,
        *,
        server: ChromaServer | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__(folder, settings, server=server, read_only=read_only)
        self.user_id = user_id
        self.working = FairLock()
        self.healed = read_only

    def prepare(self) -> None:
        """Check whose folder this is, give up old claims, and compare the index with
        the ledger.
        """
        owner = self.database.read(owner_of, EVERYTHING)
        if owner not in (None, self.user_id):
            raise StorageError(
                f"The folder {self.folder.name} holds the memory of another user. It "
                "was copied or renamed; export and import that user's messages instead."
            )
        if self.read_only:
            return
        with self.database.write_transaction() as connection:
            note_owner(connection, self.user_id)
            if self.index.embedded:
                outbox_rows.free_all_claims(connection)
                pending_messages.free_all(connection)
            self._check_index(connection)

    def clean_after_deletion(self) -> None:
        """Remove deleted words from the file's full-text tables, and build the index
        anew.
        """
        with self.database.write_transaction() as connection:
            full_text.optimize_words(connection)
        self.renew_index()
        with self.database.write_transaction() as connection:
            outbox_rows.index_everything_again(connection)

    def _check_index(self, connection: Reading) -> None:
        """If the index is in another place now, or has lost vectors, mark all of them
        as due.
        """
        held = message_queries.counts(connection)
        waiting = vector_rows.count_waiting_vectors(connection)
        same_place = get_meta(connection, "index") in (None, self.index.identity)
        self._remember_index(connection)
        if held.vectors == waiting and same_place:
            return
        if not same_place or self._has_lost_vectors(connection):
            _log.warning("the index of %s is incomplete and will be rebuilt", self.name)
            outbox_rows.index_everything_again(connection)

    def _has_lost_vectors(self, connection: Reading) -> bool:
        expected = vector_rows.indexed_vector_ids(connection)
        try:
            return any(
                self.index.count(layer) < len(ids)
                for layer, ids in expected.items()
                if ids
            )
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            return False


def note_deletion(connection: Reading) -> None:
    """Note, in the transaction that deletes, that the files still hold what was
    forgotten.

    If the process is killed or Chroma fails before they are cleaned, the next opening
    cleans them.
    """
    set_meta(connection, TRACES_LEFT, uuid.uuid4().hex)


def _new_directory() -> str:
    return f"chroma-{uuid.uuid4().hex[:8]}"
