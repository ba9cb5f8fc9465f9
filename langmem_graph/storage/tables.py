"""The tables of a user's ledger, and facts about it.

`migrations.py` makes them, and brings those of an older file up to date.
"""

import uuid
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.rooms import shared_key, shared_name

READ_ROLES = ("user", "assistant")
"""Only messages of these roles are extracted; never system messages or tool results."""

ALL = sa.MetaData()


def _table(name: str, *columns: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, ALL, *columns, **options)


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

effects = _numbered_table(
    "effects",
    sa.Column("change", sa.String, nullable=False),
    sa.Column("record", sa.ForeignKey("records.n"), nullable=False),
    sa.Column("op", sa.String, nullable=False),
    sa.Column("relation", sa.String),
    sa.Column("by_record", sa.ForeignKey("records.n")),
    sa.Column("message", sa.ForeignKey("messages.n")),
    sa.Column("quote", sa.Text),
    sa.Column("agreed_message", sa.ForeignKey("messages.n")),
    sa.Column("agreed_quote", sa.Text),
    sa.Column("since", sa.DateTime),
    sa.Column("new_values", sa.JSON, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("undone", sa.Boolean, nullable=False, default=False),
    sa.Index("effects_by_record", "record", "n"),
    sa.Index("effects_by_by_record", "by_record"),
    sa.Index("effects_by_message", "message"),
    sa.Index("effects_by_change", "change"),
    sqlite_autoincrement=True,
)
"""What has happened to each record, see `effects.py`. Status and end of a record, what
else effects change of it, and its links are computed from them.
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

ALL_TABLES = ALL.sorted_tables
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
