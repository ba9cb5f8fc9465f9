"""Queries about records: which hold now or held at a time, their texts, sources and history."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select, text

from langmem_graph.schemas import HistoryEntry, Record
from langmem_graph.storage.full_text import match_expression
from langmem_graph.storage.record_writes import REFINES, SUPERSEDES, TO_COME
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.storage.tables_and_migrations import (
    ACTIVE,
    attributes,
    get_meta,
    history,
    links,
    messages,
    record_sources,
    records,
)

_best_words = text(
    "SELECT record_words.rowid, -bm25(record_words) AS score FROM record_words"
    " JOIN records ON records.n = record_words.rowid AND records.status = 'active'"
    " WHERE record_words MATCH :terms ORDER BY score DESC LIMIT :limit"
)


@dataclass(frozen=True)
class RecordFacts:
    """What ranking needs to know of a record, without its text."""

    n: int
    said_at: datetime
    status: str
    valid_from: datetime
    valid_to: datetime | None


def texts_of(connection: Connection, items: Iterable[int]) -> dict[int, str]:
    """The texts of these records, as they are embedded, by number."""
    query = select(records.c.n, records.c.text)
    return {row.n: row.text for row in rows_where_in(connection, query, records.c.n, items)}


def active(connection: Connection, items: Iterable[int]) -> set[int]:
    """Those of these records that have the status "active"."""
    query = select(records.c.n).where(records.c.status == ACTIVE)
    return {row.n for row in rows_where_in(connection, query, records.c.n, items)}


def true_now(connection: Connection) -> set[int] | None:
    """The records that hold now; None where these are simply the active ones.

    The two differ only while there are records that take effect in the future: such a record holds
    from `valid_from` on, and the record that it supersedes holds until then. A record that is valid
    from the moment it was said holds at once, whatever the clock of its sender shows.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    if (get_meta(connection, TO_COME) or "") <= f"{now}":
        return None
    r, link = records.c, links.c
    later = select(r.n).where(r.status == ACTIVE, r.valid_from > now, r.valid_from > r.said_at)
    future = set(connection.scalars(later))
    superseding = select(link.source, link.target).where(link.kind == SUPERSEDES)
    kept = superseding.join(records, r.n == link.source).where(r.status != "discarded")
    pairs = list(connection.execute(kept))
    replaced = {target for source, target in pairs if source not in future}
    ending = {target for source, target in pairs if source in future} - replaced
    until = select(r.n).where(r.n.in_(ending), r.status == "superseded", r.valid_from <= now)
    return (set(all_numbers(connection)) - future) | set(connection.scalars(until))


def current(connection: Connection, items: Iterable[int]) -> set[int]:
    """Those of these records that hold now."""
    holding = true_now(connection)
    return active(connection, items) if holding is None else set(items) & holding


def newest_record(connection: Connection) -> int:
    """The number of the record that was stored last; 0 when there is none."""
    return connection.scalar(select(func.max(records.c.n))) or 0


def words_search(
    connection: Connection, terms: Sequence[str], limit: int
) -> list[tuple[int, float]]:
    """Active records that contain any of the terms, with their BM25 scores, best first."""
    rows = connection.execute(_best_words, {"terms": match_expression(terms), "limit": limit})
    return [(number, score) for number, score in rows.all()]


def words_search_any(connection: Connection, terms: Sequence[str]) -> dict[int, float]:
    """BM25 scores of all records, of every status, that contain a term; for `as_of` queries."""
    every = text("SELECT rowid, -bm25(record_words) FROM record_words WHERE record_words MATCH :t")
    return {n: score for n, score in connection.execute(every, {"t": match_expression(terms)})}  # noqa: C416


def facts_of(connection: Connection, items: Iterable[int]) -> dict[int, RecordFacts]:
    """What ranking needs to know of these records, by number."""
    r = records.c
    query = select(r.n, r.said_at, r.status, r.valid_from, r.valid_to)
    rows = map(tuple, rows_where_in(connection, query, r.n, items))
    return {facts[0]: RecordFacts(*facts) for facts in rows}


