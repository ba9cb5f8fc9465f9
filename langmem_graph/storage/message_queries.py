"""Queries about messages, sessions and the size of a ledger."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import FromClause, Row, Select, func, select
from sqlalchemy.dialects import sqlite

from langmem_graph.ids_and_times import end_of, in_zone
from langmem_graph.schemas import Message
from langmem_graph.storage.effects import ACTIVE
from langmem_graph.storage.number_lists import one_of_given, rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import (
    messages,
    outbox,
    record_sources,
    records,
    sessions,
)
from langmem_graph.storage.vector_rows import IN_CHROMA


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


def facts_of(connection: Reading, items: Iterable[int]) -> dict[int, Facts]:
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


def newest_message(connection: Reading) -> int:
    """The number of the message that arrived last; 0 when there is none."""
    return connection.scalar(_NEWEST) or 0


_READ = "n message_id role origin name at text extra".split()


@lru_cache(maxsize=256)
def _whole(seen: FromClause) -> Select[Any]:
    """Selects whole messages of those that may be seen."""
    columns = [*(seen.c[name] for name in _READ), sessions.c.session_id]
    return select(*columns).join(sessions, sessions.c.n == seen.c.session)


def messages_by_number(connection: Reading, items: Iterable[int]) -> dict[int, Message]:
    """Whole messages by their numbers."""
    seen = connection.messages
    rows = rows_where_in(connection, _whole(seen), seen.c.n, items)
    return {row.n: _message(row) for row in rows}


def messages_by_id(connection: Reading, ids: Iterable[str]) -> dict[str, Message]:
    """Whole messages by their ids; unknown ids are left out."""
    seen = connection.messages
    rows = rows_where_in(connection, _whole(seen), seen.c.message_id, ids)
    return {row.message_id: _message(row) for row in rows}


def whole_ids(connection: Reading, ids: Iterable[str]) -> list[str]:
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
    connection: Reading, count: int, session_id: str | None = None
) -> list[Message]:
    """The messages of a session, or of all, that arrived last, in the order they
    arrived.
    """
    seen = connection.messages
    meant = _whole(seen)
    if session_id is not None:
        meant = meant.where(sessions.c.session_id == session_id)
    latest = meant.order_by(seen.c.n.desc()).limit(count)
    return [_message(row) for row in connection.execute(latest).all()[::-1]]


def said_by_user(
    connection: Reading, since: datetime, until: datetime, most: int
) -> list[tuple[int, str, datetime]]:
    """Number, text and time of the user's newest messages between two times, the newest
    first.
    """
    m = connection.messages.c
    first, last = (in_zone(one, UTC).replace(tzinfo=None) for one in (since, until))
    query = select(m.n, m.text, m.at).where(m.role == "user", m.at.between(first, last))
    rows = connection.execute(query.order_by(m.at.desc()).limit(most))
    return [(n, text, at.replace(tzinfo=UTC)) for n, text, at in rows]


def all_messages(connection: Reading) -> Iterator[Message]:
    """Yield every message, in the order of arrival."""
    after = 0
    seen = connection.messages
    in_order = _whole(seen).order_by(seen.c.n).limit(1_000)
    while True:
        rows = connection.execute(in_order.where(seen.c.n > after)).all()
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


def session_of(connection: Reading, n: int) -> int:
    """The number of the session that a message belongs to."""
    own = select(messages.c.session).where(messages.c.n == n)
    return int(connection.execute(own).scalar_one())


def texts_of(connection: Reading, items: Iterable[int]) -> dict[int, str]:
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


def counts(connection: Reading) -> Counts:
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


def damage(connection: Reading) -> list[str]:
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


def session_summaries(connection: Reading) -> list[SessionSummary]:
    """Summaries of all sessions, in the order they began."""
    m = connection.messages.c
    query = (
        select(sessions.c.session_id, func.count(), func.min(m.at), func.max(m.at))
        .select_from(sessions)
        .join(connection.messages, m.session == sessions.c.n)
        .group_by(sessions.c.n, sessions.c.session_id)
        .order_by(sessions.c.n)
    )
    return [
        SessionSummary(name, count, first.replace(tzinfo=UTC), last.replace(tzinfo=UTC))
        for name, count, first, last in connection.execute(query)
    ]
