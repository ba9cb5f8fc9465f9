"""Opens a ledger's SQLite file: connections, transactions, and queries with many
values.

Every ledger is opened with a write-ahead log (WAL), with explicit transactions and with
`secure_delete`, which overwrites deleted content with zeros.
"""

import os
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event
from time import monotonic
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import LRUCache

from langmem_graph.errors import ClosedMemoryError, StorageError
from langmem_graph.filters import Filter
from langmem_graph.storage import migrations
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.threads import waited

T = TypeVar("T")
_HEADER_BYTES = 100
"""No SQLite file is shorter; SQLite takes one of 0 bytes, or of 1, for a new one."""
_APPLICATION_ID = 0x4C4D4752
"""Marks a file as ours: "LMGR" in ASCII. Earlier versions made new ones without tables,
and a process may have been killed then.
"""
_META_COLUMNS = "SELECT name FROM pragma_table_info('meta')"
_LEDGER_ID = "SELECT value FROM meta WHERE key = 'ledger_id'"
_SET_LEDGER_ID = "UPDATE meta SET value = ? WHERE key = 'ledger_id'"
_STATEMENTS: LRUCache[Any, Any] = LRUCache(1_000)
"""The compiled statements of all ledgers."""


class Database:
    """Connections and transactions of one ledger file.

    Args:
        busy_timeout: seconds to wait for another process's write transaction.
        read_only: open the file beside a running writer and change nothing.
        steps: steps that create the file's tables; None means those of a user's
            ledger.
    """

    def __init__(
        self,
        file: Path,
        *,
        busy_timeout: float,
        read_only: bool = False,
        steps: migrations.Steps | None = None,
    ) -> None:
        self.file = file
        self._steps = migrations.MIGRATIONS if steps is None else steps
        self._busy_timeout = busy_timeout
        self._read_only = read_only
        self._closed = False
        self.ended = Event()
        """Set where all is being closed: then nobody else is waited for."""
        self._identity: tuple[int, int] | None = None
        self.check_lock: Callable[[], None] = lambda: None
        """Raises before a commit where another process may write as well."""
        template = _template()
        self._engine = Engine(
            QueuePool(
                cast("Any", self._connect), max_overflow=32, dialect=template.dialect
            ),
            template.dialect,
            template.url,
            execution_options={"compiled_cache": _STATEMENTS},
            hide_parameters=True,  # an error or a log must not quote what is stored
        )
        event.listen(self._engine, "begin", _begin)
        try:
            with self.explained(), explained_files(self.file):
                self._prepare()
                self._identity = identity_of(self.file)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        if is_lost(self.file):
            raise self._lost(
                "is missing though its index or log is there, or is no file"
            )
        if not self._read_only:
            self._make_file()
        size = self.file.stat().st_size if self.file.exists() else _HEADER_BYTES
        if size < _HEADER_BYTES:
            raise self._lost(f"has {size} bytes")
        if self._read_only:
            with closing(self._connect()) as connection:
                self._check_ours(connection)
            version = self.read(
                lambda c: migrations.refuse_newer(c, self._steps), EVERYTHING
            )
            if version < len(self._steps):
                raise StorageError(
                    f"The ledger {self.file} has schema version {version}, which is "
                    "older than "
                    f"{len(self._steps)}. Open it once without read_only=True: "
                    "that brings it "
                    "up to date, and nothing is lost."
                )
            return
        with closing(self._connect()) as connection:
            self._check_ours(connection)
        # asked first: to set the journal's mode changes a file
        self.read(lambda c: migrations.refuse_newer(c, self._steps), EVERYTHING)
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        with self.write_transaction() as connection:
            migrations.migrate(connection, self._steps)

    def _check_ours(self, connection: sqlite3.Connection) -> None:
        """Raise for a file that is neither a ledger of any version nor a new one."""
        # asked first: another process may make tables and index at this moment
        has_index = _has_index(self.file)
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            (mark,) = connection.execute("PRAGMA application_id").fetchone()
            if mark != _APPLICATION_ID or has_index:
                raise self._lost("has no tables")
            return
        columns = {name for (name,) in connection.execute(_META_COLUMNS)}
        is_ledger = columns == {"key", "value"} and (
            connection.execute(_LEDGER_ID).fetchone() is not None
        )
        if not is_ledger:
            raise self._lost("is another program's")

    def _make_file(self) -> None:
        """Make a new file at once with its tables.

        So no reader meets a ledger that is half made, and a file of 0 bytes is never a
        new one, but what a power cut has left.
        """
        if not self.file.exists():
            self._link(_new_ledger(tuple(self._steps)))

    def _lost(self, problem: str) -> StorageError:
        folder = self.file.parent
        return StorageError(
            f"The ledger {self.file} {problem}: what it held is lost, perhaps by a "
            "power cut. Nothing was changed. Put a copy of it there, or erase this "
            f"memory (or delete the folder {folder}) to begin anew."
        )

    def _link(self, content: bytes) -> None:
        with NamedTemporaryFile(dir=self.file.parent, prefix="new-") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
            try:
                os.link(new.name, self.file)
            except FileExistsError:  # made by another process meanwhile
                return
            except OSError:
                # A file system without hard links: made in two steps, between which a
                # power cut leaves 0 bytes.
                with suppress(FileExistsError), self.file.open("xb") as file:
                    try:
                        file.write(content)
                        file.flush()
                    except OSError:  # a full disk: nothing is lost, and nothing is left
                        self.file.unlink()
                        raise

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise ClosedMemoryError(
                "This Memory is closed. Open it again: Memory(path)."
            )
        connection = sqlite3.connect(
            f"{self.file.absolute().as_uri()}?{self._mode()}",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.executescript(
            "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA "
            "foreign_keys = ON;"
            "PRAGMA cache_size = -16000;"
        )
        return connection

    def _mode(self) -> str:
        if not self._read_only:
            return "mode=rwc"
        settled = not self.file.with_name(f"{self.file.name}-wal").exists()
        if settled and not os.access(self.file.parent, os.W_OK):
            # a read-only disk: SQLite could not make its side files
            return "mode=ro&immutable=1"
        return "mode=ro"

    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced since it was opened."""
        return identity_of(self.file) != self._identity

    def _check_still_ours(self) -> None:
        self.check_lock()
        if self._identity is not None and self.is_gone():
            raise StorageError(
                f"The ledger {self.file} was deleted while it was open (erased by "
                "another process, "
                "or its folder removed). Nothing was stored by this call; do it again."
            )

    @contextmanager
    def read_transaction(self, where: Filter | None) -> Iterator[Reading]:
        """Open a read transaction, which sees one unchanging snapshot of the file,
        through a filter.
        """
        with self.explained():
            reading = Reading(self._engine, where)
            with reading, reading.begin():
                yield reading

    def read(self, query: Callable[[Reading], T], where: Filter | None) -> T:
        """The result of a query in a read transaction of its own."""
        with self.read_transaction(where) as connection:
            return query(connection)

    @contextmanager
    def write_transaction(self) -> Iterator[Reading]:
        """Open a write transaction, which holds the file's write lock from the
        start.
        """
        with self.explained():
            reading = Reading(self._engine, EVERYTHING)
            reading.execution_options(writing=True)
            with reading, reading.begin():
                yield reading
                self._check_still_ours()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the database's errors into ours."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise StorageError(
                f"The ledger {self.file} cannot be used: "
                f"{getattr(error, 'orig', None) or error}. "
                "Check that the directory exists, can be read (and written, unless "
                "read_only=True) "
                "and has free space, and that the file is not damaged. If another "
                "program or many "
                "calls are using it, try again, or raise "
                "Settings.storage.busy_timeout_seconds."
            ) from error

    def damage(self, connection: Connection) -> list[str]:
        """What is wrong with the file and between its tables; an empty list when it is
        intact.
        """
        lines = connection.exec_driver_sql("PRAGMA quick_check").scalars().all()
        found = [f"The ledger is damaged: {line}" for line in lines if line != "ok"]
        lost = Counter(
            row[0] for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
        )
        return [
            *found,
            *(f"{n} rows of {t} refer to rows that are gone." for t, n in lost.items()),
        ]

    def last_numbers(self, connection: Connection) -> dict[str, int]:
        """The greatest number that was ever given in each table that gives none
        twice.
        """
        rows = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence")
        return {name: last for name, last in rows}  # noqa: C416  # rows, not pairs

    def note_last_numbers(self, connection: Connection, last: dict[str, int]) -> None:
        """Take over these numbers from a ledger whose rows were copied here."""
        connection.exec_driver_sql("DELETE FROM sqlite_sequence")
        for row in last.items():
            connection.exec_driver_sql("INSERT INTO sqlite_sequence VALUES (?, ?)", row)

    def checkpoint(self, seconds: float | None = None) -> bool:
        """Copy the write-ahead log into the file and truncate it: deleted words leave
        the disk.

        Returns:
            False when a reader kept the log in use for longer (default is the busy
            timeout), or until nobody waited for this any more.
        """
        until = monotonic() + (self._busy_timeout if seconds is None else seconds)
        with self.explained(), closing(self._connect()) as connection:
            connection.execute("PRAGMA busy_timeout = 0")
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if not waited(until, self.ended):  # a reader still needs the log
                    return False
        return True

    def close(self) -> None:
        """Close all connections; SQLite then copies the write-ahead log into
        the file.
        """
        self._closed = True  # a thread that was abandoned must not write any more
        self._engine.dispose()


@contextmanager
def explained_files(place: Path) -> Iterator[None]:
    """Turn the system's errors about files and folders into ours."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{place} cannot be used: {error}. Check that it can be read (and written, "
            "unless read_only=True) and that its disk has free space; then try again."
        ) from error


