"""The queue of pending messages, which extraction has yet to read, each of them once.

A claim expires, so that another process takes over the work of one that was killed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import time
from typing import Any

from sqlalchemy import Integer, delete, func, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import (
    READ_ROLES,
    SPOKEN,
    get_meta,
    messages,
    sessions,
    set_meta,
    unread,
)

_FORGETTINGS = "forgotten"
"""The key under which the ledger counts its deletions."""
BY_HAND = "remembered"
"""The session of memories added by hand; it does not count as a conversation."""


class octet_length(GenericFunction[int]):  # noqa: N801  # SQL's own name
    """The bytes of a text in UTF-8."""

    type = Integer()
    inherit_cache = True


@compiles(octet_length, "sqlite")
def _as_sqlite(element: octet_length, compiler: SQLCompiler, **options: Any) -> str:
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@dataclass(frozen=True)
class Unread:
    """A pending message."""

    n: int
    session: int
    role: str
    size: int
    """Of the text, in bytes of UTF-8: these grow with its tokens in any script."""


def unread_messages(connection: Reading) -> list[Unread]:
    """All messages that may be claimed, in the order they arrived."""
    m = messages.c
    claimable = (
        select(m.n, m.session, m.role, octet_length(m.text))
        .join(unread, unread.c.message == m.n)
        .where(unread.c.claimed_until < time())
        .order_by(m.n)
    )
    return [Unread(*row) for row in connection.execute(claimable)]


def latest_session(connection: Reading) -> tuple[int, datetime] | None:
    """The session of the message that arrived last, and when it was stored."""
    m = messages.c
    stored = select(m.session, m.added_at).join(sessions, sessions.c.n == m.session)
    newest = (
        stored.where(sessions.c.session_id != BY_HAND).order_by(m.n.desc()).limit(1)
    )
    row = connection.execute(newest).first()
    return (row.session, row.added_at) if row else None


def claim(connection: Reading, items: Sequence[int], *, by: str, lease: float) -> None:
    """Claim these messages until the lease (in seconds) has run out."""
    claimed = {"claimed_by": by, "claimed_until": time() + lease}
    connection.execute(
        update(unread).where(unread.c.message.in_(items)).values(**claimed)
    )


def release(connection: Reading, items: Sequence[int]) -> None:
    """Give up the claim on messages whose extraction failed, and count the attempt."""
    freed = {"claimed_until": 0.0, "attempts": unread.c.attempts + 1}
    connection.execute(
        update(unread).where(unread.c.message.in_(items)).values(**freed)
    )


def free_all(connection: Reading) -> None:
    """Give up all claims; for the process that holds the lock, since all others have
    ended.
    """
    connection.execute(update(unread).values(claimed_until=0.0))


def still_claimed(connection: Reading, items: Iterable[int], *, by: str) -> bool:
    """Whether `by` still has the claim on all of these messages."""
    wanted = list(items)
    claimed = unread.c.message.in_(wanted) & (unread.c.claimed_by == by)
    return connection.scalar(select(func.count()).where(claimed)) == len(wanted)


def mark_read(connection: Reading, items: Sequence[int]) -> None:
    """Remove messages from the queue: their extraction is done."""
    connection.execute(delete(unread).where(unread.c.message.in_(items)))


def count_unread(connection: Reading) -> int:
    """How many messages are pending, claimed or not."""
    return connection.scalar(select(func.count()).select_from(unread)) or 0


def attempts_of(connection: Reading, items: Sequence[int]) -> int:
    """The greatest number of failed attempts among these messages."""
    most = select(func.max(unread.c.attempts)).where(unread.c.message.in_(items))
    return connection.scalar(most) or 0


def messages_before(
    connection: Reading, n: int, session: int, most: int
) -> list[tuple[int, Message]]:
    """The last messages of the session before this one, oldest first, with their
    numbers.
    """
    m = messages.c
    earlier = select(m.n).where(
        m.session == session, m.n < n, m.role.in_(READ_ROLES), SPOKEN
    )
    numbers = list(connection.scalars(earlier.order_by(m.n.desc()).limit(most)))[::-1]
    found = message_queries.messages_by_number(connection, numbers)
    return [(number, found[number]) for number in numbers if number in found]


def free(connection: Reading, items: Sequence[int]) -> None:
    """Give up the claim without counting an attempt, since the model was not
    reached.
    """
    connection.execute(
        update(unread).where(unread.c.message.in_(items)).values(claimed_until=0.0)
    )


def free_claims_of(connection: Reading, by: str) -> None:
    """Give up all claims of one claimer."""
    connection.execute(
        update(unread).where(unread.c.claimed_by == by).values(claimed_until=0.0)
    )


def generation(connection: Reading) -> str:
    """An identifier that changes with every deletion.

    What a model concluded from messages read under an older generation must not be
    stored, since some of them may have been forgotten.
    """
    return (
        f"{get_meta(connection, 'ledger_id')}:{get_meta(connection, _FORGETTINGS) or 0}"
    )


def next_generation(connection: Reading) -> None:
    """Start a new generation, because something is being deleted."""
    count = int(get_meta(connection, _FORGETTINGS) or 0)
    set_meta(connection, _FORGETTINGS, str(count + 1))
