"""Everything that is read from the ledger."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, func, select

from langmem_graph.schemas import Message, message_row
from langmem_graph.storage.sqlite import portions
from langmem_graph.storage.stored_vectors import _in_chroma
from langmem_graph.storage.tables import ACTIVE, messages, outbox, records, sessions

if TYPE_CHECKING:
    from langmem_graph.storage.services import Services


@dataclass(frozen=True)
class Facts:
    """What ranking needs to know of a message, without its text."""

    n: int
    session: int
    role: str
    name: str | None
    at: datetime
    chars: int
    is_question: bool


def facts_of(connection: Connection, items: Iterable[int]) -> dict[int, Facts]:
    """What ranking needs of these messages, by number."""
    m = messages.c
    columns = (m.n, m.session, m.role, m.name, m.at, m.chars, m.is_question)
    found: dict[int, Facts] = {}
    for some in portions(list(items)):
        rows = connection.execute(select(*columns).where(m.n.in_(some))).all()
        found |= {n: Facts(n, *others) for n, *others in rows}
    return found


def newest_message(connection: Connection) -> int:
    """The number of the message that arrived last; 0 when there is none."""
    return connection.scalar(select(func.max(messages.c.n))) or 0


_whole = select(messages, sessions.c.session_id).join(sessions, sessions.c.n == messages.c.session)


def messages_by_number(connection: Connection, items: Iterable[int]) -> dict[int, Message]:
    """Whole messages by their numbers."""
    rows: list[Row[Any]] = []
    for some in portions(list(items)):
        rows += connection.execute(_whole.where(messages.c.n.in_(some)))
    return {row.n: _message(row) for row in rows}


def messages_by_id(connection: Connection, ids: Iterable[str]) -> dict[str, Message]:
    """Whole messages by their ids; unknown ids are left out."""
    rows: list[Row[Any]] = []
    for some in portions(list(ids)):
        rows += connection.execute(_whole.where(messages.c.message_id.in_(some)))
    return {row.message_id: _message(row) for row in rows}


def session_end(connection: Connection, session_id: str, count: int) -> list[Message]:
    """The last messages of a session, in the order they arrived."""
    own = sessions.c.session_id == session_id
    latest = _whole.where(own).order_by(messages.c.n.desc()).limit(count)
    return [_message(row) for row in connection.execute(latest).all()[::-1]]


def latest_messages(connection: Connection, count: int) -> list[Message]:
    """The messages that arrived last, of all sessions, in the order they arrived."""
    latest = _whole.order_by(messages.c.n.desc()).limit(count)
    return [_message(row) for row in connection.execute(latest).all()[::-1]]


def all_messages(connection: Connection) -> Iterator[Message]:
    """Every message, in the order of arrival."""
    after = 0
    while True:
        page = _whole.where(messages.c.n > after).order_by(messages.c.n).limit(1_000)
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
        name=row.name,
        at=row.at.replace(tzinfo=UTC),
        text=row.text,
        tool_calls=extra.get("tool_calls") or [],
        tool_call_id=extra.get("tool_call_id"),
    )


def texts_of(connection: Connection, items: Iterable[int]) -> dict[int, str]:
    """What is embedded of these messages: the speaker, where there is one, and the words."""
    rows: list[Row[Any]] = []
    for some in portions(list(items)):
        found = select(messages.c.n, messages.c.name, messages.c.text)
        rows += connection.execute(found.where(messages.c.n.in_(some)))
    return {row.n: f"{row.name}: {row.text}" if row.name else row.text for row in rows}


@dataclass(frozen=True)
class Counts:
    """How much there is of everything."""

    messages: int
    sessions: int
    records: int
    """Records that are true now."""
    vectors: int
    """Of messages and of records that are true now."""
    waiting: dict[str, int]
    """Items per due task."""


def counts(connection: Connection) -> Counts:
    """How much there is of everything."""
    due = select(outbox.c.task, func.count()).group_by(outbox.c.task)
    return Counts(
        messages=connection.scalar(select(func.count()).select_from(messages)) or 0,
        sessions=connection.scalar(select(func.count()).select_from(sessions)) or 0,
        records=connection.scalar(select(func.count()).where(records.c.status == ACTIVE)) or 0,
        vectors=connection.scalar(select(func.count()).select_from(_in_chroma)) or 0,
        waiting={task: count for task, count in connection.execute(due)},  # noqa: C416  # rows, not pairs
    )


def counts_waiting(connection: Connection, layer: str, task: str) -> int:
    """How many items of a layer wait for this task."""
    due = select(func.count()).where(outbox.c.layer == layer, outbox.c.task == task)
    return connection.scalar(due) or 0


def damage(connection: Connection) -> list[str]:
    """What SQLite finds wrong with the file; nothing when it is sound."""
    found = connection.exec_driver_sql("PRAGMA quick_check").scalars().all()
    return [f"The ledger is damaged: {line}" for line in found if line != "ok"]


@dataclass(frozen=True)
class SessionSummary:
    """One session at a glance."""

    session_id: str
    messages: int
    first_at: datetime
    last_at: datetime


def session_summaries(connection: Connection) -> list[SessionSummary]:
    """All sessions in the order they began."""
    m = messages.c
    found = (
        select(sessions.c.session_id, func.count(), func.min(m.at), func.max(m.at))
        .join(messages, m.session == sessions.c.n)
        .group_by(sessions.c.n)
        .order_by(sessions.c.n)
    )
    return [
        SessionSummary(name, count, first.replace(tzinfo=UTC), last.replace(tzinfo=UTC))
        for name, count, first, last in connection.execute(found)
    ]


def get_conversation(services: "Services", user_id: str, ids: Sequence[str]) -> list[Message]:
    """A user's messages with these ids, in the order asked; unknown ids are left out."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        found = messages_by_id(connection, ids)
    return [found[one] for one in dict.fromkeys(ids) if one in found]


def list_sessions(services: "Services", user_id: str) -> list[SessionSummary]:
    """A user's sessions at a glance, in the order they began."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        return session_summaries(connection)


def export_messages(services: "Services", user_id: str) -> list[dict[str, Any]]:
    """A user's messages as rows that an import takes back."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        return [message_row(message) for message in all_messages(connection)]
