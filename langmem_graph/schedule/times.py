"""The time of an event, its occurrences, overlaps of events, and how a record keeps its
time.

An event happens once or recurs. Recurrence follows the wall clock of the event's zone:
a meeting at nine stays at nine when the clocks change. All results are in UTC.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from heapq import merge
from itertools import islice, takewhile
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from dateutil.relativedelta import relativedelta
from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from langmem_graph.errors import InvalidInputError, explain
from langmem_graph.ids_and_times import in_zone, to_utc
from langmem_graph.schedule.recurrence_rules import first_start, starts_from
from langmem_graph.settings import EVENT_MINUTES

Granularity = Literal["minute", "day", "week", "month", "year"]
Span = tuple[datetime, datetime]
MOST_SKIPPED = 1_000  # occurrences of one event that can be left out
_UNITS = {
    "day": relativedelta(days=1),
    "week": relativedelta(weeks=1),
    "month": relativedelta(months=1),
    "year": relativedelta(years=1),
}
_DAY = timedelta(days=1)
_WEEKDAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
_LONGEST_RECURRING = timedelta(days=366)
_YEARS = range(1000, 9000)
_FIRST = datetime(_YEARS[0], 1, 1, tzinfo=UTC)
_LAST = datetime(_YEARS[-1], 12, 31, tzinfo=UTC)


class EventTime(BaseModel, frozen=True, extra="forbid"):
    """When something happens.

    Times without an offset are wall-clock times of `time_zone` (UTC without one); they
    are kept in UTC. With a granularity of a day or more, `start` and `end` name whole
    days, weeks, months or years, and `end` is the last of them.

    Raises:
        InvalidInputError: for an unknown zone, an unusable rule, or an end before the
            start.
    """

    time_zone: str | None = None
    """An IANA name, `Europe/Madrid`. It is the first field, as the times are parsed in
    it.
    """
    start: datetime
    end: datetime | None = None
    granularity: Granularity = "minute"
    recurrence: str | None = None
    """An RFC 5545 rule, `FREQ=WEEKLY;BYDAY=MO`. The start counts where it fits the
    rule.
    """
    skipped: Annotated[tuple[datetime | date, ...], Field(max_length=MOST_SKIPPED)] = ()
    """Occurrences that are left out: their starts in UTC, or whole days of the event's
    zone.
    """

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidInputError(
                f"Not the time of an event: {explain(error)}"
            ) from error

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

    @field_validator("skipped", mode="before")
    @classmethod
    def _days_or_utc(cls, value: object, info: ValidationInfo) -> list[datetime | date]:
        zone = zone_of(info.data.get("time_zone"))
        if not isinstance(value, list | tuple):
            raise InvalidInputError("give a list of times or days")
        return [_day_or_moment(one, zone) for one in value]

    @model_serializer(mode="wrap")
    def _without_empty_list(
        self, serialize: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        return {
            name: value for name, value in fields.items() if name != "skipped" or value
        }

    @model_validator(mode="after")
    def _consistent(self) -> "EventTime":
        if self.end is not None and self.end < self.start:
            raise InvalidInputError(
                f"the end {self.end.isoformat()} is before the start "
                f"{self.start.isoformat()}; "
                "what ends after midnight ends on the next day"
            )
        if self.recurrence is not None:
            zone = zone_of(self.time_zone)
            first_start(self.recurrence, _wall(self.start, zone), zone)
            if self.end is not None and self.end - self.start > _LONGEST_RECURRING:
                raise InvalidInputError("what recurs can last at most a year at a time")
        elif self.skipped:
            raise InvalidInputError("only of what recurs can an occurrence be skipped")
        return self


def event_in(
    kept: Mapping[str, Any] | None, zone: str | None = None
) -> EventTime | None:
    """The time that a record keeps, a mere wall-clock time in `zone`; None for none of
    use.
    """
    with suppress(InvalidInputError):
        return checked_event(kept, zone)
    return None


def checked_event(
    kept: Mapping[str, Any] | None, zone: str | None = None
) -> EventTime | None:
    """As `event_in`, but with an InvalidInputError for a time that cannot be used."""
    fields = dict(kept or {})
    if not fields:
        return None
    if not fields.get("time_zone") and _is_wall_clock(fields.get("start")):
        fields["time_zone"] = zone
    return EventTime(**fields)


def time_key(facet: object, kept: Mapping[str, Any] | None) -> str:
    """The part of a schedule item's identity that is its time; empty for all other
    records.
    """
    event = event_in(kept) if facet == "schedule" else None
    return (
        f"{event.start.isoformat()} {event.recurrence or ''}".rstrip() if event else ""
    )


def zone_of(name: str | None) -> tzinfo:
    """The time zone of an IANA name, UTC for None; InvalidInputError for an unknown
    name.
    """
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    # unknown, a path, a folder such as "Europe"
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInputError(
            f"Unknown time zone {name!r}. Give an IANA name such as "
            "'Europe/Madrid', "
            "or none."
        ) from error


def occurrences(
    event: EventTime,
    begin: datetime,
    end: datetime,
    limit: int = 1_000,
    *,
    default_minutes: int = EVENT_MINUTES,
) -> list[Span]:
    """The first `limit` occurrences, but skipped ones, that touch the time from `begin`
    to `end`.

    An event that has a time of day and no end lasts `default_minutes`.
    """
    since = to_utc(begin)
    until = min(to_utc(end), _LAST)
    if since >= until:
        return []
    spans = _spans(event, since, until, timedelta(minutes=default_minutes))
    # When clocks are set forward, neighbours can change places, but not over more than
    # a day.
    near = takewhile(lambda span: span[0] - until < _DAY, spans)
    inside = (
        span for span in _kept(event, near) if span[0] < until and span[1] > since
    )
    return sorted(islice(_distinct(inside), max(0, limit)))


def _kept(event: EventTime, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans of the event that are not skipped."""
    zone = zone_of(event.time_zone)
    moments = {one for one in event.skipped if isinstance(one, datetime)}
    days = {one for one in event.skipped if not isinstance(one, datetime)}
    if event.granularity == "minute":
        return (
            s
            for s in spans
            if s[0] not in moments and _wall(s[0], zone).date() not in days
        )
    days |= {_wall(moment, zone).date() for moment in moments}
    edges = ((span, [_wall(moment, zone).date() for moment in span]) for span in spans)
    return (
        span
        for span, (first, end) in edges
        if not any(first <= day < end for day in days)
    )


