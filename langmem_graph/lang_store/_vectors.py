"""Vectors and due work in the ledger."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from sqlalchemy import Connection, Select, delete, func, insert, select, text, update

from langmem_graph.lang_store._tables import texts, unembedded, unindexed, vectors
from langmem_graph.store.database import portions
from langmem_graph.store.ledger import Piece
from langmem_graph.store.lookups import VectorRows
from langmem_graph.store.schema import meta

_with_item = select(vectors.c.n, texts.c.item, vectors.c.vector).join(
    texts, texts.c.n == vectors.c.text
)


# --- embedding -----------------------------------------------------------------------------------


def due_texts(connection: Connection, max_failures: int | None = None) -> list[int]:
    """Texts without vectors, oldest first; of those that failed often none, if so wanted."""
    due = select(unembedded.c.text).order_by(unembedded.c.text)
    if max_failures is not None:
        due = due.where(unembedded.c.failures < max_failures)
    return list(connection.scalars(due))


def read_texts(connection: Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Those of the texts that are still there and still due."""
    found = select(texts.c.n, texts.c.text).join(unembedded, unembedded.c.text == texts.c.n)
    return {n: words for n, words in connection.execute(found.where(texts.c.n.in_(numbers)))}  # noqa: C416  # rows, not pairs


def store(connection: Connection, pieces: Sequence[Piece]) -> None:
    """Keep vectors, due for Chroma; texts that were replaced meanwhile get none."""
    still_due = read_texts(connection, sorted({piece.item for piece in pieces}))
    for piece in pieces:
        if piece.item in still_due:
            numbers = piece.vector.astype(np.float32).tobytes()
            row = insert(vectors).values(text=piece.item, piece=piece.piece, vector=numbers)
            number = connection.scalars(row.returning(vectors.c.n)).one()
            connection.execute(insert(unindexed).values(vector=number))
    connection.execute(delete(unembedded).where(unembedded.c.text.in_(list(still_due))))


def note_failures(connection: Connection, numbers: Sequence[int]) -> None:
    """These texts could not be embedded this time."""
    failed = unembedded.c.text.in_(numbers)
    again = update(unembedded).where(failed).values(failures=unembedded.c.failures + 1)
    connection.execute(again)


def forget_vectors(connection: Connection) -> None:
    """Everything is due for embedding again, by whatever embedder comes."""
    connection.execute(delete(vectors))
    connection.execute(delete(unembedded))
    every = select(texts.c.n, text("0"))
    connection.execute(insert(unembedded).from_select(["text", "failures"], every))
    connection.execute(delete(meta).where(meta.c.key.in_(["embedder", "dimension"])))


# --- Chroma --------------------------------------------------------------------------------------


def index_everything_again(connection: Connection) -> None:
    """Nothing is known to be in Chroma, and nothing else is in it."""
    connection.execute(delete(unindexed))
    connection.execute(insert(unindexed).from_select(["vector"], select(vectors.c.n)))


def count_unindexed(connection: Connection) -> int:
    """How many vectors Chroma has to be told of."""
    return connection.scalar(select(func.count()).select_from(unindexed)) or 0


def count_indexed(connection: Connection) -> int:
    """How many vectors Chroma should hold at least."""
    waiting = select(unindexed.c.vector)
    held = select(func.count()).select_from(vectors).where(vectors.c.n.not_in(waiting))
    return connection.scalar(held) or 0


def some_unindexed(connection: Connection, limit: int) -> list[int]:
    """Vectors that Chroma has to be told of, oldest first."""
    due = select(unindexed.c.vector).order_by(unindexed.c.vector).limit(limit)
    return list(connection.scalars(due))


def by_number(connection: Connection, numbers: Sequence[int]) -> VectorRows:
    """Those of the vectors that are there."""
    return _rows(connection, _with_item.where(vectors.c.n.in_(numbers)))


def settle(connection: Connection, there: Sequence[int], gone: Sequence[int]) -> None:
    """Chroma agrees about these, except for what was replaced while it was told."""
    still = select(vectors.c.n).where(vectors.c.n.in_(there))
    told = unindexed.c.vector.in_(still) | unindexed.c.vector.in_(gone)
    connection.execute(delete(unindexed).where(told))


# --- searching -----------------------------------------------------------------------------------


def waiting(connection: Connection) -> VectorRows:
    """Vectors that Chroma may not have yet."""
    return _rows(connection, _with_item.where(vectors.c.n.in_(select(unindexed.c.vector))))


def items_of(connection: Connection, numbers: Iterable[int]) -> set[int]:
    """The items these vectors belong to; vectors that are gone are left out."""
    found = select(texts.c.item).join(vectors, vectors.c.text == texts.c.n)
    return set(connection.scalars(found.where(vectors.c.n.in_(list(numbers)))))


def of_items(connection: Connection, numbers: Sequence[int]) -> Iterator[VectorRows]:
    """All vectors of these items, in blocks."""
    for some in portions(numbers):
        yield _rows(connection, _with_item.where(texts.c.item.in_(some)))


def count_texts(connection: Connection) -> int:
    """How many texts items are found by."""
    return connection.scalar(select(func.count()).select_from(texts)) or 0


def _rows(connection: Connection, found: "Select[tuple[int, int, bytes]]") -> VectorRows:
    rows = connection.execute(found).all()
    flat = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32)
    return VectorRows(
        ids=np.array([row.n for row in rows], dtype=np.int64),
        items=np.array([row.item for row in rows], dtype=np.int64),
        spans=np.zeros((len(rows), 2), dtype=np.int64),
        matrix=flat.reshape(len(rows), -1 if rows else 0),
    )
