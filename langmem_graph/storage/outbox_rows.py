"""The outbox: which texts must be embedded and which vectors must be indexed after a
commit.

A process claims items for a limited time (the lease) before it works on them, so that
two processes that share a directory do not do the same work.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from time import time

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.storage.number_lists import one_of
from langmem_graph.storage.tables import (
    EMBED,
    INDEX,
    MESSAGES,
    RECORDS,
    SPOKEN,
    clusters,
    messages,
    meta,
    note_deleted_vectors,
    outbox,
    records,
    sessions,
    vectors,
)


@dataclass(frozen=True)
class Due:
    """Selects due items: by layer, task, range of numbers, and whether they failed
    before.
    """

    layer: str
    task: str
    first: int = 0
    last: int = 2**63 - 1
    failed_before: bool | None = None


class Waiting(Counter[tuple[str, str, bool]]):
    """How many items are due, by layer, task and whether they failed before."""


_BY_ATTEMPTS = outbox.c.layer, outbox.c.task, outbox.c.attempts
_WAITING = sa.select(*_BY_ATTEMPTS, sa.func.count()).group_by(*_BY_ATTEMPTS)


def waiting(connection: sa.Connection) -> Waiting:
    """What is due, whoever has claimed it."""
    found = Waiting()
    for layer, task, attempts, items in connection.execute(_WAITING):
        found[layer, task, attempts > 0] += items
    return found


def claim(
    connection: sa.Connection, due: Due, limit: int, *, by: str, lease: float
) -> list[int]:
    """Claim up to `limit` due items, oldest first, and return their numbers.

    The lease is the seconds until another process than `by` may claim them.
    """
    wanted = [outbox.c.layer == due.layer, outbox.c.task == due.task]
    wanted.append(outbox.c.item.between(due.first, due.last))
    wanted.append((outbox.c.claimed_until < time()) | (outbox.c.claimed_by == by))
    if due.failed_before is not None:
        wanted.append((outbox.c.attempts > 0) == due.failed_before)
    oldest = (
        sa.select(outbox.c.item).where(*wanted).order_by(outbox.c.item).limit(limit)
    )
    items = list(connection.scalars(oldest))
    if not items:
        return items
    claimed = {"claimed_by": by, "claimed_until": time() + lease}
    connection.execute(
        sa.update(outbox).where(entries_of(due.layer, items)).values(**claimed)
    )
    return items


def entries_of(layer: str, items: Iterable[int]) -> sa.ColumnElement[bool]:
    """Selects the outbox entries of these items."""
    return sa.and_(outbox.c.layer == layer, one_of(outbox.c.item, items))


def release(connection: sa.Connection, layer: str, items: Iterable[int]) -> None:
    """Give up the claim on items that failed; they are tried again later."""
    failed = list(items)
    if failed:
        freed = {"claimed_until": 0.0, "attempts": outbox.c.attempts + 1}
        connection.execute(
            sa.update(outbox).where(entries_of(layer, failed)).values(**freed)
        )


def finish(connection: sa.Connection, layer: str, items: Iterable[int]) -> None:
    """Delete the entries of items that are completely done."""
    connection.execute(sa.delete(outbox).where(entries_of(layer, items)))


def free_all_claims(connection: sa.Connection) -> None:
    """Give up all claims; for the process that holds the lock, since all others have
    ended.
    """
    connection.execute(sa.update(outbox).values(claimed_until=0.0))


def index_everything_again(connection: sa.Connection) -> None:
    """Mark every stored vector as due for the index."""
    due = sa.literal(INDEX), sa.literal(0), sa.literal(0.0)
    every = sa.select(vectors.c.layer, vectors.c.item, *due).distinct().where(sa.true())
    columns = ["layer", "item", "task", "attempts", "claimed_until"]
    connection.execute(
        upsert(outbox).from_select(columns, every).on_conflict_do_nothing()
    )


def embed_everything_again(connection: sa.Connection) -> None:
    """Delete all vectors and mark every text as due for embedding, for a change of
    embedder.
    """
    note_deleted_vectors(connection)
    connection.execute(sa.delete(vectors))
    connection.execute(sa.delete(outbox))
    connection.execute(sa.update(sessions).values(vector_sum=None, vector_count=0))
    columns = ["layer", "item", "task", "attempts", "claimed_until"]
    for layer, table, embedded in (
        (MESSAGES, messages, SPOKEN),
        (RECORDS, records, sa.true()),
    ):
        values = (
            sa.literal(layer),
            table.c.n,
            sa.literal(EMBED),
            sa.literal(0),
            sa.literal(0.0),
        )
        due = sa.select(*values).where(embedded)
        connection.execute(sa.insert(outbox).from_select(columns, due))
    connection.execute(sa.delete(clusters))
    connection.execute(sa.update(records).values(cluster=None))
    connection.execute(sa.delete(meta).where(meta.c.key.in_(["embedder", "dimension"])))
