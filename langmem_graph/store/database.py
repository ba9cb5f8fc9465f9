"""One SQLite file, opened the way every ledger is: WAL, explicit transactions, erased pages."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import QueuePool

from langmem_graph.errors import StorageError
from langmem_graph.store import schema

_WRITER = {"writing": True}


class Database:
    """Connections and transactions of one ledger file.

    Args:
        file: the file; made, with its directory, unless `read_only`.
        busy_timeout: seconds to wait for another process's write.
        read_only: open beside a running writer; nothing can be changed.
    """

    def __init__(self, file: Path, *, busy_timeout: float, read_only: bool = False) -> None:
        self.file = file
        self._busy_timeout = busy_timeout
        self._read_only = read_only
        self._engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=QueuePool, max_overflow=32
        )
        event.listen(self._engine, "begin", _begin)
        with self._explained():
            self._prepare()

    def _prepare(self) -> None:
        if self._read_only:
            with self.reading() as connection:
                schema.refuse_newer(connection)
            return
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        with self.writing() as connection:
            schema.migrate(connection)

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self._read_only else "rwc"
        connection = sqlite3.connect(
            f"{self.file.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.executescript(
            "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA foreign_keys = ON;"
            "PRAGMA cache_size = -16000;"
        )
        return connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction: sees one state of the file throughout."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A write transaction: holds the file's write lock from the start."""
        with self._engine.connect() as connection:
            writer = connection.execution_options(**_WRITER)
            with self._explained(), writer.begin():
                yield writer

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, sqlite3.OperationalError) as error:
            raise StorageError(
                f"The ledger {self.file} cannot be used: {getattr(error, 'orig', error)}. "
                "Check that the directory exists, can be written and has free space, and that no "
                "other program holds the file."
            ) from error

    def close(self) -> None:
        """Close all connections; the write-ahead log is folded into the file."""
        self._engine.dispose()


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
