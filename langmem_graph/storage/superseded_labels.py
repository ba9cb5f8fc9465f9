"""Labels of what no longer holds: what `storage/record_changes.py` and links say of old
records.

A chain is a record with all that it superseded, directly or through others. Nothing is
looked up item by item: one query finds all chains.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Row, select

from langmem_graph.schemas import (
    NO_LONGER,
    ChangeRelation,
    Label,
    Message,
    Record,
    RecordChange,
)
from langmem_graph.storage import message_queries, record_queries, record_writes
from langmem_graph.storage.effects import ACTIVE, DISCARDED, EXPIRED, SUPERSEDED
from langmem_graph.storage.number_lists import one_of, rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_changes import changes_of
from langmem_graph.storage.record_queries import aware
from langmem_graph.storage.record_writes import SUPERSEDES
from langmem_graph.storage.tables import RECORDS, links, record_sources, records

T = TypeVar("T", Message, Record)
PAST = (SUPERSEDED, EXPIRED)
"""The status of records that held once; a discarded one was taken back, and is no
statement.
"""

MOST_BETWEEN = 30
"""Records between one that no longer holds and the newest, of which a label tells."""

_SOURCES = select(
    record_sources.c.message, record_sources.c.record, record_sources.c.supporting
)


@dataclass(frozen=True)
class Standing:
    """Which of some records hold now; what was taken back is in none of the three."""

    holding: set[int]
    past: set[int]
    """Those that no longer hold."""
    coming: set[int]
    """Those that do not hold yet."""


def standing(connection: Reading, items: Iterable[int]) -> Standing:
    """Which of these records hold now, held once, or will hold."""
    r = records.c
    query = select(r.n, r.status, r.valid_from).where(r.status.in_((*PAST, ACTIVE)))
    rows = {row.n: row for row in rows_where_in(connection, query, r.n, items)}
    holding = record_queries.current(connection, rows)
    now = record_writes.now()
    missing = rows.keys() - holding
    coming = {
        n for n in missing if rows[n].status == ACTIVE and rows[n].valid_from > now
    }
    return Standing(holding, missing - coming, coming)


def newest_past(connection: Reading, most: int) -> list[int]:
    """The numbers of the records that no longer hold; of more than `most`, the
    newest.
    """
    r = connection.records.c
    past = select(r.n).where(r.status.in_(PAST)).order_by(r.n.desc()).limit(most)
    numbers = list(connection.scalars(past))
    holding = record_queries.current(connection, numbers)
    return [n for n in numbers if n not in holding]


def chains_of(connection: Reading, past: Iterable[int]) -> dict[int, int]:
    """What took the place of each of these records, which no longer hold, last.

    It is the newest record above it that holds, if any does; else the newest one, or
    itself.
    """
    return {n: chain[-1] for n, chain in _chains(connection, past).items()}


def _chains(connection: Reading, past: Iterable[int]) -> dict[int, list[int]]:
    """Each of these records, what took its place, and what took the place of that."""
    wanted = set(past)
    above = _successors(connection, wanted)
    facts = record_queries.facts_of(connection, wanted.union(*above.values()))
    holding = record_queries.current(connection, facts)
    rank = {
        n: (n in holding, one.valid_from, n)
        for n, one in facts.items()
        if n in holding or one.status in PAST
    }
    newest = _newest(above, rank)
    return {n: _chain(n, above, rank, newest.get(n, n)) for n in wanted}


def _newest(
    above: Mapping[int, set[int]], rank: Mapping[int, tuple[bool, datetime, int]]
) -> dict[int, int]:
    """Of each record the one of the highest rank above it, directly or through
    others.
    """
    below: dict[int, set[int]] = defaultdict(set)
    for target, sources in above.items():
        for source in sources:
            below[source].add(target)
    newest = dict[int, int]()
    for n in sorted(rank, key=lambda n: rank[n], reverse=True):
        fresh = [n]
        while fresh:
            targets = below[fresh.pop()] - newest.keys() - {n}
            newest |= dict.fromkeys(targets, n)
            fresh += targets
    return newest


def held_before(connection: Reading, newest: Iterable[int]) -> dict[int, list[int]]:
    """What each of these records superseded, directly or through others, the newest
    first; without what was corrected, as it held at no time.
    """
    wanted = set(newest)
    if not wanted:
        return {}
    r = connection.records.c
    held = r.valid_to.is_(None) | (r.valid_to > r.valid_from)
    edges = select(links.c.source, links.c.target, r.valid_from).select_from(links)
    edges = edges.join(connection.records, r.n == links.c.target)
    edges = edges.where(links.c.kind == SUPERSEDES, r.status.in_(PAST), held)
    first = edges.where(one_of(links.c.source, wanted)).cte("held", recursive=True)
    every = first.union(edges.join(first, links.c.source == first.c.target))
    below: dict[int, set[int]] = defaultdict(set)
    since = dict[int, datetime]()
    for row in connection.execute(select(every)):
        below[row.source].add(row.target)
        since[row.target] = row.valid_from
    return {n: _reached(n, below, since) for n in wanted}


def _reached(
    n: int, below: Mapping[int, set[int]], since: Mapping[int, datetime]
) -> list[int]:
    """All that lies below a record, the newest first."""
    reached = set[int]()
    fresh = {n}
    while fresh:
        fresh = {m for one in fresh for m in below.get(one, ())} - reached - {n}
        reached |= fresh
    return sorted(reached, key=lambda m: (since[m], m), reverse=True)


def _successors(connection: Reading, items: Collection[int]) -> dict[int, set[int]]:
    """What superseded these records, and what superseded that, by what it
    superseded.
    """
    above: dict[int, set[int]] = defaultdict(set)
    if not items:
        return above
    r = connection.records.c
    edges = select(links.c.target, links.c.source).select_from(links)
    edges = edges.join(connection.records, r.n == links.c.source)
    edges = edges.where(links.c.kind == SUPERSEDES, r.status != DISCARDED)
    first = edges.where(one_of(links.c.target, items)).cte("later", recursive=True)
    every = first.union(edges.join(first, links.c.target == first.c.source))
    for row in connection.execute(select(every)):
        above[row.target].add(row.source)
    return above


def _chain(
    n: int,
    above: Mapping[int, set[int]],
    rank: Mapping[int, tuple[bool, datetime, int]],
    newest: int,
) -> list[int]:
    """This record, the nearest above it by their ranks, and the newest."""
    reached = set[int]()
    fresh = {n}
    while fresh and len(reached) < MOST_BETWEEN:
        fresh = {s for target in fresh for s in above.get(target, ())} - reached - {n}
        reached |= fresh
    ranked = sorted(rank[other] for other in (reached - {newest}) if other in rank)
    between = [number for _, _, number in ranked]
    return [n, *between] if newest == n else [n, *between, newest]


def labels_of_records(
    connection: Reading, items: Iterable[int]
) -> dict[int, list[Label]]:
    """The label of each of these records that does not hold now, by number."""
    return _labels(connection, standing(connection, items))


def _labels(connection: Reading, known: Standing) -> dict[int, list[Label]]:
    if not known.past | known.coming:
        return {}
    chains = _chains(connection, known.past)
    later = {number for chain in chains.values() for number in chain}
    holding = record_queries.current(connection, later)
    numbers = {*known.past, *known.coming, *later}
    r = records.c
    query = select(r.n, r.record_id, r.text, r.valid_from, r.valid_to)
    rows = {row.n: row for row in rows_where_in(connection, query, r.n, numbers)}
    shown = connection.seen(RECORDS, numbers)
    labels = {
        n: _label(rows[n], None, since=aware(rows[n].valid_from)) for n in known.coming
    }
    changes = _latest_changes(connection, known.past)
    said = record_queries.message_numbers(
        connection, [one.message_id for one in changes.values()]
    )
    for n in known.past:
        newest = chains[n][-1]
        change = changes.get(n)
        said_at = (
            aware(said[change.message_id][1])
            if change and change.message_id in said
            else None
        )
        instead = rows[newest].text if newest in holding else None
        of_past = _of_past(rows[n], rows[newest].record_id, instead, change, said_at)
        between = [rows[one].text for one in chains[n][1:] if one not in holding]
        labels[n] = of_past.model_copy(update={"between": between})
    hidden = {n: {"statement": ""} for n in labels if n not in shown}
    return {n: [labels[n].model_copy(update=hidden.get(n))] for n in sorted(labels)}


def _label(row: Row[Any], relation: ChangeRelation | None, **told: Any) -> Label:
    about = {
        "statement": row.text,
        "record_id": row.record_id,
        "newest_id": row.record_id,
    }
    return Label(**about | told, relation=relation)


def _of_past(
    row: Row[Any],
    newest_id: str,
    instead: str | None,
    change: RecordChange | None,
    said_at: datetime | None,
) -> Label:
    """The label of a record that no longer holds."""
    relation: ChangeRelation = "replaces" if newest_id != row.record_id else "ended"
    since = aware(row.valid_to)
    if change is not None:
        known_end = said_at if change.relation == "corrects" else since or said_at
        relation = change.relation
        since = change.since or known_end
    words = {"quote": change.quote, "message_id": change.message_id} if change else {}
    return _label(
        row, relation, since=since, replaced_by=instead, newest_id=newest_id, **words
    )


def _latest_changes(
    connection: Reading, past: Iterable[int]
) -> dict[int, RecordChange]:
    """The latest change after which each of these records no longer holds."""
    return {
        n: change
        for n, made in changes_of(connection, past).items()
        for change in made
        if change.relation in NO_LONGER
    }


def labels_of_messages(
    connection: Reading, items: Iterable[int]
) -> dict[int, list[Label]]:
    """The labels of each of these messages, by number: one for each statement that does
    not hold.

    Messages without such a statement are left out. A label is partial where another
    record of the message holds, and where the message only supports the record: it may
    say other things.
    """
    rows = list(rows_where_in(connection, _SOURCES, record_sources.c.message, items))
    if not rows:
        return {}
    known = standing(connection, {row.record for row in rows})
    labels = _labels(connection, known)
    mixed = {row.message for row in rows if row.record in known.holding}
    found: dict[int, list[Label]] = defaultdict(list)
    for row in sorted(
        (row for row in rows if row.record in labels), key=lambda row: row.record
    ):
        partial = {"partial": row.supporting or row.message in mixed}
        found[row.message] += [
            one.model_copy(update=partial) for one in labels[row.record]
        ]
    return dict(found)


def labelled_records(connection: Reading, items: Iterable[int]) -> dict[int, Record]:
    """Whole records with their labels, by number."""
    wanted = list(items)
    labels = labels_of_records(connection, wanted)
    return _with_labels(record_queries.records_by_number(connection, wanted), labels)


def labelled_messages(connection: Reading, items: Iterable[int]) -> dict[int, Message]:
    """Whole messages with their labels, by number."""
    wanted = list(items)
    labels = labels_of_messages(connection, wanted)
    return _with_labels(message_queries.messages_by_number(connection, wanted), labels)


def _with_labels(
    found: dict[int, T], labels: Mapping[int, list[Label]]
) -> dict[int, T]:
    return {
        n: one.model_copy(update={"labels": labels[n]}) if n in labels else one
        for n, one in found.items()
    }
