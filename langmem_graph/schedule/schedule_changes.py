"""Changes of one occurrence of a recurring event (RealMem 4.2: what recurs outlives a
missed time).

Nothing here judges what a message means: that a routine is left out once is a model's
answer.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import in_zone, to_utc, window_edge
from langmem_graph.schedule.model_written_times import written_event
from langmem_graph.schedule.times import (
    MOST_SKIPPED,
    EventTime,
    Span,
    event_in,
    first_span,
    occurrences,
    zone_of,
)

_AHEAD = timedelta(days=366 * 9)  # a 29 February may be eight years away


def with_skipped(
    event_time: dict[str, Any] | None,
    day: str | None,
    said_at: datetime,
    zone: str | None,
) -> dict[str, Any] | None:
    """A record's event time with an occurrence left out.

    Of a whole week or month, all its occurrences are left out.

    Args:
        event_time: the record's event time.
        day: the day, or the start, of the occurrence, as a model wrote it. Without one,
            or where none can be read, it is the next occurrence after `said_at`.
        said_at: when the user said so.
        zone: the zone of times that have neither an offset nor a zone; UTC for None.

    Returns:
        The event time; unchanged where that occurrence was left out before. None where
        the event does not recur, or has no such occurrence.
    """
    event = event_in(event_time, zone)
    if event_time is None or event is None or event.recurrence is None:
        return None
    meant = _read(day, event.time_zone or zone, said_at)
    spans = list(_within(meant, event)) if meant else _next(event, said_at)
    if not spans:
        return None
    skipped = {*event.skipped, *(_named(span, event) for span in spans)}
    kept = tuple(sorted(skipped, key=str)[-MOST_SKIPPED:])
    changed = event.model_copy(update={"skipped": kept}).model_dump(mode="json")
    return {**event_time, "skipped": changed["skipped"]}


def _read(day: str | None, zone: str | None, said_at: datetime) -> EventTime | None:
    """The day or time that is meant; None where nothing can be read, or a whole
    year.
    """
    try:
        read = written_event(day or "", zone=zone, said_at=to_utc(said_at))
    except InvalidInputError:
        return None
    return None if read.granularity == "year" else read


def _within(meant: EventTime, event: EventTime) -> Iterator[Span]:
    """The event's occurrences, skipped or not, at the time meant, or else on
    its day.
    """
    everything = event.model_copy(update={"skipped": ()})
    whole = meant.model_copy(update={"granularity": "day"})
    begin, end = first_span(whole if meant.granularity == "minute" else meant)
    found = occurrences(everything, begin, end, MOST_SKIPPED)
    exact = [
        span
        for span in found
        if span[0] == meant.start and meant.granularity == "minute"
    ]
    for span in exact or found:
        if event.granularity != "minute" or begin <= span[0] < end:
            yield span


def _next(event: EventTime, said_at: datetime) -> list[Span]:
    """The first occurrence that is not over, of whole days, or has not begun."""
    now = to_utc(said_at)
    found = occurrences(event, now, window_edge(now, _AHEAD), MOST_SKIPPED)
    return [span for span in found if event.granularity != "minute" or span[0] > now][
        :1
    ]


def _named(span: Span, event: EventTime) -> datetime | date:
    """The name by which an occurrence is skipped: its first day, or its start
    in UTC.
    """
    if event.granularity == "minute":
        return span[0]
    return in_zone(span[0], zone_of(event.time_zone)).date()
