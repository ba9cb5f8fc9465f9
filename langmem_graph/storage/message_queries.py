"""Queries about messages, sessions and the size of a ledger."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, func, select
from sqlalchemy.dialects import sqlite

from langmem_graph.filters import Filter
from langmem_graph.ids_and_times import end_of, in_zone
from langmem_graph.schemas import Message
from langmem_graph.storage.number_lists import one_of_given
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.storage.tables_and_migrations import (
    ACTIVE,
    MESSAGES,
    messages,
    outbox,
    record_sources,
    records,
    sessions,
)
from langmem_graph.storage.vector_rows import IN_CHROMA
from langmem_graph.storage.where_conditions import conditions_of, filter_of, within


class Facts(NamedTuple):
    """What ranking needs to know of a message, without its text."""

    n: int
    session: int
    role: str
    name: str | None
    at: datetime
    chars: int
    is_question: bool


_NEWEST = select(func.max(messages.c.n))
_FACTS = select(*(messages.c[name] for name in Facts._fields))
_PLAIN_FACTS = str(
    _FACTS.where(one_of_given(messages.c.n)).compile(dialect=sqlite.dialect())
)


def facts_of(connection: Connection, items: Iterable[int]) -> dict[int, Facts]:
    """What ranking needs to know of these messages, which pass the connection's
    filter.
    """
    if connection.dialect.name == "postgresql":
        rows = rows_where_in(connection, _FACTS, messages.c.n, items)
        return {facts.n: facts for facts in map(Facts._make, rows)}
    # A search reads hundreds of them, and through SQLAlchemy a row takes twice as long.
    plain = connection.connection.cursor().execute(
        _PLAIN_FACTS, (json.dumps([*items]),)
    )
    return {
        n: Facts(
            n, session, role, name, datetime.fromisoformat(at), chars, bool(question)
        )
        for n, session, role, name, at, chars, question in plain.fetchall()
    }


def newest_message(connection: Connection) -> int:
    """The number of the message that arrived last; 0 when there is none."""
    return connection.scalar(_NEWEST) or 0


_READ = "n message_id role origin name at text extra".split()
_whole = select(*(messages.c[name] for name in _READ), sessions.c.session_id).join(
    sessions
)


def _shown(connection: Connection) -> Select[Any]:
    """Whole messages, those that pass the connection's filter."""
    where = filter_of(connection)
    return _whole if where is None else _filtered(repr(where), where)


@lru_cache(maxsize=256)
def _filtered(name: str, where: Filter) -> Select[Any]:
    """The name tells filters apart that are equal: 1 and True are."""
    passing = conditions_of(where, MESSAGES, messages.c.n)
    return _whole.where(*passing).execution_options(kept=True)


def messages_by_number(
    connection: Connection, items: Iterable[int]
) -> dict[int, Message]:
    """Whole messages by their numbers."""
    rows = rows_where_in(connection, _shown(connection), messages.c.n, items)
    return {row.n: _message(row) for row in rows}


def messages_by_id(connection: Connection, ids: Iterable[str]) -> dict[str, Message]:
    """Whole messages by their ids; unknown ids are left out."""
    rows = rows_where_in(connection, _shown(connection), messages.c.message_id, ids)
    return {row.message_id: _message(row) for row in rows}


def whole_ids(connection: Connection, ids: Iterable[str]) -> list[str]:
    """The ids, those whose end alone was shown (`shown_ids`) as they are stored."""
    m = messages.c
    found = list[str]()
    for one in ids:
        end = end_of(one)
        if end is not None:
            ending = select(m.message_id).where(
                m.message_id.endswith(end, autoescape=True)
            )
            found += connection.scalars(ending.order_by(m.n)).all()
        found.append(one)
    return found


def latest_messages(
    connection: Connection, count: int, session_id: str | None = None
) -> list[Message]:
    """The messages of a session, or of all, that arrived last, in the order they
    arrived.
    """
    meant = _shown(connection)
    meant = (
        meant
        if session_id is None
        else meant.where(sessions.c.session_id == session_id)
    )
    latest = meant.order_by(messages.c.n.desc()).limit(count)
    return [_message(row) for row in connection.execute(latest).all()[::-1]]