def _distinct(spans: Iterable[Span]) -> Iterator[Span]:
    """Each span once: two occurrences within a whole-day event's day are the
    same span.
    """
    seen: set[Span] = set()
    for span in spans:
        if span not in seen:
            seen.add(span)
            yield span


def first_span(event: EventTime, *, default_minutes: int = EVENT_MINUTES) -> Span:
    """The event's first occurrence, skipped or not."""
    default = timedelta(minutes=default_minutes)
    return next(_spans(event, event.start, _LAST, default))


def ends_at(
    event: EventTime, *, default_minutes: int = EVENT_MINUTES
) -> datetime | None:
    """When the event is over; None for a recurring one."""
    return (
        None
        if event.recurrence
        else first_span(event, default_minutes=default_minutes)[1]
    )


def meetings(one: Iterable[Span], other: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """The pairs of spans that overlap, of two lists that are sorted by start.

    Spans that only touch do not overlap. A sweep over both lists compares each span
    with those of the other list that have not ended when it begins.
    """
    running: tuple[list[Span], list[Span]] = ([], [])
    sides = [
        [(span, side) for span in spans] for side, spans in enumerate((one, other))
    ]
    for span, side in merge(*sides):
        others = running[1 - side]
        others[:] = [earlier for earlier in others if earlier[1] > span[0]]
        for earlier in sorted(others):
            yield (earlier, span) if side else (span, earlier)
        running[side].append(span)


def _spans(
    event: EventTime, since: datetime, until: datetime, default: timedelta
) -> Iterator[Span]:
    """The event's occurrences in order, from those that may not be over at `since` to
    those that may begin by `until`.
    """
    zone = zone_of(event.time_zone)
    length = (event.end or event.start) - event.start
    begin = max(since, event.start)
    # nothing begins before the first year
    reach = min(max(length, default), begin - _FIRST)
    for wall in _starts(event, begin - reach, until, zone):
        if event.granularity != "minute":
            yield _whole(wall, event, zone)
        elif event.recurrence is None:
            yield event.start, event.start + (length or default)
        else:
            yield _timed(wall, event, zone, default)


def _starts(
    event: EventTime, since: datetime, until: datetime, zone: tzinfo
) -> Iterator[datetime]:
    """The start, or a recurring event's starts from well before `since` to well after
    `until`, in wall-clock time.
    """
    first = _wall(event.start, zone)
    if event.recurrence is None:
        return iter([first])
    # Clock changes move a time by hours; a whole year begins up to a year before the
    # time given.
    margin = 2 * _DAY if event.granularity == "minute" else _LONGEST_RECURRING
    ahead = max(since - event.start - margin, timedelta())
    latest = first + (until - event.start + margin)
    return starts_from(event.recurrence, first, zone, first + ahead, latest)


def _timed(wall: datetime, event: EventTime, zone: tzinfo, default: timedelta) -> Span:
    """From one time of day to another, both in wall-clock time."""
    start = _utc_of(wall, zone)
    if event.end is None or event.end == event.start:
        return start, start + default
    length = _wall(event.end, zone) - _wall(event.start, zone)
    end = _utc_of(wall + length, zone)
    return start, end if end > start else start + (event.end - event.start)


def _whole(wall: datetime, event: EventTime, zone: tzinfo) -> Span:
    """Whole days, weeks, months or years, the last one included."""
    unit = event.granularity
    start = _wall(event.start, zone)
    last = _wall(event.end, zone) if event.end else start
    length = relativedelta(_floor(last, unit), _floor(start, unit))
    first = _floor(wall, unit)
    return _utc_of(first, zone), _utc_of(
        _floor(first + length, unit) + _UNITS[unit], zone
    )


def _is_wall_clock(start: object) -> bool:
    try:
        return (
            isinstance(start, str)
            and datetime.fromisoformat(start.strip()).tzinfo is None
        )
    except ValueError:  # a month or a year, or no time at all
        return True


def with_weekday(day: date) -> str:
    """A date with its weekday in English, whatever the process's locale is: `Fri
    2026-03-27`.
    """
    return f"{_WEEKDAYS[day.weekday()]} {day:%Y-%m-%d}"


def between(first: datetime, last: datetime) -> str:
    """How long it is from one day to a later one, in days and in longer units."""
    parts = relativedelta(last, first)
    longer = [(parts.years, "years"), (parts.months, "months"), (parts.days, "days")]
    words = " ".join(f"{number} {unit}" for number, unit in longer if number)
    return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}: {(last - first).days} days ({words})"


