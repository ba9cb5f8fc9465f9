"""A user's messages and records as the public API returns them, and a record's history and undo."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError, StorageError
from langmem_graph.schemas import HistoryEntry, Message, Record, message_row, record_row
from langmem_graph.storage import message_queries, record_queries, record_writes
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import BY_HAND, Change, naive


def get_conversation(services: Services, user_id: str, ids: Sequence[str]) -> list[Message]:
    """A user's messages with these ids, in the order asked; unknown ids are left out."""

    def query(connection: Connection) -> list[Message]:
        by_id = message_queries.messages_by_id(connection, ids)
        return [by_id[message_id] for message_id in dict.fromkeys(ids) if message_id in by_id]

    return services.read(user_id, query, [])


def list_sessions(services: Services, user_id: str) -> list[message_queries.SessionSummary]:
    """Summaries of a user's sessions, in the order they began."""
    return services.read(user_id, message_queries.session_summaries, [])


def export_messages(services: Services, user_id: str) -> list[dict[str, Any]]:
    """A user's messages as JSON rows, in the form that an import reads."""

    def rows(connection: Connection) -> list[dict[str, Any]]:
        return [message_row(message) for message in message_queries.all_messages(connection)]

    return services.read(user_id, rows, [])


def get_records(services: Services, user_id: str, ids: Sequence[str]) -> list[Record]:
    """Whole records in the order asked; unknown ids are left out."""

    def query(connection: Connection) -> list[Record]:
        numbers = record_queries.numbers_of(connection, ids)
        stored = record_queries.records_by_number(connection, numbers.values())
        return [stored[numbers[name]] for name in dict.fromkeys(ids) if name in numbers]

    return services.read(user_id, query, [])


def export_records(
    services: Services, user_id: str, as_of: datetime | None, *, history: bool = False
) -> list[dict[str, Any]]:
    """Rows of the records that hold now, or at a time, or (with `history`) ever; oldest first."""

    def query(connection: Connection) -> list[dict[str, Any]]:
        if as_of is not None:
            numbers = record_queries.numbers_true_at(connection, naive(as_of) or as_of)
        else:
            numbers = record_queries.all_numbers(connection, None)
        if as_of is None and not history:
            numbers = list(record_queries.current(connection, numbers))
        stored = record_queries.records_by_number(connection, numbers)
        return [record_row(stored[number]) for number in sorted(stored)]

    return services.read(user_id, query, [])


def history(services: Services, user_id: str, record_id: str) -> list[HistoryEntry]:
    """Every change of a record, and of those that it superseded or refined, oldest first."""

    def query(connection: Connection) -> list[HistoryEntry]:
        line: set[int] = set()
        for n in record_queries.numbers_of(connection, [record_id]).values():
            line |= record_queries.in_one_line(connection, n)
        return record_queries.history_of(connection, line)

    return services.read(user_id, query, [])


def undo(services: Services, user_id: str, record_id: str) -> list[Record]:
    """Undo the latest change of a record; returns all records it had touched, as they are now.

    Raises:
        InvalidInputError: there is no such record, or later changes build on this one.
    """
    if not services.has(user_id):
        return []
    with services.room(user_id) as room:
        with room.database.write_transaction() as connection:
            numbers = record_queries.numbers_of(connection, [record_id])
            if not numbers:
                raise InvalidInputError(f"There is no record {record_id!r}.")
            changed = _take_back_latest(connection, record_id, numbers[record_id])
        with room.database.read_transaction() as connection:
            stored = record_queries.records_by_number(connection, changed)
    if len(stored) != len(changed):
        raise StorageError("A record was forgotten while its change was taken back.")
    return [stored[n] for n in changed]


def _take_back_latest(connection: Connection, record_id: str, n: int) -> list[int]:
    """Take the latest change back, unless others were made on top of it."""
    entries = record_writes.latest_change(connection, n)
    later = record_writes.changed_since(connection, entries)
    if later:
        newest = record_queries.records_by_number(connection, later[:1])[later[0]].record_id
        raise InvalidInputError(
            f"The latest change of {record_id!r} has others on top of it: undo {newest!r} first."
        )
    return record_writes.take_back(connection, entries, Change.new(BY_HAND))