def numbers_true_at(connection: Connection, at: datetime) -> list[int]:
    """Records that held at a time, whether or not they still do."""
    r = records.c
    then = (r.valid_from <= at) & (r.valid_to.is_(None) | (r.valid_to > at))
    return list(connection.scalars(select(r.n).where(then, r.status.in_((ACTIVE, "superseded")))))


def citing(connection: Connection, items: Iterable[int]) -> dict[int, list[int]]:
    """The numbers of the messages that each of these records cites."""
    s = record_sources.c
    cited: dict[int, list[int]] = defaultdict(list)
    for row in rows_where_in(connection, select(s.record, s.message), s.record, items):
        cited[row.record].append(row.message)
    return dict(cited)


def outdated(connection: Connection, items: Iterable[int]) -> set[int]:
    """Those of these messages that records cite, where none of these records holds now."""
    s = record_sources.c
    made: dict[int, set[int]] = defaultdict(set)
    for row in rows_where_in(connection, select(s.message, s.record), s.message, items):
        made[row.message].add(row.record)
    holding = current(connection, {n for numbers in made.values() for n in numbers})
    return {message for message, numbers in made.items() if not numbers & holding}


def replaced_by_message(connection: Connection, ids: Iterable[str]) -> dict[str, list[str]]:
    """The texts of records that no longer hold, by the ids of the messages they cite."""
    s, r, m = record_sources.c, records.c, messages.c
    query = select(m.message_id, r.n, r.text).join(record_sources, s.message == m.n)
    rows = list(rows_where_in(connection, query.join(records, r.n == s.record), m.message_id, ids))
    holding = current(connection, {row.n for row in rows})
    replaced: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.n not in holding:
            replaced[row.message_id].append(row.text)
    return dict(replaced)


