"""Opens rooms in a PostgreSQL database: connections, transactions, and statements of
one room.

Every statement names the room: the compiler adds it, so that the queries of the other
modules serve both engines. Row-level security is a second wall, independent of the
first: each transaction takes the role `langmem_graph_rooms`, which sees the rows of its
rooms alone. Both rest on settings that end with their transaction, so PgBouncer may
share connections between them.
"""

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout
from sqlalchemy import Connection, Engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import (
    PGCompiler_psycopg,
    PGDialect_psycopg,
    PGExecutionContext_psycopg,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import NullPool, QueuePool

from langmem_graph.errors import ClosedMemoryError, InvalidInputError, StorageError
from langmem_graph.filters import Filter
from langmem_graph.ids_and_times import folder_name
from langmem_graph.server_urls import decoded
from langmem_graph.settings import StorageSettings
from langmem_graph.storage import postgres_vacuum
from langmem_graph.storage.location import is_database, read_location
from langmem_graph.storage.postgres_connection import (
    LOST_HOST,
    STATEMENT_SECONDS,
    prepare_statements,
)
from langmem_graph.storage.postgres_connection import Connection as PlainConnection
from langmem_graph.storage.postgres_words import OWN_ROOM, SCHEMA
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.tables import NEVER_REUSED, TRACES_LEFT, get_all_meta, outbox
from langmem_graph.threads import start_thread, waited

T = TypeVar("T")
_log = logging.getLogger(__name__)
ROLE = "langmem_graph_rooms"
CONNECT_SECONDS = 10
_ESCAPE = "\ue000"
_ZERO = "\ue000\ue001"
_ITSELF = "\ue000\ue002"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_ANY_DUE = sa.select(sa.exists().select_from(outbox))
_PORTS = re.compile(r"(?:\d{1,5}(?:,\d{1,5})*)?")
_OPTIONS = {option.keyword.decode() for option in Conninfo.get_defaults()}
"""What may be set in a URL: SQLAlchemy would load a `plugin`, and the driver quotes the
name of an option that it does not know."""
_SHOWN_OPTIONS = {"host", "port", "dbname", "user"}
_OPTIONS_OF_SERVER = {"options", "client_encoding"}
"""Options that the server reads, and quotes in many ways."""
_SERVER_SPEAKS = ":  "
"""What libpq writes before the words of a server that refuses a connection."""
_IN_NO_USER = re.compile(r"[:=&;\s]")
_PARTS = re.compile(r"[,=\s]+")
_LEDGER_ID = f"SELECT value FROM meta WHERE room = {OWN_ROOM} AND key = 'ledger_id'"


class _Text(sa.types.TypeDecorator[str]):
    """Text with zero characters, which PostgreSQL cannot store: they are escaped,
    reversibly.
    """

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        if value is None or not ("\0" in value or _ESCAPE in value):
            return value
        return value.replace(_ESCAPE, _ITSELF).replace("\0", _ZERO)

    def process_result_value(
        self, value: str | None, dialect: sa.Dialect
    ) -> str | None:
        if value is None or _ESCAPE not in value:
            return value
        return value.replace(_ZERO, "\0").replace(_ITSELF, _ESCAPE)


class RoomCompiler(PGCompiler_psycopg):
    """Restricts every table of a statement to the transaction's room."""

    def visit_table(self, table: Any, asfrom: Any = False, **kw: Any) -> str:  # type: ignore[override]  # noqa: D102
        name: str = super().visit_table(table, asfrom=asfrom, **kw)  # type: ignore[no-untyped-call]
        # with one, it names its room itself
        if not asfrom or kw.get("iscrud") or table.schema:
            return name
        rows = f"(SELECT * FROM {name} WHERE room = {OWN_ROOM})"
        enclosing = kw.get("enclosing_alias")
        named = enclosing is not None and enclosing.element is table
        return rows if named else f"{rows} AS {self.preparer.quote(table.name)}"

    def visit_update(  # noqa: D102
        self, update_stmt: Any, visiting_cte: Any = None, **kw: Any
    ) -> str:
        return super().visit_update(_in_room(update_stmt), visiting_cte, **kw)

    def visit_delete(  # noqa: D102
        self, delete_stmt: Any, visiting_cte: Any = None, **kw: Any
    ) -> str:
        statement = _in_room(delete_stmt)
        return str(super().visit_delete(statement, visiting_cte, **kw))  # type: ignore[no-untyped-call]

    def _on_conflict_target(self, clause: Any, **kw: Any) -> str:
        names = clause.inferred_target_elements
        return f"(room, {', '.join(map(self.preparer.quote, names))})" if names else ""


def _in_room(statement: Any) -> Any:
    if statement.table.schema:
        return statement
    return statement.where(
        sa.literal_column(f"{statement.table.name}.room = {OWN_ROOM}")
    )


class _Context(PGExecutionContext_psycopg):
    """Has the server answer in its own form where a statement's option `binary` says
    so.

    Vectors would be written as text, twice as long, and read again.
    """

    def create_default_cursor(self) -> Any:
        return self._dbapi_connection.cursor(
            binary=self.execution_options.get("binary", False)
        )


class RoomDialect(PGDialect_psycopg):
    """PostgreSQL through psycopg, as the statements of rooms need it."""

    supports_statement_cache = True
    statement_compiler = RoomCompiler
    execution_ctx_cls = _Context
    colspecs = {  # noqa: RUF012  # as SQLAlchemy's
        **PGDialect_psycopg.colspecs,
        sa.String: _Text,
        sa.Integer: sa.BigInteger,
    }  # as SQLAlchemy's
    own_pool: Any = None
    """The application's own psycopg pool, to which connections are given back."""
    lent: dict[Any, Any]
    """The form of rows that the application has set, of each connection in use."""

    def connect(self, *words: Any, **options: Any) -> Any:  # noqa: D102
        return PlainConnection.connect(*words, **options)

    def do_execute_no_params(
        self, cursor: Any, statement: str, context: Any = None
    ) -> None:
        """Run several commands; the result is that of the last one."""
        cursor.execute(statement, prepare=False)
        while cursor.nextset():
            pass

    def do_close(self, dbapi_connection: Any) -> None:  # noqa: D102
        if self.own_pool is None:
            dbapi_connection.close()
            return
        try:
            if not dbapi_connection.closed:
                dbapi_connection.rollback()
        finally:  # also a connection whose server is gone
            dbapi_connection.row_factory = self.lent.pop(dbapi_connection)
            self.own_pool.putconn(dbapi_connection)

    def borrow(self, seconds: float) -> Any:
        """A connection of the application's pool, whose rows are tuples meanwhile."""
        connection = self.own_pool.getconn(timeout=seconds)
        self.lent[connection] = connection.row_factory
        connection.row_factory = tuple_row
        return connection


registry.register("postgresql.langmem_graph", __name__, "RoomDialect")


def connect(database: Any, settings: StorageSettings) -> Engine:
    """An engine for a URL, or for an application's own
    `psycopg_pool.ConnectionPool`.

    Raises:
        InvalidInputError: it is neither, or its parts are unclear. The error quotes
            nothing that could hold a password.
    """
    if not isinstance(database, str):
        return _engine_of_pool(database, settings)
    url = _read_url(database)
    engine = sa.create_engine(
        url.set(drivername="postgresql+langmem_graph"),
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=24,
        pool_timeout=settings.busy_timeout_seconds,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "prepare_threshold": None,
            "application_name": "langmem-graph",
            **LOST_HOST,
        },
        hide_parameters=True,  # an error or a log must not quote what is stored
    )
    sa.event.listen(engine, "connect", prepare_statements)
    return engine


