"""Everything that is read from the ledger."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    func,
    select,
    text,
    true,
    tuple_,
)

from langmem_graph.models import Message
from langmem_graph.store.database import portions
from langmem_graph.store.ledger import INDEX, MESSAGES, RECORDS
from langmem_graph.store.schema import ACTIVE, messages, outbox, records, sessions, vectors
from langmem_graph.store.words import MESSAGE_WORDS, match_expression

Matrix = NDArray[np.float32]
_best_words = text(  # a message's own words count twice as much as those before it (DESIGN)
    "SELECT rowid, -bm25(words, 2.0, 1.0) AS score FROM words"
    " WHERE words MATCH :terms ORDER BY score DESC LIMIT :limit"
)


@dataclass(frozen=True)
class VectorRows:
    """Stored vectors: their numbers, the messages they belong to, spans, and the matrix."""

    ids: NDArray[np.int64]
    items: NDArray[np.int64]
    spans: NDArray[np.int64]
    matrix: Matrix

    def __len__(self) -> int:
        return len(self.ids)


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


@dataclass(frozen=True)
class Centroids:
    """Every session's number and mean vector (sessions without vectors are left out)."""

    sessions: NDArray[np.int64]
    matrix: Matrix


# Vectors that belong into Chroma: every message's, and those of records that are true now.
_is_inactive = and_(
    vectors.c.layer == RECORDS,
    vectors.c.item.in_(select(records.c.n).where(records.c.status != ACTIVE)),
)
_in_chroma = select(vectors.c.n, vectors.c.layer, vectors.c.item).where(~_is_inactive).subquery()
_is_waiting = tuple_(_in_chroma.c.layer, _in_chroma.c.item).in_(
    select(outbox.c.layer, outbox.c.item).where(outbox.c.task == INDEX)
)


def words_search(
    connection: Connection, terms: Sequence[str], limit: int
) -> list[tuple[int, float]]:
    """Messages that hold any of the terms, by BM25, best first; higher is better."""
    rows = connection.execute(_best_words, {"terms": match_expression(terms), "limit": limit})
    return [(number, score) for number, score in rows.all()]


def word_counts(connection: Connection, terms: Iterable[str]) -> dict[str, int]:
    """In how many messages each term occurs, its own words and those before it alike."""
    return MESSAGE_WORDS.counts(connection, terms)


def vectors_by_id(connection: Connection, ids: Iterable[int]) -> VectorRows:
    """The vectors with these numbers; unknown numbers are left out."""
    return _vector_rows(connection, vectors.c.n, ids, true())


def vectors_of(connection: Connection, items: Iterable[int], layer: str = MESSAGES) -> VectorRows:
    """All vectors of these messages or records."""
    return _vector_rows(connection, vectors.c.item, items, vectors.c.layer == layer)


def _vector_rows(
    connection: Connection, column: Any, values: Iterable[int], meant: ColumnElement[bool]
) -> VectorRows:
    rows: list[Row[Any]] = []
    for some in portions(sorted(set(values))):
        found = select(vectors).where(meant, column.in_(some))
        rows += connection.execute(found.order_by(vectors.c.n)).all()
    return _as_vectors(rows)


def newest_vector(connection: Connection) -> int:
    """The number of the vector that was stored last; there are at most that many."""
    return connection.scalar(select(func.max(vectors.c.n))) or 0


def items_of_vectors(connection: Connection, ids: Iterable[int]) -> list[int]:
    """What these vectors belong to; vectors that are gone are left out."""
    found: list[int] = []
    for some in portions(list(ids)):
        found += connection.scalars(select(vectors.c.item).where(vectors.c.n.in_(some)))
    return found


def all_vectors(
    connection: Connection, layer: str = MESSAGES, size: int = 4_096
) -> Iterator[VectorRows]:
    """Every vector of a layer, in blocks."""
    after = 0
    while True:
        found = select(vectors).where(vectors.c.layer == layer, vectors.c.n > after)
        rows = connection.execute(found.order_by(vectors.c.n).limit(size)).all()
        if not rows:
            return
        yield _as_vectors(rows)
        after = rows[-1].n


def waiting_vectors(connection: Connection, layer: str = MESSAGES) -> VectorRows:
    """The vectors of a layer that Chroma does not have yet."""
    due = select(outbox.c.item).where(outbox.c.layer == layer, outbox.c.task == INDEX)
    found = select(vectors).where(vectors.c.layer == layer, vectors.c.item.in_(due))
    return _as_vectors(connection.execute(found.order_by(vectors.c.n)).all())


def count_waiting_vectors(connection: Connection) -> int:
    """How many vectors Chroma does not have yet."""
    held = select(func.count()).select_from(_in_chroma).where(_is_waiting)
    return connection.scalar(held) or 0


def _as_vectors(rows: Sequence[Row[Any]]) -> VectorRows:
    flat = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32)
    return VectorRows(
        ids=np.array([row.n for row in rows], dtype=np.int64),
        items=np.array([row.item for row in rows], dtype=np.int64),
        spans=np.array([(row.start, row.end) for row in rows], dtype=np.int64).reshape(-1, 2),
        matrix=flat.reshape(len(rows), -1 if rows else 0),
    )


def facts_of(connection: Connection, items: Iterable[int]) -> dict[int, Facts]:
    """What ranking needs of these messages, by number."""
    m = messages.c
    columns = (m.n, m.session, m.role, m.name, m.at, m.chars, m.is_question)
    found: dict[int, Facts] = {}
    for some in portions(list(items)):
        rows = connection.execute(select(*columns).where(m.n.in_(some))).all()
        found |= {n: Facts(n, *others) for n, *others in rows}
    return found


def centroids(connection: Connection) -> Centroids:
    """Mean vectors of all sessions, in the order the sessions began."""
    found = select(sessions).where(sessions.c.vector_count > 0).order_by(sessions.c.n)
    rows = connection.execute(found).all()
    flat = np.frombuffer(b"".join(row.vector_sum for row in rows), dtype=np.float32)
    counts = np.array([[row.vector_count] for row in rows], dtype=np.float32)
    return Centroids(
        sessions=np.array([row.n for row in rows], dtype=np.int64),
        matrix=flat.reshape(len(rows), -1 if rows else 0) / counts.reshape(-1, 1),
    )


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


def waiting_items(connection: Connection, task: str, first: int, last: int) -> set[int]:
    """The numbers, from `first` to `last`, of the messages that wait for this task."""
    due = select(outbox.c.item).where(outbox.c.layer == MESSAGES, outbox.c.task == task)
    return set(connection.scalars(due.where(outbox.c.item.between(first, last))))


def indexed_vector_ids(connection: Connection) -> dict[str, list[int]]:
    """The numbers of the vectors that Chroma should hold, by layer."""
    held = connection.execute(select(_in_chroma.c.layer, _in_chroma.c.n).where(~_is_waiting))
    found: dict[str, list[int]] = {MESSAGES: [], RECORDS: []}
    for layer, n in held:
        found[layer].append(n)
    return found


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
