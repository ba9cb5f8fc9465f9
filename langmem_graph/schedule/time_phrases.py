"""Times in words: the one time that a request proposes, and that a text alone is.

Policies over `moments.scan`: everything that is ambiguous is left alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import in_zone
from langmem_graph.moments.moment import Moment
from langmem_graph.moments.scanner import scan
from langmem_graph.schedule.times import EventTime, zone_of

LONGEST = 500  # characters; a longer request is not searched for a time
_DAY = timedelta(days=1)
# a day that is named without its year lies within this time
_NEAR = timedelta(days=183)
MONTHS = (
    "january february march april may june july august september october "
    "november december"
).split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_OFFSET = r"(?:z|[+-](?:0\d|1[0-4]):?\d\d)"
_STAMP = rf"(\b\d{{4}}-\d\d-\d\dt\d\d:\d\d(?::\d\d)?{_OFFSET}?)"
_STAMPS = re.compile(
    rf"{_STAMP}\s*(?:-|–|—|to|until|till)\s*{_STAMP}(?![\w:])", re.IGNORECASE
)
_OTHER_ZONE = re.compile(
    r"\s?\(?(?:[ecmp][sd]?t|ak[sd]t|hst|[bij]st|wes?t|ces?t|ees?t|msk|kst|sgt|hkt|a[ec][sd]t|awst|"
    r"nz[sd]t|[a-z]+/[a-z_]+|(?!(?:my|our|local) )(?:[\w']+ ){1,3}time)\b",
    re.IGNORECASE,
)
"""What makes the time of day before it one of another zone; which zone, rules cannot
tell.
"""
_COUNTS = {
    "a": 1.0,
    "an": 1.0,
    "half an": 0.5,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "four": 4.0,
}
_LENGTH = re.compile(
    rf"\b(?:for )?(half an|\d{{1,5}}(?:\.\d)?|{'|'.join(_COUNTS)})[ "
    r"-]?(h|hr|hour|min|minute)s?\b"
)
_AMBIGUOUS = re.compile(
    r"\b(?:next|last|past|every|each|other|following|previous|before|after|by|until|till|since|than|"
    r"early|earlier|later|first|second|third|fourth|fifth|weeks?|weekdays?|weekends?|months?|daily|"
    r"weekly|monthly|yearly|midnight|instead|except|not|never|cancel\w*|mov(?:e|ed|ing)|"
    r"re-?schedul\w*|postpon\w*|shift\w*|push\w*|swap\w*|skip\w*|call "
    r"off|did|was|were|had|said|"
    r"told|ago|yesterday|\d+(?:st|nd|rd|th)|in \w+ (?:hours?|minutes?))\b|n't\b|"
    r"\d[:/]\d"
)
"""Words that change the meaning of a day or time beside them, and other figures."""
_FILLING = re.compile(r"\b(?:on|the|of|at)\b")


@dataclass(frozen=True)
class _Parts:
    """The days and times of day in a text, and its other words in small letters."""

    text: str
    days: list[Moment]  # weekdays too
    clocks: list[Moment]
    rest: str
    others: bool  # whether it names a time of another kind


def spoken_time(
    request: str, now: datetime, zone: str | None = None
) -> EventTime | None:
    """The time to come that a request names, read in a zone; None for none, or several
    readings.
    """
    if len(request) > LONGEST:
        return None
    try:
        event = _proposed(request, in_zone(now, zone_of(zone)), zone)
    # an end before its start, after 9999 …
    except (InvalidInputError, ValueError, OverflowError, TypeError):
        return None
    return event if event and event.start > in_zone(now, UTC) else None


def _proposed(request: str, now: datetime, zone: str | None) -> EventTime | None:
    """The event of one day and one time of day."""
    parts = _parts(_STAMPS.sub(_with_length, request), now.date())
    if parts.others or not _is_english(parts):
        return None
    lengths = list(_LENGTH.finditer(parts.rest))
    rest = _LENGTH.sub(" , ", parts.rest)
    day = _day(parts, now.date())
    if day is None or len(parts.clocks) != 1 or len(lengths) > 1:
        return None
    clock = parts.clocks[0]
    if _AMBIGUOUS.search(rest) or _OTHER_ZONE.match(parts.text, clock.end):
        return None
    if len(clock.clocks) != 1:  # 3:30 in the morning, or in the afternoon
        return None
    start, end = clock.clocks[0]
    begin = datetime.combine(day, start)
    until = datetime.combine(day if end > start else day + _DAY, end) if end else None
    if until is None and lengths:
        until = begin + _length(*lengths[0].groups())
    return EventTime(time_zone="UTC" if clock.is_utc else zone, start=begin, end=until)


def _parts(text: str, today: date | None) -> _Parts:
    plain = " ".join(text.replace("\u2019", "'").split())
    days = list[Moment]()
    clocks = list[Moment]()
    others = False
    for moment in scan(plain, today):
        if moment.kind == "clock":
            clocks.append(moment)
        elif _is_one_day(moment, plain):
            days.append(moment)
        elif moment.kind != "day" or moment.dates:
            others = True
    return _Parts(plain, days, clocks, _without(plain, [*days, *clocks]), others)


def _is_one_day(moment: Moment, text: str) -> bool:
    """True for a date, a weekday and tomorrow; false for "Tuesday's", "next Tuesday"
    and "in two weeks".
    """
    if moment.kind == "weekday":
        return not text.startswith("'s", moment.end)
    if moment.kind != "day" or moment.grain != "day":
        return False
    if moment.dates:
        return moment.dates[0].month is not None
    return len(moment.days) == 1


def _without(text: str, moments: Sequence[Moment]) -> str:
    """A text without the words of some moments, in small letters."""
    rest = text
    for moment in sorted(moments, key=lambda one: -one.start):
        rest = f"{rest[: moment.start]} , {rest[moment.end :]}"
    return rest.lower()


def _is_english(parts: _Parts) -> bool:
    """Whether the words beside the times can be judged: these rules know English."""
    return all(moment.is_english for moment in (*parts.days, *parts.clocks))


def _with_length(stamps: re.Match[str]) -> str:
    """Of two ISO times, the first and how long it is to the second."""
    start, end = (datetime.fromisoformat(stamp.upper()) for stamp in stamps.groups())
    if end <= start:
        raise ValueError("it ends before it begins")
    return f"{stamps[1]} for {(end - start) // timedelta(minutes=1)} minutes"


def _day(parts: _Parts, today: date | None) -> date | None:
    """The one day that is meant; None where the words name none, or several."""
    named = [moment for moment in parts.days if moment.kind == "day"]
    weekdays = [moment for moment in parts.days if moment.kind == "weekday"]
    days = {_dated(moment, today) for moment in named}
    numbers = {moment.weekday for moment in weekdays}
    if today and not days and len(numbers) == 1:
        coming = [one.first for one in weekdays[0].days if one.first >= today]
        # today's weekday: today, or in a week
        days = {*coming}
    day = next(iter(days)) if len(days) == 1 else None
    return day if day and numbers <= {day.weekday()} else None


def _dated(moment: Moment, today: date | None) -> date | None:
    """The date in full; without its year, the next one that is not far off."""
    if moment.has_year:
        return moment.days[0].first if moment.days else None
    if today is None:
        return None
    near = (one.first for one in moment.days)
    return next((day for day in near if timedelta(0) <= day - today <= _NEAR), None)


def only_time(text: str, today: date | None) -> tuple[str, str] | None:
    """Start and end (or "") in ISO 8601 of the one time that is all a text names, else
    None.

    Args:
        text: "3 February 2026 9:15", "Tuesday, 3 February", "tomorrow 9-10 am", "March
            2026".
        today: when it was written; without it, a day counts only with its year.
    """
    if month := _only_month(text):
        return month, ""
    parts = _parts(text, today)
    if parts.others or len(parts.clocks) > 1 or not _is_all(parts.rest):
        return None
    day = _day(parts, today)
    if day is None or not parts.clocks:
        return (day.isoformat(), "") if day else None
    clock = parts.clocks[0]
    if not clock.clocks:
        return None
    start, end = (
        f"{day.isoformat()}T{one:%H:%M}" if one else "" for one in clock.clocks[0]
    )
    return (f"{start}Z", end and f"{end}Z") if clock.is_utc else (start, end)


def _only_month(text: str) -> str | None:
    """A month with its year, where a text is nothing else."""
    found = scan(text, None)
    if len(found) != 1 or found[0].kind != "month" or not found[0].days:
        return None
    is_all = _is_all(_without(text, found))
    return f"{found[0].days[0].first:%Y-%m}" if is_all else None


def _is_all(rest: str) -> bool:
    """Whether what is left of a text has no words of its own."""
    return not re.search(r"[^\W_]", _FILLING.sub(" ", rest))


def take_clock(text: str) -> tuple[time | None, str]:
    """The one time of day in a text, and its other words; None for no time, or
    several.
    """
    words = " ".join(text.lower().split())
    clocks = [moment for moment in scan(words, None) if moment.kind == "clock"]
    is_one = len(clocks) == 1 and bool(clocks[0].clocks)
    if not is_one or clocks[0].clocks[0].end:
        return None, words
    return clocks[0].clocks[0].start, _without(words, clocks).strip(" ,")


def _length(count: str, unit: str) -> timedelta:
    minutes = 60 if unit.startswith("h") else 1
    return timedelta(minutes=minutes * (_COUNTS.get(count) or float(count)))
