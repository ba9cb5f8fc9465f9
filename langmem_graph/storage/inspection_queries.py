"""What somebody who looks into a memory asks of a ledger: pages, and what came of what."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Table, func, select

from langmem_graph.ids_and_times import session_key
from langmem_graph.reports import Comparison, Edge, MessageUse, Neighbourhood
from langmem_graph.schemas import Message, Record
from langmem_graph.storage import record_changes, record_queries
from langmem_graph.storage.graph_neighbours import CAUSAL, SEMANTIC
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.storage.superseded_labels import labelled_messages, labelled_records
from langmem_graph.storage.tables_and_migrations import (
    MESSAGES,
    RECORDS,
    links,
    messages,
    record_sources,
    records,
    sessions,
    unread,
)
from langmem_graph.storage.where_conditions import passing, within

MOST_COMPARED = 500  # records of each kind that a comparison lists


def session_page(connection: Connection, session: str, start: int, limit: int) -> list[Message]:
    """Messages of a session with their labels, in the order they arrived."""
    own = select(messages.c.n).join(sessions, sessions.c.n == messages.c.session)
    own = own.where(*within(connection, MESSAGES, messages.c.n))
    own = own.where(sessions.c.session_id == session_key(session)).order_by(messages.c.n)
    numbers = list(connection.scalars(own.offset(start).limit(limit)))
    found = labelled_messages(connection, numbers)
    return [found[n] for n in numbers]


def record_page(connection: Connection, start: int, limit: int) -> list[Record]:
    """Records of any status with their labels, the newest first."""
    page = select(records.c.n).where(*within(connection, RECORDS, records.c.n))
    page = page.order_by(records.c.n.desc()).offset(start).limit(limit)
    numbers = list(connection.scalars(page))
    found = labelled_records(connection, numbers)
    return [found[n] for n in numbers]


def uses_of(connection: Connection, ids: Sequence[str]) -> list[MessageUse]:
    """What was made of each of these messages, in the order asked; unknown ids are left out."""
    numbers = {i: row[0] for i, row in record_queries.message_numbers(connection, ids).items()}
    s = record_sources.c
    cited: dict[int, list[int]] = defaultdict(list)
    for row in rows_where_in(connection, select(s.message, s.record), s.message, numbers.values()):
        cited[row.message].append(row.record)
    whole = labelled_records(connection, {n for made in cited.values() for n in made})
    changes = record_changes.changes_by(connection, numbers.values())
    pending = select(unread.c.message)
    waiting = {
        row.message
        for row in rows_where_in(connection, pending, unread.c.message, numbers.values())
    }
    return [
        MessageUse(
            message_id=name,
            records=[whole[n] for n in sorted(cited[numbers[name]]) if n in whole],
            changes=changes.get(numbers[name], []),
            pending=numbers[name] in waiting,
        )
        for name in dict.fromkeys(ids)
        if name in numbers
    ]


def neighbourhood(connection: Connection, record_id: str, most: int) -> Neighbourhood:
    """Up to `most` records around one, over the strongest semantic and causal edges."""
    inside = list(record_queries.numbers_of(connection, [record_id]).values())
    fresh = inside
    while fresh and len(inside) < most:
        rows = _edges(connection, fresh)
        ends = [end for row in rows for end in (row.source, row.target)]
        shown = passing(connection, RECORDS, ends)
        fresh = [n for n in dict.fromkeys(ends) if n in shown and n not in inside]
        fresh = fresh[: most - len(inside)]
        inside = inside + fresh
    found = labelled_records(connection, inside)
    names = {n: found[n].record_id for n in inside}
    between = [row for row in _edges(connection, inside) if row.source in names]
    edges = [
        Edge(source=names[r.source], target=names[r.target], kind=r.kind, weight=r.weight)
        for r in between
        if r.target in names
    ]
    return Neighbourhood(records=[found[n] for n in inside], edges=edges)


def _edges(connection: Connection, items: Sequence[int]) -> Sequence[Any]:
    """The rows of the edges that touch these records, the strongest first."""
    e = links.c
    touching = e.source.in_(items) | e.target.in_(items)
    query = select(e.source, e.target, e.kind, e.weight).where(touching)
    query = query.where(e.kind.in_((SEMANTIC, CAUSAL)))
    return connection.execute(query.order_by(e.weight.desc(), e.source, e.target)).all()


def compare(connection: Connection, first: datetime, second: datetime) -> Comparison:
    """What held at one of two times only, and how much of what came between was forgotten."""
    early, late = (naive(at) or at for at in (first, second))
    before = set(record_queries.numbers_true_at(connection, early))
    after = set(record_queries.numbers_true_at(connection, late))
    added, ended = sorted(after - before), sorted(before - after)
    whole = labelled_records(connection, [*added[:MOST_COMPARED], *ended[:MOST_COMPARED]])
    return Comparison(
        added=[whole[n] for n in added[:MOST_COMPARED]],
        ended=[whole[n] for n in ended[:MOST_COMPARED]],
        added_count=len(added),
        ended_count=len(ended),
        kept_count=len(before & after),
        forgotten_messages=_missing(connection, messages, messages.c.added_at, early, late),
        forgotten_records=_missing(connection, records, records.c.created_at, early, late),
    )


def _missing(
    connection: Connection, table: Table, stored: Column[datetime], early: datetime, late: datetime
) -> int:
    """How many rows that were stored between two times are gone: no number is given twice."""
    n = table.c.n
    before = connection.scalar(select(func.max(n)).where(stored <= early)) or 0
    until = connection.scalar(select(func.max(n)).where(stored <= late)) or 0
    left = connection.scalar(select(func.count()).where(n > before, n <= until)) or 0
    return max(0, until - before - left)
