"""The tables of a store's ledger, and the queries about its texts and vectors."""

import logging
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import sqlalchemy as sa

from langmem_graph.embeddings.embedder import Vectors
from langmem_graph.errors import EmbeddingError
from langmem_graph.storage import migrations, tables
from langmem_graph.storage.full_text import WordTable
from langmem_graph.storage.number_lists import portions
from langmem_graph.storage.tables import meta
from langmem_graph.storage.vector_rows import VectorRows, record_embedder, vector_rows

_log = logging.getLogger(__name__)
Made = Mapping[str, Sequence[Vectors]]
"""The vectors of the pieces of each text that could be embedded."""
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
    sa.Column("ttl", sa.Float),  # minutes
    sa.Column("expires_at", sa.DateTime),
    sa.UniqueConstraint("namespace", "key"),
    sa.Index("items_by_time", "updated_at", "n"),
    sa.Index(
        "items_by_expiry", "expires_at", sqlite_where=sa.text("expires_at IS NOT NULL")
    ),
    sqlite_autoincrement=True,
)
"""The items. `namespace` is the labels joined by dots, which no label contains; times
are UTC.
"""

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

unindexed = sa.Table(
    "unindexed", _tables, sa.Column("vector", sa.Integer, primary_key=True)
)
"""Numbers of vectors, stored or deleted, that Chroma has yet to add or delete."""

TEXT_WORDS = WordTable("text_words", 3)
"""The words of `texts`."""

_number: sa.BindParameter[int] = sa.bindparam("number")
_texts_of = sa.select(texts.c.n).where(texts.c.item == _number)
_gone = sa.select(vectors.c.n).where(vectors.c.text.in_(_texts_of))
# An item's texts, words and vectors; Chroma deletes the vectors later.
_DROPPED: Sequence[sa.Executable] = (
    sa.insert(unindexed).prefix_with("OR IGNORE").from_select(["vector"], _gone),
    sa.delete(vectors).where(vectors.c.text.in_(_texts_of)),
    sa.delete(unembedded).where(unembedded.c.text.in_(_texts_of)),
    sa.text(
        "DELETE FROM text_words WHERE rowid IN (SELECT n FROM texts WHERE item = "
        ":number)"
    ),
    sa.delete(texts).where(texts.c.item == _number),
)
_DUE = sa.select(unembedded.c.text).where(
    unembedded.c.failures < sa.bindparam("failures")
)
_NOT_INDEXED = sa.text(
    "INSERT INTO unindexed SELECT n FROM vectors WHERE text = :number"
)
_NOT_DUE = sa.text("DELETE FROM unembedded WHERE text = :number")
_FAILED = sa.text(
    "INSERT INTO unembedded VALUES (:number, 1) ON CONFLICT DO UPDATE SET "
    "failures = "
    "failures + 1"
)
_whole_item = (sa.literal(0).label("start"), sa.literal(0).label("end"))
_with_item = sa.select(vectors.c.n, texts.c.item, vectors.c.vector, *_whole_item).join(
    texts, texts.c.n == vectors.c.text
)


def _create(connection: sa.Connection) -> None:
    tables.meta.create(connection)
    _tables.create_all(connection)
    TEXT_WORDS.create(connection)
    tables.set_meta(connection, "ledger_id", uuid.uuid4().hex)


def _add_expiry(connection: sa.Connection) -> None:
    migrations.add_column(connection, "items", "ttl", "FLOAT")
    migrations.add_column(connection, "items", "expires_at", "DATETIME")
    for index in items.indexes:
        index.create(connection, checkfirst=True)


def _index_words_anew(connection: sa.Connection) -> None:
    """Older files hold words as SQLite splits them; now `words.py` does it."""
    TEXT_WORDS.create(connection)
    rows = connection.execute(sa.select(texts.c.n, texts.c.text))
    TEXT_WORDS.add(connection, {n: [text] for n, text in rows})


