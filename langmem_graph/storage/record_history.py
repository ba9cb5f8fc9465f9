"""Search in records, ranked as messages are; each has its sources."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError, StorageError
from langmem_graph.schemas import HistoryEntry, Record, record_row
from langmem_graph.storage import record_queries, record_writes
from langmem_graph.storage.record_writes import BY_HAND, Change, naive
from langmem_graph.storage.services import Services


def get_records(services: Services, user_id: str, ids: Sequence[str]) -> list[Record]:
    """Whole records in the order asked; unknown ids are left out."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        numbers = record_queries.numbers_of(connection, ids)
        found = record_queries.records_by_number(connection, numbers.values())
    return [found[numbers[one]] for one in dict.fromkeys(ids) if one in numbers]


def export_records(
    services: Services, user_id: str, as_of: datetime | None, *, history: bool = False
) -> list[dict[str, Any]]:
    """Rows of the records that hold now, or at a time, or (with `history`) ever; oldest first."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        if as_of is not None:
            numbers = record_queries.numbers_true_at(connection, naive(as_of) or as_of)
        elif history:
            numbers = record_queries.all_numbers(connection, None)
        else:
            every = record_queries.all_numbers(connection, None)
            numbers = sorted(record_queries.current(connection, every))
        found = record_queries.records_by_number(connection, numbers)
    return [record_row(found[number]) for number in sorted(found)]


def history(services: Services, user_id: str, record_id: str) -> list[HistoryEntry]:
    """Every change of a record and of those it took the place of, oldest first."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        numbers = record_queries.numbers_of(connection, [record_id])
        line = {one for n in numbers.values() for one in record_queries.in_one_line(connection, n)}
        return record_queries.history_of(connection, line)


def undo(services: Services, user_id: str, record_id: str) -> list[Record]:
    """Take back the latest change that touched a record, and show the records as they are now."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room:
        with room.database.write_transaction() as connection:
            numbers = record_queries.numbers_of(connection, [record_id])
            if not numbers:
                raise InvalidInputError(f"There is no record {record_id!r}.")
            changed = _undone(connection, record_id, numbers[record_id])
        with room.database.read_transaction() as connection:
            found = record_queries.records_by_number(connection, changed)
    if len(found) != len(changed):
        raise StorageError("A record was forgotten while its change was taken back.")
    return [found[n] for n in changed]


def _undone(connection: Connection, record_id: str, n: int) -> list[int]:
    """Take the latest change back, unless others were made on top of it."""
    entries = record_writes.latest_change(connection, n)
    later = record_writes.changed_since(connection, entries)
    if later:
        newest = record_queries.records_by_number(connection, later[:1])[later[0]].record_id
        raise InvalidInputError(
            f"The latest change of {record_id!r} has others on top of it: undo {newest!r} first."
        )
    return record_writes.take_back(connection, entries, Change.new(BY_HAND))
