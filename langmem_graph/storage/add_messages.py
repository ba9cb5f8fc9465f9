"""Adding messages: they are stored in the ledger before anything else happens to them.

A message with a known id and the same text and role is already stored; with another
text or role it is stored beside the first one, as `id~2`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from time import perf_counter
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.ids_and_times import (
    agent_key,
    is_unique,
    message_ids,
    new_session_key,
)
from langmem_graph.messages import parse_messages
from langmem_graph.metadata import checked_metadata
from langmem_graph.reports import AddReport, RenamedMessage
from langmem_graph.rooms import shared_name
from langmem_graph.schemas import Message
from langmem_graph.storage import pending_messages, removed_words, where_conditions
from langmem_graph.storage.deletion import deleted_among
from langmem_graph.storage.full_text import BEFORE, MESSAGE_WORDS, words_of
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.record_writes import now
from langmem_graph.storage.sent_again import content_of, known_again
from langmem_graph.storage.tables import (
    EMBED,
    MESSAGES,
    READ_ROLES,
    RECORDS,
    SPOKEN,
    message_values,
    outbox,
    sessions,
    unread,
)
from langmem_graph.storage.tables import messages as messages_table
from langmem_graph.storage.user_room import Room
from langmem_graph.threads import refuse_abandoned

_Contents = dict[str, tuple[str, str] | None]
_NAMED = select(
    messages_table.c.message_id,
    messages_table.c.text,
    messages_table.c.role,
    sessions.c.session_id,
).join_from(messages_table, sessions)


@dataclass(frozen=True)
class ByHand:
    """A sentence that is written by hand: extraction does not read it, as its record is
    stored in the same transaction.
    """

    said_before: Callable[[Reading, Message], str | None] = lambda *_: None
    """The id of a stored message that says the same."""
    make_records: Callable[[Reading, str], list[int]] = lambda *_: []
    """Stores the record of the message with this id; the numbers of what is new."""

    def named(self, connection: Reading, new: Sequence[Message]) -> list[Message]:
        """The messages, with the id of a stored one where it says the same."""
        known = [self.said_before(connection, message) for message in new]
        return [
            message.model_copy(update={"id": name}) if name else message
            for message, name in zip(new, known, strict=True)
        ]

    def made(
        self, connection: Reading, new: Sequence[Message], rows: Mapping[int, str]
    ) -> list[int]:
        """Store the records of the messages; the numbers of what is new."""
        pending_messages.mark_read(connection, list(rows))
        return [n for message in new for n in self.make_records(connection, message.id)]


def add_messages(
    services: Services,
    user_id: str,
    messages: object,
    session_id: object,
    at: object,
    whole_conversation: bool,
    *,
    origin: object = None,
    metadata: object = None,
    agent_id: object = None,
    given_before: Collection[str] = (),
    author: str | None = None,
    by_hand: ByHand | None = None,
) -> AddReport:
    """Store messages in one transaction, then embed and index what is due; see
    `UserMemory.add`.

    In a shared room `author` is in whose name they are stored. What is written
    `by_hand` is one message.
    """
    start = perf_counter()
    session = new_session_key(session_id)
    longest = services.settings.storage.max_message_chars
    about: dict[str, Any] = {"author": author, "room": shared_name(user_id)}
    about |= {"metadata": checked_metadata(metadata), "agent_id": agent_key(agent_id)}
    before = set(message_ids(given_before, "given_before"))
    new, rejected, without_text = parse_messages(
        messages,
        session_id=session,
        at=at,
        max_chars=longest,
        origin=origin,
        about=about,
        redact=services.redact,
    )
    report = AddReport(rejected=rejected)
    if not new:  # nothing is stored, so that a new user gets no folder
        dropped = _dropped(services, (user_id, session), without_text, new, report)
        return report.model_copy(
            update={"dropped": dropped, "milliseconds": _since(start)}
        )
    if (
        before
        and not services.directory.has(user_id)
        and all(one.id in before for one in new)
    ):
        # an erased user gets no folder either
        report.forgotten.extend(one.id for one in new)
        return report
    with services.room(user_id, create=True) as room:
        room.check_embedder(services.embedder.name)
        with room.database.write_transaction() as connection:
            refuse_abandoned()
            new = removed_words.as_stored(connection, new)
            new = by_hand.named(connection, new) if by_hand else new
            left = _not_forgotten(connection, new, before, report)
            known = known_again(connection, left) if whole_conversation else []
            repeated = set(map(id, known))
            report.already_known.extend(message.id for message in known)
            unknown = [message for message in left if id(message) not in repeated]
            rows = append(connection, unknown, report, sent_again=whole_conversation)
            made = by_hand.made(connection, new, rows) if by_hand else []
        drained = services.embed_new(room, MESSAGES, rows)
        if made:
            services.embed_new(room, RECORDS, made)
        report.not_yet_embedded.extend(_not_yet_embedded(room, rows))
    dropped = _dropped(services, (user_id, session), without_text, new, report)
    ending = {"warnings": drained.warnings, "milliseconds": _since(start)}
    return report.model_copy(update={"dropped": dropped, **ending})


def _since(start: float) -> float:
    return (perf_counter() - start) * 1_000


def _dropped(
    services: Services,
    session: tuple[str, str],
    without_text: Sequence[Counter[str]],
    given: Sequence[Message],
    report: AddReport,
) -> dict[str, int]:
    """The blocks without text, by type, of what was not given before, as far as can be
    seen.

    A message of such blocks alone is not stored, and not known again. It was given
    before where a later one is known, or where this process has counted it.
    """
    new = {*report.stored, *(one.id for one in report.renamed)}
    refused = {one.position: one.id for one in report.rejected}
    accepted = [place for place in range(len(without_text)) if place not in refused]
    known = {
        place for place, one in zip(accepted, given, strict=True) if one.id not in new
    }
    last = max(known, default=-1)

    def is_new(place: int) -> bool:
        if place in refused:
            return place > last and services.is_first((*session, refused[place]))
        return place not in known

    counted = (
        kinds for place, kinds in enumerate(without_text) if kinds and is_new(place)
    )
    return dict(sum(counted, Counter[str]()))


def _not_forgotten(
    connection: Reading,
    new: Sequence[Message],
    given_before: set[str],
    report: AddReport,
) -> list[Message]:
    """Those that were not given before, or are still stored."""
    m = messages_table.c
    before = [message.id for message in new if message.id in given_before]
    stored = {
        row[0]
        for row in rows_where_in(connection, select(m.message_id), m.message_id, before)
    }
    report.forgotten.extend(one for one in before if one not in stored)
    return [one for one in new if one.id not in given_before or one.id in stored]


def _not_yet_embedded(room: Room, rows: Mapping[int, str]) -> list[str]:
    if not rows:
        return []
    due = select(outbox.c.item).where(
        outbox.c.layer == MESSAGES, outbox.c.task == EMBED
    )
    own = due.where(outbox.c.item.between(min(rows), max(rows)))
    waiting = room.database.read(
        lambda connection: set(connection.scalars(own)), EVERYTHING
    )
    return [message_id for n, message_id in rows.items() if n in waiting]


def append(
    connection: Reading, new: Sequence[Message], report: AddReport, *, sent_again: bool
) -> dict[int, str]:
    """Store messages of one session with their words and their due work.

    The report is completed; number and id of each message that is new are returned. Of
    what is `sent_again` nothing is stored that was deleted, and a short id is one of
    this session's.
    """
    known_in = new[0].session_id if sent_again and new else None
    named = _unknown(connection, new, report, known_in)
    unknown = _not_deleted(connection, named, report, known_in)
    if not unknown:
        return {}
    session = _session_number(connection, unknown[0].session_id)
    m = messages_table.c
    spoken = select(m.text).where(m.session == session, SPOKEN).order_by(m.n.desc())
    earlier = list(connection.scalars(spoken.limit(BEFORE)))[::-1]
    numbers = _insert_messages(connection, unknown, session)
    _index_values(connection, numbers, unknown)
    _index_words(connection, numbers, unknown, earlier)
    return {n: message.id for n, message in zip(numbers, unknown, strict=True)}


def _unknown(
    connection: Reading, new: Sequence[Message], report: AddReport, session: str | None
) -> list[tuple[Message, str]]:
    """The messages that are not stored yet, each with an id that is free."""
    ids = [message.id for message in new]
    taken = _contents(
        rows_where_in(connection, _NAMED, messages_table.c.message_id, ids), session
    )
    unknown = []
    before = None
    asked = [
        n
        for n, message in enumerate(new)
        if session is not None and message.role == "user"
    ]
    for place, message in enumerate(new):
        stored_id, is_known = _stored_id(connection, message, taken, session)
        if (
            not is_known
            and before
            and message.role != "user"
            and place < max(asked, default=0)
        ):
            again = _answered_before(connection, before, message, ids)
            stored_id = again or stored_id
            is_known = again is not None
        before = stored_id if is_known else None
        if is_known:
            report.already_known.append(stored_id)
            continue
        taken[stored_id] = content_of(message)
        unknown.append((message, stored_id))
    return unknown


def _answered_before(
    connection: Reading, before: str, message: Message, sent: Sequence[str]
) -> str | None:
    """The id under which an answer to the message `before` it is stored.

    Clients that keep the conversation may give ids of their own to what they are
    answered.
    """
    m = messages_table.c
    first = messages_table.alias().c
    after = select(m.message_id, m.text, m.role).join_from(
        messages_table,
        first.message_id.table,
        (first.session == m.session) & (first.n < m.n),
    )
    rows = connection.execute(
        after.where(first.message_id == before).order_by(m.n).limit(20)
    )
    answers = takewhile(lambda row: row.role != "user", rows.all())
    same = (row for row in answers if (row.text, row.role) == content_of(message))
    return next((row.message_id for row in same if row.message_id not in sent), None)


def _not_deleted(
    connection: Reading,
    unknown: Sequence[tuple[Message, str]],
    report: AddReport,
    session: str | None,
) -> list[Message]:
    """The messages to store, under these ids."""
    named = {name for _, name in unknown} | {
        m.id for m, _ in unknown if not is_unique(m.id)
    }
    deleted = set() if session is None else deleted_among(connection, session, named)
    kept = []
    for message, name in unknown:
        if {name, message.id} & deleted:
            report.forgotten.append(name)
            continue
        kept.append(message.model_copy(update={"id": name}))
        if name == message.id:
            report.stored.append(name)
        else:
            report.renamed.append(RenamedMessage(id=message.id, stored_as=name))
    return kept


def _stored_id(
    connection: Reading, message: Message, taken: _Contents, session: str | None
) -> tuple[str, bool]:
    """The id under which this message is stored, and True; or a free id, and False."""
    is_free = message.id not in taken
    if is_free and (session is None or is_unique(message.id)):
        return message.id, False
    if taken.get(message.id) == content_of(message):
        return message.id, True
    # `~`, as in `id~2`, is the last printable character before DEL
    m = messages_table.c
    copies = _NAMED.where(m.message_id.between(f"{message.id}~", f"{message.id}\x7f"))
    taken |= _contents(connection.execute(copies.order_by(m.n)), session)
    held = [name for name in taken if name.startswith(f"{message.id}~")]
    for name in held:
        if taken[name] == content_of(message):
            return name, True
    if is_free:
        return message.id, False
    number = len(held) + 2
    while f"{message.id}~{number}" in taken:
        number += 1
    return f"{message.id}~{number}", False


def _contents(rows: Iterable[Row[Any]], session: str | None) -> _Contents:
    """What is stored under each id; None where it is of another conversation than the
    session.
    """
    return {
        row.message_id: (row.text, row.role)
        if session in (None, row.session_id) or is_unique(row.message_id)
        else None
        for row in rows
    }


def _session_number(connection: Reading, session_id: str) -> int:
    own = {"session_id": session_id}
    connection.execute(
        upsert(sessions).values(**own, vector_count=0).on_conflict_do_nothing()
    )
    return int(connection.execute(select(sessions.c.n).filter_by(**own)).scalar_one())


def _insert_messages(
    connection: Reading, new: Iterable[Message], session: int
) -> Sequence[int]:
    rows = [_row(message, session) for message in new]
    numbered = insert(messages_table).returning(
        messages_table.c.n, sort_by_parameter_order=True
    )
    return connection.scalars(numbered, rows).all()


def extra_of(message: Message) -> dict[str, Any] | None:
    """The tool calls of a message and what it is about, as they are stored."""
    extra: dict[str, Any] = {
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
    }
    about = message.model_dump(include={"metadata", "agent_id", "author", "room"})
    extra |= {name: value for name, value in about.items() if value}
    return extra if any(extra.values()) else None


def _row(message: Message, session: int) -> dict[str, Any]:
    return {
        "message_id": message.id,
        "session": session,
        "role": message.role,
        "origin": message.origin,
        "name": message.name,
        "at": message.at.replace(tzinfo=None),
        "text": message.text,
        "extra": extra_of(message),
        "chars": len(message.text),
        "is_question": message.text.rstrip().endswith(("?", "？")),
        "added_at": now(),
    }


def _index_values(
    connection: Reading, numbers: Sequence[int], new: Sequence[Message]
) -> None:
    """Store by what filters find each message."""
    rows: list[dict[str, Any]] = []
    for n, message in zip(numbers, new, strict=True):
        known = message.model_dump(
            include={"agent_id", "author", "room"}, exclude_none=True
        )
        rows += where_conditions.value_rows(n, {**message.metadata, **known})
    if rows:
        connection.execute(insert(message_values), rows)


def _index_words(
    connection: Reading,
    numbers: Sequence[int],
    new: Sequence[Message],
    earlier: list[str],
) -> None:
    """Add each message's words and due work; others than `SPOKEN` are stored, but never
    found.
    """
    numbered = zip(numbers, new, strict=True)
    spoken = [
        (n, m) for n, m in numbered if m.role != "system" and m.origin != "plumbing"
    ]
    if not spoken:
        return
    words = words_of(
        [(n, message.name, message.text) for n, message in spoken], earlier
    )
    MESSAGE_WORDS.add(connection, words)
    due = [{"layer": MESSAGES, "item": n, "task": EMBED} for n, _ in spoken]
    connection.execute(insert(outbox), due)
    pending = [{"message": n} for n, message in spoken if message.role in READ_ROLES]
    if pending:
        connection.execute(insert(unread), pending)
