"""Everything that is read of records."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, func, select, text

from langmem_graph.messages import is_unicode
from langmem_graph.schemas import HistoryEntry, Record
from langmem_graph.storage.full_text import RECORD_WORDS, match_expression
from langmem_graph.storage.record_writes import REFINES, SUPERSEDES, TO_COME
from langmem_graph.storage.sqlite import portions
from langmem_graph.storage.tables import (
    ACTIVE,
    attributes,
    get_meta,
    history,
    links,
    messages,
    record_sources,
    records,
    sessions,
)

T = TypeVar("T")
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
    """What is embedded of these records."""
    found = select(records.c.n, records.c.text)
    return {row.n: row.text for row in _in_parts(connection, found, records.c.n, items)}


def active(connection: Connection, items: Iterable[int]) -> set[int]:
    """Those of these records whose place nothing has taken."""
    found = select(records.c.n).where(records.c.status == ACTIVE)
    return {row.n for row in _in_parts(connection, found, records.c.n, items)}


def true_now(connection: Connection) -> set[int] | None:
    """What is true now, where some records are to come into force; None where it is what is active.

    A record is true from `valid_from` on; until then that one is whose place it will take. What
    holds since it was said is true at once, whatever the clock of its sender shows.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    if (get_meta(connection, TO_COME) or "") <= f"{now}":
        return None
    r, link = records.c, links.c
    later = select(r.n).where(r.status == ACTIVE, r.valid_from > now, r.valid_from > r.said_at)
    to_come = set(connection.scalars(later))
    takes_place = select(link.source, link.target).where(link.kind == SUPERSEDES)
    standing = takes_place.join(records, r.n == link.source).where(r.status != "discarded")
    pairs = list(connection.execute(standing))
    replaced = {target for source, target in pairs if source not in to_come}
    waiting = {target for source, target in pairs if source in to_come} - replaced
    until = select(r.n).where(r.n.in_(waiting), r.status == "superseded", r.valid_from <= now)
    return (set(all_numbers(connection)) - to_come) | set(connection.scalars(until))


def current(connection: Connection, items: Iterable[int]) -> set[int]:
    """Those of these records that are true now."""
    unusual = true_now(connection)
    return active(connection, items) if unusual is None else set(items) & unusual


def newest_record(connection: Connection) -> int:
    """The number of the record that was stored last; 0 when there is none."""
    return connection.scalar(select(func.max(records.c.n))) or 0


def words_search(
    connection: Connection, terms: Sequence[str], limit: int
) -> list[tuple[int, float]]:
    """Records that are true now and hold any of the terms, by BM25, best first."""
    rows = connection.execute(_best_words, {"terms": match_expression(terms), "limit": limit})
    return [(number, score) for number, score in rows.all()]


def words_search_any(connection: Connection, terms: Sequence[str]) -> dict[int, float]:
    """As `words_search`, for reading as of a date: records of every status, all of them."""
    every = text("SELECT rowid, -bm25(record_words) FROM record_words WHERE record_words MATCH :t")
    return {n: score for n, score in connection.execute(every, {"t": match_expression(terms)})}  # noqa: C416


def word_counts(connection: Connection, terms: Iterable[str]) -> dict[str, int]:
    """In how many records each term occurs."""
    return RECORD_WORDS.counts(connection, terms)


def facts_of(connection: Connection, items: Iterable[int]) -> dict[int, RecordFacts]:
    """What ranking needs of these records, by number."""
    r = records.c
    found = select(r.n, r.said_at, r.status, r.valid_from, r.valid_to)
    rows = map(tuple, _in_parts(connection, found, r.n, items))
    return {facts[0]: RecordFacts(*facts) for facts in rows}


def numbers_true_at(connection: Connection, at: datetime) -> list[int]:
    """Records that were true at a time, whether or not they still are."""
    r = records.c
    then = (r.valid_from <= at) & (r.valid_to.is_(None) | (r.valid_to > at))
    return list(connection.scalars(select(r.n).where(then, r.status.in_((ACTIVE, "superseded")))))


def citing(connection: Connection, items: Iterable[int]) -> dict[int, list[int]]:
    """The messages that each of these records was made of."""
    s = record_sources.c
    found: dict[int, list[int]] = defaultdict(list)
    for row in _in_parts(connection, select(s.record, s.message), s.record, items):
        found[row.record].append(row.message)
    return dict(found)


def outdated(connection: Connection, items: Iterable[int]) -> set[int]:
    """Those of these messages that records were made of, none of which is true now."""
    s = record_sources.c
    made: dict[int, set[int]] = defaultdict(set)
    for row in _in_parts(connection, select(s.message, s.record), s.message, items):
        made[row.message].add(row.record)
    there = current(connection, {n for held in made.values() for n in held})
    return {message for message, held in made.items() if not held & there}


def replaced_by_message(connection: Connection, ids: Iterable[str]) -> dict[str, list[str]]:
    """The texts of records that are not true now, by the messages they were made of."""
    s, r, m = record_sources.c, records.c, messages.c
    found = select(m.message_id, r.n, r.text).join(record_sources, s.message == m.n)
    rows = list(_in_parts(connection, found.join(records, r.n == s.record), m.message_id, ids))
    there = current(connection, {row.n for row in rows})
    replaced: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.n not in there:
            replaced[row.message_id].append(row.text)
    return dict(replaced)


