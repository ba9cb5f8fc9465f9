"""Adding records that were made elsewhere, or by hand, without a model."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from pydantic import ValidationError

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.ids_and_times import MAX_ID_BYTES, as_id, is_unicode, to_utc
from langmem_graph.messages import as_list
from langmem_graph.reading import redacted_record
from langmem_graph.reports import RecordsReport, RejectedRecord
from langmem_graph.schedule.times import checked_event, time_key
from langmem_graph.schemas import Record
from langmem_graph.storage import (
    record_changes,
    record_effects,
    record_queries,
    record_writes,
)
from langmem_graph.storage.effects import ADOPT, EXPIRED
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_queries import NumberedMessages
from langmem_graph.storage.record_writes import Change, Draft
from langmem_graph.storage.tables import RECORDS
from langmem_graph.threads import refuse_abandoned

_RECORD_ID = re.compile("[!-~]{1,100}")
"""Ids of this form can be cited in topic tracks."""
FOREIGN_WORDS = "words of a tool or an import end nothing of the user's"
_WANTED = "records must be a list of dicts with 'text' and 'source_message_ids'"
_DERIVED = frozenset(
    "labels superseded_by created_at updated_at metadata origin room author".split()
)
_ALLOWED = frozenset(Record.model_fields) - _DERIVED


class UnusableRecordError(Exception):
    """A record cannot be stored; the message says why."""


def add_records(
    services: Services, user_id: str, given: object, made_by: str
) -> RecordsReport:
    """Store records in one transaction, then embed and index them; see
    `UserMemory.add_records`.

    `made_by` is kept in each record and in its history.
    """
    start = perf_counter()
    several = as_list(given, is_one=isinstance(given, Mapping | Record), wanted=_WANTED)
    rows = [redacted_record(row, services.redact) for row in several]
    report = RecordsReport()
    change = Change.new(made_by)
    max_chars = services.settings.storage.max_record_chars
    with services.room(user_id) as room:
        room.check_embedder(services.embedder.name)
        with room.database.write_transaction() as connection:
            refuse_abandoned()
            made = store_all(connection, rows, max_chars, change, report)
        report.warnings.extend(services.embed_new(room, RECORDS, made).warnings)
    return report.model_copy(update={"milliseconds": (perf_counter() - start) * 1_000})


def store_all(
    connection: Reading,
    rows: Sequence[object],
    max_chars: int,
    change: Change,
    report: RecordsReport,
) -> list[int]:
    """Store all records that can be stored, complete the report, and return the new
    numbers.
    """
    cited = {source for row in rows for source in _source_ids(row)}
    messages = record_queries.message_numbers(connection, cited)
    made = []
    for position, row in enumerate(rows):
        try:
            new = draft(row, messages, max_chars, change.by)
            n = _store(connection, new, change, report)
        except UnusableRecordError as problem:
            named = row.get("record_id") if isinstance(row, Mapping) else None
            is_text = named is None or isinstance(named, str)
            shown_id = named if is_text else quoted(named)
            reason = str(problem)
            report.rejected.append(
                RejectedRecord(position=position, reason=reason, record_id=shown_id)
            )
            continue
        if n is not None:
            made.append(n)
            report.warnings.extend(_unusable_time(new.record))
    report.warnings.extend(record_changes.add_changes(connection, rows))
    return made


def _unusable_time(record: Record) -> list[str]:
    """A warning for a schedule record without a usable time: it cannot conflict with
    anything.
    """
    try:
        if record.facet == "schedule":
            checked_event(record.event_time)
    except InvalidInputError as problem:
        return [f"{record.record_id} collides with nothing: {problem}"]
    return []


def _source_ids(row: object) -> list[str]:
    if isinstance(row, Record):
        return row.message_ids
    if not isinstance(row, Mapping):
        return []
    ids = row.get("source_message_ids", row.get("message_ids")) or []
    several = (
        ids if isinstance(ids, Iterable) and not isinstance(ids, str | bytes) else [ids]
    )
    return [as_id(message_id) for message_id in several]


def draft(
    row: object, messages: NumberedMessages, max_chars: int, made_by: str
) -> Draft:
    """A record from a dict of its fields, or from a `Record`, checked and completed.

    It may cite these messages.

    Raises:
        UnusableRecordError: a field is missing, unknown or unusable.
    """
    if isinstance(row, Record):
        row = row.model_dump(exclude=set(_DERIVED))
    if not isinstance(row, Mapping):
        raise UnusableRecordError(f"not a record: {type(row).__name__}; give a dict")
    unknown = (
        set(row) - _ALLOWED - {"source_message_ids", "labels", record_changes.CHANGES}
    )
    if unknown:
        raise UnusableRecordError(
            f"unknown fields: {', '.join(sorted(map(str, unknown)))}"
        )
    words = _words(row.get("text"), max_chars)
    sources = _sources(row, messages)
    given_id = row.get("record_id")
    if given_id is not None and not (
        isinstance(given_id, str) and _RECORD_ID.fullmatch(given_id)
    ):
        raise UnusableRecordError(
            "record_id: 1 to 100 ASCII letters, digits and signs, without spaces; "
            "or "
            "leave it out"
        )
    carrying = _carrying(row, sources)
    said_at = max(messages[source][1] for source in carrying).replace(tzinfo=UTC)
    fields = {
        name: value
        for name, value in row.items()
        if name in _ALLOWED and value is not None
    }
    stamp = datetime.now(UTC)
    fields |= {"text": words, "message_ids": sources, "made_by": made_by}
    fields.setdefault("record_id", "")
    fields.setdefault("said_at", said_at)
    fields.setdefault("valid_from", fields["said_at"])
    record = _validated(fields | {"created_at": stamp, "updated_at": stamp})
    when = time_key(record.facet, record.event_time)
    if given_id is None:
        record = record.model_copy(
            update={"record_id": record_id(words, sources, when)}
        )
    numbers = [messages[source][0] for source in carrying]
    supporting = [messages[source][0] for source in sources if source not in carrying]
    return Draft(record, hash_of(words, record.subject, when), numbers, supporting)


def _words(text: object, max_chars: int) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UnusableRecordError("no text in the record")
    if not is_unicode(text):
        raise UnusableRecordError(
            "the text holds half of a character (a lone surrogate)"
        )
    if len(text) > max_chars:
        raise UnusableRecordError(
            f"{len(text):,} characters; at most {max_chars:,} "
            "(Settings.storage.max_record_chars)"
        )
    return text.strip()


def _sources(row: Mapping[str, Any], messages: NumberedMessages) -> list[str]:
    ids = list(dict.fromkeys(_source_ids(row)))
    if not ids:
        raise UnusableRecordError(
            "no source_message_ids: a record needs the messages it comes from"
        )
    missing = [message_id for message_id in ids if message_id not in messages]
    if missing:
        raise UnusableRecordError(
            f"unknown source_message_ids: {', '.join(missing[:5])}; add those "
            "messages first"
        )
    return ids


def _carrying(row: Mapping[str, Any], sources: list[str]) -> list[str]:
    """The sources that are not said to be only supporting; at least one must not be."""
    given = row.get("supporting_ids") or []
    supporting = set(map(as_id, given)) if isinstance(given, list | tuple) else None
    if supporting is None or not supporting <= set(sources):
        raise UnusableRecordError(
            "supporting_ids: a list of ids that source_message_ids has, too"
        )
    carrying = [source for source in sources if source not in supporting]
    if not carrying:
        raise UnusableRecordError(
            "supporting_ids: one source at least must not be in this list"
        )
    return carrying


def _validated(fields: dict[str, Any]) -> Record:
    try:
        for name in ("said_at", "valid_from", "valid_to"):
            if fields.get(name) is not None:
                fields[name] = to_utc(fields[name])
        if fields.get("valid_to") and fields["valid_to"] <= fields["created_at"]:
            fields.setdefault("status", EXPIRED)
        record = Record(**fields)
        written = json.dumps(
            record.model_dump(), default=str, allow_nan=False, ensure_ascii=False
        )
        written.encode()  # lone surrogates are refused
    except InvalidInputError as error:
        raise UnusableRecordError(str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UnusableRecordError(f"{place}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise UnusableRecordError(
            f"the record cannot be written as JSON: {error}"
        ) from error
    if len(f"{record.subject}{record.attribute}".encode()) > MAX_ID_BYTES:
        raise UnusableRecordError(
            f"subject and attribute are longer than {MAX_ID_BYTES:,} bytes"
        )
    return record


def hash_of(words: str, subject: object, when: str = "") -> str:
    """A hash that is equal for records of the same content, with the time of an
    appointment.

    Case, spaces and final punctuation of the text do not count.
    """
    text = " ".join(words.casefold().split()).rstrip(".!")
    key = "\n".join(
        [record_writes.plain(str(subject or "")), text, *([when] if when else [])]
    )
    return hashlib.sha256(key.encode()).hexdigest()


def record_id(words: str, sources: Sequence[str], when: str = "") -> str:
    """An id that is the same whenever the same record is made from the same
    messages.
    """
    key = "\n".join([words, *sorted(sources), *([when] if when else [])])
    return f"r-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _store(
    connection: Reading, new: Draft, change: Change, report: RecordsReport
) -> int | None:
    """Store a record with its links; returns its number, or None if it was stored
    before.
    """
    name = new.record.record_id
    known = _known(connection, new)
    if known is not None:
        again = [*new.sources, *new.supporting]
        settles = _settles(connection, new, known, change)
        if settles:
            # it rests on the user's words from now on
            record_writes.let_all_support(connection, known)
        record_writes.add_sources(connection, known, again, supporting=not settles)
        if settles:
            settled = {"confirmation": "confirmed"}
            record_effects.change_record(connection, known, ADOPT, change, settled)
        report.already_known.append(name)
        return None
    old = _related(connection, new.record)
    report.stored.append(record_writes.free_id(connection, name))
    n = record_writes.insert_record(connection, new, change)
    ended = old["supersedes"] if new.record.status != "discarded" else []
    if record_queries.foreign(connection, new.sources) >= set(new.sources):
        own = record_queries.of_the_user(connection, ended)
        ended = [n for n in ended if n not in own]
        if own:
            report.warnings.append(
                f"{name} is kept beside what the user said: {FOREIGN_WORDS}"
            )
    for target in ended:
        record_effects.supersede(connection, target, n, new.record.valid_from, change)
    for target in old["refines"]:
        record_effects.refine(connection, target, n, change)
    return n


def _settles(connection: Reading, new: Draft, known: int, change: Change) -> bool:
    """Whether what is known as a draft of others is now written by hand as the user's,
    or with a message of the user's that bears it out.
    """
    is_by_hand = change.by in record_writes.WRITERS
    if not is_by_hand or new.record.confirmation != "confirmed":
        return False
    stored = record_queries.records_by_number(connection, [known])[known]
    return stored.confirmation == "draft" and not record_queries.of_the_user(
        connection, [known]
    )


def _known(connection: Reading, new: Draft) -> int | None:
    """The stored record that equals this one: of the same content, or of the same id
    and status.
    """
    same = record_writes.active_with_hash(connection, new.content_hash)
    if same is not None and new.record.status == "active":
        return same
    named = record_queries.numbers_of(connection, [new.record.record_id]).values()
    facts = record_queries.facts_of(connection, named)
    return next(
        (n for n, one in facts.items() if one.status == new.record.status), None
    )


def _related(connection: Reading, record: Record) -> dict[str, list[int]]:
    """The numbers of the records that it supersedes or refines."""
    related = {}
    for name in ("supersedes", "refines"):
        ids = getattr(record, name)
        numbers = record_queries.numbers_of(connection, ids)
        if missing := [named for named in ids if named not in numbers]:
            raise UnusableRecordError(
                f"{name}: unknown records {', '.join(missing[:5])}"
            )
        related[name] = list(numbers.values())
    return related
