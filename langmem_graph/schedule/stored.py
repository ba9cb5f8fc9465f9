"""An item's time as the ledger keeps it: the fields of an `EventTime`, and the mark `postponed`.

Imports may have times of another shape: those cannot be compared with anything.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.times import EventTime

POSTPONED = "postponed"
"""Set where the time has passed, or none is known yet."""


def event_in(kept: Mapping[str, Any] | None, zone: str | None = None) -> EventTime | None:
    """The time that is kept; None where there is none, or none that can be used.

    Args:
        kept: a record's `event_time`.
        zone: of a time without an offset and without a zone of its own; UTC for None.
    """
    try:
        return checked_event(kept, zone)
    except InvalidInputError:
        return None


def checked_event(kept: Mapping[str, Any] | None, zone: str | None = None) -> EventTime | None:
    """As `event_in`, but says what is wrong.

    Raises:
        InvalidInputError: it is no time of an event.
    """
    fields = {name: value for name, value in (kept or {}).items() if name != POSTPONED}
    if not fields:
        return None
    if not fields.get("time_zone") and _is_wall_clock(fields.get("start")):
        fields["time_zone"] = zone
    return EventTime(**fields)


def is_postponed(kept: Mapping[str, Any] | None) -> bool:
    """True for what waits for a new time: the one it has means nothing any more."""
    return bool((kept or {}).get(POSTPONED))


def time_key(facet: object, kept: Mapping[str, Any] | None) -> str:
    """What tells one appointment from another that is named by the same words; empty without."""
    event = event_in(kept) if facet == "schedule" else None
    return f"{event.start.isoformat()} {event.recurrence or ''}".rstrip() if event else ""


def _is_wall_clock(start: object) -> bool:
    try:
        return isinstance(start, str) and datetime.fromisoformat(start.strip()).tzinfo is None
    except ValueError:  # a month or a year, or no time at all
        return True
