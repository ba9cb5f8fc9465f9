"""Undo: takes back the latest change of a record, or all that one message caused.

A record that a change had made becomes `discarded`; the history gets an `undo` for each
entry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, delete, func, or_, select, update

from langmem_graph.errors import InvalidInputError
from langmem_graph.schemas import Record
from langmem_graph.storage import record_queries, record_writes, removed_words
from langmem_graph.storage.change_log import (
    HIDE,
    UNDO,
    Entry,
    Numbers,
    column_values,
    effective_entries,
    ended_by,
    entries_of_change,
    settle,
    unlink,
)
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import BY_HAND, DISCARDED, SUPERSEDES, Change
from langmem_graph.storage.tables_and_migrations import (
    ACTIVE,
    links,
    record_changes,
    record_sources,
    records,
)
from langmem_graph.storage.user_room import note_deletion


@dataclass
class ToUndo:
    """What is taken back together."""

    entries: dict[int, Entry]
    """History entries by number."""
    rows: Sequence[Entry]
    """What messages did to records."""
    message: int | None = None
    """The message that supports no record any more."""
    supported: set[int] = field(default_factory=set)
    """The records that it supports."""

    def made(self) -> set[int]:
        """The records that will be discarded."""
        return {entry.record for entry in self.entries.values() if entry.before is None}

    def touched(self) -> list[int]:
        """The records that will change."""
        changed = {entry.record for entry in self.entries.values()}
        return sorted(changed | {row.record for row in self.rows} | self.supported)


def undo(
    services: Services, user_id: str, *, record: str | None, message: str | None
) -> list[Record]:
    """Take back a record's latest change, or what a message caused; see
    `UserMemory.undo`.
    """
    if (record is None) == (message is None):
        raise InvalidInputError("Name one thing to undo: a record or a message.")
    with services.known_room(user_id) as room:
        if room is None:
            return []
        with room.database.write_transaction() as connection:
            if record is not None:
                undone = latest_change(connection, record)
            else:
                undone = caused_by(connection, str(message))
            restored = take_back(connection, undone)
            if restored:
                note_deletion(connection)
            stored = record_queries.records_by_number(connection, undone.touched())
        if restored:
            room.finish_deletion()
            services.drain(room, at_least=services.settings.storage.index_batch)
    return [stored[n] for n in sorted(stored)]


def latest_change(connection: Connection, record_id: str) -> ToUndo:
    """The latest change of a record, in all records that it touched."""
    numbers = record_queries.numbers_of(connection, [record_id])
    if not numbers:
        raise InvalidInputError(f"There is no record {record_id!r}.")
    entries = effective_entries(connection, numbers[record_id])
    if not entries:
        return ToUndo({}, [])
    change = entries[-1].change
    told = record_changes.c.change == change
    undone = _together(connection, entries_of_change(connection, change), told)
    if newest := _first_to_undo(connection, undone):
        raise InvalidInputError(
            f"The latest change of {record_id!r} has others on top of it: undo "
            f"{newest!r} first."
        )
    return undone


def caused_by(connection: Connection, message_id: str) -> ToUndo:
    """The records made from a message alone, the changes that it made, the records it
    supports.
    """
    known = record_queries.message_numbers(connection, [message_id])
    if message_id not in known:
        raise InvalidInputError(f"There is no message {message_id!r}.")
    n = known[message_id][0]
    c = record_changes.c
    s = record_sources.c
    made = [
        entry
        for record in _made_alone(connection, n)
        for entry in effective_entries(connection, record)
        if entry.before is None
    ]
    undone = _together(connection, made, or_(c.message == n, c.agreed_message == n))
    undone.message = n
    supported = select(s.record).where(s.message == n, s.supporting.is_(True))
    undone.supported = set(connection.scalars(supported)) - undone.made()
    if newest := _first_to_undo(connection, undone):
        raise InvalidInputError(
            f"Later changes build on what {message_id!r} caused: undo the record "
            f"{newest!r} first."
        )
    return undone


def _made_alone(connection: Connection, message: int) -> list[int]:
    """The records that this message alone carries and that are not discarded."""
    s = record_sources.c
    cited = select(s.record).where(s.message == message, s.supporting.is_(False))
    alone = (
        select(s.record)
        .join(records, records.c.n == s.record)
        .where(
            s.record.in_(cited), s.supporting.is_(False), records.c.status != DISCARDED
        )
        .group_by(s.record)
        .having(func.count() == 1)
    )
    return list(connection.scalars(alone))


def _together(
    connection: Connection, given: Iterable[Entry], meant: ColumnElement[bool]
) -> ToUndo:
    """These entries with the changes that are meant, and all that what they made has
    replaced.
    """
    entries = {entry.n: entry for entry in given}
    created = {
        entry.record: entry.change for entry in entries.values() if entry.before is None
    }
    c = record_changes.c
    link = links.c
    told = (meant | c.by_record.in_(created)) & c.undone.is_(False)
    rows = connection.execute(select(record_changes).where(told)).all()
    replaced = select(link.source, link.target).where(link.kind == SUPERSEDES)
    replaced = replaced.where(link.source.in_(created))
    done = {(row.record, row.change) for row in rows}
    done |= {(older, created[newer]) for newer, older in connection.execute(replaced)}
    for n, change in done:
        found = [
            entry
            for entry in effective_entries(connection, n)
            if entry.change == change
        ]
        entries |= {entry.n: entry for entry in found if entry.before is not None}
    return ToUndo(entries, rows)


def _first_to_undo(connection: Connection, undone: ToUndo) -> str | None:
    """The id of the newest record that a later change, which builds on these,
    touched.
    """
    found: set[int] = set()
    for entry in undone.entries.values():
        for later in effective_entries(connection, entry.record):
            if (
                later.n > entry.n
                and later.n not in undone.entries
                and later.change != entry.change
            ):
                touched = {
                    one.record for one in entries_of_change(connection, later.change)
                }
                if _builds_on(connection, entry, later, touched):
                    found |= touched
    if not found:
        return None
    newest = max(found)
    return record_queries.records_by_number(connection, [newest])[newest].record_id


def _builds_on(
    connection: Connection, entry: Entry, later: Entry, touched: Numbers
) -> bool:
    """Whether the later change builds on the earlier one of the same record.

    On the creation of a record builds what a message made of it, or what concerns other
    records, too; not what the rules of the schedule did to it alone.
    """
    if entry.before is not None:
        return bool(set(entry.before) & set(later.before or {}))
    told = select(record_changes.c.n).where(record_changes.c.change == later.change)
    return len(touched) > 1 or connection.scalar(told.limit(1)) is not None


def take_back(connection: Connection, undone: ToUndo) -> bool:
    """Restore what was before, mark the changes as undone, and drop the support of the
    message.

    Returns whether words were put back that it had asked to forget.
    """
    change = Change.new(BY_HAND)
    made = undone.made()
    c = record_changes.c
    for n in sorted(undone.entries, reverse=True):
        entry = undone.entries[n]
        undoing = Change(change.by, entry.change, change.id)
        values = (
            {"status": DISCARDED}
            if entry.before is None
            else column_values(entry.before)
        )
        record_writes.change_record(connection, entry.record, UNDO, undoing, values)
    these = c.n.in_([row.n for row in undone.rows])
    connection.execute(update(record_changes).where(these).values(undone=True))
    # the link to a record that is discarded stays: it tells history
    unlink(connection, [row for row in undone.rows if row.by_record not in made])
    for row in undone.rows:
        _drop_support(connection, [row.record], [row.message, row.agreed_message])
    _drop_support(connection, undone.supported, [undone.message])
    freed = ended_by(connection, undone.rows, made)
    freed |= {e.record for e in undone.entries.values() if _may_be_freed(e)}
    settle(connection, freed - made, change, by_links=False)
    if undone.message is None:
        return False
    restored = removed_words.restore(connection, undone.message)
    return bool(restored.messages or restored.records)


def _may_be_freed(entry: Entry) -> bool:
    """Whether taking the entry back may let its record hold; not that it was hidden as
    ended.
    """
    status = (entry.before or {}).get("status")
    return status is not None and not (entry.op == HIDE and status != ACTIVE)


def _drop_support(
    connection: Connection, items: Iterable[int], messages: Sequence[int | None]
) -> None:
    s = record_sources.c
    rows = s.record.in_(list(items)) & s.message.in_(messages) & s.supporting.is_(True)
    connection.execute(delete(record_sources).where(rows))
