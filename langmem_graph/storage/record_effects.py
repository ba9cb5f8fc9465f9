"""Effects upon records: each is stored, and the record's state is computed anew.

Status, end, confirmation, facet, event and the links to what took a record's place are
caches of its effects (`effects.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, delete, select, update

from langmem_graph.storage import record_writes
from langmem_graph.storage.effects import (
    CREATE,
    DISCARDED,
    END,
    ENDING,
    REFINE,
    STATE,
    SUPERSEDE,
    SUPERSEDED,
    Effect,
    fold,
    text_of,
)
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import (
    REFINES,
    SUPERSEDES,
    Change,
    Columns,
    Words,
    naive,
)
from langmem_graph.storage.tables import effects, links, records

_KINDS = {SUPERSEDES: tuple(sorted(ENDING)), REFINES: (REFINE,)}
"""The links that are made of effects, and the effects of which each is made."""
LINKS = tuple(_KINDS)


def effects_of(connection: Reading, items: Iterable[int]) -> dict[int, list[Effect]]:
    """All effects upon each of these records, in the order in which they were
    stored.
    """
    found: dict[int, list[Effect]] = defaultdict(list)
    rows = rows_where_in(connection, select(effects), effects.c.record, items)
    for row in sorted(rows, key=lambda row: row.n):
        found[row.record].append(Effect(**row._mapping))
    return dict(found)


def effects_where(
    connection: Reading, *conditions: ColumnElement[bool]
) -> list[Effect]:
    """The effects that meet these conditions, in the order in which they were
    stored.
    """
    query = select(effects).where(*conditions).order_by(effects.c.n)
    return [Effect(**row._mapping) for row in connection.execute(query)]


def change_record(
    connection: Reading,
    n: int,
    op: str,
    change: Change,
    new_values: Columns,
    words: Words | None = None,
) -> None:
    """Change a record; without new values only its history gets an entry."""
    record_writes.add_effect(connection, n, op, change, new_values, words=words)
    refold(connection, [n], always=True)


def end_record(
    connection: Reading,
    n: int,
    until: datetime,
    change: Change,
    words: Words | None = None,
    *,
    by_record: int | None = None,
    at: datetime | None = None,
) -> None:
    """Let a record hold until a time (with a time zone); one that ends earlier stays as
    it is.

    A record that should end before it began never held.
    """
    begun = connection.scalars(
        select(records.c.valid_from).where(records.c.n == n)
    ).one()
    end = max(begun, naive(until) or begun)
    for stored in _ends_as_stored(connection, n):
        end = min(end, stored.valid_to or end)
        connection.execute(delete(effects).where(effects.c.n == stored.n))
    op = END if by_record is None else SUPERSEDE
    new_values = {"status": SUPERSEDED, "valid_to": text_of(end)}
    record_writes.add_effect(
        connection, n, op, change, new_values, by_record=by_record, words=words, at=at
    )
    refold(connection, [n], always=True)


def _ends_as_stored(connection: Reading, n: int) -> list[Effect]:
    """The end with which a record was stored; it counts until a cause is known."""
    e = effects.c
    made = select(e.change).where(e.record == n, e.op == CREATE)
    bare = (e.op == END) & e.by_record.is_(None) & e.message.is_(None)
    return effects_where(connection, e.record == n, bare, e.change.in_(made))


def supersede(
    connection: Reading,
    old: int,
    new: int,
    at: datetime,
    change: Change,
    words: Words | None = None,
) -> None:
    """Let the old record end at `at`, where the new one takes its place; the old one is
    kept.
    """
    record_writes.add_link(connection, new, old, SUPERSEDES)
    end_record(connection, old, at, change, words, by_record=new)


def refine(
    connection: Reading, old: int, new: int, change: Change, words: Words | None = None
) -> None:
    """Let the new record add a detail to the old one, which stays as it is."""
    record_writes.add_link(connection, new, old, REFINES)
    record_writes.add_effect(
        connection, old, REFINE, change, {}, by_record=new, words=words
    )


def refold(connection: Reading, items: Iterable[int], *, always: bool = False) -> None:
    """Compute the state of these records from their effects.

    With `always` the records count as updated also where nothing is another.
    """
    made = effects_of(connection, items)
    columns = select(records.c.n, *(records.c[name] for name in STATE))
    for row in list(rows_where_in(connection, columns, records.c.n, made)):
        state = vars(fold(made[row.n]))
        changed = {
            name: value for name, value in state.items() if value != row._mapping[name]
        }
        if changed or always:
            record_writes.set_columns(connection, row.n, changed)


def relink(connection: Reading, pairs: Iterable[tuple[int, int]]) -> None:
    """Delete the links from newer to older records that no effect makes any more.

    The link of a record that was discarded stays: it tells history.
    """
    for newer, older in set(pairs):
        for kind, ops in _KINDS.items():
            if not _is_linked(connection, newer, older, ops):
                link = links.c
                made = (link.source == newer) & (link.target == older)
                connection.execute(delete(links).where(made, link.kind == kind))


def _is_linked(
    connection: Reading, newer: int, older: int, ops: Collection[str]
) -> bool:
    e = effects.c
    status = records.c.status
    counts = e.undone.is_(False) | (status == DISCARDED)
    made = (
        select(e.n)
        .join(records, records.c.n == e.by_record)
        .where(e.record == older, e.by_record == newer, e.op.in_(ops), counts)
    )
    return connection.scalar(made.limit(1)) is not None


def mark_undone(connection: Reading, numbers: Collection[int]) -> None:
    """Let these effects not count any more; the caller computes the states anew."""
    query = update(effects).where(effects.c.n.in_(numbers))
    connection.execute(query.values(undone=True))
