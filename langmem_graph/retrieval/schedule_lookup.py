"""Schedule conflicts: scheduled items at the time of a request, found without a model (RealMem)."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from langmem_graph.retrieval.facts import fact_of_record
from langmem_graph.retrieval.quoted_context import as_data, not_in_view, plain_id
from langmem_graph.schedule.time_phrases import spoken_time
from langmem_graph.schedule.times import (
    EventTime,
    Span,
    ends_at,
    event_in,
    first_span,
    is_postponed,
    meetings,
    occurrences,
    zone_of,
)
from langmem_graph.schemas import Fact, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries
from langmem_graph.storage.user_room import Room

MOST = 5
"""Conflicts in one result."""
MOST_RECURRING = 200
"""Recurring items that are expanded; of more, the newest."""
IDS = 3
"""Message ids beside one conflict."""
LONGEST = timedelta(days=366)
"""Part of a longer proposal that is compared, from its start."""
AHEAD = timedelta(days=92)
"""Part of a recurring proposal that is compared; ours."""
_TIMES_COMPARED = 10_000
_WEEKDAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
_USER = ("", "user", "the user", "me", "i", "myself")


@dataclass(frozen=True)
class ScheduleConflict:
    """A scheduled item at the time of the request."""

    text: str
    """Time and text of the item."""
    line: str
    """Time, ids and subject of the item, for the context."""
    start: datetime
    """In UTC, as `end`: the item's own time, of a recurring one the occurrence that conflicts."""
    end: datetime
    fact: Fact
    """The record of the item."""


def conflicts_at(room: Room, asked: EventTime, settings: Settings) -> list[ScheduleConflict]:
    """The scheduled items at a proposed time: single ones before recurring ones, then by time."""
    with room.database.read_transaction() as connection:
        items = [
            (n, event)
            for n, kept in record_queries.scheduled(connection)
            if not is_postponed(kept) and (event := event_in(kept, settings.time_zone))
        ]
        found = sorted(met(asked, items, settings.event_minutes))[:MOST]
        records = record_queries.records_by_number(connection, [n for _, _, n in found])
    events = dict(items)
    return [_conflict(records[n], events[n], span) for _, span, n in found]


def met(
    asked: EventTime, items: Sequence[tuple[int, EventTime]], minutes: int
) -> Iterator[tuple[bool, Span, int]]:
    """The conflicting items.

    Args:
        asked: the proposed time.
        items: scheduled items by number.
        minutes: length of an item without an end.

    Yields:
        Whether the item recurs, its first conflicting time, and its number.
    """
    begin = first_span(asked, default_minutes=minutes)[0]
    end = ends_at(asked, default_minutes=minutes)
    until = begin + AHEAD if end is None else min(end, begin + LONGEST)
    wanted = occurrences(asked, begin, until, _TIMES_COMPARED, default_minutes=minutes)
    # Whatever lies in the window of a proposal that does not recur conflicts with it.
    needed = 1 if asked.recurrence is None else _TIMES_COMPARED
    recurring = [item for item in items if item[1].recurrence][:MOST_RECURRING]
    for n, event in [*(item for item in items if not item[1].recurrence), *recurring]:
        spans = occurrences(event, begin, until, needed, default_minutes=minutes)
        for _, span in meetings(wanted, spans):
            yield event.recurrence is not None, span, n
            break


def _conflict(record: Record, event: EventTime, span: Span) -> ScheduleConflict:
    when = _when(event, span)
    ids = ", ".join(map(plain_id, record.message_ids[:IDS]))
    subject = record.subject or ""
    about = "" if subject.casefold().strip() in _USER else f", about {as_data(subject)}"
    return ScheduleConflict(
        text=f"{when}: {record.text}",
        line=f"The schedule has something at that time: {when} [{ids}]{about}",
        start=span[0],
        end=span[1],
        fact=fact_of_record(record),
    )


def _when(event: EventTime, span: Span) -> str:
    """The time in the item's own zone: `Tue 2025-06-03 22:00 to Wed 2025-06-04 02:00 UTC`."""
    zone = zone_of(event.time_zone)
    begin, end = (moment.astimezone(zone) for moment in span)
    again = ", recurring" if event.recurrence else ""
    if event.granularity != "minute":
        last = end - timedelta(hours=12)  # the end is the midnight after the last day
        days = dict.fromkeys((_day(begin), _day(last)))
        return f"{' to '.join(days)}, all day{again}"
    ending = f"{end:%H:%M}" if end.date() == begin.date() else f"{_day(end)} {end:%H:%M}"
    return f"{_day(begin)} {begin:%H:%M} to {ending} {event.time_zone or 'UTC'}{again}"


def _day(moment: datetime) -> str:
    """A date with the weekday in English, whatever the process's locale is."""
    return f"{_WEEKDAYS[moment.weekday()]} {moment:%Y-%m-%d}"


def conflicts_in_words(
    room: Room, request: str, now: datetime, settings: Settings
) -> list[ScheduleConflict]:
    """Compare the time that the words of a request state with the schedule.

    Args:
        room: the user's room.
        request: the request.
        now: time of the request, in UTC.
        settings: time zone, and length of an item without an end.
    """
    asked = spoken_time(request, now, settings.time_zone)
    return conflicts_at(room, asked, settings) if asked else []


def conflict_section(
    conflicts: Iterable[ScheduleConflict], in_view: Collection[str]
) -> list[tuple[str, list[Fact]]]:
    """Each conflict's line for the context, and its record unless that is in view."""
    return [(conflict.line, not_in_view([conflict.fact], in_view)) for conflict in conflicts]