def _engine_of_pool(pool: Any, settings: StorageSettings) -> Engine:
    if not isinstance(pool, ConnectionPool):
        raise InvalidInputError(
            "Give a psycopg_pool.ConnectionPool or a database's URL, not "
            f"{type(pool).__name__}."
        )
    try:
        told = _told_of_pool(pool)
        is_unclear = (
            _is_unclear(told.get("host"), told.get("dbname"))
            or _holds_more_than_user(told.get("user"))
            or not _PORTS.fullmatch(f"{told.get('port') or ''}")
        )
    except psycopg.ProgrammingError:  # its text quotes what was given
        is_unclear = True
    if is_unclear:
        raise InvalidInputError(
            "The pool's conninfo cannot be read: it must be as postgresql://USER@HOST/"
            "NAME, with user and password percent-encoded, or as host=… dbname=…."
        )

    def borrowed() -> Any:
        dialect = cast("RoomDialect", engine.dialect)
        return dialect.borrow(settings.busy_timeout_seconds)

    engine = sa.create_engine(
        "postgresql+langmem_graph://",
        creator=borrowed,
        poolclass=NullPool,
        hide_parameters=True,
    )
    made = cast("RoomDialect", engine.dialect)
    made.own_pool = pool
    made.lent = {}
    return engine


