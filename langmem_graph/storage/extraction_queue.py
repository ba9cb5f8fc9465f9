"""Which messages a model has not read yet, and that they are read once.

A row of `unread` goes in the very transaction that stores what its message became. Until then it
can be claimed; a claim runs out, so that work of a killed process is done by another one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import time

from sqlalchemy import Connection, delete, func, select, update

from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries
from langmem_graph.storage.tables import get_meta, messages, sessions, set_meta, unread

FORGOTTEN = "forgotten"
BY_HAND = "remembered"
"""The session of what was remembered by hand; it interrupts no conversation."""


@dataclass(frozen=True)
class Unread:
    """A message that no model has read."""

    n: int
    session: int
    role: str
    chars: int


def unread_messages(connection: Connection) -> list[Unread]:
    """All that may be claimed, in the order they arrived."""
    m = messages.c
    found = (
        select(m.n, m.session, m.role, m.chars)
        .join(unread, unread.c.message == m.n)
        .where(unread.c.claimed_until < time())
        .order_by(m.n)
    )
    return [Unread(*row) for row in connection.execute(found)]


def latest_session(connection: Connection) -> tuple[int, datetime] | None:
    """The session of the message that arrived last, and when it was stored."""
    talk = select(messages.c.session, messages.c.added_at).join(
        sessions, sessions.c.n == messages.c.session
    )
    newest = talk.where(sessions.c.session_id != BY_HAND).order_by(messages.c.n.desc()).limit(1)
    row = connection.execute(newest).first()
    return (row.session, row.added_at) if row else None


def claim(connection: Connection, items: Sequence[int], *, by: str, lease: float) -> None:
    """Take these messages; nobody else reads them until the lease (seconds) has run out."""
    connection.execute(
        update(unread)
        .where(unread.c.message.in_(items))
        .values(claimed_by=by, claimed_until=time() + lease)
    )


def release(connection: Connection, items: Sequence[int]) -> None:
    """Give them back: they are read another time."""
    freed = {"claimed_until": 0.0, "attempts": unread.c.attempts + 1}
    connection.execute(update(unread).where(unread.c.message.in_(items)).values(**freed))


def free_all(connection: Connection) -> None:
    """For the one process that holds the lock: whoever claimed before is dead."""
    connection.execute(update(unread).values(claimed_until=0.0))


def still_claimed(connection: Connection, items: Iterable[int], *, by: str) -> bool:
    """Whether all of them are still this claimer's: nobody has read them meanwhile."""
    wanted = list(items)
    own = unread.c.message.in_(wanted) & (unread.c.claimed_by == by)
    return connection.scalar(select(func.count()).where(own)) == len(wanted)


def mark_read(connection: Connection, items: Sequence[int]) -> None:
    """They have become records, or nothing."""
    connection.execute(delete(unread).where(unread.c.message.in_(items)))


def count_unread(connection: Connection) -> int:
    """How many messages wait to be read, claimed or not."""
    return connection.scalar(select(func.count()).select_from(unread)) or 0


def attempts_of(connection: Connection, items: Sequence[int]) -> int:
    """How often reading any of them has failed."""
    most = select(func.max(unread.c.attempts)).where(unread.c.message.in_(items))
    return connection.scalar(most) or 0


def message_before(connection: Connection, n: int, session: int) -> Message | None:
    """The assistant's last message before this one, for a bare agreement that follows it."""
    m = messages.c
    earlier = select(m.n).where(m.session == session, m.n < n, m.role == "assistant")
    found = connection.scalar(earlier.order_by(m.n.desc()).limit(1))
    return message_queries.messages_by_number(connection, [found])[found] if found else None


def free(connection: Connection, items: Sequence[int]) -> None:
    """Give them back without counting an attempt: nobody answered."""
    freed = update(unread).where(unread.c.message.in_(items)).values(claimed_until=0.0)
    connection.execute(freed)


def free_claims_of(connection: Connection, by: str) -> None:
    """Give back everything that this claimer holds."""
    connection.execute(update(unread).where(unread.c.claimed_by == by).values(claimed_until=0.0))


def generation(connection: Connection) -> str:
    """Changes with every forgetting and every erasure: what was read before must not be written."""
    return f"{get_meta(connection, 'ledger_id')}:{get_meta(connection, FORGOTTEN) or 0}"


def next_generation(connection: Connection) -> None:
    """Something is being forgotten."""
    set_meta(connection, FORGOTTEN, str(int(get_meta(connection, FORGOTTEN) or 0) + 1))