def _floor(wall: datetime, unit: str) -> datetime:
    midnight = datetime.combine(wall, time.min)
    if unit == "week":
        return midnight - wall.weekday() * _DAY
    if unit == "day":
        return midnight
    return midnight.replace(day=1, month=1 if unit == "year" else wall.month)


def _wall(moment: datetime, zone: tzinfo) -> datetime:
    return in_zone(moment, zone).replace(tzinfo=None)


def _utc_of(wall: datetime, zone: tzinfo) -> datetime:
    """In UTC; a time that the clocks skip is later by as much as they are set
    forward.
    """
    return wall.replace(tzinfo=zone).astimezone(UTC)


def _day_or_moment(value: object, zone: tzinfo) -> datetime | date:
    """A whole day where there is no time of day, else a time in UTC."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-?\d\d-?\d\d", value.strip()):
        return date.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return _moment(value, zone)


def _moment(value: object, zone: tzinfo) -> datetime:
    """A time in UTC; `2025`, `2025-05` and `2025-05-03` are their first moments."""
    if isinstance(value, str):
        padded = value.strip() + "-01" * (
            value.count("-") == 1 and len(value.strip()) == 7
        )
        value = datetime.fromisoformat(
            padded + "-01-01" * bool(re.fullmatch(r"\d{4}", padded))
        )
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time.min)
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    return to_utc(value)