def _read_url(database: str) -> URL:
    try:
        location = read_location(database)
        url = make_url(location if is_database(location) else "")
        dialect = RoomDialect()  # type: ignore[no-untyped-call]
        dialect.create_connect_args(url)  # type: ignore[no-untyped-call]  # reads the ports
        for host in _hosts(url):
            host.encode("idna")
        # of options without a value SQLAlchemy keeps nothing
        is_unclear = (
            _is_unclear(url.host, url.database, *_hosts(url))
            or ":" in decoded(url.database or "")
            or _holds_more_than_user(url.username, *_values(url, "user"))
            or "@" in f"{location}".partition("?")[2]
            or not _OPTIONS.issuperset(url.query)
        )
    except (ArgumentError, ValueError):  # their texts quote what was given
        is_unclear = True
    if is_unclear:
        raise InvalidInputError(
            "The database's URL must be postgresql://USER@HOST/NAME, with user and "
            "password percent-encoded, only options that libpq knows, and several "
            "hosts as ?host=A:5432&host=B:5432."
        )
    return url


def _hosts(url: URL) -> list[str]:
    """The names of hosts that a URL has; not the folders of sockets."""
    names = ",".join([url.host or "", *_values(url, "host")]).split(",")
    return [name for name in names if not name.startswith("/")]


def _is_unclear(*told: Any) -> bool:
    """Whether a host or database, which errors show, may be the rest of a password."""
    return any(sign in decoded(f"{told}") for sign in "@=;&")


def _values(url: URL, option: str) -> Sequence[str]:
    return url.normalized_query.get(option, ())


def _holds_more_than_user(*users: str | None) -> bool:
    """Whether a user's name, which the server quotes, may hold a password as well."""
    return any(_IN_NO_USER.search(decoded(user or "")) for user in users)


def _told_of_pool(pool: Any) -> Mapping[str, Any]:
    given = getattr(pool, "conninfo", None)
    # it may also be a function
    return conninfo_to_dict(given) if isinstance(given, str) else {}


def room_of(user_id: str) -> UUID:
    """The key of a user's room: half of the hash that also names a user's folder."""
    return UUID(folder_name(user_id)[:32])


def place_of(engine: Engine) -> str:
    """The database without user and password: for messages, and to tell databases
    apart.
    """
    url: URL = engine.url
    told: Mapping[str, Any] = {
        "host": url.host or url.query.get("host"),
        "port": url.port,
        "dbname": url.database,
    }
    pool = getattr(engine.dialect, "own_pool", None)
    told = _told_of_pool(pool) or told
    port = f":{told['port']}" if told.get("port") else ""
    return f"{told.get('host') or 'a pool'}{port}/{told.get('dbname') or ''}"


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turn the database's errors into ours."""
    try:
        yield
    except SQLAlchemyError as error:
        said = _said(error)
        quotes_option = _without_options(engine, said) != said
        text = _explanation(engine, error)
        raise StorageError(text) from (None if quotes_option else error)


def _said(error: SQLAlchemyError) -> str:
    origin = getattr(error, "orig", None)
    # details quote rows
    primary = getattr(getattr(origin, "diag", None), "message_primary", None)
    return str(primary or origin or error)


def _without_options(engine: Engine, said: str) -> str:
    """An error's text without the values of the URL's options that libpq or the server
    quotes: what stands there by mistake may be a password.
    """
    url: URL = engine.url
    named = " and ".join(sorted(_OPTIONS_OF_SERVER.intersection(url.query)))
    if named and _SERVER_SPEAKS in said:
        before, _, _ = said.partition(_SERVER_SPEAKS)
        said = (
            f"{before}: not shown, as it may quote the URL's {named}; correct or drop "
            "what stands there"
        )
    for name, values in url.normalized_query.items():
        if name in _SHOWN_OPTIONS:
            continue
        parts = [part for value in values for part in (value, *_PARTS.split(value))]
        for part in parts:
            said = said.replace(f'"{part}"', '"…"')
    return said


