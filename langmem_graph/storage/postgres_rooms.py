"""The rooms of a PostgreSQL database: opened by any number of processes, on any number
of hosts.

What one process leaves due when it is killed, another takes over: a thread looks for
rooms whose work is older than the lease, each of which one process claims.
"""

import logging
import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    LangMemGraphError,
    NotCopied,
    NothingStoredError,
    for_log,
)
from langmem_graph.reports import EraseReport
from langmem_graph.rooms import described, shared_name
from langmem_graph.settings import Settings
from langmem_graph.storage import chroma_index, message_queries, outbox_rows
from langmem_graph.storage.chroma_index import ChromaServer, VectorIndex
from langmem_graph.storage.postgres_database import (
    PostgresDatabase,
    connect,
    explained,
    place_of,
    room_of,
)
from langmem_graph.storage.postgres_index import PostgresIndex
from langmem_graph.storage.postgres_schema import ROOM_TABLES, check_version, work
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.tables import (
    TRACES_LEFT,
    get_meta,
    meta,
    note_owner,
    outbox,
    owner_of,
    set_meta,
    unread,
)
from langmem_graph.storage.user_room import FairLock, Room, note_deletion

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

T = TypeVar("T")
_log = logging.getLogger(__name__)
AT_ONCE = 10  # rooms whose due work one process claims at a time


class PostgresRoom(Room):
    """One user's rows, with the same methods as a user's folder."""

    database: PostgresDatabase
    _next_try = 0.0

    def __init__(
        self,
        database: PostgresDatabase,
        user_id: str,
        index: Callable[[str], Any] | None,
        read_only: bool,
        is_due: bool,
    ) -> None:
        self.database = database
        self.user_id = user_id
        self.read_only = read_only
        self.name = str(database.room)
        self.working = FairLock()
        self.callers: list[int] = []
        self.healed = read_only
        self.index = PostgresIndex(database)
        facts = database.facts or {}
        if read_only or (index is None and facts.get("index") == self.index.identity):
            database.ledger_id = facts.get("ledger_id")
            self.is_due = is_due or TRACES_LEFT in facts
            return
        with database.write_transaction() as connection:
            ledger_id = get_meta(connection, "ledger_id")
            if ledger_id is None:
                set_meta(connection, "ledger_id", ledger_id := uuid.uuid4().hex)
                note_owner(connection, user_id)
            self.index = index(ledger_id) if index else self.index
            same_place = get_meta(connection, "index") in (None, self.index.identity)
            set_meta(connection, "index", self.index.identity)
            if not same_place:
                outbox_rows.index_everything_again(connection)
        database.ledger_id = ledger_id

    def _known_facts(self) -> dict[str, str] | None:
        return self.database.facts

    def renew_index(self) -> None:
        """Delete the vectors of the index."""
        self.index.drop()

    def clean_after_deletion(self) -> None:
        """Nothing is left to do: the rows of words and vectors were deleted one
        by one.
        """

    def empty_log(self, seconds: float | None = None) -> None:
        """Rewrite tables; what failed is tried again, for a hundredth of the time at
        most.
        """
        start = time.monotonic()
        if seconds is None or start > self._next_try:
            super().empty_log(seconds)
            self._next_try = time.monotonic() + 100 * (time.monotonic() - start)


