"""Queries about records: which hold now or held at a time, their texts, sources and
history.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, String, cast, func, select

from langmem_graph.metadata import in_common
from langmem_graph.schemas import NO_LONGER, Record
from langmem_graph.storage.effects import (
    ACTIVE,
    DISCARDED,
    EXPIRED,
    HIDDEN,
    SUPERSEDE,
    SUPERSEDED,
)
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import (
    FORM,
    REFINES,
    SUPERSEDES,
    TO_COME,
    naive,
)
from langmem_graph.storage.tables import (
    attributes,
    effects,
    get_meta,
    links,
    messages,
    record_sources,
    records,
)
from langmem_graph.storage.words import TermCounts
from langmem_graph.trust import FOREIGN, weakest

_NEWEST = select(func.max(records.c.n))


@dataclass(frozen=True)
class RecordFacts:
    """What ranking needs to know of a record, without its text."""

    n: int
    said_at: datetime
    status: str
    valid_from: datetime
    valid_to: datetime | None


def texts_of(connection: Reading, items: Iterable[int]) -> dict[int, str]:
    """The texts of these records, as they are embedded, by number."""
    query = select(records.c.n, records.c.text)
    return {
        row.n: row.text for row in rows_where_in(connection, query, records.c.n, items)
    }


def active(connection: Reading, items: Iterable[int]) -> set[int]:
    """Those of these records that have the status "active"."""
    query = select(records.c.n).where(records.c.status == ACTIVE)
    return {row.n for row in rows_where_in(connection, query, records.c.n, items)}


def true_now(connection: Reading) -> set[int] | None:
    """The records that hold now; None where these are simply the active ones.

    The two differ only while a record begins or ceases to hold in the future: it holds
    from `valid_from` on, and one that is superseded holds until `valid_to`. A record
    that is valid from the moment it was said holds at once, whatever the clock of its
    sender shows, and so ends what it supersedes; a message that ends a record without
    naming a later date ends it at once, too.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    settled = (get_meta(connection, TO_COME) or "") <= f"{now}"
    return None if settled else holding(connection, now)


def holding(connection: Reading, now: datetime) -> set[int]:
    """The records that hold at a present time `now`, by their dates and what ended
    them.
    """
    r = records.c
    until = r.valid_to > now
    active_now = select(r.n).where(
        r.status == ACTIVE, _begun(now), r.valid_to.is_(None) | until
    )
    past = select(r.n).where(
        r.status == SUPERSEDED, _begun(now), until, r.valid_to > r.valid_from
    )
    held = set(connection.scalars(active_now))
    if to_end := set(connection.scalars(past)):
        held |= (
            to_end
            - _ended_by_message(connection, now)
            - _replaced_at_once(connection, now)
        )
    return held


def _begun(now: datetime) -> ColumnElement[bool]:
    """Whether a record has begun to hold."""
    return (records.c.valid_from <= now) | (records.c.valid_from <= records.c.said_at)


def _ended_by_message(connection: Reading, now: datetime) -> set[int]:
    """The records that a message ended at a date that has come, or at its own."""
    e = effects.c
    m = messages.c
    due = e.since.is_(None) | (e.since <= now) | (e.since <= m.at)
    ended = (
        select(e.record)
        .outerjoin(messages, m.n == e.message)
        .where(e.undone.is_(False), due)
    )
    return set(connection.scalars(ended.where(e.relation.in_(NO_LONGER))))


def _replaced_at_once(connection: Reading, now: datetime) -> set[int]:
    """The records that one which holds already has superseded, where no message says
    when.
    """
    e = effects.c
    without_words = e.relation.is_(None) & e.undone.is_(False)
    replaced = (
        select(e.record)
        .join(records, records.c.n == e.by_record)
        .where(e.op == SUPERSEDE, without_words, _begun(now))
        .where(records.c.status != DISCARDED)
    )
    return set(connection.scalars(replaced))


def current(connection: Reading, items: Iterable[int]) -> set[int]:
    """Those of these records that hold now."""
    held = true_now(connection)
    return active(connection, items) if held is None else set(items) & held


