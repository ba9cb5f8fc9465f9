"""The memory's directory: one writing process, a folder per user, few of them open at once."""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from langmem_graph.config import Settings
from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    InvalidInputError,
    MemoryLockedError,
    StorageError,
)
from langmem_graph.store.room import Room
from langmem_graph.store.vectors import connect

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

LOCK_FILE = "lock"
USERS = "users"


def folder_name(user_id: str) -> str:
    """The hash of the id: any id makes a safe name, and none contains another."""
    return hashlib.sha256(user_id.encode()).hexdigest()


@dataclass
class _Open:
    room: Room
    guests: int = 0


_ROOTS: dict[tuple[Path, bool], "Root"] = {}
_ROOTS_GUARD = threading.Lock()
WAIT_SECONDS = 30.0
LOCK_SECONDS = 2.0  # processes that share a server hold the lock for an instant while opening


class Root:
    """Opens and closes rooms; holds the lock that keeps other processes out.

    Args:
        path: the directory; made unless `read_only`.
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
        self.path = path.absolute()
        self._settings = settings
        self._chroma = chroma
        self._client = None if chroma is None or read_only else connect(chroma)
        self._read_only = read_only
        self._pid = os.getpid()
        self._rooms: OrderedDict[str, _Open] = OrderedDict()
        self._guard = threading.RLock()
        self._left = threading.Condition(self._guard)
        self._closed = False
        self._users = 0
        self._lock = self._enter()

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        *,
        chroma: "str | ClientAPI | None",
        read_only: bool,
    ) -> "Root":
        """The directory's root; several `Memory` objects of one process share one.

        Raises:
            MemoryLockedError: when another process writes here.
            StorageError: when the directory cannot be used.
        """
        key = (path.absolute(), read_only)
        with _ROOTS_GUARD:
            root = _ROOTS.get(key)
            if root is None or root.is_foreign():
                root = _ROOTS[key] = cls(path, settings, chroma=chroma, read_only=read_only)
            root._check_same_place(chroma)
            root._users += 1
            return root

    def is_foreign(self) -> bool:
        """True in a child process after `fork`: nothing of this may be used there."""
        return os.getpid() != self._pid

    def _check_same_place(self, chroma: "str | ClientAPI | None") -> None:
        if chroma != self._chroma:
            raise InvalidInputError(
                f"{self.path} is open in this process with another `chroma`. Use one for all."
            )

    def _enter(self) -> FileLock | None:
        if self._read_only:
            if not self.path.is_dir():
                raise StorageError(f"There is no memory at {self.path}.")
            return None
        try:
            (self.path / USERS).mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK_FILE)
            lock.acquire(timeout=LOCK_SECONDS)
        except Timeout as error:
            raise MemoryLockedError(
                f"{self.path} is open in another process; one process writes at a time. Close the "
                "other one; or let several processes share it through a Chroma server: start "
                "`chroma run --path DIR` and use Memory(path, chroma='http://localhost:8000') in "
                "each; or only look: Memory(path, read_only=True)."
            ) from error
        except (OSError, NotImplementedError) as error:
            raise StorageError(
                f"The memory directory {self.path} cannot be used: {error}. Choose a directory "
                "on a local disk that this process may write to."
            ) from error
        if self._client is not None:  # no embedded writer is here; others with a server may be
            lock.release()
            return None
        return lock

    def has(self, user_id: str) -> bool:
        """True when this user has a ledger here."""
        return (self._folder(user_id) / "ledger.db").exists()

    def _folder(self, user_id: str) -> Path:
        return self.path / USERS / folder_name(user_id)

    @contextmanager
    def room(self, user_id: str) -> Iterator[Room]:
        """The user's room, open for as long as the block runs."""
        name = folder_name(user_id)
        held = self._enter_room(name, user_id)
        try:
            yield held.room
        finally:
            with self._left:
                held.guests -= 1
                self._left.notify_all()

    def _enter_room(self, name: str, user_id: str) -> _Open:
        with self._guard:
            self._check_usable()
            held = self._rooms.get(name)
            if held is None:
                held = self._rooms[name] = _Open(self._open_room(user_id))
            held.guests += 1
            self._rooms.move_to_end(name)
            self._close_idle_rooms(self._settings.max_open_users)
            return held

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedMemoryError("This Memory is closed. Open it again: Memory(path).")
        if self.is_foreign():
            raise ForkedProcessError(
                "This Memory was opened before the process forked; its files do not survive that. "
                "Open it in the child instead. For several processes at once use a Chroma server: "
                "Memory(path, chroma='http://localhost:8000')."
            )

    def _open_room(self, user_id: str) -> Room:
        folder = self._folder(user_id)
        if self._read_only and not self.has(user_id):
            raise StorageError(f"Nothing is stored of user {user_id!r} in {self.path}.")
        try:
            if not self._read_only:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"Cannot make the user's folder {folder}: {error}.") from error
        return Room(folder, user_id, self._settings, client=self._client, read_only=self._read_only)

    def _close_idle_rooms(self, keep: int) -> None:
        """Close the least recently used rooms that nobody is in."""
        for name in list(self._rooms):
            if len(self._rooms) <= keep:
                return
            if not self._rooms[name].guests:
                self._rooms.pop(name).room.close()

    @contextmanager
    def emptied(self, user_id: str) -> Iterator[Path]:
        """The user's folder, closed and kept closed for as long as the block runs."""
        name = folder_name(user_id)
        with self._left:
            self._check_usable()
            if not self._left.wait_for(lambda: self._is_idle(name), WAIT_SECONDS):
                raise StorageError("This user's memory is in use by another thread; try again.")
            held = self._rooms.pop(name, None)
            if held is not None:
                held.room.close()
            yield self._folder(user_id)

    def _is_idle(self, name: str) -> bool:
        held = self._rooms.get(name)
        return held is None or held.guests == 0

    def open_rooms(self) -> list[Room]:
        """The rooms that are open now."""
        with self._guard:
            return [held.room for held in self._rooms.values()]

    def release(self) -> None:
        """One `Memory` less uses this directory; the last one closes it."""
        with _ROOTS_GUARD:
            self._users -= 1
            if self._users == 0 and not self.is_foreign():
                _ROOTS.pop((self.path, self._read_only), None)
                self._close()

    def _close(self) -> None:
        with self._guard:
            self._closed = True
            for held in self._rooms.values():
                held.room.close()
            self._rooms.clear()
            if self._lock is not None:
                self._lock.release()
            if self._client is not None and isinstance(self._chroma, str):
                self._client.close()  # type: ignore[attr-defined]  # ours; on Client, not ClientAPI
