"""Storing messages with their words, their outbox entries and their place in the queue.

Stored messages are never overwritten. A message with a known id and the same text and role is
already stored; with another text or role it is stored beside the first one, as `id~2`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.reports import RenamedMessage
from langmem_graph.schemas import Message
from langmem_graph.storage.full_text import MESSAGE_WORDS
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.storage.tables_and_migrations import (
    EMBED,
    MESSAGES,
    READ_ROLES,
    messages,
    outbox,
    sessions,
    unread,
)

BEFORE = 2
"""How many preceding messages' words also find a message (docs/ranking.md)."""


@dataclass
class Appended:
    """What `append` did with each message."""

    stored: list[str] = field(default_factory=list)
    already_known: list[str] = field(default_factory=list)
    renamed: list[RenamedMessage] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    """Number and id of each new message."""


def append(connection: Connection, new: Sequence[Message]) -> Appended:
    """Store messages of one session with their words and their due work."""
    done = Appended()
    unknown = _without_known(connection, new, done)
    if not unknown:
        return done
    session = _session_number(connection, unknown[0].session_id)
    earlier = _latest_texts(connection, session)
    numbers = _insert_messages(connection, unknown, session)
    done.rows = {n: message.id for n, message in zip(numbers, unknown, strict=True)}
    _index_words(connection, numbers, unknown, earlier)
    return done


def _without_known(connection: Connection, new: Sequence[Message], done: Appended) -> list[Message]:
    """The messages that are not stored yet, each under an id that is free."""
    taken = _identities(connection, [message.id for message in new])
    unknown = []
    for message in new:
        stored_id, is_known = _stored_id(connection, message, taken)
        if is_known:
            done.already_known.append(stored_id)
            continue
        if stored_id == message.id:
            done.stored.append(stored_id)
        else:
            done.renamed.append(RenamedMessage(id=message.id, stored_as=stored_id))
        taken[stored_id] = _content(message)
        unknown.append(message.model_copy(update={"id": stored_id}))
    return unknown


def _stored_id(
    connection: Connection, message: Message, taken: dict[str, tuple[str, str]]
) -> tuple[str, bool]:
    """The id under which this message is stored, and True; or a free id, and False."""
    if message.id not in taken:
        return message.id, False
    if taken[message.id] == _content(message):
        return message.id, True
    copy = _copy_in_this_call(message, taken) or _stored_copy(connection, message)
    return (copy, True) if copy else (_next_copy(connection, message.id, taken), False)


def _copy_in_this_call(message: Message, taken: dict[str, tuple[str, str]]) -> str | None:
    copies = (name for name in taken if name.startswith(f"{message.id}~"))
    return next((name for name in copies if taken[name] == _content(message)), None)


def _copies(message_id: str) -> ColumnElement[bool]:
    """The rows `id~2`, `id~3`, …: `~` is the last printable character before DEL."""
    return messages.c.message_id.between(f"{message_id}~", f"{message_id}\x7f")


def _stored_copy(connection: Connection, message: Message) -> str | None:
    same = (messages.c.text == message.text) & (messages.c.role == message.role)
    copies = select(messages.c.message_id).where(_copies(message.id), same)
    return connection.scalar(copies.order_by(messages.c.n).limit(1))


def _next_copy(connection: Connection, message_id: str, taken: dict[str, tuple[str, str]]) -> str:
    copies = select(func.count()).select_from(messages).where(_copies(message_id))
    number = (connection.scalar(copies) or 0) + 2
    while (candidate := f"{message_id}~{number}") in taken | _identities(connection, [candidate]):
        number += 1
    return candidate


def _content(message: Message) -> tuple[str, str]:
    return message.text, message.role


def _identities(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Text and role of the stored messages with these ids."""
    m = messages.c
    columns = select(m.message_id, m.text, m.role)
    rows = rows_where_in(connection, columns, m.message_id, ids)
    return {row.message_id: (row.text, row.role) for row in rows}


def _session_number(connection: Connection, session_id: str) -> int:
    connection.execute(
        upsert(sessions).values(session_id=session_id, vector_count=0).on_conflict_do_nothing()
    )
    query = select(sessions.c.n).where(sessions.c.session_id == session_id)
    return int(connection.execute(query).scalar_one())


def _latest_texts(connection: Connection, session: int) -> list[str]:
    latest = connection.scalars(
        select(messages.c.text)
        .where(messages.c.session == session, messages.c.role != "system")
        .order_by(messages.c.n.desc())
        .limit(BEFORE)
    )
    return list(latest)[::-1]


def _insert_messages(connection: Connection, new: Iterable[Message], session: int) -> Sequence[int]:
    rows = [_row(message, session) for message in new]
    numbered = insert(messages).returning(messages.c.n, sort_by_parameter_order=True)
    return connection.scalars(numbered, rows).all()


def _row(message: Message, session: int) -> dict[str, Any]:
    extra = {"tool_calls": message.tool_calls, "tool_call_id": message.tool_call_id}
    return {
        "message_id": message.id,
        "session": session,
        "role": message.role,
        "name": message.name,
        "at": message.at.replace(tzinfo=None),
        "text": message.text,
        "extra": extra if any(extra.values()) else None,
        "chars": len(message.text),
        "is_question": message.text.rstrip().endswith(("?", "？")),
        "added_at": datetime.now(UTC).replace(tzinfo=None),
    }


def _index_words(
    connection: Connection, numbers: Sequence[int], new: Sequence[Message], earlier: list[str]
) -> None:
    """Add each message's words and due work; system messages are stored, but never recalled."""
    words: dict[int, tuple[str, str]] = {}
    due, unread_rows = [], []
    for n, message in zip(numbers, new, strict=True):
        if message.role == "system":
            continue
        own = f"{message.name}: {message.text}" if message.name else message.text
        words[n] = own, "\n".join(earlier)
        due.append({"layer": MESSAGES, "item": n, "task": EMBED})
        if message.role in READ_ROLES:
            unread_rows.append({"message": n})
        earlier = [*earlier, message.text][-BEFORE:]
    if words:
        MESSAGE_WORDS.add(connection, words)
        connection.execute(insert(outbox), due)
    if unread_rows:
        connection.execute(insert(unread), unread_rows)
