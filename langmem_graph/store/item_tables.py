"""The tables of a store's ledger, and the queries about its texts and vectors."""

import uuid
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sqlalchemy as sa

from langmem_graph.storage import tables_and_migrations
from langmem_graph.storage.full_text import WordTable
from langmem_graph.storage.sqlite_database import portions
from langmem_graph.storage.tables_and_migrations import meta
from langmem_graph.storage.vector_rows import Piece, VectorRows, vector_rows

_tables = sa.MetaData()

items = sa.Table(
    "items",
    _tables,
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("namespace", sa.String, nullable=False),
    sa.Column("key", sa.String, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.UniqueConstraint("namespace", "key"),
    sa.Index("items_by_time", "updated_at", "n"),
    sqlite_autoincrement=True,
)
"""The items. `namespace` is the labels joined by dots, which no label contains; times are UTC."""

texts = sa.Table(
    "texts",
    _tables,
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("item", sa.ForeignKey("items.n"), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Index("texts_by_item", "item", "n"),
    sqlite_autoincrement=True,
)
"""The texts that find an item: one row for each text at its indexed paths."""

vectors = sa.Table(
    "vectors",
    _tables,
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("text", sa.ForeignKey("texts.n"), nullable=False),
    sa.Column("piece", sa.Integer, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("text", "piece"),
    sqlite_autoincrement=True,
)
"""Unit vectors as float32 bytes; `n` is the id in Chroma and is never reused."""

unembedded = sa.Table(
    "unembedded",
    _tables,
    sa.Column("text", sa.ForeignKey("texts.n"), primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False, default=0),
)
"""Texts that have no vectors yet."""

unindexed = sa.Table("unindexed", _tables, sa.Column("vector", sa.Integer, primary_key=True))
"""Numbers of vectors, stored or deleted, that Chroma has yet to add or delete."""

TEXT_WORDS = WordTable("text_words")
"""The words of `texts`."""

_whole_item = (sa.literal(0).label("start"), sa.literal(0).label("end"))
_with_item = sa.select(vectors.c.n, texts.c.item, vectors.c.vector, *_whole_item).join(
    texts, texts.c.n == vectors.c.text
)


def _create(connection: sa.Connection) -> None:
    tables_and_migrations.meta.create(connection)
    _tables.create_all(connection)
    TEXT_WORDS.create(connection)
    tables_and_migrations.set_meta(connection, "ledger_id", uuid.uuid4().hex)


MIGRATIONS: tables_and_migrations.Steps = [_create]


def due_texts(connection: sa.Connection, max_failures: int | None = None) -> list[int]:
    """Texts without vectors, oldest first; those that failed `max_failures` times are left out."""
    due = sa.select(unembedded.c.text).order_by(unembedded.c.text)
    if max_failures is not None:
        due = due.where(unembedded.c.failures < max_failures)
    return list(connection.scalars(due))


def read_texts(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Those of these texts that still exist and are still due."""
    due = sa.select(texts.c.n, texts.c.text).join(unembedded, unembedded.c.text == texts.c.n)
    return {row.n: row.text for row in connection.execute(due.where(texts.c.n.in_(numbers)))}


def store(connection: sa.Connection, pieces: Sequence[Piece]) -> None:
    """Store vectors and mark them due for the index; texts replaced meanwhile get none."""
    still_due = read_texts(connection, sorted({piece.item for piece in pieces}))
    for piece in pieces:
        if piece.item in still_due:
            numbers = piece.vector.astype(np.float32).tobytes()
            row = sa.insert(vectors).values(text=piece.item, piece=piece.piece, vector=numbers)
            number = connection.scalars(row.returning(vectors.c.n)).one()
            connection.execute(sa.insert(unindexed).values(vector=number))
    connection.execute(sa.delete(unembedded).where(unembedded.c.text.in_(list(still_due))))


def note_failures(connection: sa.Connection, numbers: Sequence[int]) -> None:
    """Count a failure for texts that could not be embedded."""
    failed = unembedded.c.text.in_(numbers)
    again = sa.update(unembedded).where(failed).values(failures=unembedded.c.failures + 1)
    connection.execute(again)


def forget_vectors(connection: sa.Connection) -> None:
    """Delete all vectors and mark every text as due for embedding, for a change of embedder."""
    connection.execute(sa.delete(vectors))
    connection.execute(sa.delete(unembedded))
    every = sa.select(texts.c.n, sa.literal(0))
    connection.execute(sa.insert(unembedded).from_select(["text", "failures"], every))
    connection.execute(sa.delete(meta).where(meta.c.key.in_(["embedder", "dimension"])))


def index_everything_again(connection: sa.Connection) -> None:
    """Mark every stored vector, and nothing else, as due for an empty index."""
    connection.execute(sa.delete(unindexed))
    connection.execute(sa.insert(unindexed).from_select(["vector"], sa.select(vectors.c.n)))


def count(connection: sa.Connection, table: sa.Table) -> int:
    """How many rows a table has."""
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def count_indexed(connection: sa.Connection) -> int:
    """How many vectors Chroma should hold at least."""
    waiting = sa.select(unindexed.c.vector)
    held = sa.select(sa.func.count()).select_from(vectors).where(vectors.c.n.not_in(waiting))
    return connection.scalar(held) or 0


def some_unindexed(connection: sa.Connection, limit: int) -> list[int]:
    """Vectors that Chroma has yet to add or delete, oldest first."""
    due = sa.select(unindexed.c.vector).order_by(unindexed.c.vector).limit(limit)
    return list(connection.scalars(due))


def by_number(connection: sa.Connection, numbers: Sequence[int]) -> VectorRows:
    """Those of these vectors that still exist."""
    return _rows(connection, vectors.c.n.in_(numbers))


def settle(connection: sa.Connection, there: Sequence[int], gone: Sequence[int]) -> None:
    """Remove the marks of vectors that were added or deleted, unless replaced meanwhile."""
    stored = sa.select(vectors.c.n).where(vectors.c.n.in_(there))
    done = unindexed.c.vector.in_(stored) | unindexed.c.vector.in_(gone)
    connection.execute(sa.delete(unindexed).where(done))


def waiting(connection: sa.Connection) -> VectorRows:
    """Vectors that are not yet in Chroma."""
    return _rows(connection, vectors.c.n.in_(sa.select(unindexed.c.vector)))


def items_of(connection: sa.Connection, numbers: Iterable[int]) -> set[int]:
    """The items that these vectors belong to; deleted vectors are left out."""
    joined = sa.select(texts.c.item).join(vectors, vectors.c.text == texts.c.n)
    return set(connection.scalars(joined.where(vectors.c.n.in_(list(numbers)))))


def of_items(connection: sa.Connection, numbers: Sequence[int]) -> Iterator[VectorRows]:
    """Yield all vectors of these items, in blocks."""
    for some in portions(numbers):
        yield _rows(connection, texts.c.item.in_(some))


def _rows(connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> VectorRows:
    return vector_rows(connection.execute(_with_item.where(wanted)).all())
