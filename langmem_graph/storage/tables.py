"""The tables of a user's ledger, and the migrations that bring an older file up to date.

A file records the version of its tables in SQLite's `user_version`. Step `n` of `MIGRATIONS`
turns version `n` into version `n + 1`; a new file starts at 0 and takes every step.
"""

import uuid
from collections.abc import Callable, Sequence

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
    literal,
    select,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import SchemaTooNewError
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS

_tables = MetaData()

ACTIVE = "active"
"""The status of a record that no other has superseded; the others are kept for history."""
READ_ROLES = ("user", "assistant")
"""Only messages of these roles are extracted; never system messages or tool results."""

meta = Table(
    "meta",
    _tables,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Facts about the file: its user, its own id, the embedder and the size of its vectors."""

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
"""All messages. `n` is the order of arrival; times are UTC; `extra` holds tool calls."""

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
"""Work that is due for a stored item: `embed`, then `index`; the row is deleted when it is done."""

attributes = Table(
    "attributes",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("subject", String, nullable=False),
    Column("name", String, nullable=False),
    UniqueConstraint("subject", "name"),
)
"""Properties of subjects; only records of one attribute may supersede each other."""

records = Table(
    "records",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("record_id", String, nullable=False, unique=True),
    Column("text", Text, nullable=False),
    Column("kind", String, nullable=False),
    Column("facet", String, nullable=False),
    Column("project", String),
    Column("attribute", ForeignKey("attributes.n")),
    Column("confirmation", String, nullable=False),
    Column("status", String, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("said_at", DateTime, nullable=False),
    Column("event", JSON),
    Column("valid_from", DateTime, nullable=False),
    Column("valid_to", DateTime),
    Column("scene", String),
    Column("entities", JSON, nullable=False),
    Column("verbatim", JSON, nullable=False),
    Column("content_hash", String, nullable=False),
    Column("made_by", String, nullable=False),
    Column("cluster", Integer),
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
    Index("records_by_attribute", "attribute"),
    Index("records_by_hash", "content_hash"),
    Index("records_by_status", "status", "n"),
    sqlite_autoincrement=True,
)
"""What was extracted from messages or added by hand; no model's answer deletes a row."""

record_sources = Table(
    "record_sources",
    _tables,
    Column("record", ForeignKey("records.n"), primary_key=True),
    Column("message", ForeignKey("messages.n"), primary_key=True),
    Index("record_sources_by_message", "message"),
)
"""The messages that a record cites; every record cites at least one."""

links = Table(
    "links",
    _tables,
    Column("source", ForeignKey("records.n"), primary_key=True),
    Column("target", ForeignKey("records.n"), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("weight", Float, nullable=False, default=1.0),
    Column("scorer", String),
    Column("origin", String),
    Column("created_at", DateTime, nullable=False),
    Index("links_by_target", "target"),
)
"""Edges between records: `supersedes`, `refines`, `semantic`, `causal`."""

history = Table(
    "history",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("change", String, nullable=False),
    Column("record", ForeignKey("records.n"), nullable=False),
    Column("op", String, nullable=False),
    Column("at", DateTime, nullable=False),
    Column("by", String, nullable=False),
    Column("reason", Text),
    Column("before", JSON),
    Index("history_by_record", "record", "n"),
    Index("history_by_change", "change"),
    sqlite_autoincrement=True,
)
"""Every change of a record with its former values; one change may touch several records."""

clusters = Table(
    "clusters",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("vector_sum", LargeBinary, nullable=False),
    Column("vector_count", Integer, nullable=False),
)
"""Clusters of similar records, made by ActMem's online clustering."""

files = Table(
    "files",
    _tables,
    Column("name", String, primary_key=True),
    Column("body", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("updated_at", DateTime, nullable=False),
)
"""Topic tracks and the profile, as Markdown."""

unread = Table(
    "unread",
    _tables,
    Column("message", ForeignKey("messages.n"), primary_key=True),
    Column("claimed_by", String),
    Column("claimed_until", Float, nullable=False, default=0.0),
    Column("attempts", Integer, nullable=False, default=0),
)
"""Pending messages; a row is deleted in the transaction that stores its records."""

MESSAGES, RECORDS = "messages", "records"
"""The layers, as they are named in `vectors`, `outbox` and the names of Chroma's collections."""
LAYERS = (MESSAGES, RECORDS)
EMBED, INDEX = "embed", "index"


def _create_message_tables(connection: Connection) -> None:
    _tables.create_all(connection, tables=[meta, sessions, messages, vectors, outbox])
    MESSAGE_WORDS.create(connection)
    connection.execute(insert(meta).values(key="ledger_id", value=uuid.uuid4().hex))


def _create_record_tables(connection: Connection) -> None:
    made = [attributes, records, record_sources, links, history, clusters, files, unread]
    _tables.create_all(connection, tables=made)
    RECORD_WORDS.create(connection)
    pending = select(messages.c.n, literal(0.0), literal(0)).where(messages.c.role.in_(READ_ROLES))
    columns = ["message", "claimed_until", "attempts"]
    connection.execute(insert(unread).from_select(columns, pending))


Steps = Sequence[Callable[[Connection], None]]
MIGRATIONS: Steps = [_create_message_tables, _create_record_tables]


def refuse_newer(connection: Connection, steps: Steps) -> int:
    """The schema version of the file; that of a new file is 0.

    Raises:
        SchemaTooNewError: a newer version of the library wrote the file.
    """
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if version > len(steps):
        raise SchemaTooNewError(
            f"The ledger has schema version {version}; this langmem-graph knows up to "
            f"{len(steps)}. Nothing was changed. Upgrade: pip install -U langmem-graph."
        )
    return version


def migrate(connection: Connection, steps: Steps) -> None:
    """Bring the file up to date, in the caller's transaction."""
    for step in range(refuse_newer(connection, steps), len(steps)):
        steps[step](connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {step + 1}")


def get_meta(connection: Connection, key: str) -> str | None:
    """The value of a fact about the file, or None."""
    return connection.scalar(select(meta.c.value).where(meta.c.key == key))


def set_meta(connection: Connection, key: str, value: str) -> None:
    """Record a fact about the file."""
    row = upsert(meta).values(key=key, value=value)
    connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": value}))
