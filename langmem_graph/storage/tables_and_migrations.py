"""The tables of a user's ledger, and the migrations that bring an older file up to
date.

A file records the version of its tables in SQLite's `user_version`. Step `n` of
`MIGRATIONS` turns version `n` into version `n + 1`; a new file starts at 0 and takes
every step.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import SchemaTooNewError
from langmem_graph.rooms import shared_key, shared_name
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS, words_of

ACTIVE = "active"
"""The status of a record that no other has superseded; the others are kept for
history.
"""
READ_ROLES = ("user", "assistant")
"""Only messages of these roles are extracted; never system messages or tool results."""

_tables = sa.MetaData()


def _table(name: str, *columns: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, _tables, *columns, **options)


def _numbered_table(
    name: str, *columns: sa.schema.SchemaItem, **options: Any
) -> sa.Table:
    """A table whose first column `n` is its primary key."""
    return _table(
        name, sa.Column("n", sa.Integer, primary_key=True), *columns, **options
    )


meta = _table(
    "meta",
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""Facts about the file: its user, its own id, the embedder and the size of its
vectors.
"""
DELETED_ID = "deleted:"
"""Begins the keys of `meta` that are no facts, but stand for messages that were
deleted.
"""
_fact = sa.select(meta.c.value).where(meta.c.key == sa.bindparam("key"))
_facts = sa.select(meta.c.key, meta.c.value).where(
    (meta.c.key < DELETED_ID) | (meta.c.key >= DELETED_ID.replace(":", ";"))
)

sessions = _numbered_table(
    "sessions",
    sa.Column("session_id", sa.String, nullable=False, unique=True),
    sa.Column("vector_sum", sa.LargeBinary),
    sa.Column("vector_count", sa.Integer, nullable=False, default=0),
)
"""`vector_sum / vector_count` is the session's centroid."""

messages = _numbered_table(
    "messages",
    sa.Column("message_id", sa.String, nullable=False, unique=True),
    sa.Column("session", sa.ForeignKey("sessions.n"), nullable=False),
    sa.Column("role", sa.String, nullable=False),
    sa.Column("origin", sa.String, nullable=False),
    sa.Column("name", sa.String),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("extra", sa.JSON),
    sa.Column("chars", sa.Integer, nullable=False),
    sa.Column("is_question", sa.Boolean, nullable=False),
    sa.Column("added_at", sa.DateTime, nullable=False),
    sa.Index("messages_by_session", "session", "n"),
    sqlite_autoincrement=True,
)
"""All messages. `n` is the order of arrival; times are UTC.

`extra` holds tool calls and metadata as they were given.
"""
SPOKEN = (messages.c.role != "system") & (messages.c.origin != "plumbing")
"""Messages that can be found; the others are stored only."""

message_values = _table(
    "message_values",
    sa.Column("message", sa.ForeignKey("messages.n"), primary_key=True),
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("type", sa.String, nullable=False),
    sa.Column("text", sa.String, nullable=False),
    sa.Column("number", sa.Float, nullable=False),
    sa.Index("message_values_by_value", "key", "type", "text", "number", "message"),
)
"""Metadata of messages, and the agent they are of, as filters find it; `extra` has it
as given.
"""

