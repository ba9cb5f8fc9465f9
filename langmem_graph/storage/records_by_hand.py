"""What people do to memory by hand: sentences to remember, corrections, and hiding of
records.

What a model writes by a tool comes here, too: as the assistant's words, which end
nothing of the user's unless a message of the user's bears them out. A hidden record is
kept with its history, and nobody is shown what it states.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import func, select

from langmem_graph.errors import InvalidInputError
from langmem_graph.metadata import Value, checked_metadata
from langmem_graph.reading import redacted_text
from langmem_graph.reports import RecordsReport
from langmem_graph.schemas import Message, Record
from langmem_graph.storage import (
    add_messages,
    add_records,
    record_effects,
    record_queries,
    record_writes,
)
from langmem_graph.storage.add_records import UnusableRecordError
from langmem_graph.storage.deletion import drop_files
from langmem_graph.storage.effects import ACTIVE, DISCARDED, HIDDEN, HIDE, UNHIDE
from langmem_graph.storage.inspection_queries import get_records
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.pending_messages import BY_HAND as BY_HAND_SESSION
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import BY_HAND, Change, Words
from langmem_graph.storage.superseded_labels import labelled_records
from langmem_graph.storage.tables import messages, record_sources, records, sessions
from langmem_graph.view import own_view

_KEPT = (
    "kind",
    "facet",
    "project",
    "subject",
    "attribute",
    "priority",
    "event_time",
    "valid_from",
)
"""What a corrected record takes over from the one that it corrects."""


WrittenBy = Literal["user", "assistant"]
"""Whose words are written by hand: the user's own, or those of a model that called a
tool.
"""
BearingOut = Callable[[str, Mapping[str, Value], str, datetime | None], str | None]
"""The id of the user's message that bears a sentence out, by the sentence, its
metadata, and the text and the time of what it corrects.
"""

SaidBefore = Callable[[Reading, Message], str | None]
Made = tuple[list[int], Record]
"""The numbers of what was stored newly, and the record that the words stand for."""


@dataclass(frozen=True)
class Writer:
    """Whose words are written: the user's own, or what a model wrote by a tool."""

    origin: WrittenBy = "user"
    quote: str = ""
    """Words of the user's that a model says it rests on."""
    bearing_out: BearingOut = lambda *_: None
    author: str | None = None
    """In whose name it is written, in a shared room."""

    def said_by_user(
        self, words: str, about: Mapping[str, Value], old: Record | None = None
    ) -> list[str]:
        """The message of the user's that bears out what a model wrote, if any."""
        instead = (old.text, old.said_at) if old else ("", None)
        found = (
            None if self.origin == "user" else self.bearing_out(words, about, *instead)
        )
        return [found] if found else []

    def is_draft(self, said: list[str]) -> bool:
        """Whether the sentence is the model's alone."""
        return self.origin == "assistant" and not said


def remember(
    services: Services,
    user_id: str,
    text: str,
    kind: str,
    metadata: Mapping[str, Value] | None = None,
    writer: Writer = Writer(),  # it is frozen
) -> Record:
    """Store a sentence as a message of its own and as a record that cites it."""
    words = _words(services, text, "remember")
    about = checked_metadata(metadata)
    said = writer.said_by_user(words, about)
    if kind == "instruction" and writer.is_draft(said):
        raise InvalidInputError(
            "An instruction needs words of the user's own: quote the message in "
            "which "
            "they give it."
        )
    row: dict[str, Any] = {"text": words, "kind": kind}
    row["subject"] = redacted_text(writer.author or "user", services.redact)
    row["confirmation"] = "draft" if writer.is_draft(said) else "confirmed"

    def make(connection: Reading, message_id: str) -> Made:
        complete = {**row, "source_message_ids": [message_id, *said]}
        longest = services.settings.storage.max_record_chars
        other = _of_another_kind(connection, row)
        if other is not None:
            n = _store_correction(connection, other, complete, longest, writer)
            return [n], record_queries.records_by_number(connection, [n])[n]
        report = RecordsReport()
        change = Change.new(writer.origin)
        numbers = add_records.store_all(connection, [complete], longest, change, report)
        if report.rejected:
            raise InvalidInputError(report.rejected[0].reason)
        return numbers, _made_of(connection, message_id)

    def said_before(connection: Reading, message: Message) -> str | None:
        is_of_another = _of_another_kind(connection, row) is not None
        return None if is_of_another else _said_before(connection, message)

    message = _message(words, "remembered", about, writer)
    return _stored(services, user_id, message, writer, make, said_before)