def newest_record(connection: Reading) -> int:
    """The number of the record that was stored last; 0 when there is none."""
    return connection.scalar(_NEWEST) or 0


def words_search(
    connection: Reading,
    terms: Sequence[str],
    limit: int,
    statuses: Sequence[str] = (ACTIVE,),
    counted: TermCounts | None = None,
) -> list[tuple[int, float]]:
    """Records of a status that contain any of the terms, with their BM25 scores, best
    first.

    `counted` tells in how many records each term occurs.
    """
    r = connection.records.c
    meant = select(r.n).where(r.status.in_(statuses))
    return RECORD_WORDS.search(connection, terms, limit, meant, counted)


def facts_of(connection: Reading, items: Iterable[int]) -> dict[int, RecordFacts]:
    """What ranking needs to know of these records, by number."""
    r = records.c
    query = select(r.n, r.said_at, r.status, r.valid_from, r.valid_to)
    rows = map(tuple, rows_where_in(connection, query, r.n, items))
    return {facts[0]: RecordFacts(*facts) for facts in rows}


def numbers_true_at(connection: Reading, at: datetime) -> list[int]:
    """Records that held at a time, whether or not they still do."""
    r = connection.records.c
    then = (r.valid_from <= at) & (r.valid_to.is_(None) | (r.valid_to > at))
    held = select(r.n).where(then, r.status.in_((ACTIVE, SUPERSEDED, EXPIRED)))
    return list(connection.scalars(held))


def in_place_of(
    connection: Reading, successor: int, matter_of: int
) -> list[RecordFacts]:
    """What this successor superseded of the subject and attribute of another record, in
    the order in which it began to hold; without that record.
    """
    r = records.c
    matter = select(r.attribute).where(r.n == matter_of).scalar_subquery()
    ended = select(links.c.target).where(
        links.c.source == successor, links.c.kind == SUPERSEDES
    )
    same = select(r.n).where(r.n.in_(ended), r.n != matter_of, r.attribute == matter)
    held = same.where(r.status == SUPERSEDED)
    facts = facts_of(connection, connection.scalars(held))
    return sorted(facts.values(), key=lambda one: one.valid_from)


def citing(connection: Reading, items: Iterable[int]) -> dict[int, list[int]]:
    """The numbers of the messages that each of these records cites."""
    s = record_sources.c
    cited: dict[int, list[int]] = defaultdict(list)
    for row in rows_where_in(connection, select(s.record, s.message), s.record, items):
        cited[row.record].append(row.message)
    return dict(cited)


def outdated(connection: Reading, items: Iterable[int]) -> set[int]:
    """Those of these messages that records cite, where none of these records
    holds now.
    """
    s = record_sources.c
    made: dict[int, set[int]] = defaultdict(set)
    shown = select(s.message, s.record).join(records, records.c.n == s.record)
    shown = shown.where(records.c.status != HIDDEN)
    for row in rows_where_in(connection, shown, s.message, items):
        made[row.message].add(row.record)
    holding = current(connection, {n for numbers in made.values() for n in numbers})
    return {message for message, numbers in made.items() if not numbers & holding}


def replaced_by_message(
    connection: Reading, ids: Iterable[str]
) -> dict[str, list[str]]:
    """The texts of records that no longer hold, by the ids of the messages they
    cite.
    """
    s = record_sources.c
    r = connection.records.c
    m = messages.c
    query = (
        select(m.message_id, r.n, r.text)
        .select_from(messages)
        .join(record_sources, s.message == m.n)
        .join(connection.records, r.n == s.record)
        .where(r.status != HIDDEN)
    )
    rows = list(rows_where_in(connection, query, m.message_id, ids))
    holding = current(connection, {row.n for row in rows})
    replaced: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.n not in holding:
            replaced[row.message_id].append(row.text)
    return dict(replaced)


def numbers_of(connection: Reading, ids: Iterable[str]) -> dict[str, int]:
    """The numbers of records by their ids; unknown ids are left out."""
    r = connection.records.c
    rows = rows_where_in(connection, select(r.record_id, r.n), r.record_id, ids)
    return {row.record_id: row.n for row in rows}


