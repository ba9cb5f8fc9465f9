"""The lock of a memory's directory, that of an index in it, and the folders that are
deleted in it.

One process at a time writes to a directory, unless the vectors are on a Chroma server:
then the lock is held only while the directory is opened.
"""

import logging
import shutil
import time
import uuid
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from langmem_graph.errors import IndexUnavailableError, MemoryLockedError, StorageError
from langmem_graph.storage.chroma_index import REST_SECONDS, blank_unused
from langmem_graph.storage.sqlite_database import identity_of

_log = logging.getLogger(__name__)
LOCK_FILE = "lock"
USERS, SHARED = "users", "shared"
"""The folders of users' rooms, and of shared ones."""
# begins the names of folders being deleted; the next opening deletes the rest
ERASED = ".erased-"
LOCK_SECONDS = 2.0  # processes that share a server hold the lock only while they open
TURN_SECONDS = 5.0
"""So long a process waits for its turn to write to an index; another one needs it for
one batch of vectors.
"""


class DirectoryLock:
    """Keeps other processes from writing to a directory, which it creates when missing.

    Raises:
        MemoryLockedError: another process writes to the directory.
        StorageError: the directory cannot be used, or its disk has no locks.
    """

    def __init__(self, path: Path) -> None:
        self._file = path / LOCK_FILE
        # any thread may close
        self._lock = FileLock(self._file, thread_local=False)
        try:
            (path / USERS).mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=LOCK_SECONDS)
            if isinstance(
                self._lock, SoftFileLock
            ):  # a plain file, which outlives a killed process
                self._lock.release()
                raise OSError("its disk has no locks")
            self._identity: tuple[int, int] | None = identity_of(self._file)
        except Timeout as error:
            raise MemoryLockedError(
                f"{path} is open in another process; one process writes at a time. "
                "Close the "
                "other one; or let several processes share it through a Chroma "
                "server: start "
                "`chroma run --path DIR` and use Memory(path, "
                "chroma='http://localhost:8000') in "
                "each; or only look: Memory(path, read_only=True)."
            ) from error
        except (OSError, NotImplementedError) as error:  # the latter is filelock's
            raise StorageError(
                f"The memory directory {path} cannot be used: {error}. Choose a "
                "directory "
                "on a local disk that this process may write to; several processes "
                "can share it "
                "there through a Chroma server: Memory(path, chroma='http://localhost:8000')."
            ) from error
        except BaseException:  # an interrupt
            self._lock.release()
            raise

    def check(self) -> None:
        """Raise if the lock's file was deleted or replaced: others could lock the new
        one.
        """
        if identity_of(self._file) != self._identity:
            raise StorageError(
                f"The lock file {self._file} was deleted while this Memory was open, "
                "so "
                "that another process may write here. Nothing was stored by this "
                "call. Close this "
                "Memory and open it again."
            )

    def release(self) -> None:
        """Let other processes write."""
        self._lock.release()


class IndexTurn:
    """A process's turn to write to the index of a folder, where several share a server.

    A process that does not let the others write, as one that was stopped, is waited for
    once in a while: else every call would wait for it anew.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self._lock = FileLock(folder / "index.lock")
        self._seconds = seconds
        self._rests_until = 0.0

    def __enter__(self) -> None:
        rests = time.monotonic() < self._rests_until
        wait = 0.0 if rests else min(self._seconds, TURN_SECONDS)
        try:
            self._lock.acquire(timeout=wait)
        except Timeout as error:
            if not rests:
                self._rests_until = time.monotonic() + REST_SECONDS
            raise IndexUnavailableError(
                f"Another process keeps the index for itself: it has locked "
                f"{self._lock.lock_file}. The ledger is whole, and what is due is "
                "done later. See whether that process still runs, or was stopped."
            ) from error
        self._rests_until = 0.0

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def finish_erasures(path: Path) -> None:
    """Finish what a killed process left: deleting folders and blanking Chroma's
    files.
    """
    rooms = (path / USERS, path / SHARED)
    for leftover in (left for folder in rooms for left in folder.glob(f"{ERASED}*")):
        shutil.rmtree(leftover, ignore_errors=True)
    indexes = (index for folder in rooms for index in folder.glob("*/chroma-*"))
    for index in (*indexes, *path.glob("items/chroma-*")):
        try:
            blank_unused(index)
        except OSError as error:
            _log.warning(
                "%s may hold fragments of the memory of a process: %s", index, error
            )


def remove_folder(folder: Path) -> None:
    """Delete a folder; if the process is killed meanwhile, the next opening deletes the
    rest.

    Raises:
        StorageError: a file could not be deleted.
    """
    try:
        shutil.rmtree(folder.rename(folder.with_name(f"{ERASED}{uuid.uuid4().hex}")))
    except OSError as error:
        raise StorageError(
            f"Not everything could be erased: {error}. Close other programs that use "
            f"{folder} and "
            "open the memory again."
        ) from error