MIGRATIONS: migrations.Steps = [_create, _add_expiry, _index_words_anew]


def store_vectors(
    connection: sa.Connection, numbered: Mapping[int, str], made: Made, *, by: str
) -> None:
    """Store the vectors of these texts that an embedder made; count a failure for the
    others.
    """
    vectors_of = {n: made[text] for n, text in numbered.items() if text in made}
    try:
        if sizes := [vector.size for some in vectors_of.values() for vector in some]:
            record_embedder(connection, by, sizes)
    except EmbeddingError as error:  # the stored ones are of another embedder or size
        _log.warning("%s", error)
        vectors_of = {}
    if embedded := [{"number": n} for n in vectors_of]:
        numbers = [
            {"text": n, "piece": piece, "vector": vector.astype(np.float32).tobytes()}
            for n, some in vectors_of.items()
            for piece, vector in enumerate(some)
        ]
        connection.execute(sa.insert(vectors), numbers)
        connection.execute(_NOT_INDEXED, embedded)
        connection.execute(_NOT_DUE, embedded)
    if failed := [{"number": n} for n in numbered if n not in vectors_of]:
        connection.execute(_FAILED, failed)


def drop_texts(
    connection: sa.Connection, items: Iterable[int], *more: sa.Delete
) -> None:
    """Delete the texts of these items, their words and their vectors, and what `more`
    deletes.
    """
    rows = [{"number": n} for n in items]
    for statement in (*_DROPPED, *more):
        connection.execute(statement, rows)


def due_texts(connection: sa.Connection, max_failures: int | None = None) -> list[int]:
    """Texts without vectors, oldest first; those that failed `max_failures` times are
    left out.
    """
    return list(connection.scalars(_DUE, {"failures": max_failures or sys.maxsize}))


def read_texts(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Those of these texts that still exist and are still due."""
    due = sa.select(texts.c.n, texts.c.text).join(
        unembedded, unembedded.c.text == texts.c.n
    )
    return {
        row.n: row.text for row in connection.execute(due.where(texts.c.n.in_(numbers)))
    }


def forget_vectors(connection: sa.Connection) -> None:
    """Delete all vectors and mark every text as due for embedding, for a change of
    embedder.
    """
    connection.execute(sa.delete(vectors))
    connection.execute(sa.delete(unembedded))
    every = sa.select(texts.c.n, sa.literal(0))
    connection.execute(sa.insert(unembedded).from_select(["text", "failures"], every))
    connection.execute(sa.delete(meta).where(meta.c.key.in_(["embedder", "dimension"])))


def index_everything_again(connection: sa.Connection) -> None:
    """Mark every stored vector, and nothing else, as due for an empty index."""
    connection.execute(sa.delete(unindexed))
    connection.execute(
        sa.insert(unindexed).from_select(["vector"], sa.select(vectors.c.n))
    )


def count(connection: sa.Connection, table: sa.Table) -> int:
    """How many rows a table has."""
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def count_indexed(connection: sa.Connection) -> int:
    """How many vectors Chroma should hold at least."""
    waiting = sa.select(unindexed.c.vector)
    held = (
        sa.select(sa.func.count())
        .select_from(vectors)
        .where(vectors.c.n.not_in(waiting))
    )
    return connection.scalar(held) or 0


def some_unindexed(connection: sa.Connection, limit: int) -> list[int]:
    """Vectors that Chroma has yet to add or delete, oldest first."""
    due = sa.select(unindexed.c.vector).order_by(unindexed.c.vector).limit(limit)
    return list(connection.scalars(due))


def by_number(connection: sa.Connection, numbers: Sequence[int]) -> VectorRows:
    """Those of these vectors that still exist."""
    return _rows(connection, vectors.c.n.in_(numbers))


def settle(
    connection: sa.Connection, there: Sequence[int], gone: Sequence[int]
) -> None:
    """Remove the marks of vectors that were added or deleted, unless replaced
    meanwhile.
    """
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