def _of_another_kind(connection: Reading, row: Mapping[str, Any]) -> str | None:
    """The id of the record that says the same and holds, if this kind is named for it
    now.

    `fact` is no other kind, as it is the default, and a draft changes no kind.
    """
    if row["kind"] == "fact" or row["confirmation"] == "draft":
        return None
    content = add_records.hash_of(row["text"], row["subject"])
    n = record_writes.active_with_hash(connection, content)
    if n is None:
        return None
    same = record_queries.records_by_number(connection, [n])[n]
    is_other = same.kind != row["kind"] and same.status == ACTIVE
    return same.record_id if is_other else None


def correct(
    services: Services,
    user_id: str,
    record_id: str,
    text: str,
    event_time: Mapping[str, Any] | None,
    writer: Writer = Writer(),  # it is frozen
) -> Record:
    """Store what should have been recorded instead of a record; see
    `UserMemory.correct`.
    """
    words = _words(services, text, "correct")
    found = services.read(
        own_view(user_id), lambda c: get_records(c, [record_id]), list[Record]()
    )
    if not found:
        raise InvalidInputError(f"There is no record {record_id!r}.")
    old = found[0]
    _check_correctable(old, words, event_time)
    said = writer.said_by_user(words, old.metadata, old)
    fields = old.model_dump(include=set(_KEPT), exclude_none=True)
    if old.valid_from <= old.said_at:
        # it held at once, also where the clock was set back since
        fields["valid_from"] = min(old.valid_from, datetime.now(UTC))
    fields |= {"event_time": dict(event_time)} if event_time is not None else {}
    if writer.is_draft(said):
        fields |= {"confirmation": "draft"}
        fields |= {"kind": "fact"} if old.kind == "instruction" else {}

    def make(connection: Reading, message_id: str) -> Made:
        row = {"text": words, "source_message_ids": [*said, message_id], **fields}
        longest = services.settings.storage.max_record_chars
        n = _store_correction(connection, record_id, row, longest, writer)
        return [n], record_queries.records_by_number(connection, [n])[n]

    message = _message(words, "corrected", old.metadata, writer)
    return _stored(services, user_id, message, writer, make)


def _message(
    words: str, by_hand: str, metadata: Mapping[str, Value], writer: Writer
) -> dict[str, Any]:
    """The message to store, with an id that tells nothing of its words."""
    kind = by_hand if writer.origin == "user" else "noted"
    message_id = f"{kind}-{secrets.token_hex(8)}"
    message = {"role": writer.origin, "content": words, "id": message_id}
    return {**message, "metadata": metadata}


def _made_of(connection: Reading, message_id: str) -> Record:
    """The record that a message made, or that it only says again."""
    number = record_queries.message_numbers(connection, [message_id])[message_id][0]
    cited = select(func.max(record_sources.c.record)).where(
        record_sources.c.message == number
    )
    n = connection.execute(cited).scalar_one()
    return record_queries.records_by_number(connection, [n])[n]


