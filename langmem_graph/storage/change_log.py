"""The history of records as a log of changes: what counts in it, and how some are left
out.

An entry holds the former values of the columns that its change has set. A change is
left out, as if what is forgotten had never done it, by making the later ones again from
what was before it. When a record ends is not taken from the log: it is the first of the
ends that are told now.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from langmem_graph.schemas import NO_LONGER
from langmem_graph.storage import record_queries, record_writes
from langmem_graph.storage.record_changes import LINKS
from langmem_graph.storage.record_writes import (
    DISCARDED,
    SUPERSEDED,
    SUPERSEDES,
    Change,
)
from langmem_graph.storage.tables_and_migrations import (
    ACTIVE,
    history,
    links,
    messages,
    record_changes,
    records,
)

UNDO = "undo"
RESTORE = "restore"
HIDE = "hide"
EXPIRE = "expire"
"""What had ended a record has expired: the entry's reason is when the record ended, and
its change the one that ended it. So the record goes on being ended.
"""
_REASON = "what had changed it was forgotten"
Numbers = Collection[int]
Entry = Row[Any]
_DATES = ("valid_to", "valid_from", "said_at")


def effective_entries(connection: Connection, n: int) -> list[Entry]:
    """The entries of a record's changes that have not been taken back, oldest first."""
    query = select(history).where(history.c.record == n).order_by(history.c.n)
    entries = connection.execute(query).all()
    undone = {entry.reason for entry in entries if entry.op == UNDO}
    return [
        e for e in entries if e.op not in (UNDO, RESTORE) and e.change not in undone
    ]


def entries_of_change(connection: Connection, change: str) -> list[Entry]:
    """The entries of a change that have not been taken back, in all records, oldest
    first.
    """
    touched = select(history.c.record).where(history.c.change == change).distinct()
    found = [
        entry
        for n in connection.scalars(touched).all()
        for entry in effective_entries(connection, n)
        if entry.change == change
    ]
    return sorted(found, key=lambda entry: entry.n)


def column_values(before: dict[str, Any]) -> dict[str, Any]:
    """The values of columns, as the history keeps them, in the form that the ledger
    takes.
    """
    return {
        name: datetime.fromisoformat(value) if name in _DATES and value else value
        for name, value in before.items()
    }


def ended_by(connection: Connection, rows: Iterable[Entry], newer: Numbers) -> set[int]:
    """The records that these changes ended, or that these newer records superseded."""
    told = {row.record for row in rows if row.relation in NO_LONGER and not row.undone}
    link = links.c
    older = select(link.target).where(link.kind == SUPERSEDES, link.source.in_(newer))
    return told | set(connection.scalars(older))


def unlink(connection: Connection, rows: Iterable[Entry]) -> None:
    """Delete the links that these changes made, where no other that counts tells the
    same.
    """
    c = record_changes.c
    link = links.c
    for row in rows:
        same = (
            (c.record == row.record)
            & (c.by_record == row.by_record)
            & c.undone.is_(False)
        )
        if row.by_record is not None and not connection.scalar(
            select(c.n).where(same).limit(1)
        ):
            made = (link.source == row.by_record) & (link.target == row.record)
            connection.execute(delete(links).where(made, link.kind.in_(LINKS)))


def settle(
    connection: Connection, items: Iterable[int], change: Change, *, by_links: bool
) -> None:
    """Let records that nothing ends any more hold again; the others end at the first of
    the ends.

    Of the records, something that had ended them was taken back; the history tells
    under `change` that they hold again. With `by_links` one that supersedes another
    without a message's words ends it.
    """
    for n in sorted(items):
        status = connection.scalar(select(records.c.status).where(records.c.n == n))
        ends = _ends(connection, n, by_links=by_links)
        if ends and status in (ACTIVE, SUPERSEDED):
            end, cause = min(ends, key=lambda one: one[0])
            record_writes.end_record(
                connection, n, "supersede", end.replace(tzinfo=UTC), cause
            )
        elif status == SUPERSEDED and not ends:
            values = {"status": ACTIVE, "valid_to": None}
            record_writes.set_columns(connection, n, values)
            record_writes.log_entry(connection, n, RESTORE, change, {})