class PostgresRooms(NotCopied):
    """Opens rooms; the counterpart of `MemoryDirectory` for a database.

    Args:
        database: a URL, or an application's own `psycopg_pool.ConnectionPool`.
        settings: how many rooms stay open, and their time limits.
        chroma: a Chroma server for the vectors, instead of pgvector.
        read_only: change nothing.
    """

    def __init__(
        self,
        database: Any,
        settings: Settings,
        chroma: "str | ClientAPI | None" = None,
        *,
        read_only: bool = False,
    ) -> None:
        chroma_index.check_chroma(chroma)
        self.on_due: Callable[[str], None] | None = None
        """Does the due work of a user whose process was killed."""
        self._settings = settings
        self._server = None if chroma is None else ChromaServer(chroma)
        self._read_only = read_only
        self._engine = connect(database, settings.storage)
        self._pid = os.getpid()
        self._rooms: OrderedDict[str, PostgresRoom] = OrderedDict()
        self._changed = threading.Condition()
        self._ended = threading.Event()
        try:
            with explained(self._engine), self._engine.connect() as connection:
                check_version(connection, place_of(self._engine))
        except BaseException:
            self._engine.dispose()
            raise
        self._watcher = threading.Thread(target=self._take_over, daemon=True)
        if not read_only:
            self._watcher.start()

    @property
    def place(self) -> str:
        """The database without its password, for people."""
        return f"'postgresql://{place_of(self._engine)}', engine='PostgreSQL'"

    def is_foreign(self) -> bool:
        """Whether this is a child process after `fork`, where nothing of this may be
        used.
        """
        return os.getpid() != self._pid

    def has(self, user_id: str) -> bool:
        """Whether anything is stored of this user."""
        return (
            self._database(user_id).read(lambda c: get_meta(c, "ledger_id"), EVERYTHING)
            is not None
        )

    def users(self, *, shared: bool = False) -> list[str]:
        """The ids of all users of whom something is stored, or the keys of all shared
        rooms.
        """
        return self.read_each(lambda _, user_id: user_id, shared=shared)

    def read_each(
        self, query: Callable[[Reading, str], T], *, shared: bool = False
    ) -> list[T]:
        """The results of a query in every user's room, or every shared one, room by
        room.
        """
        self._check_open()
        with explained(self._engine), self._engine.connect() as connection:
            keys = connection.scalars(sa.select(work.c.room)).all()
        found = dict[str, T]()
        for key in keys:
            with PostgresDatabase(
                self._engine, key, self._settings.storage
            ).read_transaction(EVERYTHING) as connection:
                user_id = owner_of(connection)
                if user_id is not None and (shared_name(user_id) is not None) is shared:
                    found[user_id] = query(connection, user_id)
        return [found[user_id] for user_id in sorted(found)]

    @contextmanager
    def room(self, user_id: str, *, create: bool = False) -> Iterator[PostgresRoom]:
        """Keep the user's room open for as long as the block runs.

        Raises:
            NothingStoredError: nothing is stored of the user, and nothing is to be.
        """
        self._check_open()
        known = self._rooms.get(user_id)
        room = known
        if room is None or room.database.is_gone():
            database = self._database(user_id)
            is_due = database.opened()
            if not (create or (database.facts or {}).get("ledger_id")):
                raise NothingStoredError(f"Nothing is stored of {described(user_id)}.")
            index = self._chroma_of if self._server is not None else None
            room = PostgresRoom(database, user_id, index, self._read_only, is_due)
        with self._changed:
            if self._rooms.get(user_id) in (known, None):
                self._rooms[user_id] = room
            room = self._rooms[user_id]  # another thread may have opened it meanwhile
            self._rooms.move_to_end(user_id)
            room.callers.append(threading.get_ident())
            while len(self._rooms) > self._settings.storage.max_open_users:
                self._rooms.popitem(last=False)
        try:
            yield room
        finally:
            with self._changed:
                room.callers.remove(threading.get_ident())
                self._changed.notify_all()

    def open_users(self) -> list[str]:
        """The ids of the users whose rooms are open now, without those that this thread
        is in.
        """
        with self._changed:
            own = threading.get_ident()
            return [
                name for name, room in self._rooms.items() if own not in room.callers
            ]

    def erase(self, user_id: str) -> EraseReport:
        """Delete all rows of a user, then remove them from the tables' pages.

        Where an earlier erasure was killed, or could not remove them, that is done now.
        """
        self._check_open()
        held = self._delete_rows(user_id) if self.has(user_id) else 0
        clean = self._remove_traces(self._database(user_id))
        return EraseReport(messages=held, files=0, bytes=0, traces_left=not clean)

    def _delete_rows(self, user_id: str) -> int:
        """Delete all rows of a user but a note that they are in the pages still."""
        with self.room(user_id) as room:
            with room.database.write_transaction() as connection:
                # for a process that is killed before the rows are deleted
                outbox_rows.index_everything_again(connection)
            room.index.drop()
            with room.database.write_transaction() as connection:
                held = message_queries.counts(connection).messages
                for table in reversed(ROOM_TABLES):
                    own: sa.ColumnElement[bool] = table.c.room == room.database.room
                    connection.execute(sa.delete(table).where(own))
                note_deletion(connection)
        with self._changed:
            self._rooms.pop(user_id, None)
        return held

    def _remove_traces(
        self, database: PostgresDatabase, seconds: float | None = None
    ) -> bool:
        """Remove the words of an erased room from the pages, then the note of them;
        False where some may be left.
        """
        left = database.read(lambda c: get_meta(c, TRACES_LEFT), EVERYTHING)
        if left is None:
            return True
        if not database.checkpoint(seconds):
            return False
        with database.write_transaction() as connection:
            noted = (meta.c.key == TRACES_LEFT) & (meta.c.value == left)
            connection.execute(sa.delete(meta).where(noted))
            _take_off_list(connection, database)
        return True

    def release(self, until: float) -> None:
        """Refuse new calls, wait until then for those of other threads, and close
        connections.
        """
        if self.is_foreign() or self._ended.is_set():
            return
        self._ended.set()
        own = {threading.get_ident()}
        with self._changed:
            if not self._changed.wait_for(
                lambda: all(
                    own.issuperset(room.callers) for room in self._rooms.values()
                ),
                until - time.monotonic(),
            ):
                _log.warning("closing the memory while calls are still running")
            rooms = list(self._rooms.values())
            self._rooms.clear()
        # before the rooms, for which the time may run out: it may have a connection
        if self._watcher.is_alive() and self._watcher is not threading.current_thread():
            self._watcher.join(max(0.0, until - time.monotonic()))
        for room in rooms:
            room.index.close()
            room.database.close(until)
        if self._server is not None:
            self._server.close()
        self._engine.dispose()

    def _database(self, user_id: str) -> PostgresDatabase:
        database = PostgresDatabase(
            self._engine, room_of(user_id), self._settings.storage
        )
        database.ended = self._ended
        return database

    def _chroma_of(self, ledger_id: str) -> VectorIndex:
        return VectorIndex(ledger_id, server=self._server)

    def _check_open(self) -> None:
        if self.is_foreign():
            raise ForkedProcessError
        if self._ended.is_set():
            raise ClosedMemoryError(
                "This Memory is closed. Open it again: Memory(url)."
            )

    def _take_over(self) -> None:
        """Until the memory is closed, do the work that killed processes left due."""
        lease = self._settings.storage.lease_seconds
        while not self._ended.wait(lease / 4):
            try:
                for room in self._claim(lease):
                    self._do_due_work(room, lease)
            except Exception as error:  # noqa: BLE001  # the database may be away for a while
                _log.warning("due work could not be looked for: %s", for_log(error))

    def _claim(self, lease: float) -> list[uuid.UUID]:
        """The rooms whose work became due longer ago than the lease, claimed for this
        process.
        """
        now = time.time()
        due = sa.select(work.c.room).where(
            work.c.due_at < now - lease, work.c.claimed_until < now
        )
        free = (
            due.order_by(work.c.due_at).limit(AT_ONCE).with_for_update(skip_locked=True)
        )
        mine = (
            sa.update(work)
            .where(work.c.room.in_(free))
            .values(claimed_until=now + lease)
        )
        with self._engine.begin() as connection:
            return list(connection.scalars(mine.returning(work.c.room)))

    def _do_due_work(self, key: uuid.UUID, lease: float) -> None:
        database = PostgresDatabase(self._engine, key, self._settings.storage)
        database.ended = self._ended
        user_id = database.read(owner_of, EVERYTHING)
        with suppress(LangMemGraphError):  # it stays due
            if user_id is None:
                self._remove_traces(database, seconds=0.0)
            elif self.on_due is not None:
                self.on_due(user_id)
        with database.write_transaction() as connection:
            _take_off_list(connection, database)
            left = sa.exists().select_from(outbox) | sa.exists().select_from(unread)
            # after a lease
            later = time.time() if connection.scalar(sa.select(left)) else None
            settled = sa.update(work).where(work.c.room == key).values(due_at=later)
            connection.execute(settled)


def _take_off_list(connection: Reading, database: PostgresDatabase) -> None:
    """Take a room off the list that was erased and that nobody has begun anew."""
    if owner_of(connection) is None:
        connection.execute(sa.delete(work).where(work.c.room == database.room))
