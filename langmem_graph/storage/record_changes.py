"""What messages did to records: each change with the words that made it.

A change is one row here and the entries of the same change in the records' history.
Undoing the history entries marks the row as undone. Changes are read back from the rows
of an export, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, Select, case, insert, select

from langmem_graph.errors import explain
from langmem_graph.schemas import ChangeRelation, RecordChange
from langmem_graph.storage import record_queries
from langmem_graph.storage.record_queries import aware
from langmem_graph.storage.record_writes import (
    HIDDEN,
    REFINES,
    SUPERSEDES,
    Change,
    naive,
    now,
)
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.storage.tables_and_migrations import (
    MESSAGES,
    RECORDS,
    messages,
    record_changes,
    records,
)
from langmem_graph.storage.where_conditions import passing, within

CHANGES = "changes"
"""The key of a record's row under which its changes stand."""
LINKS = (SUPERSEDES, REFINES)
"""The kinds of links that a change may make from the newer record to the older one."""


@dataclass(frozen=True)
class NewChange:
    """A change to be stored; records and messages are named by their numbers."""

    record: int
    relation: ChangeRelation
    message: int
    quote: str
    by_record: int | None = None
    since: datetime | None = None
    """In UTC without a zone, as the ledger stores times."""
    agreed_message: int | None = None
    agreed_quote: str | None = None


def write(
    connection: Connection, new: NewChange, change: Change, at: datetime | None = None
) -> None:
    """Store what a message did to a record; the caller changes the record itself.

    `change` is that of the same history entries; `at` is in UTC without a zone, None is
    now.
    """
    row = vars(new) | {"change": change.id, "made_by": change.by, "at": at or now()}
    connection.execute(insert(record_changes).values(**row))


def changes_of(
    connection: Connection, items: Iterable[int]
) -> dict[int, list[RecordChange]]:
    """The changes that messages made to these records and that still count, oldest
    first.

    Words that do not pass the connection's filter are left out of them.
    """
    c = record_changes.c
    found = rows_where_in(
        connection, _told().where(c.undone.is_(False)), c.record, items
    )
    rows = sorted(found, key=lambda row: row.n)
    made: dict[int, list[RecordChange]] = defaultdict(list)
    for row, told in zip(rows, _as_shown(connection, rows), strict=True):
        made[row.record].append(told)
    return dict(made)


def _as_shown(connection: Connection, rows: Sequence[Row[Any]]) -> list[RecordChange]:
    """Changes without the words and ids that do not pass the connection's filter."""
    said = passing(connection, MESSAGES, {row.message for row in rows})
    agreed = passing(connection, MESSAGES, {row.agreed_message for row in rows})
    by = passing(connection, RECORDS, {row.by_record for row in rows})
    shown = []
    for row in rows:
        hidden: dict[str, Any] = {}
        if row.message not in said:
            hidden |= {"quote": "", "message_id": ""}
        if row.agreed_message not in agreed:
            hidden |= {"agreed_quote": None, "agreed_message_id": None}
        if row.by_record not in by:
            hidden |= {"by_text": None, "by_record_id": None}
        shown.append(_as_told(row).model_copy(update=hidden))
    return shown


def changes_by(
    connection: Connection, items: Iterable[int]
) -> dict[int, list[RecordChange]]:
    """The changes that each of these messages made and that still count, oldest
    first.
    """
    c = record_changes.c
    told = _told().where(c.undone.is_(False), *within(connection, RECORDS, c.record))
    rows = sorted(
        rows_where_in(connection, told, c.message, items), key=lambda row: row.n
    )
    made: dict[int, list[RecordChange]] = defaultdict(list)
    for row, one in zip(rows, _as_shown(connection, rows), strict=True):
        made[row.message].append(one)
    return dict(made)