def records_by_number(connection: Reading, items: Iterable[int]) -> dict[int, Record]:
    """Whole records by their numbers."""
    wanted = list(items)
    seen = connection.records
    a = attributes.c
    whole = select(seen, a.subject, a.name.label("attribute_name"))
    joined = whole.outerjoin(attributes, a.n == seen.c.attribute)
    rows = list(rows_where_in(connection, joined, seen.c.n, wanted))
    sources = _sources(connection, wanted)
    related = _related(connection, wanted)
    return {row.n: _record(row, sources[row.n], related[row.n]) for row in rows}


def _sources(connection: Reading, items: Sequence[int]) -> dict[int, list[Row[Any]]]:
    """For each record its messages: their ids, metadata, and whether they are only
    supporting.
    """
    s = record_sources.c
    m = connection.messages.c
    named = (
        select(s.record, m.message_id, s.supporting, m.extra, m.origin)
        .select_from(record_sources)
        .join(connection.messages, m.n == s.message)
        .order_by(s.record, s.message)
    )
    sources: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in rows_where_in(connection, named, s.record, items):
        sources[row.record].append(row)
    return sources


def _related(
    connection: Reading, items: Sequence[int]
) -> dict[int, dict[str, list[str]]]:
    """For each record, the ids of those that it supersedes, refines or is superseded
    by.
    """
    related: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    kinds = links.c.kind.in_((SUPERSEDES, REFINES))
    seen = connection.records
    r = seen.c
    down = select(links.c.source, links.c.kind, r.record_id).select_from(links)
    down = down.join(seen, r.n == links.c.target).where(kinds)
    for row in rows_where_in(connection, down, links.c.source, items):
        related[row.source][row.kind].append(row.record_id)
    up = select(links.c.target, r.record_id).select_from(links)
    up = up.join(seen, r.n == links.c.source)
    up = up.where(links.c.kind == SUPERSEDES, r.status != DISCARDED)
    for row in rows_where_in(connection, up, links.c.target, items):
        related[row.target]["superseded_by"].append(row.record_id)
    return related


def _record(
    row: Row[Any], sources: Sequence[Row[Any]], related: dict[str, list[str]]
) -> Record:
    times = ("said_at", "valid_from", "valid_to", "created_at", "updated_at")
    carried = [one.extra or {} for one in sources if not one.supporting]
    derived = {
        **{name: aware(getattr(row, name)) for name in times},
        "attribute": row.attribute_name or None,
        "event_time": row.event,
        "values": [one for one in row.verbatim if FORM not in one],
        "data": {one[FORM]: one["data"] for one in row.verbatim if FORM in one} or None,
        "message_ids": [one.message_id for one in sources],
        "supporting_ids": [one.message_id for one in sources if one.supporting],
        "metadata": in_common(about.get("metadata", {}) for about in carried),
        "origin": weakest(one.origin for one in sources if not one.supporting),
        "room": next((about["room"] for about in carried if "room" in about), None),
        "author": ", ".join(
            sorted({one["author"] for one in carried if "author" in one})
        )
        or None,
        "supersedes": related[SUPERSEDES],
        "superseded_by": related["superseded_by"] if row.status == SUPERSEDED else [],
        "refines": related[REFINES],
    }
    return Record.model_validate({**row._mapping, **derived})


def aware(at: datetime | None) -> Any:
    """A time from the ledger, with its time zone (UTC) added."""
    return None if at is None else at.replace(tzinfo=UTC)


def all_numbers(
    connection: Reading, status: str | None = ACTIVE, **fields: object
) -> list[int]:
    """The numbers of all records of a status, or of any (None), and with these fields'
    values.

    The oldest comes first; a field is a column, such as `facet="schedule"`.
    """
    meant = fields if status is None else {"status": status, **fields}
    return list(
        connection.scalars(select(records.c.n).filter_by(**meant).order_by(records.c.n))
    )


@dataclass(frozen=True)
class ScheduledRow:
    """A record of the schedule: its number and event, and from when to when it
    holds.
    """

    n: int
    event: dict[str, Any]
    is_active: bool
    since: datetime | None
    """None where it holds from the moment it was said."""
    until: datetime | None


