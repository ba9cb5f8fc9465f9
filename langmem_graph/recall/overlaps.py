"""overlaps: does the time of the request collide with the schedule? Interval code, no model."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.models import Record
from langmem_graph.recall.facts import fact_of_record
from langmem_graph.schedule.times import EventTime, ends_at, overlaps
from langmem_graph.services import Services
from langmem_graph.store import record_lookups
from langmem_graph.store.room import Room

MOST = 5
"""Appointments named in one answer."""
MOST_RECURRING = 200
"""Recurring items that are expanded, a few milliseconds each."""
_LONGEST = timedelta(days=31)
_SLACK = timedelta(days=1)
_SLACKS = {
    "minute": timedelta(days=1),
    "day": timedelta(days=2),
    "week": timedelta(days=8),
    "month": timedelta(days=32),
    "year": timedelta(days=367),
}


async def overlapping(
    services: Services, user_id: str, start: str, end: str
) -> list[dict[str, Any]]:
    """Scheduled items at the time of the request, each as `text` and `facts`.

    Args:
        services: the memory's parts.
        user_id: whose schedule.
        start: ISO time, as the model read it out of the request; nothing where it is no time.
        end: ISO time, or empty.
    """
    asked = _event(start, end)
    if asked is None:
        return []
    minutes = services.settings.event_minutes
    return await services.in_known_room(user_id, lambda room: _colliding(room, asked, minutes), [])


def _event(start: str, end: str) -> EventTime | None:
    if not start.strip():
        return None
    granularity = "minute" if "T" in start or ":" in start else "day"
    for last in (end.strip() or None, None):
        try:
            return EventTime(start=start, end=last, granularity=granularity)
        except (InvalidInputError, ValueError):  # what a model writes need not be a time
            continue
    return None


def _colliding(room: Room, asked: EventTime, minutes: int) -> list[dict[str, Any]]:
    until = min(ends_at(asked, default_minutes=minutes) or asked.start, asked.start + _LONGEST)
    with room.database.reading() as connection:
        events = [
            (n, event)
            for n, fields in record_lookups.scheduled(connection)
            if (event := _own(fields)) and _may_meet(event, asked.start, until)
        ]
        meetings = sorted(_meetings(events, asked, until, minutes))[:MOST]
        held = record_lookups.records_by_number(connection, [n for _, _, n in meetings])
    return [_named(held[n], begin) for _, begin, n in meetings]


def _may_meet(event: EventTime, start: datetime, until: datetime) -> bool:
    """Cheap, and never wrongly False: expanding what recurs takes time."""
    if event.start - _SLACK > until:
        return False
    last = event.end or event.start
    return event.recurrence is not None or last + _SLACKS[event.granularity] >= start


def _meetings(
    events: Sequence[tuple[int, EventTime]], asked: EventTime, until: datetime, minutes: int
) -> Iterator[tuple[bool, datetime, int]]:
    """Whether it recurs, when it meets, and its number; of what recurs the newest."""
    recurring = [pair for pair in events if pair[1].recurrence][:MOST_RECURRING]
    for n, event in [*(pair for pair in events if not pair[1].recurrence), *recurring]:
        both = overlaps(asked, event, asked.start, until, default_minutes=minutes)
        if both:
            yield bool(event.recurrence), both[0][0], n


def _named(record: Record, begin: datetime) -> dict[str, Any]:
    fact = fact_of_record(record)
    text = f"{begin:%Y-%m-%d %H:%M} UTC: {record.text}"
    return {"text": text, "facts": [fact.id], "fact": fact.model_dump(mode="json")}


def _own(fields: dict[str, Any]) -> EventTime | None:
    try:
        return EventTime(**fields)
    except (InvalidInputError, TypeError):  # of an import; without a usable time it cannot collide
        return None
