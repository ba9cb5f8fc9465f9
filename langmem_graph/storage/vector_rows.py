"""Vectors in the ledger: storing them, reading them, and which of them belong into
Chroma.

Each session also keeps the sum of its messages' vectors, from which its centroid is
computed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from langmem_graph.errors import EmbeddingError
from langmem_graph.storage.effects import ACTIVE
from langmem_graph.storage.number_lists import one_of, rows_where_in
from langmem_graph.storage.outbox_rows import entries_of
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import (
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
    """The vector of one piece of a message or record, with the piece's
    character span.
    """

    item: int
    piece: int
    start: int
    end: int
    vector: NDArray[np.float32]


def record_embedder(connection: sa.Connection, name: str, sizes: Sequence[int]) -> None:
    """Record the embedder's name and the size with the first vectors; refuse any
    others.
    """
    stored = get_meta(connection, "dimension")
    if get_meta(connection, "embedder") not in (None, name):
        raise EmbeddingError(
            f"The stored vectors were made by another embedder than {name}."
        )
    for size in sorted(set(sizes)):
        if stored is None:
            set_meta(connection, "embedder", name)
            set_meta(connection, "dimension", stored := str(size))
        elif int(stored) != size:
            raise EmbeddingError(
                f"{name} now returns {size} numbers per text; the stored vectors have "
                f"{stored}. "
                "Give the same embedder as before, or run: langmem-graph rebuild "
                "--reembed"
            )


def store_vectors(
    connection: Reading, layer: str, pieces: Sequence[Piece], *, by: str
) -> None:
    """Store vectors, update the centroids of their sessions, and mark them due for the
    index.

    Items on which `by` no longer has a claim are left out: its lease has run out, and
    another process embeds them.
    """
    claimed = sa.select(outbox.c.item).where(
        outbox.c.task == EMBED, outbox.c.claimed_by == by
    )
    own = set(
        connection.scalars(claimed.where(entries_of(layer, {p.item for p in pieces})))
    )
    pieces = [p for p in pieces if p.item in own]
    if not pieces:
        return
    rows = [
        {
            "layer": layer,
            "item": p.item,
            "piece": p.piece,
            "start": p.start,
            "end": p.end,
        }
        | {"vector": p.vector.astype(np.float32).tobytes()}
        for p in pieces
    ]
    connection.execute(sa.insert(vectors), rows)
    if layer == MESSAGES:
        _add_to_centroids(connection, pieces)
    items = sorted({p.item for p in pieces})
    embedded = {"task": INDEX, "claimed_until": 0.0, "attempts": 0}
    connection.execute(
        sa.update(outbox).where(entries_of(layer, items)).values(**embedded)
    )


def _add_to_centroids(connection: Reading, pieces: Sequence[Piece]) -> None:
    items = {p.item for p in pieces}
    query = sa.select(messages.c.n, messages.c.session).where(messages.c.n.in_(items))
    session_of = {row.n: row.session for row in connection.execute(query)}
    for session in set(session_of.values()):
        added = [p.vector for p in pieces if session_of[p.item] == session]
        same = sessions.c.n == session
        row = connection.execute(sa.select(sessions).where(same)).one()
        if row.vector_sum is not None:
            added.append(np.frombuffer(row.vector_sum, dtype=np.float32))
        total = np.sum(added, axis=0).astype(np.float32).tobytes()
        count = row.vector_count + len(added) - (row.vector_sum is not None)
        values = {"vector_sum": total, "vector_count": count}
        connection.execute(sa.update(sessions).where(same).values(**values))


@dataclass(frozen=True)
class VectorRows:
    """Stored vectors: their numbers, the messages they belong to, spans, and the
    matrix.
    """

    ids: NDArray[np.int64]
    items: NDArray[np.int64]
    spans: NDArray[np.int64]
    matrix: Matrix

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, places: NDArray[np.int64] | slice) -> "VectorRows":
        """The vectors at these places."""
        ids = self.ids[places]
        items = self.items[places]
        spans = self.spans[places]
        return VectorRows(ids, items, spans, self.matrix[places])


class Pieces(NamedTuple):
    """The pieces of some messages as they compare with a query: items, spans and
    cosines.
    """

    items: NDArray[np.int64]
    spans: NDArray[np.int64]
    cosines: NDArray[np.float32]


@dataclass(frozen=True)
class Centroids:
    """Mean vectors of some sessions, and the numbers of all that have vectors, in
    order.
    """

    every: NDArray[np.int64]
    sessions: NDArray[np.int64]
    matrix: Matrix
    ages: NDArray[np.int64] | None = None
    """Of sessions of several rooms: how many of the same room are not older; else by
    number.
    """


_is_inactive = sa.and_(
    vectors.c.layer == RECORDS,
    vectors.c.item.in_(sa.select(records.c.n).where(records.c.status != ACTIVE)),
)
IN_CHROMA = (
    sa.select(vectors.c.n, vectors.c.layer, vectors.c.item)
    .where(~_is_inactive)
    .subquery()
)
"""The vectors that belong into Chroma: those of all messages and of active records."""
# for a pair that is NOT IN a query SQLite reads all of the query's rows each time
_is_waiting = (
    sa.select(outbox.c.item)
    .where(outbox.c.layer == IN_CHROMA.c.layer, outbox.c.item == IN_CHROMA.c.item)
    .where(outbox.c.task == INDEX)
    .correlate(IN_CHROMA)
    .exists()
)
_NEWEST = sa.select(sa.func.max(vectors.c.n))
_ANY_INDEXED = sa.select(IN_CHROMA.c.n).where(~_is_waiting).limit(1)
_LAYER = sa.bindparam("layer", type_=sa.String)
_DUE = sa.select(outbox.c.item).where(outbox.c.layer == _LAYER, outbox.c.task == INDEX)
_WAITING = sa.select(vectors).where(vectors.c.layer == _LAYER, vectors.c.item.in_(_DUE))

BLOCK = 4_096  # vectors that are read at once
_v = vectors.c
_COLUMNS = _v.n, _v.item, _v.start, _v.end, _v.vector
_ROWS: sa.Select[Any] = sa.select(*_COLUMNS).execution_options(binary=True)
_OF_LAYER = {
    layer: _ROWS.where(vectors.c.layer == layer).order_by(vectors.c.n)
    for layer in (MESSAGES, RECORDS)
}
_HAS_CENTROID = (
    sa.select(sessions.c.n).where(sessions.c.vector_count > 0).order_by(sessions.c.n)
)
_CENTROIDS = (
    sa.select(sessions).where(sessions.c.vector_count > 0).order_by(sessions.c.n)
)


def vectors_by_id(connection: Reading, ids: Iterable[int]) -> VectorRows:
    """The vectors with these numbers; unknown numbers are left out."""
    ordered = _ROWS.order_by(vectors.c.n)
    return vector_rows(
        list(rows_where_in(connection, ordered, vectors.c.n, sorted(ids)))
    )


def vectors_of(
    connection: Reading, items: Iterable[int], layer: str = MESSAGES
) -> VectorRows:
    """All vectors of these messages or records."""
    rows = rows_where_in(connection, _OF_LAYER[layer], vectors.c.item, sorted(items))
    return vector_rows(list(rows))


def nearest_among(
    connection: Reading, layer: str, items: sa.Select[Any], vector: Matrix
) -> list[int]:
    """The messages or records that a query selects, the nearest first, by exact
    comparison.
    """
    own = sa.select(vectors.c.item, vectors.c.vector)
    rows = connection.execute(
        own.where(vectors.c.layer == layer, one_of(vectors.c.item, items))
    ).all()
    if not rows:
        return []
    numbers, stored = zip(*rows, strict=True)
    best = np.argsort(-(_matrix(stored) @ vector), kind="stable")
    return list(dict.fromkeys(np.array(numbers)[best].tolist()))


def newest_vector(connection: Reading) -> int:
    """The number of the vector that was stored last; no more vectors than that are
    stored.
    """
    return connection.scalar(_NEWEST) or 0


def is_any_indexed(connection: Reading) -> bool:
    """Whether Chroma has vectors, of whichever layer."""
    return connection.scalar(_ANY_INDEXED) is not None


def items_of_vectors(connection: Reading, ids: Iterable[int]) -> list[int]:
    """The items that these vectors belong to; unknown vectors are left out."""
    rows = rows_where_in(connection, sa.select(vectors.c.item), vectors.c.n, ids)
    return [row.item for row in rows]


def all_vectors(
    connection: Reading, layer: str = MESSAGES, after: int = 0
) -> Iterator[VectorRows]:
    """Yield all vectors of a layer with greater numbers than `after`, in blocks.

    Those of messages are most of all. An index by the layer would find all of them for
    each block.
    """
    of_layer = vectors.c.layer.concat("") if layer == MESSAGES else vectors.c.layer
    query = _ROWS.where(of_layer == layer).order_by(vectors.c.n).limit(BLOCK)
    more = True
    while more:
        rows = connection.execute(query.where(vectors.c.n > after)).all()
        more = len(rows) == BLOCK
        if rows:
            yield vector_rows(rows)
            after = rows[-1].n


def joined(blocks: Sequence[VectorRows], matrix: Matrix) -> VectorRows:
    """The blocks as one, whose vectors are in this matrix."""
    return VectorRows(
        ids=np.concatenate([block.ids for block in blocks]),
        items=np.concatenate([block.items for block in blocks]),
        spans=np.concatenate([block.spans for block in blocks]),
        matrix=matrix,
    )


def cosines(matrix: Matrix, vector: Matrix) -> Matrix:
    """Of each row its cosine with this vector; that of a row does not depend on the
    others.

    A product of matrices would be rounded in another way for another number of rows,
    and it takes twice as long.
    """
    found: Matrix = np.einsum("ij,j->i", matrix, vector)
    return found


def waiting_vectors(connection: Reading, layer: str = MESSAGES) -> VectorRows:
    """The vectors of a layer that are not yet in Chroma."""
    return vector_rows(
        connection.execute(_WAITING.order_by(vectors.c.n), {"layer": layer}).all()
    )


def count_waiting_vectors(connection: Reading) -> int:
    """How many vectors are not yet in Chroma."""
    held = sa.select(sa.func.count()).select_from(IN_CHROMA).where(_is_waiting)
    return connection.scalar(held) or 0


def vector_rows(rows: Sequence[Any]) -> VectorRows:
    """Rows with the columns n, item, start, end and vector, as arrays."""
    names = rows[0]._fields if rows else ()
    columns = defaultdict[str, tuple[Any, ...]](
        tuple, zip(names, zip(*rows, strict=True), strict=True)
    )
    return VectorRows(
        ids=np.array(columns["n"], dtype=np.int64),
        items=np.array(columns["item"], dtype=np.int64),
        spans=np.array([columns["start"], columns["end"]], dtype=np.int64).T,
        matrix=_matrix(columns["vector"]),
    )


def _matrix(stored: Sequence[bytes]) -> Matrix:
    flat = np.frombuffer(b"".join(stored), dtype=np.float32)
    return flat.reshape(len(stored), -1 if stored else 0)


def centroids(connection: Reading, wanted: Iterable[int]) -> Centroids:
    """Mean vectors of these sessions, in the order the sessions began."""
    rows = list(rows_where_in(connection, _CENTROIDS, sessions.c.n, wanted))
    counts = np.array([[row.vector_count] for row in rows], dtype=np.float32)
    return Centroids(
        every=np.array(connection.scalars(_HAS_CENTROID).all(), dtype=np.int64),
        sessions=np.array([row.n for row in rows], dtype=np.int64),
        matrix=_matrix([row.vector_sum for row in rows]) / counts.reshape(-1, 1),
    )


def indexed_vector_ids(connection: Reading) -> dict[str, list[int]]:
    """The numbers of the vectors that Chroma should hold, by layer."""
    held = connection.execute(
        sa.select(IN_CHROMA.c.layer, IN_CHROMA.c.n).where(~_is_waiting)
    )
    by_layer: dict[str, list[int]] = {MESSAGES: [], RECORDS: []}
    for layer, n in held:
        by_layer[layer].append(n)
    return by_layer