vectors = _numbered_table(
    "vectors",
    sa.Column("layer", sa.String, nullable=False),
    sa.Column("item", sa.Integer, nullable=False),
    sa.Column("piece", sa.Integer, nullable=False),
    sa.Column("start", sa.Integer, nullable=False),
    sa.Column("end", sa.Integer, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("layer", "item", "piece"),
    sqlite_autoincrement=True,
)
"""Unit vectors as float32 bytes; `n` is the id in Chroma; `start:end` is the piece of
the text.
"""

outbox = _table(
    "outbox",
    sa.Column("layer", sa.String, primary_key=True),
    sa.Column("item", sa.Integer, primary_key=True),
    sa.Column("task", sa.String, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("claimed_by", sa.String),
    sa.Column("claimed_until", sa.Float, nullable=False, default=0.0),
    sa.Index("outbox_by_task", "layer", "task"),
)
"""Work that is due for a stored item: `embed`, then `index`; the row is deleted when it
is done.
"""

attributes = _numbered_table(
    "attributes",
    sa.Column("subject", sa.String, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.UniqueConstraint("subject", "name"),
)
"""Properties of subjects; only records of one attribute may supersede each other."""

records = _numbered_table(
    "records",
    sa.Column("record_id", sa.String, nullable=False, unique=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("facet", sa.String, nullable=False),
    sa.Column("project", sa.String),
    sa.Column("attribute", sa.ForeignKey("attributes.n")),
    sa.Column("confirmation", sa.String, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("said_at", sa.DateTime, nullable=False),
    sa.Column("event", sa.JSON),
    sa.Column("valid_from", sa.DateTime, nullable=False),
    sa.Column("valid_to", sa.DateTime),
    sa.Column("scene", sa.String),
    sa.Column("entities", sa.JSON, nullable=False),
    sa.Column("verbatim", sa.JSON, nullable=False),
    sa.Column("content_hash", sa.String, nullable=False),
    sa.Column("made_by", sa.String, nullable=False),
    sa.Column("cluster", sa.Integer),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.Index("records_by_attribute", "attribute"),
    sa.Index("records_by_hash", "content_hash"),
    sa.Index("records_by_status", "status", "n"),
    sqlite_autoincrement=True,
)
"""What was extracted from messages or added by hand; no model's answer deletes
a row.
"""

record_sources = _table(
    "record_sources",
    sa.Column("record", sa.ForeignKey("records.n"), primary_key=True),
    sa.Column("message", sa.ForeignKey("messages.n"), primary_key=True),
    sa.Column("supporting", sa.Boolean, nullable=False, default=False),
    sa.Index("record_sources_by_message", "message"),
)
"""The messages that a record cites; every record cites at least one that is not
supporting.

A supporting message only says again what the others said: when it is forgotten, the
record stays.
"""

links = _table(
    "links",
    sa.Column("source", sa.ForeignKey("records.n"), primary_key=True),
    sa.Column("target", sa.ForeignKey("records.n"), primary_key=True),
    sa.Column("kind", sa.String, primary_key=True),
    sa.Column("weight", sa.Float, nullable=False, default=1.0),
    sa.Column("scorer", sa.String),
    sa.Column("origin", sa.String),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Index("links_by_target", "target"),
)
"""Edges between records: `supersedes`, `refines`, `semantic`, `causal`."""

history = _numbered_table(
    "history",
    sa.Column("change", sa.String, nullable=False),
    sa.Column("record", sa.ForeignKey("records.n"), nullable=False),
    sa.Column("op", sa.String, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("before", sa.JSON),
    sa.Index("history_by_record", "record", "n"),
    sa.Index("history_by_change", "change"),
    sqlite_autoincrement=True,
)
"""Every change of a record with its former values; one change may touch several
records.
"""

record_changes = _numbered_table(
    "record_changes",
    sa.Column("change", sa.String, nullable=False),
    sa.Column("record", sa.ForeignKey("records.n"), nullable=False),
    sa.Column("relation", sa.String, nullable=False),
    sa.Column("by_record", sa.ForeignKey("records.n")),
    sa.Column("since", sa.DateTime),
    sa.Column("message", sa.ForeignKey("messages.n"), nullable=False),
    sa.Column("quote", sa.Text, nullable=False),
    sa.Column("agreed_message", sa.ForeignKey("messages.n")),
    sa.Column("agreed_quote", sa.Text),
    sa.Column("made_by", sa.String, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("undone", sa.Boolean, nullable=False, default=False),
    sa.Index("record_changes_by_record", "record"),
    sa.Index("record_changes_by_by_record", "by_record"),
    sa.Index("record_changes_by_message", "message"),
    sa.Index("record_changes_by_change", "change"),
    sqlite_autoincrement=True,
)
"""What a message did to a record, with its words; rows of changes that were undone say
so.
"""

removed_words = _numbered_table(
    "removed_words",
    sa.Column("request", sa.ForeignKey("messages.n"), nullable=False),
    sa.Column("layer", sa.String, nullable=False),
    sa.Column("item", sa.Integer, nullable=False),
    sa.Column("former", sa.JSON(none_as_null=True)),
    sa.Index("removed_words_by_item", "layer", "item"),
    sa.Index("removed_words_by_request", "request"),
    sqlite_autoincrement=True,
)
"""What the user asked to forget: rows of other tables of which words were removed.

`former` has the columns as they were before, for `undo`; without it they are gone for
good.
"""

calls = _numbered_table(
    "calls",
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("purpose", sa.String, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("tokens_exact", sa.Boolean, nullable=False),
    sa.Column("milliseconds", sa.Float, nullable=False),
    sa.Column("repair", sa.Boolean, nullable=False),
    sa.Column("problem", sa.Text),
    sa.Column("refused", sa.JSON, nullable=False),
    sqlite_autoincrement=True,
)
"""Model calls: what each was for, what it cost, and which of its proposals were refused
and why.
"""

call_messages = _table(
    "call_messages",
    sa.Column("call", sa.ForeignKey("calls.n"), primary_key=True),
    sa.Column("message", sa.ForeignKey("messages.n"), primary_key=True),
    sa.Index("call_messages_by_message", "message"),
)
"""The messages that a call read; the call is forgotten with any of them."""

clusters = _numbered_table(
    "clusters",
    sa.Column("vector_sum", sa.LargeBinary, nullable=False),
    sa.Column("vector_count", sa.Integer, nullable=False),
)
"""Clusters of similar records, made by ActMem's online clustering."""

files = _table(
    "files",
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
)
"""Topic tracks and the profile, as Markdown."""

unread = _table(
    "unread",
    sa.Column("message", sa.ForeignKey("messages.n"), primary_key=True),
    sa.Column("claimed_by", sa.String),
    sa.Column("claimed_until", sa.Float, nullable=False, default=0.0),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
)
"""Pending messages; a row is deleted in the transaction that stores its records."""

ALL_TABLES = _tables.sorted_tables
"""The tables of a ledger; one that refers to another comes after it."""
NEVER_REUSED = [
    t.name for t in ALL_TABLES if t.dialect_options["sqlite"]["autoincrement"]
]
"""The tables in which the number of a deleted row is not given again."""
TRACES_LEFT = "traces_left"
"""The key of `meta` that says that forgotten words are still to be removed from the
files.
"""
VECTORS_DELETED = "vectors_deleted"
"""The key of `meta` whose value is another one after each deletion of vectors."""
RECORDS_CHANGED = "records_changed"
"""The key of `meta` whose value is another one after a record was ended, hidden or
taken back.
"""
MESSAGES, RECORDS = "messages", "records"
"""The layers, as they are named in `vectors`, `outbox` and the names of Chroma's
collections.
"""
LAYERS = (MESSAGES, RECORDS)
EMBED = "embed"
INDEX = "index"


def _create_message_tables(connection: sa.Connection) -> None:
    _tables.create_all(connection, tables=[meta, sessions, messages, vectors, outbox])
    MESSAGE_WORDS.create(connection)
    connection.execute(sa.insert(meta).values(key="ledger_id", value=uuid.uuid4().hex))


def _create_record_tables(connection: sa.Connection) -> None:
    made = [
        attributes,
        records,
        record_sources,
        links,
        history,
        clusters,
        files,
        unread,
    ]
    _tables.create_all(connection, tables=made)
    RECORD_WORDS.create(connection)
    pending = sa.select(messages.c.n, sa.literal(0.0), sa.literal(0))
    pending = pending.where(messages.c.role.in_(READ_ROLES))
    columns = ["message", "claimed_until", "attempts"]
    connection.execute(sa.insert(unread).from_select(columns, pending))


def _create_change_tables(connection: sa.Connection) -> None:
    """Origins of messages, supporting sources, changes with their words, and model
    calls.
    """
    add_column(connection, "messages", "origin", "VARCHAR NOT NULL DEFAULT 'user'")
    said_by = messages.c.role.in_(("assistant", "tool"))
    connection.execute(
        sa.update(messages).where(said_by).values(origin=messages.c.role)
    )
    other = sa.update(messages).where(messages.c.role == "system")
    connection.execute(other.values(origin="import"))
    add_column(connection, "record_sources", "supporting", "BOOLEAN NOT NULL DEFAULT 0")
    _tables.create_all(connection, tables=[record_changes, calls, call_messages])


def _index_words_anew(connection: sa.Connection) -> None:
    """Older files hold words as SQLite splits them; now `words.py` does it for both
    engines.
    """
    for words in (MESSAGE_WORDS, RECORD_WORDS):
        words.create(connection)
    index_words(connection)


def _create_value_table(connection: sa.Connection) -> None:
    _tables.create_all(connection, tables=[message_values])


def _create_removed_words(connection: sa.Connection) -> None:
    _tables.create_all(connection, tables=[removed_words])


def _drop_held_changes(connection: sa.Connection) -> None:
    """In older files changes could wait for somebody to confirm them; none of these was
    carried out.
    """
    if _has_column(connection, "record_changes", "held"):
        connection.exec_driver_sql("DELETE FROM record_changes WHERE held")
        connection.exec_driver_sql("ALTER TABLE record_changes DROP COLUMN held")


def index_words(connection: sa.Connection) -> None:
    """Index all messages and records, of which none is indexed yet."""
    m = messages.c
    for session in connection.scalars(sa.select(sessions.c.n)).all():
        spoken = (
            sa.select(m.n, m.name, m.text)
            .where(m.session == session, SPOKEN)
            .order_by(m.n)
        )
        MESSAGE_WORDS.add(connection, words_of(map(tuple, connection.execute(spoken))))
    texts = connection.execute(sa.select(records.c.n, records.c.text))
    RECORD_WORDS.add(connection, {n: [text] for n, text in texts})


def add_column(
    connection: sa.Connection, table: str, name: str, declaration: str
) -> None:
    """Add a column to an older file; a new file's tables have all columns from the
    start.
    """
    if not _has_column(connection, table, name):
        connection.exec_driver_sql(
            f"ALTER TABLE {table} ADD COLUMN {name} {declaration}"
        )


def _has_column(connection: sa.Connection, table: str, name: str) -> bool:
    columns = sa.inspect(connection).get_columns(table)
    return name in {column["name"] for column in columns}


Steps = Sequence[Callable[[sa.Connection], None]]
MIGRATIONS: Steps = [
    _create_message_tables,
    _create_record_tables,
    _create_change_tables,
    _index_words_anew,
    _create_value_table,
    _create_removed_words,
    _drop_held_changes,
    _index_words_anew,  # of earlier messages their ends alone
]


def refuse_newer(connection: sa.Connection, steps: Steps) -> int:
    """The schema version of the file, unless a newer library wrote it; that of a new
    file is 0.
    """
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if version > len(steps):
        raise SchemaTooNewError(
            f"The ledger has schema version {version}; this langmem-graph knows up to "
            f"{len(steps)}. Nothing was changed. Upgrade: pip install -U langmem-graph."
        )
    return version


def migrate(connection: sa.Connection, steps: Steps) -> None:
    """Bring the file up to date, in the caller's transaction."""
    for step in range(refuse_newer(connection, steps), len(steps)):
        steps[step](connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {step + 1}")


def get_meta(connection: sa.Connection, key: str) -> str | None:
    """The value of a fact about the file, or None."""
    return connection.scalar(_fact, {"key": key})


def get_all_meta(connection: sa.Connection) -> dict[str, str]:
    """All facts about the file."""
    return {key: value for key, value in connection.execute(_facts)}  # noqa: C416  # rows, not pairs


def owner_of(connection: sa.Connection) -> str | None:
    """The key of the room that a ledger holds; None for a new one."""
    name = get_meta(connection, "room")
    return get_meta(connection, "user_id") if name is None else shared_key(name)


def note_owner(connection: sa.Connection, key: str) -> None:
    """Record whose room a ledger holds; of a shared one the name, since its key is no
    text.
    """
    name = shared_name(key)
    set_meta(
        connection, "user_id" if name is None else "room", key if name is None else name
    )


def set_meta(connection: sa.Connection, key: str, value: str) -> None:
    """Record a fact about the file."""
    row = upsert(meta).values(key=key, value=value)
    connection.execute(
        row.on_conflict_do_update(index_elements=["key"], set_={"value": value})
    )


def note_deleted_vectors(connection: sa.Connection) -> None:
    """Note, in the transaction that deletes vectors, that those held in memory are out
    of date.
    """
    set_meta(connection, VECTORS_DELETED, uuid.uuid4().hex)
