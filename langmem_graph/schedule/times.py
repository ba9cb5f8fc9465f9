"""When something happens: once or again and again, and which of two things meet.

Recurrence follows the wall clock of the event's zone: a meeting at nine stays at nine when the
clocks change. Everything that comes out is in UTC.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from heapq import merge
from itertools import islice, takewhile
from typing import Any, Literal
from zoneinfo import ZoneInfo

from dateutil.relativedelta import relativedelta
from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from langmem_graph.errors import InvalidInputError, explain
from langmem_graph.messages import to_utc
from langmem_graph.schedule.recurrence import read_rule, starts_from
from langmem_graph.settings import EVENT_MINUTES

Granularity = Literal["minute", "day", "week", "month", "year"]
Span = tuple[datetime, datetime]

_STEPS = {
    "day": relativedelta(days=1),
    "week": relativedelta(weeks=1),
    "month": relativedelta(months=1),
    "year": relativedelta(years=1),
}
_YEARS = range(1000, 9000)
_LAST = datetime(_YEARS[-1], 12, 31, tzinfo=UTC)
_FIRST = datetime(_YEARS[0], 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_LONGEST_RECURRING = timedelta(days=366)

POSTPONED = "postponed"
"""Set where the time has passed, or none is known yet."""


class EventTime(BaseModel):
    """When something happens.

    Times without an offset are wall clock times of `time_zone` (UTC without one); they are kept
    in UTC. With a granularity of a day or more, `start` and `end` name whole days, weeks, months
    or years, and `end` is the last of them.

    Raises:
        InvalidInputError: for an unknown zone, an unusable rule, or an end before the start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time_zone: str | None = None
    """An IANA name, `Europe/Madrid`. It comes first: the times are read in it."""
    start: datetime
    end: datetime | None = None
    granularity: Granularity = "minute"
    recurrence: str | None = None
    """An RFC 5545 rule, `FREQ=WEEKLY;BYDAY=MO`. The start counts where it fits the rule."""

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidInputError(f"Not the time of an event: {explain(error)}") from error

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        zone_of(name)
        return name

    @field_validator("start", "end", mode="before")
    @classmethod
    def _utc(cls, value: object, info: ValidationInfo) -> datetime | None:
        if value is None and info.field_name == "end":
            return None
        moment = _moment(value, zone_of(info.data.get("time_zone")))
        if moment.year not in _YEARS:
            raise InvalidInputError(f"the year {moment.year} is not one of a schedule")
        return moment

    @model_validator(mode="after")
    def _consistent(self) -> "EventTime":
        if self.end is not None and self.end < self.start:
            raise InvalidInputError(
                f"the end {self.end.isoformat()} is before the start {self.start.isoformat()}; "
                "what ends after midnight ends on the next day"
            )
        if self.recurrence is not None:
            zone = zone_of(self.time_zone)
            read_rule(self.recurrence, _wall(self.start, zone), zone)
            if self.end is not None and self.end - self.start > _LONGEST_RECURRING:
                raise InvalidInputError("what recurs can last at most a year at a time")
        return self


def zone_of(name: str | None) -> tzinfo:
    """The time zone of an IANA name; UTC for None.

    Raises:
        InvalidInputError: for an unknown name.
    """
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown, a path, a folder such as "Europe"
        raise InvalidInputError(
            f"Unknown time zone {name!r}. Give an IANA name such as 'Europe/Madrid', or none."
        ) from error


def occurrences(
    event: EventTime,
    begin: datetime,
    end: datetime,
    limit: int = 1_000,
    *,
    default_minutes: int = EVENT_MINUTES,
) -> list[Span]:
    """The first `limit` times the event takes place, wholly or partly, from `begin` up to `end`.

    Args:
        default_minutes: how long it lasts where the time of day is known and no end.
    """
    since, until = to_utc(begin), min(to_utc(end), _LAST)
    if since >= until:
        return []
    spans = _spans(event, since, timedelta(minutes=default_minutes))
    # A clock set forward can swap neighbours; a day later nothing earlier follows.
    near = takewhile(lambda span: span[0] - until < _DAY, spans)
    inside = (span for span in near if span[0] < until and span[1] > since)
    return sorted(islice(_distinct(inside), max(0, limit)))


