"""Looks into the user's schedule without a model (RealMem): overlaps, days, and the
agenda.

An overlap is a dated record at the time that a request proposes. What the user only
told of a day, in words and without a record, is found by reading messages
(`said_of_days`).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from langmem_graph.filters import Filter
from langmem_graph.ids_and_times import in_zone, window_edge
from langmem_graph.reports import Occurrence
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import fact_of_message, fact_of_record
from langmem_graph.retrieval.message_search import as_hit
from langmem_graph.retrieval.quoted_context import as_data, of_room, shown_ids
from langmem_graph.schedule.time_phrases import spoken_time
from langmem_graph.schedule.times import (
    EventTime,
    Span,
    ends_at,
    event_in,
    first_span,
    meetings,
    occurrences,
    with_weekday,
    zone_of,
)
from langmem_graph.schedule.worded_days import worded_days
from langmem_graph.schemas import Record
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries, record_queries
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.superseded_labels import labelled_messages, labelled_records
from langmem_graph.storage.user_room import Room

MOST = 5  # overlaps in one result
MOST_OCCURRENCES = 500  # of one agenda; ours
MOST_TOLD = 12  # messages that name a day in words; ours
MOST_RECURRING = 200  # recurring items that are expanded; of more, the newest
IDS = 3  # message ids beside one overlap
# part of a longer proposal that is compared, from its start
LONGEST = timedelta(days=366)
AHEAD = timedelta(days=92)  # part of a recurring proposal that is compared; ours
MOST_SAID, LONGEST_SAID = 2_000, 1_000
"""The user's newest messages that are read for a day, and characters of each; ours."""
MOST_DAYS = 14  # days of a proposal that are compared with messages; ours
_YEAR = timedelta(days=366)
_MOMENT = timedelta(seconds=1)
_TIMES_COMPARED = 10_000  # of a proposal
_OCCURRENCES_COMPARED = 50_000  # of all items that recur
_USER = ("", "user", "the user", "me", "i", "myself")


@dataclass(frozen=True)
class PlannedItem:
    """A record of the schedule, by number, and its event.

    A recurring item takes place while its record holds. A single one has no such
    limits: what is called off is off at once, whatever day is given for the end.
    """

    n: int
    event: EventTime
    since: datetime | None = None
    until: datetime | None = None

    def occurrences(
        self, begin: datetime, end: datetime, limit: int, minutes: int
    ) -> list[Span]:
        """The first `limit` occurrences that lie wholly or partly between `begin` and
        `end`.
        """
        begin = max(begin, self.since or begin)
        end = min(end, self.until or end)
        return occurrences(self.event, begin, end, limit, default_minutes=minutes)


def planned_items(
    connection: Reading,
    at: datetime,
    settings: Settings,
    facet: str | None = "schedule",
) -> list[PlannedItem]:
    """The items of the schedule from a time on, past ones included, the newest first.

    Without a facet, all records that have a time.
    """
    items = []
    for row in record_queries.scheduled(connection, at, facet):
        event = event_in(row.event, settings.time_zone)
        if event and event.recurrence:
            items.append(PlannedItem(row.n, event, row.since, row.until))
        elif event and row.is_active:
            items.append(PlannedItem(row.n, event))
    return items


@dataclass(frozen=True)
class Overlap:
    """A scheduled item at the time of the request."""

    text: str  # time and text of the item
    line: str  # time, ids and subject of the item, for the context
    # in UTC: the item's own time, of a recurring one the occurrence that overlaps
    span: Span
    fact: Fact  # the record of the item


def overlaps_at(
    connection: Reading, asked: EventTime, settings: Settings
) -> list[Overlap]:
    """The dated records at a proposed time: single ones before recurring ones, then by
    time.
    """
    begin = first_span(asked, default_minutes=settings.event_minutes)[0]
    dated = planned_items(connection, begin, settings, None)
    items = [item for item in dated if _is_exact(item)]
    found = sorted(overlapping(asked, items, settings.event_minutes))[:MOST]
    records = record_queries.records_by_number(connection, [n for _, _, n in found])
    events = {item.n: item.event for item in items}
    return [_overlap(records[n], events[n], span) for _, span, n in found]


def _is_exact(item: PlannedItem) -> bool:
    """False for what says nothing about a time: whole months, or a routine that fills
    every day.
    """
    if item.event.granularity != "day" or item.event.recurrence is None:
        return item.event.granularity not in ("month", "year")
    first = occurrences(item.event, item.event.start, item.event.start + AHEAD, 2)
    return len(first) < 2 or first[0][1] < first[1][0]


def days_of(asked: EventTime, settings: Settings) -> set[date]:
    """The days of a proposed time; none where they are too many to compare with
    messages.
    """
    zone = zone_of(asked.time_zone or settings.time_zone)
    span = first_span(asked, default_minutes=settings.event_minutes)
    first = span[0].astimezone(zone).date()
    last = (span[1] - _MOMENT).astimezone(zone).date()
    days = (last - first).days + 1
    return (
        {first + timedelta(days=n) for n in range(days)} if days <= MOST_DAYS else set()
    )


