"""The tables of a store's ledger, and how an older file becomes a current one."""

import uuid

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from langmem_graph.store import ledger, schema
from langmem_graph.store.words import WordTable

_tables = MetaData()

items = Table(
    "items",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("namespace", String, nullable=False),
    Column("key", String, nullable=False),
    Column("value", Text, nullable=False),
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
    UniqueConstraint("namespace", "key"),
    Index("items_by_time", "updated_at", "n"),
    sqlite_autoincrement=True,
)
"""The truth. `namespace` is the labels joined by dots, which no label contains; times are UTC."""

texts = Table(
    "texts",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("item", ForeignKey("items.n"), nullable=False),
    Column("text", Text, nullable=False),
    Index("texts_by_item", "item", "n"),
    sqlite_autoincrement=True,
)
"""What an item is found by: one row for each text at its indexed paths."""

vectors = Table(
    "vectors",
    _tables,
    Column("n", Integer, primary_key=True),
    Column("text", ForeignKey("texts.n"), nullable=False),
    Column("piece", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    UniqueConstraint("text", "piece"),
    sqlite_autoincrement=True,
)
"""Unit vectors as float32 bytes; `n` is the id in Chroma and is never used again."""

unembedded = Table(
    "unembedded",
    _tables,
    Column("text", ForeignKey("texts.n"), primary_key=True),
    Column("failures", Integer, nullable=False, default=0),
)
"""Texts that have no vectors yet."""

unindexed = Table("unindexed", _tables, Column("vector", Integer, primary_key=True))
"""Numbers of vectors, there or gone, about which Chroma and the ledger may differ."""

TEXT_WORDS = WordTable("text_words")
"""Of `texts`."""


def _first(connection: Connection) -> None:
    schema.meta.create(connection)
    _tables.create_all(connection)
    TEXT_WORDS.create(connection)
    ledger.set_meta(connection, "ledger_id", uuid.uuid4().hex)


MIGRATIONS: schema.Steps = [_first]
