"""A memory's directory: its lock, the users' folders in it, and the rooms that are open.

One process at a time writes to a directory, unless the vectors are on a Chroma server. Within that
process all `Memory` and `ChromaStore` objects of the directory share one `MemoryDirectory`.
"""

import logging
import os
import shutil
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, SoftFileLock, Timeout

from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    InvalidInputError,
    MemoryLockedError,
    StorageError,
)
from langmem_graph.messages import folder_name
from langmem_graph.settings import Settings
from langmem_graph.storage.chroma_index import blank_unused, check_chroma, connect
from langmem_graph.storage.user_room import Room

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_log = logging.getLogger(__name__)
LOCK_FILE = "lock"
USERS = "users"
ERASED = ".erased-"  # begins the names of folders being deleted; the next opening deletes the rest
WAIT_SECONDS = 30.0
LOCK_SECONDS = 2.0  # processes that share a server hold the lock only while they open
_OPEN: dict[tuple[Path, bool], "MemoryDirectory"] = {}
_OPEN_GUARD = threading.Lock()


@dataclass
class _OpenRoom:
    room: Room
    calls: int = 0
    """How many calls are using it."""


class MemoryDirectory:
    """Opens and closes rooms, and holds the lock that keeps other writing processes out.

    Args:
        path: the directory; it is created unless `read_only`.
        settings: how many rooms stay open, and the settings of each room.
        chroma: a Chroma server's URL or client; several processes may then share the directory.
        read_only: take no lock and change nothing.
    """

    def __init__(
        self,
        path: Path,
        settings: Settings,
        *,
        chroma: "str | ClientAPI | None" = None,
        read_only: bool = False,
    ) -> None:
        check_chroma(chroma)
        self.path = path
        self._settings = settings
        self._chroma = None if read_only else chroma
        self._client: ClientAPI | None = None
        self._read_only = read_only
        self._pid = os.getpid()
        self._rooms: OrderedDict[str, _OpenRoom] = OrderedDict()
        self._emptying: set[str] = set()
        self._guard = threading.RLock()
        self._call_ended = threading.Condition(self._guard)
        self._closed = False
        self._uses = 0
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
        """The open directory at this path, shared by all memories and stores of this process.

        Raises:
            InvalidInputError: it is already open with another `chroma`.
            MemoryLockedError: another process writes to it.
            StorageError: the directory cannot be used.
        """
        key = (path.resolve(), read_only)
        with _OPEN_GUARD:
            directory = _OPEN.get(key)
            if directory is None or directory.is_foreign():
                directory = _OPEN[key] = cls(key[0], settings, chroma=chroma, read_only=read_only)
            if not read_only and chroma != directory._chroma:
                raise InvalidInputError(
                    f"{path} is open in this process with another `chroma`. Use one for all."
                )
            directory._uses += 1
            return directory

    @property
    def server(self) -> "Callable[[], ClientAPI] | None":
        """A function that gives the Chroma server's client; None if Chroma is embedded."""
        return None if self._chroma is None else self._connect

    def is_foreign(self) -> bool:
        """Whether this is a child process after `fork`, where nothing of this may be used."""
        return os.getpid() != self._pid

    def _take_lock(self) -> FileLock | None:
        if self._read_only:
            if not self.path.is_dir():
                raise StorageError(
                    f"There is no memory at {self.path}. Check the path; a memory is created when "
                    "it is opened without read_only=True."
                )
            return None
        lock = self._acquire()
        self._clean_up()
        if self._chroma is not None:  # others may use the server too; only embedded writers may not
            lock.release()
            return None
        return lock

    def _acquire(self) -> FileLock:
        try:
            (self.path / USERS).mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK_FILE)
            lock.acquire(timeout=LOCK_SECONDS)
            if isinstance(lock, SoftFileLock):  # a plain file, which would outlive a killed process
                lock.release()
                raise OSError("its disk has no locks")
        except Timeout as error:
            raise MemoryLockedError(
                f"{self.path} is open in another process; one process writes at a time. Close the "
                "other one; or let several processes share it through a Chroma server: start "
                "`chroma run --path DIR` and use Memory(path, chroma='http://localhost:8000') in "
                "each; or only look: Memory(path, read_only=True)."
            ) from error
        except (OSError, NotImplementedError) as error:  # the latter is filelock's
            raise StorageError(
                f"The memory directory {self.path} cannot be used: {error}. Choose a directory "
                "on a local disk that this process may write to; several processes can share it "
                "there through a Chroma server: Memory(path, chroma='http://localhost:8000')."
            ) from error
        return lock

    def _clean_up(self) -> None:
        """Finish what a killed process left: deleting folders and blanking Chroma's files."""
        for leftover in (self.path / USERS).glob(f"{ERASED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for index in (*self.path.glob(f"{USERS}/*/chroma-*"), *self.path.glob("items/chroma-*")):
            try:
                blank_unused(index)
            except OSError as error:
                _log.warning("%s may hold fragments of the memory of a process: %s", index, error)

    def _connect(self) -> "ClientAPI":
        """The server's client, created at its first use, since a server may start later."""
        with self._guard:
            if self._client is None:
                self._client = connect(self._chroma)
            return self._client

    def has(self, user_id: str) -> bool:
        """Whether this user has a ledger here."""
        return (self.folder(user_id) / "ledger.db").exists()

    def folder(self, user_id: str) -> Path:
        """The folder that holds everything of this user."""
        return self.path / USERS / folder_name(user_id)

    @contextmanager
    def room(self, user_id: str) -> Iterator[Room]:
        """Keep the user's room open for as long as the block runs."""
        self._check_process()
        held = self._enter_room(user_id)
        try:
            yield held.room
        finally:
            with self._call_ended:
                held.calls -= 1
                self._call_ended.notify_all()

    def _check_process(self) -> None:
        """Called before any lock is taken, since another thread may have held it at the fork."""
        if self.is_foreign():
            raise ForkedProcessError(
                "This Memory was opened before the process forked; its files do not survive that. "
                "Open it in the child instead. For several processes at once use a Chroma server: "
                "Memory(path, chroma='http://localhost:8000')."
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedMemoryError("This Memory is closed. Open it again: Memory(path).")

    def _enter_room(self, user_id: str) -> _OpenRoom:
        name = folder_name(user_id)
        with self._call_ended:
            self._call_ended.wait_for(lambda: name not in self._emptying, WAIT_SECONDS)
            self._check_open()
            self._drop_if_gone(name)
            if name not in self._rooms:
                self._rooms[name] = _OpenRoom(self._open_room(user_id))
            held = self._rooms[name]
            held.calls += 1
            self._rooms.move_to_end(name)
            self._close_idle_rooms()
            return held

    def _drop_if_gone(self, name: str) -> None:
        """Close a room whose folder was deleted from outside, once no call uses it."""
        held = self._rooms.get(name)
        if held is not None and held.room.database.is_gone():
            self._call_ended.wait_for(lambda: held.calls == 0, WAIT_SECONDS)
            held.room.close()
            self._rooms.pop(name, None)

    def _open_room(self, user_id: str) -> Room:
        folder = self.folder(user_id)
        if self._read_only and not self.has(user_id):
            raise StorageError(f"Nothing is stored of user {user_id!r} in {self.path}.")
        try:
            if not self._read_only:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"The user's folder {folder} cannot be created: {error}. Check that the directory "
                "can be written to and has free space."
            ) from error
        return Room(folder, user_id, self._settings, connect=self.server, read_only=self._read_only)

    def _close_idle_rooms(self) -> None:
        """Close the least recently used rooms that no call is using."""
        for name in list(self._rooms):
            if len(self._rooms) <= self._settings.storage.max_open_users:
                return
            if not self._rooms[name].calls:
                self._rooms.pop(name).room.close()

    @contextmanager
    def emptied(self, user_id: str) -> Iterator[Path]:
        """Close the user's room, and keep it closed for as long as the block runs; the folder."""
        self._check_process()
        name = folder_name(user_id)
        with self._call_ended:
            self._check_open()
            self._emptying.add(name)  # from here on no new call can use the room
            try:
                held = self._rooms.get(name)
                if held and not self._call_ended.wait_for(lambda: not held.calls, WAIT_SECONDS):
                    raise StorageError("This user's memory is in use by another call; try again.")
                if remaining := self._rooms.pop(name, None):
                    remaining.room.close()
                yield self.folder(user_id)
            finally:
                self._emptying.discard(name)
                self._call_ended.notify_all()

    def open_users(self) -> list[str]:
        """The ids of the users whose rooms are open now."""
        with self._guard:
            return [held.room.user_id for held in self._rooms.values()]

    def release(self) -> None:
        """End one memory's or store's use of this directory; the last one closes it."""
        if self.is_foreign():
            return
        with _OPEN_GUARD:
            self._uses -= 1
            if self._uses == 0:
                _OPEN.pop((self.path, self._read_only), None)
                self._close()

    def _close(self) -> None:
        """Refuse new calls, wait for running ones, close everything, and release the lock."""
        with self._call_ended:
            self._closed = True
            rooms = self._rooms.values()
            idle = self._call_ended.wait_for(lambda: not any(r.calls for r in rooms), WAIT_SECONDS)
            if not idle:
                _log.warning("closing %s while calls are still running", self.path)
            for held in rooms:
                held.room.close()
            self._rooms.clear()
            if self._lock is not None:
                self._lock.release()
            if self._client is not None and isinstance(self._chroma, str):
                self._client.close()  # type: ignore[attr-defined]  # ours; on Client, not ClientAPI


def remove_folder(folder: Path) -> None:
    """Delete a folder; if the process is killed meanwhile, the next opening deletes the rest.

    Raises:
        StorageError: a file could not be deleted.
    """
    try:
        shutil.rmtree(folder.rename(folder.with_name(f"{ERASED}{uuid.uuid4().hex}")))
    except OSError as error:
        raise StorageError(
            f"Not everything could be erased: {error}. Close other programs that use {folder} and "
            "open the memory again."
        ) from error
