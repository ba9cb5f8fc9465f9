"""What is written to the ledger after a message is safe: facts of the file, due work, vectors.

Together with the other modules of `store` this is all the SQL there is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from time import time

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

from langmem_graph.storage.tables import (
    EMBED,
    INDEX,
    MESSAGES,
    RECORDS,
    clusters,
    messages,
    meta,
    outbox,
    records,
    sessions,
    vectors,
)


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
