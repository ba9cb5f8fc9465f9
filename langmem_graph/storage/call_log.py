"""The log of model calls: what each was for, what they cost, and which proposals were
refused.

It is bounded, and a call is forgotten with any of the messages that it read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, time

from sqlalchemy import delete, func, insert, select, update

from langmem_graph.reports import CallNote, ModelCall, Usage, UsageLine
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_queries import aware
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.tables import call_messages, calls, messages

MAX_CALLS = 10_000
"""How many calls of a user are kept; the oldest are deleted first."""
_DAY = func.date(calls.c.at)
_TOKENS = calls.c.input_tokens + calls.c.output_tokens


def write_calls(
    connection: Reading, notes: Sequence[CallNote], items: Iterable[int]
) -> None:
    """Note model calls, all of which read these messages, and delete the oldest beyond
    the limit.

    Messages that were forgotten meanwhile are left out.
    """
    if not notes:
        return
    wanted = select(messages.c.n)
    read = [row.n for row in rows_where_in(connection, wanted, messages.c.n, items)]
    for note in notes:
        row = note.model_dump() | {"at": naive(note.at)}
        made = insert(calls).values(**row).returning(calls.c.n)
        n = connection.execute(made).scalar_one()
        if read:
            pairs = [{"call": n, "message": message} for message in read]
            connection.execute(insert(call_messages), pairs)
    _drop_oldest(connection)


def _drop_oldest(connection: Reading) -> None:
    oldest_kept = (
        select(calls.c.n).order_by(calls.c.n.desc()).limit(1).offset(MAX_CALLS - 1)
    )
    first = connection.scalar(oldest_kept)
    if first is not None:
        connection.execute(delete(call_messages).where(call_messages.c.call < first))
        connection.execute(delete(calls).where(calls.c.n < first))


def read_calls(
    connection: Reading, since: datetime | None = None, limit: int = 100
) -> list[ModelCall]:
    """The latest model calls, the newest first; only those since a time, if one is
    given.
    """
    newest = select(calls).order_by(calls.c.n.desc()).limit(limit)
    if since is not None:
        newest = newest.where(calls.c.at >= naive(since))
    rows = connection.execute(newest).all()
    read = _messages_of(connection, [row.n for row in rows])
    derived = {row.n: {"at": aware(row.at), "message_ids": read[row.n]} for row in rows}
    return [
        ModelCall.model_validate({**row._mapping, **derived[row.n]}) for row in rows
    ]


def _messages_of(connection: Reading, items: Sequence[int]) -> dict[int, list[str]]:
    pair = call_messages.c
    query = select(pair.call, messages.c.message_id).join(
        messages, messages.c.n == pair.message
    )
    read: dict[int, list[str]] = defaultdict(list)
    for row in rows_where_in(
        connection, query.order_by(pair.message), pair.call, items
    ):
        read[row.call].append(row.message_id)
    return read


def forget_calls(connection: Reading, items: Collection[int]) -> None:
    """Delete the calls that read any of these messages, which are being forgotten."""
    pair = call_messages.c
    numbers = list(
        connection.scalars(select(pair.call).where(pair.message.in_(items)).distinct())
    )
    connection.execute(delete(call_messages).where(pair.call.in_(numbers)))
    connection.execute(delete(calls).where(calls.c.n.in_(numbers)))


def forget_messages(connection: Reading, items: Collection[int]) -> None:
    """Keep the costs of the calls that read these messages, which expire, without any
    word.
    """
    forget_words(connection, items)
    connection.execute(delete(call_messages).where(call_messages.c.message.in_(items)))


def forget_words(connection: Reading, items: Collection[int] | None) -> None:
    """Keep the costs of the calls that read these messages, without any word of a
    model.

    A record that was made of them is being forgotten, and a refused proposal may repeat
    it. None stands for the calls that read no message, but records, tracks and the
    profile.
    """
    read = select(call_messages.c.call)
    concerned = calls.c.n.not_in(read)
    if items is not None:
        concerned = calls.c.n.in_(read.where(call_messages.c.message.in_(items)))
    connection.execute(update(calls).where(concerned).values(problem=None, refused=[]))


def usage(connection: Reading, since: datetime | None = None) -> Usage:
    """What the model calls that the ledger's log keeps have cost, by day (UTC) and
    purpose.
    """
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
    day: str | date,
    purpose: str,
    count: int,
    tokens_in: int,
    tokens_out: int,
    ms: float,
) -> UsageLine:
    return UsageLine(
        day=date.fromisoformat(str(day)),  # SQLite gives text
        purpose=purpose,
        calls=count,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        seconds=ms / 1_000,
    )


def tokens_today(connection: Reading) -> int:
    """The tokens of this day's model calls (UTC)."""
    midnight = datetime.combine(datetime.now(UTC).date(), time())
    return (
        connection.scalar(select(func.sum(_TOKENS)).where(calls.c.at >= midnight)) or 0
    )
