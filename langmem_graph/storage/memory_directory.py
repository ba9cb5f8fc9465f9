"""A memory's directory: the users' folders in it, and the rooms that are open.

Within a process all `Memory` and `ChromaStore` objects of a directory share one
`MemoryDirectory`; `directory_lock` keeps other processes from writing to it.
"""

import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    InvalidInputError,
    NotCopied,
    NothingStoredError,
    StorageError,
)
from langmem_graph.ids_and_times import folder_name
from langmem_graph.reports import EraseReport
from langmem_graph.rooms import described, shared_key, shared_name
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries
from langmem_graph.storage.chroma_index import ChromaServer, check_chroma
from langmem_graph.storage.directory_lock import (
    SHARED,
    USERS,
    DirectoryLock,
    finish_erasures,
    remove_folder,
)
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.sqlite_database import Database, explained_files, is_lost
from langmem_graph.storage.user_room import FolderRoom, closed_on_error

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

T = TypeVar("T")
_log = logging.getLogger(__name__)
WAIT_SECONDS = 30.0
_OWNER = "SELECT value FROM meta WHERE key = ?"
# after a reload
_OPEN: dict[tuple[Path, bool], "MemoryDirectory"] = globals().get("_OPEN", {})
_GUARDS: dict[tuple[Path, bool], threading.RLock] = {}
"""One for each directory, held while it is opened and closed."""
_FORKED_IN_USE = threading.Event()
"""Set in a process that was forked while another thread of its parent used a memory."""


def _guard_of(key: tuple[Path, bool]) -> threading.RLock:
    return _GUARDS.setdefault(key, threading.RLock())


def _after_fork() -> None:
    # else its owner is a thread of the parent
    are_free = all(guard.acquire(blocking=False) for guard in _GUARDS.values())
    if not are_free or any(directory.is_in_use() for directory in _OPEN.values()):
        _FORKED_IN_USE.set()
    _GUARDS.clear()  # a lock whose owner is gone cannot be released


os.register_at_fork(after_in_child=_after_fork)