def is_lost(file: Path) -> bool:
    """Whether a ledger is missing though something is there that only follows one, or
    no file is in its place.

    A ledger is made before its index and its write-ahead log, which SQLite would take
    for a new ledger's.
    """
    if file.exists():
        return not file.is_file()
    log = file.with_name(f"{file.name}-wal")
    return _has_index(file) or (log.exists() and log.stat().st_size > 0)


def _has_index(file: Path) -> bool:
    indexes = file.parent.glob("chroma-*")
    return any(not index.is_dir() or any(index.iterdir()) for index in indexes)


def identity_of(file: Path) -> tuple[int, int] | None:
    """What tells a file from another one that takes its place later; None where there
    is none.
    """
    with explained_files(file):
        try:
            status = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
    return status.st_dev, status.st_ino


@cache
def _template() -> Engine:
    """What all ledgers have in common, so that a statement is compiled once and not for
    each.
    """
    template = create_engine("sqlite://")
    template.connect().close()  # only then does the dialect know SQLite's version
    return template


def _new_ledger(steps: migrations.Steps) -> bytes:
    """A SQLite file with all tables and an id of its own, which is nobody's yet."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(_tables_of(steps))
        connection.execute(_SET_LEDGER_ID, [uuid.uuid4().hex])
        connection.commit()
        return connection.serialize()


@cache
def _tables_of(steps: migrations.Steps) -> bytes:
    """A SQLite file with what the steps make: to copy it takes a fraction of their
    time.
    """
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        migrations.migrate(connection, steps)
    with closing(engine.raw_connection()) as connection:
        plain: Any = connection.dbapi_connection
        plain.executescript(f"PRAGMA application_id = {_APPLICATION_ID}; VACUUM")
        made = plain.serialize()
    engine.dispose()
    return cast("bytes", made)


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing")
    # SQLAlchemy's own way takes much longer
    plain: Any = connection.connection.dbapi_connection
    plain.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
