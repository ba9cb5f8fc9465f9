"""What people write into memory by hand: sentences to remember, and corrections of records."""

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError
from langmem_graph.metadata import Value, checked_metadata
from langmem_graph.redaction import redacted_text
from langmem_graph.schemas import Record
from langmem_graph.storage import add_messages, add_records, record_queries, record_writes
from langmem_graph.storage.add_records import UnusableRecordError
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.pending_messages import BY_HAND as BY_HAND_SESSION
from langmem_graph.storage.record_changes import NewChange
from langmem_graph.storage.record_changes import write as write_change
from langmem_graph.storage.record_history import get_records
from langmem_graph.storage.record_writes import BY_HAND, Change
from langmem_graph.storage.tables_and_migrations import RECORDS

_KEPT = ("kind", "facet", "project", "subject", "attribute", "priority", "event_time", "valid_from")
"""What a corrected record takes over from the one that it corrects."""


def remember(
    services: Services,
    user_id: str,
    text: str,
    kind: str,
    metadata: Mapping[str, Value] | None = None,
) -> Record:
    """Store a sentence as a message of its own and as a record that cites it."""
    words, about = _words(services, text, "remember"), checked_metadata(metadata)
    told, author = f"{words} {sorted(about.items())}" if about else words, services.author
    own_id = f"remembered-{_digest(f'{author}: {told}' if author else told)}"
    message_id = _add_message(services, user_id, words, own_id, about)
    row = {"text": words, "source_message_ids": [message_id], "kind": kind}
    row["subject"] = author or "user"
    report = add_records.add_records(services, user_id, [row], BY_HAND)
    if report.rejected:
        raise InvalidInputError(report.rejected[0].reason)
    return _record(services, user_id, [*report.stored, *report.already_known])[0]


def correct(
    services: Services,
    user_id: str,
    record_id: str,
    text: str,
    event_time: Mapping[str, Any] | None,
) -> Record:
    """Store what should have been recorded instead of a record; see `UserMemory.correct`."""
    words = _words(services, text, "correct")
    found = _record(services, user_id, [record_id])
    if not found:
        raise InvalidInputError(f"There is no record {record_id!r}.")
    _check_correctable(found[0], words, event_time)
    own_id = f"corrected-{_digest(f'{record_id} {words}')}"
    message_id = _add_message(services, user_id, words, own_id, found[0].metadata)
    fields = found[0].model_dump(include=set(_KEPT), exclude_none=True)
    fields |= {"event_time": dict(event_time)} if event_time is not None else {}
    row = {"text": words, "source_message_ids": [message_id], **fields}
    with services.room(user_id) as room:
        room.check_embedder(services.embedder.name)
        with room.database.write_transaction() as connection:
            longest = services.settings.storage.max_record_chars
            n = _store_correction(connection, record_id, row, longest)
            stored = record_queries.records_by_number(connection, [n])[n]
        services.embed_new(room, RECORDS, [n])
    return stored


def _record(services: Services, user_id: str, ids: list[str]) -> list[Record]:
    return services.read(user_id, lambda connection: get_records(connection, ids), [])


def _words(services: Services, text: object, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"There is nothing to {what}: give a text with words in it.")
    longest = services.settings.storage.max_record_chars
    if len(text.strip()) > longest:
        raise InvalidInputError(
            f"{len(text):,} characters; at most {longest:,} (Settings.storage.max_record_chars)."
        )
    return redacted_text(text.strip(), services.redact)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _add_message(
    services: Services, user_id: str, words: str, message_id: str, metadata: Mapping[str, Value]
) -> str:
    """Store the words as a message that extraction does not read."""
    message = {"role": "user", "content": words, "id": message_id, "metadata": metadata}
    report = add_messages.add_messages(
        services, user_id, message, BY_HAND_SESSION, None, whole_conversation=False, read=False
    )
    if report.rejected:
        raise InvalidInputError(report.rejected[0].reason)
    return message_id


def _check_correctable(record: Record, words: str, event_time: Mapping[str, Any] | None) -> None:
    if record.status != "active":
        newer = ", ".join(map(repr, record.superseded_by))
        hint = f"correct {newer} instead" if newer else "undo what ended it first"
        hint = "unhide it first" if record.status == "hidden" else hint
        raise InvalidInputError(
            f"The record {record.record_id!r} is {record.status} and cannot be corrected: {hint}."
        )
    if record.text == words and event_time in (None, record.event_time):
        raise InvalidInputError(f"The record {record.record_id!r} says exactly that already.")


def _store_correction(
    connection: Connection, record_id: str, row: Mapping[str, Any], longest: int
) -> int:
    """Store the right record and let the wrong one never have held; the right one's number."""
    old = record_queries.numbers_of(connection, [record_id]).get(record_id)
    if old is None or old not in record_queries.active(connection, [old]):
        raise InvalidInputError(f"The record {record_id!r} was changed meanwhile.")
    messages = record_queries.message_numbers(connection, row["source_message_ids"])
    try:
        new = add_records.draft(row, messages, longest, BY_HAND)
    except UnusableRecordError as problem:
        raise InvalidInputError(str(problem)) from problem
    change = Change.new(BY_HAND)
    n, _ = record_writes.store(connection, new, change, instead_of=old)
    begun = record_queries.aware(record_queries.facts_of(connection, [old])[old].valid_from)
    record_writes.supersede(connection, old, n, begun, change)
    said = new.sources[0]
    write_change(connection, NewChange(old, "corrects", said, "", by_record=n), change)
    return n
