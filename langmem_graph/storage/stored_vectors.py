"""What is written to the ledger after a message is safe: facts of the file, due work, vectors.

Together with the other modules of `store` this is all the SQL there is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    func,
    insert,
    select,
    true,
    tuple_,
    update,
)

from langmem_graph.errors import EmbeddingError
from langmem_graph.storage.due_work import _are
from langmem_graph.storage.sqlite import portions
from langmem_graph.storage.tables import (
    ACTIVE,
    EMBED,
    INDEX,
    MESSAGES,
    RECORDS,
    get_meta,
    messages,
    outbox,
    records,
    sessions,
    set_meta,
    vectors,
)

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Piece:
    """One embedded piece of one message or record."""

    item: int
    piece: int
    start: int
    end: int
    vector: NDArray[np.float32]


def record_embedder(connection: Connection, name: str, sizes: Sequence[int]) -> None:
    """Note who made the vectors, at the first ones.

    Raises:
        EmbeddingError: when vectors of another embedder or size are there already.
    """
    stored = get_meta(connection, "dimension")
    if get_meta(connection, "embedder") not in (None, name):
        raise EmbeddingError(f"Another embedder than {name} has made this user's vectors.")
    for size in sorted(set(sizes)):
        if stored is None:
            set_meta(connection, "embedder", name)
            set_meta(connection, "dimension", str(size))
        elif int(stored) != size:
            raise EmbeddingError(
                f"{name} now returns {size} numbers per text; the stored vectors have {stored}. "
                "Give the same embedder as before, or run: langmem-graph rebuild --reembed"
            )


def store_vectors(connection: Connection, layer: str, pieces: Sequence[Piece], *, by: str) -> None:
    """Keep vectors, add messages' to their sessions' centroids, and mark them due for Chroma.

    Items that `by` no longer has a claim on (its lease ran out) are another process's by now.
    """
    ours = select(outbox.c.item).where(outbox.c.task == EMBED, outbox.c.claimed_by == by)
    mine = set(connection.scalars(ours.where(_are(layer, {p.item for p in pieces}))))
    pieces = [p for p in pieces if p.item in mine]
    if not pieces:
        return
    rows = [
        {"layer": layer, "item": p.item, "piece": p.piece, "start": p.start, "end": p.end}
        | {"vector": p.vector.astype(np.float32).tobytes()}
        for p in pieces
    ]
    connection.execute(insert(vectors), rows)
    if layer == MESSAGES:
        _add_to_centroids(connection, pieces)
    items = sorted({p.item for p in pieces})
    embedded = {"task": INDEX, "claimed_until": 0.0, "attempts": 0}
    connection.execute(update(outbox).where(_are(layer, items)).values(**embedded))


def _add_to_centroids(connection: Connection, pieces: Sequence[Piece]) -> None:
    items = {p.item for p in pieces}
    found = select(messages.c.n, messages.c.session).where(messages.c.n.in_(items))
    session_of = {row.n: row.session for row in connection.execute(found)}
    for session in set(session_of.values()):
        own = [p.vector for p in pieces if session_of[p.item] == session]
        _add_to_centroid(connection, session, np.sum(own, axis=0), len(own))


def _add_to_centroid(
    connection: Connection, session: int, added: NDArray[np.float32], count: int
) -> None:
    row = connection.execute(select(sessions).where(sessions.c.n == session)).one()
    if row.vector_sum is not None:
        added = added + np.frombuffer(row.vector_sum, dtype=np.float32)
    connection.execute(
        update(sessions)
        .where(sessions.c.n == session)
        .values(
            vector_sum=added.astype(np.float32).tobytes(), vector_count=row.vector_count + count
        )
    )


@dataclass(frozen=True)
class VectorRows:
    """Stored vectors: their numbers, the messages they belong to, spans, and the matrix."""

    ids: NDArray[np.int64]
    items: NDArray[np.int64]
    spans: NDArray[np.int64]
    matrix: Matrix

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Centroids:
    """Every session's number and mean vector (sessions without vectors are left out)."""

    sessions: NDArray[np.int64]
    matrix: Matrix


# Vectors that belong into Chroma: every message's, and those of records that are true now.
_is_inactive = and_(
    vectors.c.layer == RECORDS,
    vectors.c.item.in_(select(records.c.n).where(records.c.status != ACTIVE)),
)
_in_chroma = select(vectors.c.n, vectors.c.layer, vectors.c.item).where(~_is_inactive).subquery()
_is_waiting = tuple_(_in_chroma.c.layer, _in_chroma.c.item).in_(
    select(outbox.c.layer, outbox.c.item).where(outbox.c.task == INDEX)
)