def _ends(
    connection: Connection, n: int, *, by_links: bool
) -> list[tuple[datetime, Change]]:
    """When something ends a record, and the change by which it does."""
    c = record_changes.c
    r = records.c
    h = history.c
    link = links.c
    told = (
        select(record_changes, messages.c.at.label("said"), r.valid_from)
        .join(messages, messages.c.n == c.message)
        .join(records, r.n == c.record)
        .where(c.record == n, c.undone.is_(False), c.relation.in_(NO_LONGER))
    )
    rows = connection.execute(told).all()
    ends = [
        (
            row.valid_from if row.relation == "corrects" else row.since or row.said,
            Change(row.made_by, None, row.change),
        )
        for row in rows
    ]
    ends += [
        (datetime.fromisoformat(entry.reason), Change(entry.by, None, entry.change))
        for entry in effective_entries(connection, n)
        if entry.op == EXPIRE
    ]
    if not by_links:
        return ends
    newer = (
        select(r.valid_from, h.by, h.change)
        .join(links, link.source == r.n)
        .join(history, (h.record == r.n) & (h.op == "create"))
        .where(link.target == n, link.kind == SUPERSEDES, r.status != DISCARDED)
        .where(r.n.not_in([row.by_record for row in rows if row.by_record is not None]))
    )
    created = connection.execute(newer).all()
    return ends + [
        (row.valid_from, Change(row.by, None, row.change)) for row in created
    ]


def forget_changes(connection: Connection, items: Numbers, gone: Numbers) -> list[int]:
    """Take back what `items` and `gone`, records and messages to be deleted next, did
    to others.

    The records that hold again are returned.
    """
    _bridge(connection, items)
    rows = _concerned(connection, items, gone)
    freed = ended_by(connection, rows, items) - set(items)
    held = record_queries.active(connection, freed)
    _leave_out_changes(connection, rows, items)
    _drop_changes(connection, rows, items)
    unlink(connection, rows)
    _drop_history(connection, items, {row.change for row in rows})
    change = Change.new("forget", _REASON)
    settle(connection, freed, change, by_links=True)
    restored = record_queries.active(connection, freed) - held
    logged = select(history.c.record).where(history.c.change == change.id)
    for n in sorted(restored - set(connection.scalars(logged))):
        record_writes.log_entry(connection, n, RESTORE, change, {})
    return sorted(restored)


def expire_changes(
    connection: Connection, items: Numbers, kept: Numbers, gone: Numbers
) -> None:
    """Delete what tells how `items` and `gone`, which expire next, have changed other
    records.

    What they did stays done, and so does what the records did that are `kept` without a
    message of `gone` that said them: a record that was ended so does not hold again,
    whatever is forgotten.
    """
    _bridge(connection, items)
    rows = _concerned(connection, items, gone)
    newer = [*items, *kept]
    made = select(history.c.change).where(
        history.c.record.in_(newer), history.c.op == "create"
    )
    lost = {*connection.scalars(made), *(row.change for row in rows)}
    ended = ended_by(connection, rows, newer) - set(items)
    for n in sorted(ended - record_queries.active(connection, ended)):
        marked = {
            one.change for one in effective_entries(connection, n) if one.op == EXPIRE
        }
        for end, cause in _ends(connection, n, by_links=True):
            if cause.id in lost - marked:
                told = Change(cause.by, end.isoformat(), cause.id)
                record_writes.log_entry(connection, n, EXPIRE, told, {})
    _drop_changes(connection, rows, items)
    _drop_history(connection, items, {row.change for row in rows})


def _concerned(
    connection: Connection, items: Numbers, gone: Numbers
) -> Sequence[Entry]:
    """What these messages did to records, and what was done to these records or by
    them.
    """
    c = record_changes.c
    concerned = or_(
        c.message.in_(gone),
        c.agreed_message.in_(gone),
        c.record.in_(items),
        c.by_record.in_(items),
    )
    return connection.execute(select(record_changes).where(concerned)).all()


def _drop_changes(
    connection: Connection, rows: Iterable[Entry], items: Numbers
) -> None:
    """Delete these changes, and all links of these records."""
    numbers = [row.n for row in rows]
    connection.execute(delete(record_changes).where(record_changes.c.n.in_(numbers)))
    connection.execute(
        delete(links).where(links.c.source.in_(items) | links.c.target.in_(items))
    )


def _leave_out_changes(
    connection: Connection, rows: Iterable[Entry], items: Numbers
) -> None:
    """Leave out what these changes, and these records by being made, did to other
    records.
    """
    h = history.c
    made = select(h.change).where(h.record.in_(items), h.op == "create")
    created = connection.scalars(made).all()
    left_out = defaultdict[int, set[tuple[str, bool]]](set)
    for row in rows:
        left_out[row.record].add((row.change, row.relation in NO_LONGER))
    for n in ended_by(connection, (), items):
        left_out[n] |= {(change, True) for change in created}
    for n in sorted(left_out.keys() - set(items)):
        _leave_out(connection, n, left_out[n])


