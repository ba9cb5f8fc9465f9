"""remember, history, undo: records by hand, what became of them, and back again."""

import hashlib

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError, StorageError
from langmem_graph.models import HistoryEntry, Record
from langmem_graph.recall.records import get_records
from langmem_graph.services import Services
from langmem_graph.store import record_lookups, records
from langmem_graph.store.reading import BY_HAND as BY_HAND_SESSION
from langmem_graph.store.records import Change
from langmem_graph.write import add_records, append

BY_HAND = "user"


def remember(services: Services, user_id: str, text: str) -> Record:
    """Store a sentence as a message of its own and as a record that cites it."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError("There is nothing to remember: give a text with words in it.")
    most = services.settings.max_record_chars
    if len(text.strip()) > most:
        raise InvalidInputError(
            f"{len(text):,} characters; at most {most:,} (Settings.max_record_chars)."
        )
    digest = hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:16]
    said = {"role": "user", "content": text.strip(), "id": f"remembered-{digest}"}
    append.append(
        services,
        user_id,
        [said],
        session_id=BY_HAND_SESSION,
        at=None,
        whole_conversation=False,
        read=False,
    )
    row = {"text": text.strip(), "source_message_ids": [said["id"]], "subject": "user"}
    report = add_records.add_records(services, user_id, [row], BY_HAND)
    if report.rejected:
        raise InvalidInputError(report.rejected[0].reason)
    return get_records(services, user_id, [*report.stored, *report.already_known])[0]


def history(services: Services, user_id: str, record_id: str) -> list[HistoryEntry]:
    """Every change of a record and of those it took the place of, oldest first."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.reading() as connection:
        numbers = record_lookups.numbers_of(connection, [record_id])
        line = {one for n in numbers.values() for one in record_lookups.in_one_line(connection, n)}
        return record_lookups.history_of(connection, line)


def undo(services: Services, user_id: str, record_id: str) -> list[Record]:
    """Take back the latest change that touched a record, and show the records as they are now."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room:
        with room.database.writing() as connection:
            numbers = record_lookups.numbers_of(connection, [record_id])
            if not numbers:
                raise InvalidInputError(f"There is no record {record_id!r}.")
            changed = _undone(connection, record_id, numbers[record_id])
        with room.database.reading() as connection:
            found = record_lookups.records_by_number(connection, changed)
    if len(found) != len(changed):
        raise StorageError("A record was forgotten while its change was taken back.")
    return [found[n] for n in changed]


def _undone(connection: Connection, record_id: str, n: int) -> list[int]:
    """Take the latest change back, unless others were made on top of it."""
    entries = records.latest_change(connection, n)
    later = records.changed_since(connection, entries)
    if later:
        newest = record_lookups.records_by_number(connection, later[:1])[later[0]].record_id
        raise InvalidInputError(
            f"The latest change of {record_id!r} has others on top of it: undo {newest!r} first."
        )
    return records.take_back(connection, entries, Change.new(BY_HAND))
