"""What is written to the ledger after a message is safe: facts of the file, due work, vectors.

Together with the other modules of `store` this is all the SQL there is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import time

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import EmbeddingError
from langmem_graph.store.schema import clusters, messages, meta, outbox, records, sessions, vectors
from langmem_graph.store.words import MESSAGE_WORDS, RECORD_WORDS

MESSAGES, RECORDS = "messages", "records"
"""The layers, in `vectors`, `outbox` and the names of Chroma's collections."""
LAYERS = (MESSAGES, RECORDS)
EMBED, INDEX = "embed", "index"


def get_meta(connection: Connection, key: str) -> str | None:
    """A fact about the file, or None."""
    return connection.scalar(select(meta.c.value).where(meta.c.key == key))


def set_meta(connection: Connection, key: str, value: str) -> None:
    """Record a fact about the file."""
    row = upsert(meta).values(key=key, value=value)
    connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


# --- due work ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Due:
    """Which due items are meant: layer, task, a range of numbers, whether they failed before."""

    layer: str
    task: str
    first: int = 0
    last: int = 2**63 - 1
    failed_before: bool | None = None


def claim(connection: Connection, due: Due, limit: int, *, by: str, lease: float) -> list[int]:
    """Take up to `limit` due items, oldest first.

    Another process leaves them alone until the lease (seconds) has run out.
    """
    wanted = [outbox.c.layer == due.layer, outbox.c.task == due.task]
    wanted.append(outbox.c.item.between(due.first, due.last))
    wanted.append((outbox.c.claimed_until < time()) | (outbox.c.claimed_by == by))
    if due.failed_before is not None:
        wanted.append((outbox.c.attempts > 0) == due.failed_before)
    oldest = select(outbox.c.item).where(*wanted).order_by(outbox.c.item).limit(limit)
    items = list(connection.scalars(oldest))
    claimed = {"claimed_by": by, "claimed_until": time() + lease}
    connection.execute(update(outbox).where(_are(due.layer, items)).values(**claimed))
    return items


def _are(layer: str, items: Iterable[int]) -> ColumnElement[bool]:
    return and_(outbox.c.layer == layer, outbox.c.item.in_(list(items)))


def release(connection: Connection, layer: str, items: Iterable[int]) -> None:
    """Give failed items back, to be tried again later."""
    freed = {"claimed_until": 0.0, "attempts": outbox.c.attempts + 1}
    connection.execute(update(outbox).where(_are(layer, items)).values(**freed))


def finish(connection: Connection, layer: str, items: Iterable[int]) -> None:
    """Chroma agrees with the ledger about them: nothing is due any more."""
    connection.execute(delete(outbox).where(_are(layer, items)))


def free_all_claims(connection: Connection) -> None:
    """For the one process that holds the lock: whoever claimed work before is dead."""
    connection.execute(update(outbox).values(claimed_until=0.0))


def index_everything_again(connection: Connection) -> None:
    """Mark every stored vector as not yet in Chroma."""
    connection.execute(
        text(
            "INSERT OR IGNORE INTO outbox(layer, item, task, attempts, claimed_until)"
            " SELECT DISTINCT layer, item, :task, 0, 0 FROM vectors"
        ),
        {"task": INDEX},
    )


def embed_everything_again(connection: Connection) -> None:
    """Drop all vectors and mark everything as due for embedding, for a change of embedder."""
    connection.execute(delete(vectors))
    connection.execute(delete(outbox))
    connection.execute(update(sessions).values(vector_sum=None, vector_count=0))
    due = select(literal(MESSAGES), messages.c.n, literal(EMBED), literal(0), literal(0.0))
    columns = ["layer", "item", "task", "attempts", "claimed_until"]
    found = due.where(messages.c.role != "system")
    connection.execute(insert(outbox).from_select(columns, found))
    due = select(literal(RECORDS), records.c.n, literal(EMBED), literal(0), literal(0.0))
    connection.execute(insert(outbox).from_select(columns, due))
    connection.execute(delete(clusters))
    connection.execute(update(records).values(cluster=None))
    connection.execute(delete(meta).where(meta.c.key.in_(["embedder", "dimension"])))


# --- vectors -------------------------------------------------------------------------------------


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


def optimize_words(connection: Connection) -> None:
    """Merge the full-text indexes into one segment each; deleted words leave the file."""
    for table in (MESSAGE_WORDS, RECORD_WORDS):
        table.optimize(connection)