def filling(connection: Reading, form: str) -> list[Record]:
    """The records that hold now and fill this form of the application's, the newest
    first.
    """
    r = records.c
    filled = cast(r.verbatim, String).like(f'%"{FORM}": "{form}"%')
    numbers = connection.scalars(select(r.n).where(filled).order_by(r.n.desc())).all()
    holding = current(connection, numbers)
    found = records_by_number(connection, holding)
    return [found[n] for n in numbers if n in found and form in (found[n].data or {})]


def newest_instructions(connection: Reading, most: int) -> list[int]:
    """The newest active records of how the assistant shall behave."""
    r = records.c
    query = select(r.n).where(r.kind == "instruction", r.status == ACTIVE)
    return list(connection.scalars(query.order_by(r.n.desc()).limit(most)))


def scheduled(
    connection: Reading, at: datetime, facet: str | None = "schedule"
) -> list[ScheduledRow]:
    """The records of the schedule, or (None) all that have a time, the newest first.

    Superseded records that hold until a time after `at` are among them: a routine may
    end on a day to come. What was corrected never held, and is left out.
    """
    r = connection.records.c
    ending = (
        (r.status == "superseded")
        & (r.valid_to > naive(at))
        & (r.valid_to > r.valid_from)
    )
    timed = r.event.is_not(None) & ((r.status == ACTIVE) | ending)
    timed = timed & (r.facet == facet) if facet else timed
    columns = (r.n, r.event, r.status, r.said_at, r.valid_from, r.valid_to)
    query = select(*columns).where(timed).order_by(r.n.desc())
    return [
        ScheduledRow(
            row.n,
            row.event,
            row.status == ACTIVE,
            aware(row.valid_from) if row.valid_from > row.said_at else None,
            aware(row.valid_to),
        )
        for row in connection.execute(query)
        if row.event
    ]


def with_attributes(connection: Reading) -> list[tuple[int, str, str]]:
    """Number, subject and attribute of every record that holds now and has an
    attribute.
    """
    r = connection.records.c
    a = attributes.c
    query = select(r.n, a.subject, a.name).join(attributes, a.n == r.attribute)
    named = query.where(r.status != DISCARDED, a.name != "")
    rows = connection.execute(named).all()
    holding = current(connection, [row.n for row in rows])
    return [(row.n, row.subject, row.name) for row in rows if row.n in holding]


def said_at(connection: Reading, message: int) -> datetime:
    """When a message was sent."""
    own = select(messages.c.at).where(messages.c.n == message)
    at: datetime = aware(connection.execute(own).scalar_one())
    return at


def subjects_and_attributes(
    connection: Reading, items: Iterable[int]
) -> dict[int, tuple[str, str]]:
    """Subject and attribute of those of these records that have both, in the form of
    `plain`.
    """
    a = attributes.c
    query = select(records.c.n, a.subject, a.name).join(
        attributes, a.n == records.c.attribute
    )
    rows = rows_where_in(connection, query.where(a.name != ""), records.c.n, items)
    return {row.n: (row.subject, row.name) for row in rows}


def of_the_user(connection: Reading, items: Iterable[int]) -> set[int]:
    """Those of these records that a message of the user's own words carries."""
    s = record_sources.c
    m = messages.c
    own = select(s.record).join(messages, m.n == s.message)
    own = own.where(m.origin == "user", s.supporting.is_(False))
    return {row.record for row in rows_where_in(connection, own, s.record, items)}


def foreign(connection: Reading, items: Iterable[int]) -> set[int]:
    """Those of these messages that hold words of a tool or an import."""
    m = messages.c
    query = select(m.n).where(m.origin.in_(FOREIGN))
    return {row.n for row in rows_where_in(connection, query, m.n, items)}


NumberedMessages = dict[str, tuple[int, datetime, str]]
"""Number, time and text of messages, by their ids."""


def message_numbers(connection: Reading, ids: Iterable[str]) -> NumberedMessages:
    """The messages with these ids; unknown ids are left out."""
    m = connection.messages.c
    query = select(m.message_id, m.n, m.at, m.text)
    rows = rows_where_in(connection, query, m.message_id, ids)
    return {row.message_id: (row.n, row.at, row.text) for row in rows}