def numbers_of(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """The numbers of records by their ids; unknown ids are left out."""
    query = select(records.c.record_id, records.c.n)
    return {r.record_id: r.n for r in rows_where_in(connection, query, records.c.record_id, ids)}


def records_by_number(connection: Connection, items: Iterable[int]) -> dict[int, Record]:
    """Whole records by their numbers."""
    wanted = list(items)
    whole = select(records, attributes.c.subject, attributes.c.name.label("attribute_name"))
    joined = whole.outerjoin(attributes, attributes.c.n == records.c.attribute)
    rows = list(rows_where_in(connection, joined, records.c.n, wanted))
    sources = _sources(connection, wanted)
    related = _related(connection, wanted)
    return {row.n: _record(row, sources[row.n], related[row.n]) for row in rows}


def _sources(connection: Connection, items: Sequence[int]) -> dict[int, list[str]]:
    s = record_sources.c
    named = (
        select(s.record, messages.c.message_id)
        .join(messages, messages.c.n == s.message)
        .order_by(s.record, s.message)
    )
    sources: dict[int, list[str]] = defaultdict(list)
    for row in rows_where_in(connection, named, s.record, items):
        sources[row.record].append(row.message_id)
    return sources


def _related(connection: Connection, items: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """For each record, the ids of those that it supersedes, refines or is superseded by."""
    related: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    kinds = links.c.kind.in_((SUPERSEDES, REFINES))
    down = select(links.c.source, links.c.kind, records.c.record_id)
    down = down.join(records, records.c.n == links.c.target).where(kinds)
    for row in rows_where_in(connection, down, links.c.source, items):
        related[row.source][row.kind].append(row.record_id)
    up = select(links.c.target, records.c.record_id)
    up = up.join(records, records.c.n == links.c.source).where(links.c.kind == SUPERSEDES)
    for row in rows_where_in(
        connection, up.where(records.c.status != "discarded"), links.c.target, items
    ):
        related[row.target]["superseded_by"].append(row.record_id)
    return related


def _record(row: Row[Any], sources: list[str], related: dict[str, list[str]]) -> Record:
    same = (
        *("record_id", "text", "kind", "facet", "project", "subject", "confirmation", "status"),
        *("priority", "scene", "entities", "made_by"),
    )
    times = ("said_at", "valid_from", "valid_to", "created_at", "updated_at")
    fields: dict[str, Any] = {name: getattr(row, name) for name in same}
    fields |= {name: aware(getattr(row, name)) for name in times}
    return Record(
        **fields,
        attribute=row.attribute_name or None,
        event_time=row.event,
        values=row.verbatim,
        message_ids=sources,
        supersedes=related[SUPERSEDES],
        superseded_by=related["superseded_by"] if row.status == "superseded" else [],
        refines=related[REFINES],
    )


def aware(at: datetime | None) -> Any:
    """A time from the ledger, with its time zone (UTC) added."""
    return None if at is None else at.replace(tzinfo=UTC)


def all_numbers(connection: Connection, status: str | None = ACTIVE, **fields: object) -> list[int]:
    """The numbers of all records of a status and with these fields, oldest first.

    Args:
        connection: a transaction.
        status: None takes records of every status.
        fields: values of columns, such as `facet="schedule"`.
    """
    meant = fields if status is None else {"status": status, **fields}
    return list(connection.scalars(select(records.c.n).filter_by(**meant).order_by(records.c.n)))


def scheduled(connection: Connection) -> list[tuple[int, dict[str, Any]]]:
    """Number and event of every active schedule record, the newest first."""
    r = records.c
    timed = (r.facet == "schedule") & (r.status == ACTIVE) & r.event.is_not(None)
    query = select(r.n, r.event).where(timed).order_by(r.n.desc())
    return [(row.n, row.event) for row in connection.execute(query) if row.event]


def with_attributes(connection: Connection) -> list[tuple[int, str, str]]:
    """Number, subject and attribute of every record that holds now and has an attribute."""
    r, a = records.c, attributes.c
    query = select(r.n, a.subject, a.name).join(attributes, a.n == r.attribute)
    rows = list(connection.execute(query.where(r.status != "discarded", a.name != "")))
    holding = current(connection, [row.n for row in rows])
    return [(row.n, row.subject, row.name) for row in rows if row.n in holding]


def history_of(connection: Connection, items: Iterable[int]) -> list[HistoryEntry]:
    """Every change of these records, oldest first."""
    query = select(history, records.c.record_id).join(records, records.c.n == history.c.record)
    rows = sorted(rows_where_in(connection, query, history.c.record, items), key=lambda row: row.n)
    return [
        HistoryEntry(
            change=row.change,
            record_id=row.record_id,
            op=row.op,
            at=aware(row.at),
            by=row.by,
            reason=row.reason,
            before=row.before,
        )
        for row in rows
    ]


def in_one_line(connection: Connection, n: int) -> set[int]:
    """A record and all that are connected with it by `supersedes` or `refines` links."""
    line, fresh = {n}, {n}
    kinds = links.c.kind.in_((SUPERSEDES, REFINES))
    while fresh:
        near = (links.c.source.in_(fresh) | links.c.target.in_(fresh)) & kinds
        rows = connection.execute(select(links.c.source, links.c.target).where(near))
        fresh = {end for row in rows for end in row} - line
        line |= fresh
    return line


def message_numbers(
    connection: Connection, ids: Iterable[str]
) -> dict[str, tuple[int, datetime, str]]:
    """Number, time and text of the messages with these ids; unknown ids are left out."""
    m = messages.c
    query = select(m.message_id, m.n, m.at, m.text)
    rows = rows_where_in(connection, query, m.message_id, ids)
    return {row.message_id: (row.n, row.at, row.text) for row in rows}


def attributes_of(connection: Connection, subjects: Iterable[str]) -> list[tuple[str, str]]:
    """Subject and name of every attribute of these subjects, oldest first."""
    a = attributes.c
    query = select(a.n, a.subject, a.name).where(a.name != "")
    rows = sorted(rows_where_in(connection, query, a.subject, subjects), key=lambda row: row.n)
    return [(row.subject, row.name) for row in rows]