def said_by_user(
    connection: Connection, since: datetime, until: datetime, most: int
) -> list[tuple[int, str, datetime]]:
    """Number, text and time of the user's newest messages between two times, the newest
    first.
    """
    m = messages.c
    first, last = (in_zone(one, UTC).replace(tzinfo=None) for one in (since, until))
    query = select(m.n, m.text, m.at).where(m.role == "user", m.at.between(first, last))
    query = query.where(*within(connection, MESSAGES, m.n))
    rows = connection.execute(query.order_by(m.at.desc()).limit(most))
    return [(n, text, at.replace(tzinfo=UTC)) for n, text, at in rows]


def all_messages(connection: Connection) -> Iterator[Message]:
    """Yield every message, in the order of arrival."""
    after = 0
    while True:
        page = (
            _shown(connection)
            .where(messages.c.n > after)
            .order_by(messages.c.n)
            .limit(1_000)
        )
        rows = connection.execute(page).all()
        if not rows:
            return
        yield from map(_message, rows)
        after = rows[-1].n


def _message(row: Row[Any]) -> Message:
    extra = row.extra or {}
    return Message(
        id=row.message_id,
        session_id=row.session_id,
        role=row.role,
        origin=row.origin,
        name=row.name,
        at=row.at.replace(tzinfo=UTC),
        text=row.text,
        tool_calls=extra.get("tool_calls") or [],
        tool_call_id=extra.get("tool_call_id"),
        metadata=extra.get("metadata") or {},
        agent_id=extra.get("agent_id"),
        room=extra.get("room"),
        author=extra.get("author"),
    )


def session_of(connection: Connection, n: int) -> int:
    """The number of the session that a message belongs to."""
    own = select(messages.c.session).where(messages.c.n == n)
    return int(connection.execute(own).scalar_one())


def texts_of(connection: Connection, items: Iterable[int]) -> dict[int, str]:
    """The texts of these messages as they are embedded: with the speaker's name, where
    known.
    """
    columns = select(messages.c.n, messages.c.name, messages.c.text)
    rows = rows_where_in(connection, columns, messages.c.n, items)
    return {row.n: f"{row.name}: {row.text}" if row.name else row.text for row in rows}


@dataclass(frozen=True)
class Counts:
    """How many rows of each kind a ledger holds."""

    messages: int
    sessions: int
    records: int
    """Active records."""
    vectors: int
    """Of messages and of active records."""
    waiting: dict[str, int]
    """Items per due task."""


def counts(connection: Connection) -> Counts:
    """Count the messages, sessions, active records, vectors and due items."""
    due = select(outbox.c.task, func.count()).group_by(outbox.c.task)
    return Counts(
        messages=connection.scalar(select(func.count()).select_from(messages)) or 0,
        sessions=connection.scalar(select(func.count()).select_from(sessions)) or 0,
        records=connection.scalar(
            select(func.count()).where(records.c.status == ACTIVE)
        )
        or 0,
        vectors=connection.scalar(select(func.count()).select_from(IN_CHROMA)) or 0,
        waiting={task: count for task, count in connection.execute(due)},  # noqa: C416  # rows, not pairs
    )


def damage(connection: Connection) -> list[str]:
    """What is wrong between the tables; an empty list when they agree."""
    carried = select(record_sources.c.record).where(
        record_sources.c.supporting.is_(False)
    )
    alone = select(func.count()).where(records.c.n.not_in(carried))
    count = connection.scalar(alone)
    return [f"{count} records have no message that carries them."] if count else []


@dataclass(frozen=True)
class SessionSummary:
    """A session's id, its number of messages, and the times of the first and the last
    one.
    """

    session_id: str
    messages: int
    first_at: datetime
    last_at: datetime


def session_summaries(connection: Connection) -> list[SessionSummary]:
    """Summaries of all sessions, in the order they began."""
    m = messages.c
    query = (
        select(sessions.c.session_id, func.count(), func.min(m.at), func.max(m.at))
        .join(messages, m.session == sessions.c.n)
        .where(*within(connection, MESSAGES, m.n))
        .group_by(sessions.c.n, sessions.c.session_id)
        .order_by(sessions.c.n)
    )
    return [
        SessionSummary(name, count, first.replace(tzinfo=UTC), last.replace(tzinfo=UTC))
        for name, count, first, last in connection.execute(query)
    ]