def vectors_by_id(connection: Connection, ids: Iterable[int]) -> VectorRows:
    """The vectors with these numbers; unknown numbers are left out."""
    return _vector_rows(connection, vectors.c.n, ids, true())


def vectors_of(connection: Connection, items: Iterable[int], layer: str = MESSAGES) -> VectorRows:
    """All vectors of these messages or records."""
    return _vector_rows(connection, vectors.c.item, items, vectors.c.layer == layer)


def _vector_rows(
    connection: Connection, column: Any, values: Iterable[int], meant: ColumnElement[bool]
) -> VectorRows:
    rows: list[Row[Any]] = []
    for some in portions(sorted(set(values))):
        found = select(vectors).where(meant, column.in_(some))
        rows += connection.execute(found.order_by(vectors.c.n)).all()
    return _as_vectors(rows)


def newest_vector(connection: Connection) -> int:
    """The number of the vector that was stored last; there are at most that many."""
    return connection.scalar(select(func.max(vectors.c.n))) or 0


def items_of_vectors(connection: Connection, ids: Iterable[int]) -> list[int]:
    """What these vectors belong to; vectors that are gone are left out."""
    found: list[int] = []
    for some in portions(list(ids)):
        found += connection.scalars(select(vectors.c.item).where(vectors.c.n.in_(some)))
    return found


def all_vectors(
    connection: Connection, layer: str = MESSAGES, size: int = 4_096
) -> Iterator[VectorRows]:
    """Every vector of a layer, in blocks."""
    after = 0
    while True:
        found = select(vectors).where(vectors.c.layer == layer, vectors.c.n > after)
        rows = connection.execute(found.order_by(vectors.c.n).limit(size)).all()
        if not rows:
            return
        yield _as_vectors(rows)
        after = rows[-1].n


def waiting_vectors(connection: Connection, layer: str = MESSAGES) -> VectorRows:
    """The vectors of a layer that Chroma does not have yet."""
    due = select(outbox.c.item).where(outbox.c.layer == layer, outbox.c.task == INDEX)
    found = select(vectors).where(vectors.c.layer == layer, vectors.c.item.in_(due))
    return _as_vectors(connection.execute(found.order_by(vectors.c.n)).all())


def count_waiting_vectors(connection: Connection) -> int:
    """How many vectors Chroma does not have yet."""
    held = select(func.count()).select_from(_in_chroma).where(_is_waiting)
    return connection.scalar(held) or 0


def _as_vectors(rows: Sequence[Row[Any]]) -> VectorRows:
    flat = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32)
    return VectorRows(
        ids=np.array([row.n for row in rows], dtype=np.int64),
        items=np.array([row.item for row in rows], dtype=np.int64),
        spans=np.array([(row.start, row.end) for row in rows], dtype=np.int64).reshape(-1, 2),
        matrix=flat.reshape(len(rows), -1 if rows else 0),
    )


def centroids(connection: Connection) -> Centroids:
    """Mean vectors of all sessions, in the order the sessions began."""
    found = select(sessions).where(sessions.c.vector_count > 0).order_by(sessions.c.n)
    rows = connection.execute(found).all()
    flat = np.frombuffer(b"".join(row.vector_sum for row in rows), dtype=np.float32)
    counts = np.array([[row.vector_count] for row in rows], dtype=np.float32)
    return Centroids(
        sessions=np.array([row.n for row in rows], dtype=np.int64),
        matrix=flat.reshape(len(rows), -1 if rows else 0) / counts.reshape(-1, 1),
    )


def waiting_items(connection: Connection, task: str, first: int, last: int) -> set[int]:
    """The numbers, from `first` to `last`, of the messages that wait for this task."""
    due = select(outbox.c.item).where(outbox.c.layer == MESSAGES, outbox.c.task == task)
    return set(connection.scalars(due.where(outbox.c.item.between(first, last))))


def indexed_vector_ids(connection: Connection) -> dict[str, list[int]]:
    """The numbers of the vectors that Chroma should hold, by layer."""
    held = connection.execute(select(_in_chroma.c.layer, _in_chroma.c.n).where(~_is_waiting))
    found: dict[str, list[int]] = {MESSAGES: [], RECORDS: []}
    for layer, n in held:
        found[layer].append(n)
    return found