def _explanation(engine: Engine, error: SQLAlchemyError) -> str:
    origin = getattr(error, "orig", None)
    cause = " ".join(_without_options(engine, _said(error)).split())
    told = f"The database {place_of(engine)} cannot be used: {cause}. "
    if "permission denied" in cause:
        return (
            f"{told}This login lacks a right: GRANT {ROLE} TO it; an administrator "
            "migrates."
        )
    if "extension" in cause:
        return (
            f"{told}The server needs pgvector 0.8 or newer: install its package there."
        )
    if any(name in cause for name in (ROLE, f"{SCHEMA}.", "relation ", "app.room")):
        return f"{told}If it was not prepared yet, run: langmem-graph migrate URL"
    if isinstance(error, PoolTimeoutError) or isinstance(origin, PoolTimeout):
        return (
            f"{told}All its connections are in use; fewer calls at once, or a "
            "larger pool."
        )
    return (
        f"{told}Nothing was stored by this call; check that it can be reached, and "
        "try again."
    )


class PostgresDatabase:
    """Connections and transactions of one room; the same methods as those of a ledger's
    file.
    """

    def __init__(self, engine: Engine, room: UUID, settings: StorageSettings) -> None:
        self.engine = engine
        self.room = room
        self.closed = False
        self.ended = threading.Event()
        """Set where all is being closed: then nobody else is waited for."""
        self.ledger_id: str | None = None
        """The room's own id, once it was opened; another one means that it was erased
        meanwhile.
        """
        self._call = threading.local()
        self._beside: futures.Future[object] | None = None
        self._settings = settings
        own = {
            "role": ROLE,
            "search_path": f"{SCHEMA}, public",
            "app.room": room,
            "app.rooms": room,
            "lock_timeout": int(settings.busy_timeout_seconds * 1_000),
            "statement_timeout": STATEMENT_SECONDS * 1_000,
            # of a process that was stopped and holds the room's lock
            "idle_in_transaction_session_timeout": STATEMENT_SECONDS * 1_000,
            "jit": "off",  # compiling takes longer than any of these statements runs
        }
        enter = ", ".join(
            f"set_config('{name}', '{value}', true)" for name, value in own.items()
        )
        lock = f"pg_advisory_xact_lock({int.from_bytes(room.bytes[:8], signed=True)})"
        # Several commands in one message; each is planned after those before it have
        # run.
        self._read = f"{_READ}; SELECT {enter}"
        self._write = f"{_WRITE}; SELECT {enter}; SELECT {lock}; {_LEDGER_ID}"

    @contextmanager
    def read_transaction(self, where: Filter | None) -> Iterator[Reading]:
        """Open a read transaction, which sees one unchanging snapshot of the room,
        through a filter.
        """
        with self._transaction(self._read, where) as (connection, _):
            yield connection

    def read(self, query: Callable[[Reading], T], where: Filter | None) -> T:
        """The result of a query in a read transaction of its own."""
        with self.read_transaction(where) as connection:
            return query(connection)

    @contextmanager
    def write_transaction(self) -> Iterator[Reading]:
        """Open a write transaction, which holds the room's lock from the start."""
        with self._transaction(self._write) as (connection, ledger_id):
            if self.ledger_id not in (None, ledger_id):
                raise StorageError(
                    "This user's memory was erased by another process while it was "
                    "open. Nothing "
                    "was stored by this call; do it again."
                )
            self._call.facts = None
            yield connection

    @contextmanager
    def _transaction(
        self, commands: str, where: Filter | None = None
    ) -> Iterator[tuple[Reading, Any]]:
        """A transaction of the room, with what the last of its first commands
        answered.
        """
        if self.closed:
            raise ClosedMemoryError(
                "This Memory is closed. Open it again: Memory(url)."
            )
        with self.explained():
            connection, answer = self._begun(commands, where)
            with connection:
                yield connection, answer
                connection.commit()

    def _begun(self, commands: str, where: Filter | None) -> tuple[Reading, Any]:
        """A connection in a transaction of the room, a new one where the pool's were
        lost.

        A database that was restarted, or failed over, is noticed here: asking first
        takes time.
        """
        for again in (True, False):
            connection = Reading(self.engine, where)
            try:
                connection.execution_options(isolation_level="AUTOCOMMIT").begin()
                several = {"no_parameters": True}
                answer = connection.exec_driver_sql(
                    commands, execution_options=several
                ).scalar()
                break
            except BaseException as error:
                connection.close()
                lost = isinstance(error, DBAPIError) and error.connection_invalidated
                if not (again and lost):
                    raise
        return connection, answer

    def explained(self) -> AbstractContextManager[None]:
        """Turn the database's errors into ours."""
        return explained(self.engine)

    def opened(self) -> bool:
        """Read the facts about the room; returns whether any text or vector in it is
        due.
        """
        with self.read_transaction(EVERYTHING) as connection:
            self._call.facts = get_all_meta(connection)
            return bool(connection.scalar(_ANY_DUE))

    def is_gone(self) -> bool:
        """Whether the room was erased since it was opened, by whichever process."""
        self._call.facts = facts = self.read(get_all_meta, EVERYTHING)
        return facts.get("ledger_id") != self.ledger_id

    def read_beside(self, query: Callable[[Connection], object]) -> None:
        """Run a query on another thread, unless one runs there; `close` waits
        for it.
        """
        if self._beside is None or self._beside.done():
            self._beside = start_thread(partial(self.read, query, EVERYTHING))

    @property
    def facts(self) -> dict[str, str] | None:
        """The facts about the room as this thread's call found them; None where it
        wrote since.
        """
        return getattr(self._call, "facts", None)

    def damage(self, connection: Connection) -> list[str]:
        """What is wrong with the tables: nothing, since PostgreSQL refuses rows without
        others.
        """
        return []

    def last_numbers(self, connection: Connection) -> dict[str, int]:
        """The greatest number that was ever given in each table that gives none
        twice.
        """
        found = dict[str, int]()
        for name in NEVER_REUSED:
            given = sa.text(
                f"SELECT greatest((SELECT max(n) FROM {name} WHERE room = {OWN_ROOM}), "
                f"(SELECT last FROM numbers WHERE room = {OWN_ROOM} AND name = "
                f"'{name}'))"
            )
            if last := connection.scalar(given):
                found[name] = last
        return found

    def note_last_numbers(self, connection: Connection, last: dict[str, int]) -> None:
        """Take over these numbers from a ledger whose rows were copied here."""
        note = sa.text("INSERT INTO numbers (name, last) VALUES (:name, :last)")
        if last:
            connection.execute(
                note, [{"name": name, "last": n} for name, n in last.items()]
            )

    def checkpoint(self, seconds: float | None = None) -> bool:
        """Remove the rows that were deleted from all pages; False where some may be
        left.
        """
        noted = sa.text("SELECT xmin::text FROM meta WHERE key = :key AND room = :room")
        own = {"key": TRACES_LEFT, "room": self.room}
        deleted = self.read(
            lambda connection: connection.scalar(noted, own), EVERYTHING
        )
        return deleted is None or self.remove_deleted(deleted, seconds)

    def remove_deleted(self, deleted: str, seconds: float | None = None) -> bool:
        """Remove what was deleted up to this transaction; False where some may
        be left.
        """
        wait = self._settings.busy_timeout_seconds if seconds is None else seconds
        until = time.monotonic() + wait
        again = partial(waited, until, self.ended)
        try:
            return postgres_vacuum.remove_deleted(self.engine, deleted, again)
        except SQLAlchemyError as error:
            _log.warning("%s", _explanation(self.engine, error))
            return False

    def close(self, until: float = math.inf) -> None:
        """Let nothing be read or written any more; the connections belong to
        all rooms.

        What is read beside is waited for until then (`time.monotonic`) at most.
        """
        self.closed = True
        seconds = min(CONNECT_SECONDS, until - time.monotonic())
        futures.wait([self._beside] if self._beside else [], max(0.0, seconds))