def said_of_days(
    room: Room,
    where: Filter | None,
    days: Collection[date],
    now: datetime,
    asked: EventTime | None = None,
) -> list[Fact]:
    """Messages of the user that name one of these days in words, the newest first, with
    the day.

    Questions do not count, nor what no longer holds, nor another time of day than what
    is asked.
    """
    ahead = {day for day in days if day >= now.date()}
    named: dict[int, date] = {}
    since = window_edge(in_zone(now, UTC), -_YEAR)
    with room.database.read_transaction(where) as connection:
        said = message_queries.said_by_user(
            connection, since, now, MOST_SAID if ahead else 0
        )
        for n, text, at in said:
            if day := _day_named(text, in_zone(at, now.tzinfo or UTC), asked, ahead):
                named[n] = day
        found = labelled_messages(connection, list(named)[:MOST_TOLD])
    facts = {n: fact_of_message(as_hit(message, n)) for n, message in found.items()}
    dated = (fact.model_copy(update={"day": named[n]}) for n, fact in facts.items())
    return [fact for fact in dated if not fact.outdated]


def _day_named(
    text: str, at: datetime, asked: EventTime | None, days: Collection[date]
) -> date | None:
    """The day that a sentence which is no question names, if it names no other time of
    it.
    """
    for sentence in re.findall(
        r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]+)*[.!?]?", text[:LONGEST_SAID]
    ):
        named = {*days} & worded_days(sentence, at.date(), days)
        if sentence.endswith("?") or not named:
            continue
        timed = spoken_time(sentence, at, asked.time_zone) if asked else None
        if timed is None or asked is None or asked.granularity != "minute":
            return min(named)
        return (
            min(named)
            if any(meetings([first_span(asked)], [first_span(timed)]))
            else None
        )
    return None


def overlapping(
    asked: EventTime, items: Sequence[PlannedItem], minutes: int
) -> Iterator[tuple[bool, Span, int]]:
    """Of each item that overlaps a proposed time: if it recurs, when first, and its
    number.

    Without an end they last some minutes.
    """
    begin = first_span(asked, default_minutes=minutes)[0]
    end = ends_at(asked, default_minutes=minutes)
    until = begin + AHEAD if end is None else min(end, begin + LONGEST)
    wanted = occurrences(asked, begin, until, _TIMES_COMPARED, default_minutes=minutes)
    # Whatever lies in the window of a proposal that does not recur overlaps it.
    needed = 1 if asked.recurrence is None else _TIMES_COMPARED
    left = _OCCURRENCES_COMPARED
    recurring = [item for item in items if item.event.recurrence][:MOST_RECURRING]
    for item in [*(item for item in items if not item.event.recurrence), *recurring]:
        spans = item.occurrences(begin, until, min(needed, left), minutes)
        left = max(1, left - len(spans))
        for _, span in meetings(wanted, spans):
            yield item.event.recurrence is not None, span, item.n
            break


def _overlap(record: Record, event: EventTime, span: Span) -> Overlap:
    when = _when(event, span)
    ids = shown_ids(record.message_ids[:IDS])
    subject = record.subject or ""
    about = "" if subject.casefold().strip() in _USER else f", about {as_data(subject)}"
    room = of_room(record)
    line = f"The schedule has something at that time: {when} [{ids}]{about}{room}"
    return Overlap(f"{when}: {record.text}{room}", line, span, fact_of_record(record))


def _when(event: EventTime, span: Span) -> str:
    """The time in the item's own zone: `Tue 2025-06-03 22:00 to Wed 2025-06-04 02:00
    UTC`.
    """
    zone = zone_of(event.time_zone)
    begin, end = (moment.astimezone(zone) for moment in span)
    again = ", recurring" if event.recurrence else ""
    if event.granularity != "minute":
        last = end - timedelta(hours=12)  # the end is the midnight after the last day
        days = dict.fromkeys((with_weekday(begin), with_weekday(last)))
        return f"{' to '.join(days)}, all day{again}"
    ending = (
        f"{end:%H:%M}"
        if end.date() == begin.date()
        else f"{with_weekday(end)} {end:%H:%M}"
    )
    return (
        f"{with_weekday(begin)} {begin:%H:%M} to {ending} "
        f"{event.time_zone or 'UTC'}{again}"
    )


def agenda(
    connection: Reading, since: datetime, until: datetime, settings: Settings, most: int
) -> list[Occurrence]:
    """The first `most` that take place between two times; clashes are as in
    `recall`.
    """
    found = list[tuple[Span, PlannedItem]]()
    for item in planned_items(connection, since, settings, None):
        spans = item.occurrences(since, until, most, settings.event_minutes)
        found += [(span, item) for span in spans]
        # of the other items no more is needed than up to the last of these
        if len(found) > most:
            found = sorted(found, key=_place)[:most]
            until = min(until, found[-1][0][0] + _MOMENT)
    found.sort(key=_place)
    whole = labelled_records(connection, {item.n for _, item in found})
    clashing = _clashes(found)
    return [
        Occurrence(
            begin=span[0],
            end=span[1],
            timed=item.event.granularity == "minute",
            time_zone=item.event.time_zone or "UTC",
            recurs=item.event.recurrence is not None,
            record=whole[item.n],
            clashes=[whole[n].record_id for n in sorted(clashing[place])],
        )
        for place, (span, item) in enumerate(found)
    ]


def _place(one: tuple[Span, PlannedItem]) -> tuple[Span, int]:
    return one[0], one[1].n


def _clashes(found: list[tuple[Span, PlannedItem]]) -> list[set[int]]:
    """Of each occurrence, the numbers of the other records that take place at the same
    time.
    """
    clashing: list[set[int]] = [set() for _ in found]
    running: list[int] = []
    for place, (span, item) in enumerate(found):
        if not _is_exact(item):
            continue
        running = [other for other in running if found[other][0][1] > span[0]]
        for other in running:
            if found[other][1].n != item.n:
                clashing[place].add(found[other][1].n)
                clashing[other].add(item.n)
        running.append(place)
    return clashing