def _leave_out(
    connection: Connection, n: int, done: Collection[tuple[str, bool]]
) -> None:
    """Let a record, and its history, be as if these changes of it had never been made.

    With each change, `done` tells whether what it did was to end the record.
    """
    h = history.c
    query = (
        select(history).where(h.record == n, h.op.not_in((UNDO, RESTORE))).order_by(h.n)
    )
    entries = [entry for entry in connection.execute(query) if entry.before is not None]
    gone = {
        entry.n for entry in entries if (entry.change, "status" in entry.before) in done
    }
    counting = {entry.n for entry in effective_entries(connection, n)} - gone
    former = {entry.n: dict(entry.before) for entry in entries}
    row = connection.execute(select(records).where(records.c.n == n)).one()._mapping
    present = {}
    for name in {name for one in gone for name in former[one]}:
        setting = [entry for entry in entries if name in entry.before]
        states = [entry.before[name] for entry in setting]
        value = states[0]
        for entry, (before, after) in zip(
            setting, pairwise([*states, record_writes.jsonable(row[name])]), strict=True
        ):
            former[entry.n][name] = value
            if entry.n in counting:
                value = _made_to(value, before, after)
        present[name] = value
    for one, values in former.items():
        connection.execute(update(history).where(h.n == one).values(before=values))
    if any(
        value != record_writes.jsonable(row[name]) for name, value in present.items()
    ):
        record_writes.set_columns(connection, n, column_values(present))
    changes = {entry.change for entry in entries if entry.n in gone}
    taken_back = (h.record == n) & (h.op == UNDO) & h.reason.in_(changes)
    connection.execute(delete(history).where(h.n.in_(gone) | taken_back))


def _made_to(value: Any, before: Any, after: Any) -> Any:
    """What the change from `before` to `after` makes of another value.

    Of a JSON object each key counts for itself, and of a list in it what was added and
    removed.
    """
    if not all(isinstance(one, dict) for one in (value, before, after)):
        return after
    made = {
        k: _part(value.get(k), before.get(k), after.get(k)) for k in {**value, **after}
    }
    return {key: part for key, part in made.items() if part is not None}


def _part(value: Any, before: Any, after: Any) -> Any:
    if after == before:
        return value
    if not isinstance(after, list) and not isinstance(before, list):
        return after
    removed = [one for one in before or [] if one not in (after or [])]
    kept = [one for one in value or [] if one not in removed]
    return [
        *kept,
        *(one for one in after or [] if one not in (before or []) + kept),
    ] or None


def _drop_history(connection: Connection, items: Numbers, changes: set[str]) -> None:
    """Delete the records' history, and the reasons of the changes that are
    forgotten.
    """
    h = history.c
    touched = select(h.change).where(h.record.in_(items))
    shared = or_(h.change.in_(touched), h.change.in_(changes)) & h.record.not_in(items)
    # their reason is an id and a time, and no words
    shared &= h.op.not_in((UNDO, EXPIRE))
    connection.execute(update(history).where(shared).values(reason=None))
    connection.execute(delete(history).where(h.record.in_(items)))


def _bridge(connection: Connection, items: Numbers) -> None:
    """Let what had superseded a record supersede what the record had superseded."""
    link = links.c
    for n in items:
        newer = select(link.source).where(link.kind == SUPERSEDES, link.target == n)
        older = select(link.target).where(link.kind == SUPERSEDES, link.source == n)
        pairs = product(
            connection.scalars(newer).all(), connection.scalars(older).all()
        )
        for source, target in pairs:
            record_writes.add_link(connection, source, target, SUPERSEDES)
            _copy_words(connection, n, source, target)


def _copy_words(connection: Connection, n: int, newer: int, older: int) -> None:
    """Let the words with which a record replaced `n` also tell that it replaces the
    older one.
    """
    c = record_changes.c
    told = (c.record == n) & (c.by_record == newer) & c.undone.is_(False)
    for row in connection.execute(select(record_changes).where(told)).all():
        if row.relation in NO_LONGER:
            copied = {
                name: value for name, value in row._mapping.items() if name != "n"
            }
            copied["record"] = older
            # `n` never held; the older one did, until then
            if row.relation == "corrects":
                begun = select(records.c.valid_from).where(records.c.n == newer)
                copied |= {"relation": "replaces", "since": connection.scalar(begun)}
            connection.execute(insert(record_changes).values(**copied))
