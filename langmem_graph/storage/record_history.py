"""A user's messages and records as the public API returns them, and a record's history."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from langmem_graph.reports import HistoryEntry
from langmem_graph.schemas import ORIGIN_OF_ROLE, Message, Record, RecordChange
from langmem_graph.storage import message_queries, record_changes, record_queries, superseded_labels
from langmem_graph.storage.record_queries import aware
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.storage.tables_and_migrations import RECORDS, links, records
from langmem_graph.storage.tables_and_migrations import history as log
from langmem_graph.storage.where_conditions import filter_of, passing


def get_conversation(connection: Connection, ids: Sequence[str]) -> list[Message]:
    """The messages with these ids and their labels, in the order asked.

    Ids may also be as models were shown them.
    """
    ids = message_queries.whole_ids(connection, ids)
    rows = record_queries.message_numbers(connection, ids)
    found = superseded_labels.labelled_messages(connection, [n for n, _, _ in rows.values()])
    by_id = {message.id: message for message in found.values()}
    return [by_id[message_id] for message_id in dict.fromkeys(ids) if message_id in by_id]


def export_messages(connection: Connection) -> list[dict[str, Any]]:
    """All messages as JSON rows, in the form that an import reads."""
    return list(map(message_row, message_queries.all_messages(connection)))


def get_records(connection: Connection, ids: Sequence[str]) -> list[Record]:
    """Whole records with their labels in the order asked; unknown ids are left out."""
    numbers = record_queries.numbers_of(connection, ids)
    stored = superseded_labels.labelled_records(connection, numbers.values())
    return [stored[numbers[name]] for name in dict.fromkeys(ids) if name in numbers]


def export_records(
    connection: Connection, as_of: datetime | None, *, history: bool = False
) -> list[dict[str, Any]]:
    """Rows of the records that hold now, or at a time, or (with `history`) ever; oldest first.

    What does not hold has a row's `labels`; what held at a time is shown as it was then.
    """
    if as_of is not None:
        numbers = record_queries.numbers_true_at(connection, naive(as_of) or as_of)
    else:
        numbers = record_queries.all_numbers(connection, None)
    if as_of is None and not history:
        numbers = list(record_queries.current(connection, numbers))
    read = record_queries.records_by_number if as_of else superseded_labels.labelled_records
    stored = read(connection, numbers)
    told = record_changes.changes_of(connection, numbers) if history else {}
    return [record_row(stored[number], told.get(number, [])) for number in sorted(stored)]


def changes(connection: Connection, record_id: str) -> list[RecordChange]:
    """What messages did to a record and what still counts, oldest first."""
    numbers = record_queries.numbers_of(connection, [record_id]).values()
    made = record_changes.changes_of(connection, numbers).values()
    return [change for of_record in made for change in of_record]


def history(connection: Connection, record_id: str) -> list[HistoryEntry]:
    """Every change of a record, and of those that it superseded or refined, oldest first."""
    named = record_queries.numbers_of(connection, [record_id]).values()
    items = passing(connection, RECORDS, _in_one_line(connection, named))
    filtered = filter_of(connection) is not None
    query = select(log, records.c.record_id).join(records, records.c.n == log.c.record)
    rows = sorted(rows_where_in(connection, query, log.c.record, items), key=lambda row: row.n)
    words = record_changes.words_of(connection, items)
    entries = []
    for row in rows:
        told = words.get((row.change, row.record), {}) if row.before is not None else {}
        unsaid = {"reason": None} if filtered and not told else {}  # it quotes the message
        fields = {**row._mapping, "at": aware(row.at), **told, **unsaid}
        entries.append(HistoryEntry.model_validate(fields))
    return entries


def _in_one_line(connection: Connection, items: Iterable[int]) -> set[int]:
    """These records and all that `supersedes` or `refines` links connect with them."""
    line = fresh = set(items)
    kinds = links.c.kind.in_(record_changes.LINKS)
    while fresh:
        near = (links.c.source.in_(fresh) | links.c.target.in_(fresh)) & kinds
        rows = connection.execute(select(links.c.source, links.c.target).where(near))
        fresh = {end for row in rows for end in row} - line
        line = line | fresh
    return line


def message_row(message: Message) -> dict[str, Any]:
    """A message as the row that `add` and `langmem-graph import` take."""
    fields = message.model_dump(mode="json", exclude={"labels"}, exclude_defaults=True)
    if message.origin == ORIGIN_OF_ROLE[message.role]:
        fields.pop("origin", None)
    else:
        fields["origin"] = message.origin
    return {"id": fields.pop("id"), "content": fields.pop("text"), **fields}


def record_row(record: Record, changes: Sequence[RecordChange] = ()) -> dict[str, Any]:
    """A record, and what messages did to it, as the row that `add_records` takes."""
    derived = {"superseded_by", "created_at", "updated_at", "metadata", "origin", "room", "author"}
    fields = record.model_dump(mode="json", exclude=derived, exclude_defaults=True)
    row = {"text": fields.pop("text"), "source_message_ids": fields.pop("message_ids"), **fields}
    if changes:
        hidden = {"record_id", "by_text", "change"}
        dumped = [one.model_dump(mode="json", exclude=hidden, exclude_none=True) for one in changes]
        row["changes"] = dumped
    return row