def numbers_of(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """The records' numbers by their ids; unknown ids are left out."""
    found = select(records.c.record_id, records.c.n)
    return {r.record_id: r.n for r in _in_parts(connection, found, records.c.record_id, ids)}


def records_by_number(connection: Connection, items: Iterable[int]) -> dict[int, Record]:
    """Whole records by their numbers."""
    wanted = list(items)
    whole = select(records, attributes.c.subject, attributes.c.name.label("attribute_name"))
    joined = whole.outerjoin(attributes, attributes.c.n == records.c.attribute)
    rows = list(_in_parts(connection, joined, records.c.n, wanted))
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
    found: dict[int, list[str]] = defaultdict(list)
    for row in _in_parts(connection, named, s.record, items):
        found[row.record].append(row.message_id)
    return found


def _related(connection: Connection, items: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """Ids of the records that each supersedes, is superseded by, or refines."""
    found: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    kinds = links.c.kind.in_((SUPERSEDES, REFINES))
    down = select(links.c.source, links.c.kind, records.c.record_id)
    down = down.join(records, records.c.n == links.c.target).where(kinds)
    for row in _in_parts(connection, down, links.c.source, items):
        found[row.source][row.kind].append(row.record_id)
    up = select(links.c.target, records.c.record_id)
    up = up.join(records, records.c.n == links.c.source).where(links.c.kind == SUPERSEDES)
    for row in _in_parts(
        connection, up.where(records.c.status != "discarded"), links.c.target, items
    ):
        found[row.target]["superseded_by"].append(row.record_id)
    return found


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
    """A time of the ledger with its zone, UTC."""
    return None if at is None else at.replace(tzinfo=UTC)


def all_numbers(connection: Connection, status: str | None = ACTIVE) -> list[int]:
    """The numbers of all records of a status (None: of all), oldest first."""
    found = select(records.c.n).order_by(records.c.n)
    return list(
        connection.scalars(found if status is None else found.where(records.c.status == status))
    )


def with_facet(connection: Connection, facet: str) -> list[int]:
    """Records of a facet whose place nothing has taken, oldest first."""
    found = select(records.c.n).where(records.c.facet == facet, records.c.status == ACTIVE)
    return list(connection.scalars(found.order_by(records.c.n)))


def current_with_facet(connection: Connection, facet: str) -> list[int]:
    """Records of a facet that are true now, oldest first."""
    found = connection.scalars(select(records.c.n).where(records.c.facet == facet))
    return sorted(current(connection, found))


def scheduled(connection: Connection) -> list[tuple[int, dict[str, Any]]]:
    """Number and event of every schedule record that is true now, the newest first."""
    r = records.c
    own = (r.facet == "schedule") & (r.status == ACTIVE) & r.event.is_not(None)
    found = select(r.n, r.event).where(own).order_by(r.n.desc())
    return [(row.n, row.event) for row in connection.execute(found) if row.event]


def with_attributes(connection: Connection) -> list[tuple[int, str, str]]:
    """Number, subject and attribute of every record that is true now and has an attribute."""
    r, a = records.c, attributes.c
    found = select(r.n, a.subject, a.name).join(attributes, a.n == r.attribute)
    rows = list(connection.execute(found.where(r.status != "discarded", a.name != "")))
    there = current(connection, [row.n for row in rows])
    return [(row.n, row.subject, row.name) for row in rows if row.n in there]


def history_of(connection: Connection, items: Iterable[int]) -> list[HistoryEntry]:
    """Every change of these records, oldest first."""
    found = select(history, records.c.record_id).join(records, records.c.n == history.c.record)
    rows = sorted(_in_parts(connection, found, history.c.record, items), key=lambda row: row.n)
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
    """A record with all that it superseded or refined, and that superseded or refined it."""
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
    found = select(m.message_id, m.n, m.at, m.text)
    rows = _in_parts(connection, found, m.message_id, ids)
    return {row.message_id: (row.n, row.at, row.text) for row in rows}


def sessions_of(connection: Connection, items: Iterable[int]) -> dict[int, list[str]]:
    """The ids of the sessions that each of these records comes from."""
    s = record_sources.c
    found = select(s.record, sessions.c.session_id).distinct()
    found = found.join(messages, messages.c.n == s.message)
    found = found.join(sessions, sessions.c.n == messages.c.session)
    by_record: dict[int, list[str]] = defaultdict(list)
    for row in _in_parts(connection, found, s.record, items):
        by_record[row.record].append(row.session_id)
    return by_record


def _in_parts(
    connection: Connection, found: Any, column: Any, values: Iterable[T]
) -> Iterator[Row[Any]]:
    """The rows whose column is one of many values; SQLite allows 32,766 at once."""
    usable = (one for one in values if not isinstance(one, str) or is_unicode(one))
    wanted = list(dict.fromkeys(usable))
    for some in portions(wanted):
        yield from connection.execute(found.where(column.in_(some))).all()


def attributes_of(connection: Connection, subjects: Iterable[str]) -> list[tuple[str, str]]:
    """Subject and name of every attribute of these subjects, oldest first."""
    a = attributes.c
    found = select(a.n, a.subject, a.name).where(a.name != "")
    rows = sorted(_in_parts(connection, found, a.subject, subjects), key=lambda row: row.n)
    return [(row.subject, row.name) for row in rows]
