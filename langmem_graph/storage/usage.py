"""What a user's memory holds, what of it is due, and what its model calls have cost."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time

from sqlalchemy import Connection, func, select

from langmem_graph.reports import Usage, UsageLine, UserSummary
from langmem_graph.room_keys import shared_name
from langmem_graph.storage import message_queries, pending_messages
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.tables_and_migrations import MESSAGES, calls, messages, outbox, unread

_DAY = func.date(calls.c.at)
_TOKENS = calls.c.input_tokens + calls.c.output_tokens
_DUE = select(unread.c.message).union(select(outbox.c.item).where(outbox.c.layer == MESSAGES))
_OLDEST_DUE = select(func.min(messages.c.added_at)).where(messages.c.n.in_(_DUE))


def usage(connection: Connection, since: datetime | None = None) -> Usage:
    """What the model calls that the ledger's log keeps have cost, by day (UTC) and purpose."""
    c = calls.c
    costs = (c.input_tokens, c.output_tokens, c.milliseconds)
    query = select(_DAY, c.purpose, func.count(), *map(func.sum, costs))
    if since is not None:
        query = query.where(c.at >= naive(since))
    rows = connection.execute(query.group_by(_DAY, c.purpose).order_by(_DAY, c.purpose))
    return Usage(lines=[_line(*row) for row in rows])


def sum_of(several: Iterable[Usage]) -> Usage:
    """The costs of several users together."""
    sums: dict[tuple[date, str], UsageLine] = {}
    for line in (line for one in several for line in one.lines):
        key = (line.day, line.purpose)
        sums[key] = sums[key] + line if key in sums else line
    return Usage(lines=[sums[key] for key in sorted(sums)])


def _line(
    day: str | date, purpose: str, count: int, tokens_in: int, tokens_out: int, ms: float
) -> UsageLine:
    return UsageLine(
        day=date.fromisoformat(str(day)),  # SQLite gives text
        purpose=purpose,
        calls=count,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        seconds=ms / 1_000,
    )


def tokens_today(connection: Connection) -> int:
    """The tokens of this day's model calls (UTC)."""
    midnight = datetime.combine(datetime.now(UTC).date(), time())
    return connection.scalar(select(func.sum(_TOKENS)).where(calls.c.at >= midnight)) or 0


def summary(connection: Connection, key: str) -> UserSummary:
    """How much the room with this key holds, a user's or a shared one, and what of it is due."""
    held = message_queries.counts(connection)
    oldest = connection.scalar(_OLDEST_DUE)
    return UserSummary(
        user_id=shared_name(key) or key,
        is_shared=shared_name(key) is not None,
        messages=held.messages,
        sessions=held.sessions,
        records=held.records,
        vectors=held.vectors,
        to_embed=held.waiting.get("embed", 0),
        to_read=pending_messages.count_unread(connection),
        oldest_due=None if oldest is None else oldest.replace(tzinfo=UTC),
    )
