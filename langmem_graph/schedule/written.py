"""Times as a model writes them: ISO 8601 with a clock time or without, and at times careless."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.times import EventTime, Granularity

_DAY = timedelta(days=1)
_WHOLE: dict[Granularity, str] = {"year": r"\d{4}", "month": r"\d{4}-\d\d", "week": r"\d{4}-?W\d\d"}


def written_event(
    when: str, until: str = "", recurrence: str = "", zone: str | None = None
) -> EventTime:
    """The time that a model wrote.

    A mere day, week (`2025-W23`), month or year is meant whole. An end that is a mere day counts
    to the end of that day. An end earlier on the same day is on the next: from 22:00 to 02:00. No
    other end before the start counts.

    Args:
        when: when it starts.
        until: when it ends, or nothing.
        recurrence: an RFC 5545 rule, or nothing.
        zone: of times without an offset; UTC for None.

    Raises:
        InvalidInputError: the start is no time, or the rule none.
    """
    start, unit = when.strip(), granularity_of(when)
    for end in _ends(start, until.strip(), unit):
        try:
            return EventTime(
                time_zone=zone,
                start=start,
                end=end,
                granularity=unit,
                recurrence=recurrence.strip() or None,
            )
        except InvalidInputError:
            if end is None:
                raise
    raise AssertionError("None is the last of the ends")  # pragma: no cover


def granularity_of(when: str) -> Granularity:
    """What a text names: a minute where it has a time of day, else a day or something longer."""
    for unit, pattern in _WHOLE.items():
        if re.fullmatch(pattern, when.strip()):
            return unit
    return "day" if re.fullmatch(r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d-?\d", when.strip()) else "minute"


def _ends(start: str, until: str, unit: Granularity) -> Iterator[str | datetime | None]:
    """What the end may be, the likeliest first; at last none."""
    try:
        first, last = datetime.fromisoformat(start), datetime.fromisoformat(until)
    except ValueError:  # no end, a month, or nothing that is a time
        yield from (until, None) if until else (None,)
        return
    if unit != "minute":
        yield until
    elif granularity_of(until) == "minute":
        yield last
        if last.date() == first.date():
            yield last + _DAY
    elif last.date() > first.date():
        yield last + _DAY
    yield None
