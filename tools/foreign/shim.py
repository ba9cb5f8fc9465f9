"""LangGraph's store classes by name, each a ChromaStore: what its tests make their stores of.

The tests of the Postgres store also look at its table. `_cursor` answers those few statements from
the store's ledger.
"""

import asyncio
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from langmem_graph import ChromaStore, Settings
from langmem_graph.settings import RankingSettings

TTL_MINUTES = 6 / 60  # as in the tests
TTL = {
    "default_ttl": TTL_MINUTES,
    "refresh_on_read": True,
    "sweep_interval_minutes": TTL_MINUTES / 2,
}
_SQL = {
    r"\bstore\b": "items",
    r"\bprefix\b": "namespace",
    r"NOW\(\) - INTERVAL '1 minute'": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 minute')",
    r"NOW\(\) - \(%s \* INTERVAL '1 second'\)": (
        "strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('-%f seconds', %s))"
    ),
    r"%s": "?",
}


def options(index: Any, ttl: Any = None) -> dict[str, Any]:
    """The arguments of a ChromaStore for the arguments of LangGraph's stores."""
    dense = os.environ.get("FOREIGN_RANKING") == "dense"
    settings = Settings(ranking=RankingSettings(method="dense")) if dense else None
    given = {key: value for key, value in (index or {}).items() if value is not None}
    if given.get("text_fields"):
        given["fields"] = given["text_fields"]
    return {
        "index": given or None,
        "embeddings": None if given.get("embed") else "hash",
        "ttl": ttl and dict(ttl),
        "settings": settings,
    }


class Cursor:
    """Runs a statement for Postgres on the ledger of a ChromaStore."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._found: sqlite3.Cursor | None = None

    def execute(self, statement: str, values: Any = ()) -> None:
        """Run a statement."""
        for theirs, ours in _SQL.items():
            statement = re.sub(theirs, lambda _, ours=ours: ours, statement)
        self._found = self._connection.execute(statement, values)

    def fetchone(self) -> Any:
        """The next row, by name."""
        assert self._found is not None
        return self._found.fetchone()


class AsyncCursor(Cursor):
    """The same to be awaited."""

    async def execute(self, statement: str, values: Any = ()) -> None:  # type: ignore[override]
        """Run a statement."""
        super().execute(statement, values)

    async def fetchone(self) -> Any:
        """The next row, by name."""
        return super().fetchone()


class InMemoryStore(ChromaStore):
    """A store in a temporary folder."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(tempfile.mkdtemp(prefix="foreign-"), **options(index))


class SqliteStore(ChromaStore):
    """A store opened by `from_conn_string`."""

    ttl: Any = None

    def setup(self) -> None:
        """Nothing to do: opening a store makes its tables."""

    @property
    def conn(self) -> sqlite3.Connection:
        """A connection to the ledger, whose tables a test looks at."""
        return sqlite3.connect(self._folder.folder / "ledger.db")

    @contextmanager
    def _ledger(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(
            self._folder.folder / "ledger.db", isolation_level=None
        )
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        with self._ledger() as connection:
            yield Cursor(connection)

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_str: str, *, index: Any = None, ttl: Any = None, **_: Any
    ) -> Iterator[Any]:
        """Open a store in a temporary folder."""
        folder = tempfile.mkdtemp(prefix="foreign-")
        try:
            with cls(folder, **options(index, ttl or cls.ttl)) as store:
                store.start_ttl_sweeper()
                yield store
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class PostgresStore(SqliteStore):
    """The same with the times to live that the tests of the Postgres store expect."""

    ttl = TTL


class _Ready:
    """What has been done, to be awaited."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, Any]:
        return self._value
        yield


class AsyncSqliteStore(SqliteStore):
    """A store opened by an asynchronous `from_conn_string`."""

    def setup(self) -> Any:
        """Nothing to do: opening a store makes its tables."""
        return _Ready(None)

    def start_ttl_sweeper(self, *given: Any) -> Any:
        """LangGraph's asynchronous stores are awaited here."""
        return _Ready(super().start_ttl_sweeper(*given))

    def stop_ttl_sweeper(self, *given: Any) -> Any:
        """LangGraph's asynchronous stores are awaited here."""
        return _Ready(super().stop_ttl_sweeper(*given))

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[AsyncCursor]:  # type: ignore[override]
        with self._ledger() as connection:
            yield AsyncCursor(connection)

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_str: str, *, index: Any = None, ttl: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        """Open a store in a temporary folder."""
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="foreign-")
        opened = await asyncio.to_thread(cls, folder, **options(index, ttl or cls.ttl))
        try:
            async with opened as store:
                await store.start_ttl_sweeper()
                yield store
        finally:
            await asyncio.to_thread(shutil.rmtree, Path(folder), ignore_errors=True)


class AsyncPostgresStore(AsyncSqliteStore):
    """The same with the times to live that the tests of the Postgres store expect."""

    ttl = TTL
