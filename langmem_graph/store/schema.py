"""The ledger's tables, and how an older ledger file becomes a current one.

A file records the version of its tables in SQLite's `user_version`. Step `n` of `MIGRATIONS`
turns version `n` into version `n + 1`; a new file starts at 0 and takes every step.
"""

import uuid
from collections.abc import Callable

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
)

from langmem_graph.errors import SchemaTooNewError

_tables = MetaData()

meta = Table(
    "meta",
    _tables,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Facts about the file: whose it is, its own id, the embedder and size of its vectors."""

sessions = Table(
    "sessions",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("session_id", String, nullable=False, unique=True),
    Column("vector_sum", LargeBinary),
    Column("vector_count", Integer, nullable=False, default=0),
)
"""`vector_sum / vector_count` is the session's centroid."""

messages = Table(
    "messages",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("message_id", String, nullable=False, unique=True),
    Column("session", ForeignKey("sessions.n"), nullable=False),
    Column("role", String, nullable=False),
    Column("name", String),
    Column("at", DateTime, nullable=False),
    Column("text", Text, nullable=False),
    Column("extra", JSON),
    Column("chars", Integer, nullable=False),
    Column("is_question", Boolean, nullable=False),
    Column("added_at", DateTime, nullable=False),
    Index("messages_by_session", "session", "n"),
    sqlite_autoincrement=True,
)
"""The truth. `n` is the order of arrival; times are UTC; `extra` holds tool calls."""

vectors = Table(
    "vectors",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("layer", String, nullable=False),
    Column("item", Integer, nullable=False),
    Column("piece", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    UniqueConstraint("layer", "item", "piece"),
    sqlite_autoincrement=True,
)
"""Unit vectors as float32 bytes; `n` is the id in Chroma; `start:end` is the piece of the text."""

outbox = Table(
    "outbox",
    _tables,
    Column("layer", String, primary_key=True),
    Column("item", Integer, primary_key=True),
    Column("task", String, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("claimed_by", String),
    Column("claimed_until", Float, nullable=False, default=0.0),
    Index("outbox_by_task", "layer", "task"),
)
"""Work that is still due for a committed row: `embed`, then `index`; the row is gone when done."""

# `rowid` is `messages.n`; `before` holds the words of the two earlier messages of the session.
_WORDS = "CREATE VIRTUAL TABLE words USING fts5(own, before, tokenize='porter unicode61')"


def _create(connection: Connection) -> None:
    _tables.create_all(connection)
    connection.exec_driver_sql(_WORDS)
    connection.execute(insert(meta).values(key="ledger_id", value=uuid.uuid4().hex))


MIGRATIONS: list[Callable[[Connection], None]] = [_create]


def version_of(connection: Connection) -> int:
    """The version of the tables in this file; 0 is a new file."""
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def refuse_newer(connection: Connection) -> int:
    """The file's version.

    Raises:
        SchemaTooNewError: when a newer version of the library wrote it.
    """
    found = version_of(connection)
    if found > len(MIGRATIONS):
        raise SchemaTooNewError(
            f"The ledger has schema version {found}; this langmem-graph knows up to "
            f"{len(MIGRATIONS)}. Nothing was changed. Upgrade: pip install -U langmem-graph."
        )
    return found


def migrate(connection: Connection) -> None:
    """Bring the file to the current version, inside the caller's transaction."""
    for step in range(refuse_newer(connection), len(MIGRATIONS)):
        MIGRATIONS[step](connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {step + 1}")
