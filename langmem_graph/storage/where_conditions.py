"""Filters as conditions of SQL, for both engines, and which filter a connection reads
under.

A connection that was opened for a filter (`Services.within`) carries it, and every
query whose rows are shown names its condition here. A record passes where all the
messages that carry it do.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import sqlalchemy as sa
from sqlalchemy import Connection

from langmem_graph.filters import Comparison, Filter, Group, kind_of
from langmem_graph.metadata import Value
from langmem_graph.storage.effects import ACTIVE
from langmem_graph.storage.tables import (
    message_values,
    messages,
    record_sources,
    records,
    sessions,
)

_V = message_values.c
_COLUMNS = ("at", "role", "origin", "session_id")  # keys that are no rows of values
_MOST_BESIDE = 32  # of 1,000 conditions there are as many parts
_ABSENT: dict[str, Any] = {"text": "", "number": 0.0}
_EACH: sa.ColumnElement[int] = sa.literal_column("0")
"""As an offset: PostgreSQL then looks at each row, and does not join with all that
match.
"""
_COMPARED: dict[str, Any] = {
    "$eq": lambda column, values: column == values[0],
    "$ne": lambda column, values: column != values[0],
    "$in": lambda column, values: column.in_(values),
    "$nin": lambda column, values: column.not_in(values),
    "$gt": lambda column, values: column > values[0],
    "$gte": lambda column, values: column >= values[0],
    "$lt": lambda column, values: column < values[0],
    "$lte": lambda column, values: column <= values[0],
}


def value_rows(message: int, values: Mapping[str, Value]) -> list[dict[str, Any]]:
    """The rows by which a message is found under a filter."""
    return [
        {
            "message": message,
            "key": key,
            "type": kind,
            **_ABSENT,
            _column(kind): _stored(value),
        }
        for key, value in values.items()
        for kind in [kind_of(value)]
    ]


def _column(kind: str) -> str:
    return "text" if kind == "text" else "number"


def _stored(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)


def messages_seen(where: Filter) -> sa.Select[Any]:
    """Selects whole messages, those that match a filter."""
    return sa.select(messages).where(_matching(where, messages, each=True))


def records_seen(where: Filter) -> sa.Select[Any]:
    """Selects whole records, those of which every message that carries them
    matches.
    """
    failing = _failing(where, each=True).where(_CARRIED.c.record == records.c.n)
    return sa.select(records).where(~sa.exists(failing.offset(_EACH)))


_CARRIED = record_sources.alias("carrying")
_CARRIER = messages.alias("carrier")


def _failing(where: Filter, *, each: bool) -> sa.Select[Any]:
    """Selects the records which a message carries that does not match."""
    carriers = _CARRIED.join(_CARRIER, _CARRIER.c.n == _CARRIED.c.message)
    outside = _CARRIED.c.supporting.is_(False) & ~_matching(where, _CARRIER, each=each)
    return sa.select(_CARRIED.c.record).select_from(carriers).where(outside)


def records_matching(where: Filter) -> sa.Select[Any]:
    """Selects the numbers of the records that hold and match a filter."""
    r = records.alias("every").c
    return sa.select(r.n).where(
        r.status == ACTIVE, r.n.not_in(_failing(where, each=False))
    )


def messages_matching(where: Filter, after: int = 0) -> sa.Select[Any]:
    """Selects the messages that match a filter; `after` is for a few with greater
    numbers.
    """
    if _is_of_value(where):
        return _having(where).where(_V.message > after)
    every = messages.alias("every")
    matching = _matching(where, every, each=after > 0)
    return sa.select(every.c.n).where(every.c.n > after, matching)


def having(key: str, value: str) -> sa.Select[Any]:
    """Selects the messages with this value."""
    return _having(Comparison(key, "$eq", (value,)))


def at_most(connection: Connection, meant: sa.Select[Any], most: int) -> bool:
    """Whether a query selects no more than so many."""
    some = sa.select(sa.func.count()).select_from(meant.limit(most + 1).subquery())
    return (connection.scalar(some) or 0) <= most


def _matching(where: Filter, of: Any, *, each: bool) -> sa.ColumnElement[bool]:
    """The condition that rows of the messages' table `of` match a filter.

    With `each` a value is looked up for each row, which suits a few rows; else all that
    match are.
    """
    if isinstance(where, Group):
        conditions = [_matching(part, of, each=each) for part in where.parts]
        return _joined(conditions, every=where.every)
    if where.key in _COLUMNS and where.key != "session_id":
        return _compared(
            of.c[where.key], where, "time" if where.key == "at" else "text"
        )
    if where.key == "session_id":
        named = _compared(sessions.c.session_id, where, "text")
        of_session: sa.ColumnElement[bool] = of.c.session.in_(
            sa.select(sessions.c.n).where(named)
        )
        return of_session
    return _of_value(where, of, each=each)


def _joined(
    conditions: Sequence[sa.ColumnElement[bool]], *, every: bool
) -> sa.ColumnElement[bool]:
    """One condition of several.

    SQLite reads `a OR b OR c` as one condition inside another, and bounds their number.
    So many are written as `NOT (NOT (a OR b) AND NOT (c OR d))`, of which each part
    counts by itself; SQLAlchemy removes brackets that change nothing.
    """
    join, opposite = (sa.and_, sa.or_) if every else (sa.or_, sa.and_)
    if len(conditions) <= _MOST_BESIDE:
        return join(*conditions)
    parts = [
        join(*conditions[start : start + _MOST_BESIDE])
        for start in range(0, len(conditions), _MOST_BESIDE)
    ]
    return sa.not_(opposite(*map(sa.not_, parts)))


def _is_of_value(where: Filter) -> TypeGuard[Comparison]:
    """Whether it asks for a value of the messages' metadata: the rows that have it are
    enough.
    """
    if not isinstance(where, Comparison):
        return False
    return where.key not in _COLUMNS and where.operator != "$exists"


def _having(where: Comparison) -> sa.Select[Any]:
    """Selects the messages with such a value, or with any under this key."""
    found = sa.select(_V.message).where(_V.key == where.key)
    if where.operator == "$exists":
        return found
    kind = kind_of(where.values[0])
    column, other = ("text", "number") if kind == "text" else ("number", "text")
    compared = _compared(_V[column], where, kind)
    return found.where(_V.type == kind, _V[other] == _ABSENT[other], compared)


def _of_value(where: Comparison, of: Any, *, each: bool) -> sa.ColumnElement[bool]:
    found = _having(where)
    missing = where.operator == "$exists" and not where.values[0]
    if each:
        own = found.where(_V.message == of.c.n).offset(_EACH)
        there: sa.ColumnElement[bool] = sa.exists(own)
    else:
        there = of.c.n.in_(found)
    return ~there if missing else there


def _compared(column: Any, where: Comparison, kind: str) -> sa.ColumnElement[bool]:
    """Whether a column of a kind compares so; one of another kind does not."""
    if where.operator == "$exists":
        return sa.true() if where.values[0] else sa.false()
    if kind_of(where.values[0]) != kind:
        return sa.false()
    values = [
        float(one) if isinstance(one, bool | int) else one for one in where.values
    ]
    compared: sa.ColumnElement[bool] = _COMPARED[where.operator](column, values)
    return compared
