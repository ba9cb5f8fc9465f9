"""The memory's directory: one writing process, a folder per user, few of them open at once."""

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
from langmem_graph.storage.room import Room

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_log = logging.getLogger(__name__)

LOCK_FILE = "lock"
USERS = "users"
ERASED = ".erased-"  # a folder on its way out; what a killed process left of it goes at the opening
WAIT_SECONDS = 30.0
LOCK_SECONDS = 2.0  # processes that share a server hold the lock for an instant while opening

_ROOTS: dict[tuple[Path, bool], "MemoryDirectory"] = {}
_ROOTS_GUARD = threading.Lock()


@dataclass
class _Open:
    room: Room
    guests: int = 0


class MemoryDirectory:
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
        check_chroma(chroma)
        self.path = path
        self._settings = settings
        self._chroma = None if read_only else chroma
        self._client: ClientAPI | None = None
        self._read_only = read_only
        self._pid = os.getpid()
        self._rooms: OrderedDict[str, _Open] = OrderedDict()
        self._leaving: set[str] = set()
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
    ) -> "MemoryDirectory":
        """The directory's root; several `Memory` objects of one process share one.

        Raises:
            MemoryLockedError: when another process writes here.
            StorageError: when the directory cannot be used.
        """
        key = (path.resolve(), read_only)
        with _ROOTS_GUARD:
            root = _ROOTS.get(key)
            if root is None or root.is_foreign():
                root = _ROOTS[key] = cls(key[0], settings, chroma=chroma, read_only=read_only)
            if not read_only and chroma != root._chroma:
                raise InvalidInputError(
                    f"{path} is open in this process with another `chroma`. Use one for all."
                )
            root._users += 1
            return root

    @property
    def uses_server(self) -> bool:
        """True when the vectors are in a Chroma server."""
        return self._chroma is not None

    @property
    def server(self) -> "Callable[[], ClientAPI] | None":
        """Gives the Chroma server's client; None is Chroma embedded in each folder."""
        return None if self._chroma is None else self._connect

    def is_foreign(self) -> bool:
        """True in a child process after `fork`: nothing of this may be used there."""
        return os.getpid() != self._pid

    # --- the lock --------------------------------------------------------------------------------

    def _enter(self) -> FileLock | None:
        if self._read_only:
            if not self.path.is_dir():
                raise StorageError(f"There is no memory at {self.path}.")
            return None
        lock = self._acquire()
        self._sweep()
        if self._chroma is not None:  # no embedded writer is here; others with a server may be
            lock.release()
            return None
        return lock

    def _acquire(self) -> FileLock:
        try:
            (self.path / USERS).mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK_FILE)
            lock.acquire(timeout=LOCK_SECONDS)
            if isinstance(lock, SoftFileLock):  # it is a mere file, and outlives a killed process
                lock.release()
                raise OSError("its disk has no locks")
        except Timeout as error:
            raise MemoryLockedError(
                f"{self.path} is open in another process; one process writes at a time. Close the "
                "other one; or let several processes share it through a Chroma server: start "
                "`chroma run --path DIR` and use Memory(path, chroma='http://localhost:8000') in "
                "each; or only look: Memory(path, read_only=True)."
            ) from error
        except (
            OSError,
            NotImplementedError,
        ) as error:  # the latter is filelock's
            raise StorageError(
                f"The memory directory {self.path} cannot be used: {error}. Choose a directory "
                "on a local disk that this process may write to; several processes can share it "
                "there through a Chroma server: Memory(path, chroma='http://localhost:8000')."
            ) from error
        return lock

    def _sweep(self) -> None:
        """What a killed process left: folders on their way out, files as Chroma made them."""
        for leftover in (self.path / USERS).glob(f"{ERASED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for index in (*self.path.glob(f"{USERS}/*/chroma-*"), *self.path.glob("items/chroma-*")):
            try:
                blank_unused(index)
            except OSError as error:
                _log.warning("%s may hold fragments of the memory of a process: %s", index, error)

    def _connect(self) -> "ClientAPI":
        """The server's client, made when it is first needed: a server may start later."""
        with self._guard:
            if self._client is None:
                self._client = connect(self._chroma)
            return self._client

    # --- rooms -----------------------------------------------------------------------------------

    def has(self, user_id: str) -> bool:
        """True when this user has a ledger here."""
        return (self.folder(user_id) / "ledger.db").exists()

    def folder(self, user_id: str) -> Path:
        """Where everything of this user lies."""
        return self.path / USERS / folder_name(user_id)

    @contextmanager
    def room(self, user_id: str) -> Iterator[Room]:
        """The user's room, open for as long as the block runs."""
        self._check_process()
        held = self._enter_room(user_id)
        try:
            yield held.room
        finally:
            with self._left:
                held.guests -= 1
                self._left.notify_all()

    def _check_process(self) -> None:
        """Before any lock is taken: another thread may have held it at the fork."""
        if self.is_foreign():
            raise ForkedProcessError(
                "This Memory was opened before the process forked; its files do not survive that. "
                "Open it in the child instead. For several processes at once use a Chroma server: "
                "Memory(path, chroma='http://localhost:8000')."
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedMemoryError("This Memory is closed. Open it again: Memory(path).")

    def _enter_room(self, user_id: str) -> _Open:
        name = folder_name(user_id)
        with self._left:
            self._left.wait_for(lambda: name not in self._leaving, WAIT_SECONDS)
            self._check_open()
            self._drop_if_gone(name)
            if name not in self._rooms:
                self._rooms[name] = _Open(self._open_room(user_id))
            held = self._rooms[name]
            held.guests += 1
            self._rooms.move_to_end(name)
            self._close_idle_rooms()
            return held

    def _drop_if_gone(self, name: str) -> None:
        """A folder deleted behind our back is opened anew, once nobody is in the old room."""
        held = self._rooms.get(name)
        if held is not None and held.room.database.is_gone():
            self._left.wait_for(lambda: held.guests == 0, WAIT_SECONDS)
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
            raise StorageError(f"Cannot make the user's folder {folder}: {error}.") from error
        return Room(folder, user_id, self._settings, connect=self.server, read_only=self._read_only)

    def _close_idle_rooms(self) -> None:
        """Close the least recently used rooms that nobody is in."""
        for name in list(self._rooms):
            if len(self._rooms) <= self._settings.storage.max_open_users:
                return
            if not self._rooms[name].guests:
                self._rooms.pop(name).room.close()

    @contextmanager
    def emptied(self, user_id: str) -> Iterator[Path]:
        """The user's folder, closed and kept closed for as long as the block runs."""
        self._check_process()
        name = folder_name(user_id)
        with self._left:
            self._check_open()
            self._leaving.add(name)  # nobody new comes in
            try:
                if not self._left.wait_for(lambda: self._is_idle(name), WAIT_SECONDS):
                    raise StorageError("This user's memory is in use by another call; try again.")
                held = self._rooms.pop(name, None)
                if held is not None:
                    held.room.close()
                yield self.folder(user_id)
            finally:
                self._leaving.discard(name)
                self._left.notify_all()

    def _is_idle(self, name: str) -> bool:
        held = self._rooms.get(name)
        return held is None or held.guests == 0

    def open_users(self) -> list[str]:
        """The ids of the users whose rooms are open now."""
        with self._guard:
            return [held.room.user_id for held in self._rooms.values()]

    # --- leaving ---------------------------------------------------------------------------------

    def release(self) -> None:
        """One `Memory` less uses this directory; the last one closes it."""
        if self.is_foreign():
            return
        with _ROOTS_GUARD:
            self._users -= 1
            if self._users == 0:
                _ROOTS.pop((self.path, self._read_only), None)
                self._close()

    def _close(self) -> None:
        """Let nobody in, wait for those inside, close everything, let other processes in."""
        with self._left:
            self._closed = True
            if not self._left.wait_for(self._nobody_inside, WAIT_SECONDS):
                _log.warning("closing %s while calls are still running", self.path)
            for held in self._rooms.values():
                held.room.close()
            self._rooms.clear()
            if self._lock is not None:
                self._lock.release()
            if self._client is not None and isinstance(self._chroma, str):
                self._client.close()  # type: ignore[attr-defined]  # ours; on Client, not ClientAPI

    def _nobody_inside(self) -> bool:
        return all(held.guests == 0 for held in self._rooms.values())


def remove_folder(folder: Path) -> None:
    """Delete a folder; killed half-way, the rest goes at the next opening."""
    try:
        going = folder.rename(folder.with_name(f"{ERASED}{uuid.uuid4().hex}"))
        shutil.rmtree(going)
    except OSError as error:
        raise StorageError(
            f"Not everything could be erased: {error}. Close other programs that use {folder} and "
            "open the memory again."
        ) from error