def _words(services: Services, text: object, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(
            f"There is nothing to {what}: give a text with words in it."
        )
    longest = services.settings.storage.max_record_chars
    if len(text.strip()) > longest:
        raise InvalidInputError(
            f"{len(text):,} characters; at most {longest:,} "
            "(Settings.storage.max_record_chars)."
        )
    return redacted_text(text.strip(), services.redact)


def _stored(
    services: Services,
    user_id: str,
    message: Mapping[str, Any],
    writer: Writer,
    make: Callable[[Reading, str], Made],
    said_before: SaidBefore = lambda *_: None,
) -> Record:
    """Store a message that extraction does not read, and in the same transaction the
    record that is made of it.
    """
    stored = list[Record]()

    def make_records(connection: Reading, message_id: str) -> list[int]:
        numbers, record = make(connection, message_id)
        stored.append(record)
        return numbers

    report = add_messages.add_messages(
        services,
        user_id,
        message,
        BY_HAND_SESSION,
        None,
        whole_conversation=False,
        author=writer.author,
        by_hand=add_messages.ByHand(said_before, make_records),
    )
    if report.rejected:
        raise InvalidInputError(report.rejected[0].reason)
    return stored[0]


def _said_before(connection: Reading, message: Message) -> str | None:
    """The id of a message that says the same, unless all its records have ended: then
    the words are said at another time.
    """
    m = messages.c
    same = (
        select(m.n, m.message_id, m.extra)
        .join(sessions, sessions.c.n == m.session)
        .where(sessions.c.session_id == BY_HAND_SESSION)
        .where(m.text == message.text, m.role == message.role)
    )
    extra = add_messages.extra_of(message)
    for row in connection.execute(same.order_by(m.n.desc())).all():
        if row.extra == extra and _holds(connection, row.n):
            return str(row.message_id)
    return None


def _holds(connection: Reading, message: int) -> bool:
    """Whether a record of the message holds, or it has none."""
    s = record_sources.c
    made = select(records.c.status).join(record_sources, s.record == records.c.n)
    made = made.where(s.message == message, s.supporting.is_(False))
    statuses = set(connection.scalars(made))
    return not statuses or bool(statuses & {ACTIVE, HIDDEN})


def _check_correctable(
    record: Record, words: str, event_time: Mapping[str, Any] | None
) -> None:
    if record.status != "active":
        newer = ", ".join(map(repr, record.superseded_by))
        hint = f"correct {newer} instead" if newer else "undo what ended it first"
        hint = "unhide it first" if record.status == "hidden" else hint
        raise InvalidInputError(
            f"The record {record.record_id!r} is {record.status} and cannot be "
            f"corrected: {hint}."
        )
    if record.text == words and event_time in (None, record.event_time):
        raise InvalidInputError(
            f"The record {record.record_id!r} says exactly that already."
        )


def _store_correction(
    connection: Reading,
    record_id: str,
    row: Mapping[str, Any],
    longest: int,
    writer: Writer,
) -> int:
    """Store the right record and let the wrong one never have held; the right one's
    number.

    What a model alone wrote is stored beside a record that the user's words carry.
    """
    old = record_queries.numbers_of(connection, [record_id]).get(record_id)
    if old is None or old not in record_queries.active(connection, [old]):
        raise InvalidInputError(f"The record {record_id!r} was changed meanwhile.")
    cited = record_queries.message_numbers(connection, row["source_message_ids"])
    try:
        new = add_records.draft(row, cited, longest, writer.origin)
    except UnusableRecordError as problem:
        raise InvalidInputError(str(problem)) from problem
    change = Change.new(writer.origin)
    if row.get("confirmation") == "draft" and record_queries.of_the_user(
        connection, [old]
    ):
        return record_writes.store(connection, new, change)[0]
    n, _ = record_writes.store(connection, new, change, instead_of=old)
    begun = record_queries.aware(
        record_queries.facts_of(connection, [old])[old].valid_from
    )
    quote = writer.quote if len(new.sources) > 1 else ""
    words = Words("corrects", new.sources[0], quote)
    record_effects.supersede(connection, old, n, begun, change, words)
    return n


def hide(services: Services, user_id: str, record: str) -> Record:
    """Hide a record, and drop topic tracks and the profile, which may tell it."""
    return _switch(services, user_id, record, hidden=True)


def unhide(services: Services, user_id: str, record: str) -> Record:
    """Show a record again: as it was, or ended, where something has ended it
    meanwhile.
    """
    return _switch(services, user_id, record, hidden=False)


def _switch(services: Services, user_id: str, record: str, *, hidden: bool) -> Record:
    with services.known_room(user_id) as room:
        if room is None:
            raise InvalidInputError(f"There is no record {record!r}.")
        with room.database.write_transaction() as connection:
            n = record_queries.numbers_of(connection, [record]).get(record)
            if n is None:
                raise InvalidInputError(f"There is no record {record!r}.")
            status = connection.scalar(select(records.c.status).where(records.c.n == n))
            if status == DISCARDED:
                raise InvalidInputError(
                    f"The record {record!r} was taken back; nobody sees it."
                )
            if hidden:
                drop_files(connection)
            if hidden != (status == HIDDEN):
                op, now = (HIDE, HIDDEN) if hidden else (UNHIDE, ACTIVE)
                change = Change.new(BY_HAND)
                record_effects.change_record(connection, n, op, change, {"status": now})
            return labelled_records(connection, [n])[n]