def _told() -> Select[Any]:
    c = record_changes.c
    older = records.alias("older")
    by = records.alias("by")
    said = messages.alias("said")
    agreed = messages.alias("agreed")
    return (
        select(
            record_changes,
            older.c.record_id.label("record_id"),
            by.c.record_id.label("by_record_id"),
            case((by.c.status != HIDDEN, by.c.text)).label("by_text"),
            said.c.message_id.label("message_id"),
            agreed.c.message_id.label("agreed_message_id"),
        )
        .join(older, older.c.n == c.record)
        .join(said, said.c.n == c.message)
        .outerjoin(by, by.c.n == c.by_record)
        .outerjoin(agreed, agreed.c.n == c.agreed_message)
    )


def _as_told(row: Row[Any]) -> RecordChange:
    times = {"since": aware(row.since), "at": aware(row.at)}
    return RecordChange.model_validate({**row._mapping, **times})


def words_of(
    connection: Connection, items: Iterable[int]
) -> dict[tuple[str, int], dict[str, str]]:
    """Relation, message and quote of the changes of these records, by change and
    record.

    Those that were undone are among them; of several of one change the first is taken.
    Words that do not pass the connection's filter are left out.
    """
    c = record_changes.c
    query = select(c.n, c.change, c.record, c.relation, messages.c.message_id, c.quote)
    joined = query.join(messages, messages.c.n == c.message)
    joined = joined.where(*within(connection, MESSAGES, messages.c.n))
    rows = rows_where_in(connection, joined, c.record, items)
    words: dict[tuple[str, int], dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: row.n):
        told = {
            "relation": row.relation,
            "message_id": row.message_id,
            "quote": row.quote,
        }
        words.setdefault((row.change, row.record), told)
    return words


def add_changes(connection: Connection, rows: Sequence[object]) -> list[str]:
    """Store the changes that rows of `add_records` name; the records are stored as they
    became.

    A warning is returned for each change that could not be stored.
    """
    problems = []
    for row in rows:
        several = row.get(CHANGES) if isinstance(row, Mapping) else None
        for given in several if isinstance(several, list | tuple) else ():
            try:
                _add_change(connection, row, given)
            except ValidationError as error:
                problems.append(explain(error))
            except ValueError as problem:
                problems.append(str(problem))
            except KeyError as missing:
                problems.append(f"unknown record or message {missing}")
    return [f"a change was left out: {problem}" for problem in problems]


def _add_change(connection: Connection, row: Any, given: object) -> None:
    """Store one change, unless it is stored already."""
    fields = dict(given) if isinstance(given, Mapping) else {}
    defaults = {"made_by": "import", "at": datetime.now(UTC), "quote": ""}
    own = {"record_id": row.get("record_id"), "change": ""}
    told = RecordChange.model_validate(defaults | fields | own)
    named = [told.record_id, told.by_record_id or told.record_id]
    said = [told.message_id, told.agreed_message_id or told.message_id]
    numbers = record_queries.numbers_of(connection, named)
    found = record_queries.message_numbers(connection, said)
    new = NewChange(
        record=numbers[told.record_id],
        relation=told.relation,
        message=found[told.message_id][0],
        quote=told.quote,
        by_record=numbers[told.by_record_id] if told.by_record_id else None,
        since=naive(told.since),
        agreed_message=found[told.agreed_message_id][0]
        if told.agreed_message_id
        else None,
        agreed_quote=told.agreed_quote,
    )
    said_by = {new.message} if new.agreed_message is None else {new.agreed_message}
    if record_queries.foreign(connection, said_by) and record_queries.of_the_user(
        connection, [new.record]
    ):
        raise ValueError("words of a tool or an import change nothing of the user's")
    c = record_changes.c
    names = ("record", "relation", "message", "quote", "by_record")
    same = [c[name].is_not_distinct_from(getattr(new, name)) for name in names]
    if (
        connection.scalar(select(c.n).where(*same, c.undone.is_(False)).limit(1))
        is None
    ):
        write(connection, new, Change.new(told.made_by), naive(told.at))
