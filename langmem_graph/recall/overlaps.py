"""overlaps: does the time of the request collide with the schedule? Interval code, no model."""

from datetime import timedelta
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
_LONGEST = timedelta(days=31)


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
        numbers = record_lookups.with_facet(connection, "schedule")
        held = record_lookups.records_by_number(connection, numbers)
    found = []
    for record in held.values():
        event = _own(record)
        if event is None:
            continue
        for begin, _ in overlaps(asked, event, asked.start, until, default_minutes=minutes)[:1]:
            fact = fact_of_record(record)
            found.append(
                {
                    "text": f"{begin:%Y-%m-%d %H:%M} UTC: {record.text}",
                    "facts": [fact.id],
                    "fact": fact.model_dump(mode="json"),
                }
            )
    return found[:MOST]


def _own(record: Record) -> EventTime | None:
    try:
        return EventTime(**record.event_time) if record.event_time else None
    except (InvalidInputError, TypeError):  # of an import; without a usable time it cannot collide
        return None