def _distinct(spans: Iterable[Span]) -> Iterator[Span]:
    """Each span once: what recurs within one day is that whole day only once."""
    seen: set[Span] = set()
    for span in spans:
        if span not in seen:
            seen.add(span)
            yield span


def first_span(event: EventTime, *, default_minutes: int = EVENT_MINUTES) -> Span:
    """The first time it takes place."""
    return next(_spans(event, event.start, timedelta(minutes=default_minutes)))


def ends_at(event: EventTime, *, default_minutes: int = EVENT_MINUTES) -> datetime | None:
    """When it is over; None for what recurs."""
    if event.recurrence is not None:
        return None
    return first_span(event, default_minutes=default_minutes)[1]


def meetings(one: Iterable[Span], other: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """The spans of two lists, each by start, that overlap; what only touches does not.

    A sweep over both: each span meets what the other side has not yet ended.
    """
    running: tuple[list[Span], list[Span]] = ([], [])
    sides = [[(span, side) for span in spans] for side, spans in enumerate((one, other))]
    for span, side in merge(*sides):
        others = running[1 - side]
        others[:] = [open_one for open_one in others if open_one[1] > span[0]]
        for open_one in sorted(others):
            yield (open_one, span) if side else (span, open_one)
        running[side].append(span)


def _spans(event: EventTime, since: datetime, default: timedelta) -> Iterator[Span]:
    """The event's spans in order, from those that may still last at `since`."""
    zone = zone_of(event.time_zone)
    length = (event.end or event.start) - event.start
    from_then = max(since, event.start)
    reach = min(max(length, default), from_then - _FIRST)  # before the calendar nothing begins
    for wall in _walls(event, from_then - reach, zone):
        if event.granularity != "minute":
            yield _whole(wall, event, zone)
        elif event.recurrence is None:
            yield event.start, event.start + (length or default)
        else:
            yield _timed(wall, event, zone, default)


def _walls(event: EventTime, since: datetime, zone: tzinfo) -> Iterator[datetime]:
    """On the wall clock: the start, or the starts from well before `since` on."""
    first = _wall(event.start, zone)
    if event.recurrence is None:
        return iter([first])
    # A clock that is set moves a time by hours; a whole year begins up to a year before its name.
    margin = 2 * _DAY if event.granularity == "minute" else _LONGEST_RECURRING
    ahead = since - event.start - margin
    return starts_from(event.recurrence, first, zone, first + max(ahead, timedelta()))


def _timed(wall: datetime, event: EventTime, zone: tzinfo, default: timedelta) -> Span:
    """From a time of day to another, both as the clock on the wall shows them."""
    start = _utc_of(wall, zone)
    if event.end is None or event.end == event.start:
        return start, start + default
    length = _wall(event.end, zone) - _wall(event.start, zone)
    end = _utc_of(wall + length, zone)
    return start, end if end > start else start + (event.end - event.start)


def _whole(wall: datetime, event: EventTime, zone: tzinfo) -> Span:
    """Whole days, weeks, months or years, the last one included."""
    unit, start = event.granularity, _wall(event.start, zone)
    last = _wall(event.end, zone) if event.end else start
    length = relativedelta(_floor(last, unit), _floor(start, unit))
    first = _floor(wall, unit)
    return _utc_of(first, zone), _utc_of(_floor(first + length, unit) + _STEPS[unit], zone)


def _floor(wall: datetime, unit: str) -> datetime:
    midnight = datetime.combine(wall, time.min)
    if unit == "week":
        return midnight - wall.weekday() * _DAY
    if unit == "day":
        return midnight
    return midnight.replace(day=1, month=1 if unit == "year" else wall.month)


def _wall(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _utc_of(wall: datetime, zone: tzinfo) -> datetime:
    """In UTC; a time that the clocks skip is as much later as they are set forward."""
    return wall.replace(tzinfo=zone).astimezone(UTC)


def _moment(value: object, zone: tzinfo) -> datetime:
    """A time in UTC; `2025`, `2025-05` and `2025-05-03` are their first moments."""
    if isinstance(value, str):
        padded = value.strip() + "-01" * (value.count("-") == 1 and len(value.strip()) == 7)
        value = datetime.fromisoformat(padded + "-01-01" * bool(re.fullmatch(r"\d{4}", padded)))
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time.min)
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    return to_utc(value)


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