class MemoryDirectory(NotCopied):
    """Opens and closes rooms, and holds the lock that keeps other writing processes
    out.

    Args:
        path: the directory; it is created unless `read_only`.
        settings: how many rooms stay open, and the settings of each room.
        chroma: a Chroma server's URL or client; several processes may then share the
            directory.
        read_only: take no lock and change nothing.
    """

    def __init__(
        self,
        path: Path,
        settings: Settings,
        chroma: "str | ClientAPI | None",
        read_only: bool,
    ) -> None:
        check_chroma(chroma)
        self.path = path
        self._settings = settings
        self._chroma = None if read_only else chroma
        self.server = None if self._chroma is None else ChromaServer(self._chroma)
        """The Chroma server; None if Chroma is embedded."""
        self._read_only = read_only
        self._pid = os.getpid()
        self._folders: OrderedDict[str, FolderRoom] = OrderedDict()
        self._reserved: set[str] = set()
        """Names of folders that a thread is opening, closing or deleting."""
        self._guard = threading.RLock()
        """Guards the two above; nobody holds it while a file is opened, closed or
        deleted.
        """
        self._changed = threading.Condition(self._guard)
        self._ended = threading.Event()
        self._uses = 0
        self.store_calls = 0
        self.store_guard = threading.RLock()
        """Held while the folder of the stores is opened and closed."""
        # for a database; never called here
        self.on_due: Callable[[str], None] | None = None
        self._lock = self._take_lock()

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        *,
        chroma: "str | ClientAPI | None",
        read_only: bool,
    ) -> "MemoryDirectory":
        """The open directory at this path, shared by all memories and stores of this
        process.

        Raises:
            InvalidInputError: it is already open with another `chroma`.
            MemoryLockedError: another process writes to it.
            ForkedProcessError: this process was forked while its parent used a memory.
            StorageError: the directory cannot be used.
        """
        if _FORKED_IN_USE.is_set():
            raise ForkedProcessError
        # not `resolve`, which raises a RuntimeError for links that lead in a circle
        key = (Path(os.path.realpath(path)), read_only)
        with _guard_of(key):
            directory = _OPEN.get(key)
            if directory is None or directory.is_foreign():
                directory = _OPEN[key] = cls(key[0], settings, chroma, read_only)
            if not read_only and chroma != directory._chroma:
                raise InvalidInputError(
                    f"{path} is open in this process with another `chroma`. Use "
                    "one "
                    "for all."
                )
            directory._uses += 1
            return directory

    @property
    def place(self) -> str:
        """Where it is and which engine keeps it, for people."""
        return f"{str(self.path)!r}, engine='SQLite'"

    def is_foreign(self) -> bool:
        """Whether this is a child process after `fork`, where nothing of this may be
        used.
        """
        return os.getpid() != self._pid

    def is_in_use(self) -> bool:
        """Whether a thread uses it, or used it at the fork; asked in the child, which
        has one.
        """
        calls = self.store_calls + sum(
            len(room.callers) for room in self._folders.values()
        )
        guards = (self._guard, self.store_guard)
        are_free = all(guard.acquire(blocking=False) for guard in guards)
        return calls > 0 or bool(self._reserved) or not are_free

    def _take_lock(self) -> DirectoryLock | None:
        if self._read_only:
            if self.path.is_dir():
                return None
            raise StorageError(
                f"There is no memory at {self.path}. Check the path; a memory is "
                "created when "
                "it is opened without read_only=True."
            )
        lock = DirectoryLock(self.path)
        try:
            with explained_files(self.path):
                finish_erasures(self.path)
        except BaseException:
            lock.release()
            raise
        # others may use the server too; only embedded writers may not
        if self._chroma is not None:
            lock.release()
            return None
        return lock

    def has(self, user_id: str) -> bool:
        """Whether this user has a ledger here, or had one that is lost."""
        ledger = self.folder(user_id) / "ledger.db"
        with explained_files(ledger):
            return ledger.exists() or is_lost(ledger)

    def users(self, *, shared: bool = False) -> list[str]:
        """The ids of all users of whom something is stored, or the keys of all shared
        rooms.
        """
        found = list[str]()
        place = self._place(shared=shared)
        with explained_files(place):
            folders = sorted(place.glob("[!.]*"))
        for folder in folders:
            file = folder / "ledger.db"
            address = f"{file.absolute().as_uri()}?mode=ro"
            try:
                if is_lost(file):
                    _log.warning(
                        "%s is missing though its index or log is there, or is no file",
                        file,
                    )
                if not file.is_file():
                    continue
                with closing(sqlite3.connect(address, uri=True)) as ledger:
                    rows = ledger.execute(_OWNER, ["room" if shared else "user_id"])
                    keys = [shared_key(row[0]) if shared else row[0] for row in rows]
                if any(folder_name(key) != folder.name for key in keys):
                    _log.warning(
                        "%s was copied or renamed, and is left out: it holds the "
                        "memory of another user or room",
                        folder,
                    )
                    continue
                found += keys
            # the others are not to wait for its repair
            except (sqlite3.Error, OSError) as error:
                _log.warning("the owner of %s cannot be read: %s", file, error)
        return sorted(found)

    def read_each(
        self, query: Callable[[Reading, str], T], *, shared: bool = False
    ) -> list[T]:
        """The results of a query in every user's ledger, or every shared one; opens no
        room.
        """
        self.check_process()
        found = list[T]()
        for user_id in self.users(shared=shared):
            with self._reserve(folder_name(user_id)), suppress(NothingStoredError):
                found.append(self._read_ledger(user_id, query))
        return found

    def _read_ledger(self, user_id: str, query: Callable[[Reading, str], T]) -> T:
        if not self.has(user_id):  # erased meanwhile
            raise NothingStoredError(f"Nothing is stored of {described(user_id)}.")
        wait = self._settings.storage.busy_timeout_seconds
        file = self.folder(user_id) / "ledger.db"
        with closing(
            Database(file, busy_timeout=wait, read_only=self._read_only)
        ) as ledger:
            return ledger.read(
                lambda connection: query(connection, user_id), EVERYTHING
            )

    def folder(self, user_id: str) -> Path:
        """The folder that holds everything of this user, or of a shared room."""
        return self._place(shared=shared_name(user_id) is not None) / folder_name(
            user_id
        )

    def _place(self, *, shared: bool) -> Path:
        return self.path / (SHARED if shared else USERS)

    @contextmanager
    def room(self, user_id: str, *, create: bool = False) -> Iterator[FolderRoom]:
        """Keep the user's room open for as long as the block runs.

        Raises:
            NothingStoredError: the user has no ledger, and none is to be created.
        """
        self.check_process()
        name = folder_name(user_id)
        with self._reserve(name):
            if name in self._folders and self._folders[name].database.is_gone():
                self._close_folder(name, WAIT_SECONDS)  # it was deleted from outside
            room = self._folders.get(name) or self._open_room(user_id, create)
            with self._changed:
                self._check_open()
                self._folders[name] = room
                self._folders.move_to_end(name)
                room.callers.append(threading.get_ident())
        try:
            self._close_idle_folders()
            yield room
        finally:
            with self._changed:
                room.callers.remove(threading.get_ident())
                self._changed.notify_all()

    def check_process(self) -> None:
        """Raise in a forked child; called before locks, which may have been held at the
        fork.
        """
        if self.is_foreign():
            raise ForkedProcessError

    def check_lock(self) -> None:
        """Raise if the lock's file was deleted or replaced: others could lock the new
        one.
        """
        if self._lock is not None:
            self._lock.check()

    def _check_open(self) -> None:
        if self._ended.is_set():
            raise ClosedMemoryError(
                "This Memory is closed. Open it again: Memory(path)."
            )

    @contextmanager
    def _reserve(self, name: str) -> Iterator[None]:
        """Let no other thread open, close or delete this folder while the block
        runs.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: name not in self._reserved, WAIT_SECONDS
            ):
                raise StorageError("This memory is being opened or erased; try again.")
            self._check_open()
            self._reserved.add(name)
        try:
            yield
        finally:
            self._let_go([name])

    def _let_go(self, names: Iterable[str]) -> None:
        with self._changed:
            self._reserved.difference_update(names)
            self._changed.notify_all()

    def _close_folder(self, name: str, seconds: float) -> None:
        """Close a reserved folder once no call uses it."""
        with self._changed:
            room = self._folders.get(name)
            if room and not self._changed.wait_for(lambda: not room.callers, seconds):
                raise StorageError("This memory is in use by another call; try again.")
            self._folders.pop(name, None)
        if room:
            room.close()

    def _open_room(self, user_id: str, create: bool) -> FolderRoom:
        self.check_lock()
        folder = self.folder(user_id)
        if not (create or self.has(user_id)):
            raise NothingStoredError(
                f"Nothing is stored of {described(user_id)} in {self.path}."
            )
        if create:
            with explained_files(folder):
                folder.mkdir(parents=True, exist_ok=True)
        server = self.server
        read_only = self._read_only
        room = FolderRoom(
            folder, user_id, self._settings, server=server, read_only=read_only
        )
        with closed_on_error(room):
            room.prepare()
        room.database.check_lock = self.check_lock
        room.database.ended = self._ended
        return room

    def _close_idle_folders(self) -> None:
        """Close the least recently used folders that no call is using."""
        with self._changed:
            surplus = max(0, len(self._folders) - self._settings.storage.max_open_users)
            rooms = self._folders.items()
            idle = [
                n for n, room in rooms if not room.callers and n not in self._reserved
            ]
            closing = {name: self._folders.pop(name) for name in idle[:surplus]}
            self._reserved.update(closing)
        try:
            for room in closing.values():
                room.close()
        finally:
            self._let_go(closing)

    @contextmanager
    def emptied(self, user_id: str) -> Iterator[Path]:
        """Close the user's room, and keep it closed for as long as the block runs; the
        folder.
        """
        self.check_process()
        name = folder_name(user_id)
        with self._reserve(name):  # from here on no new call can use the room
            self.check_lock()
            self._close_folder(name, self._settings.storage.closing_seconds)
            yield self.folder(user_id)

    def erase(self, user_id: str) -> EraseReport:
        """Delete a user's folder, and, with a Chroma server, the user's collections
        there first.
        """
        with explained_files(self.folder(user_id)):
            is_there = self.folder(user_id).exists()
        if not is_there:
            return EraseReport(messages=0, files=0, bytes=0)
        held = self._drop_collections(user_id)
        with self.emptied(user_id) as folder:
            with explained_files(folder):
                files = [file for file in folder.rglob("*") if file.is_file()]
                size = sum(file.stat().st_size for file in files)
            remove_folder(folder)
        return EraseReport(messages=held, files=len(files), bytes=size)

    def _drop_collections(self, user_id: str) -> int:
        """Delete a server's collections; returns how many messages there were, 0 if
        unreadable.
        """
        try:
            with self.room(user_id) as room:
                if not room.index.embedded:
                    room.index.drop()
                return room.database.read(message_queries.counts, EVERYTHING).messages
        except NothingStoredError:  # what is left of an erasure that was killed
            return 0
        except StorageError as error:
            if self.server is not None:  # only the ledger knows the collections' names
                raise
            _log.warning("erasing a ledger that cannot be read: %s", error)
            return 0

    def open_users(self) -> list[str]:
        """The ids of the users whose rooms are open now, without those that this thread
        is in.
        """
        with self._guard:
            rooms = self._folders.values()
            own = threading.get_ident()
            return [room.user_id for room in rooms if own not in room.callers]

    def release(self, until: float) -> None:
        """End one memory's or store's use of this directory; the last one closes it
        then.
        """
        if self.is_foreign():
            return
        key = (self.path, self._read_only)
        with _guard_of(key):
            self._uses -= 1
            if self._uses == 0:
                _OPEN.pop(key, None)
                self._close(until)

    def _close(self, until: float) -> None:
        """Refuse new calls, wait for those of other threads, close all, and release the
        lock.
        """
        with self._changed:
            self._ended.set()
            rooms = self._folders.values()
            own = {threading.get_ident()}
            if not self._changed.wait_for(
                lambda: (
                    not self._reserved and all(own.issuperset(r.callers) for r in rooms)
                ),
                until - monotonic(),
            ):
                _log.warning("closing %s while calls are still running", self.path)
            for room in rooms:
                room.close()
            self._folders.clear()
            if self._lock is not None:
                self._lock.release()
            if self.server is not None:
                self.server.close()
