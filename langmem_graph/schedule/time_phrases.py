"""Times in words: dates that a text names, and the time that a request proposes.

Everything that is ambiguous is left alone.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import days_that_exist, in_zone, moved, to_utc
from langmem_graph.schedule.times import EventTime, zone_of

LONGEST = 500  # characters; a longer request is not searched for a time
_DAY = timedelta(days=1)
# a day that is named without its year lies within this time
_NEAR = timedelta(days=183)
_TALKED_ABOUT = range(-3, 15)  # days after an event on which people talk about it
MONTHS = (
    "january february march april may june july august september october "
    "november december"
).split()
_MONTHS = {name: number for number, name in enumerate(MONTHS, 1)}
_FULL = "|".join(MONTHS)
_ANY = rf"(?P<month>{_FULL}|sept|{'|'.join(name[:3] for name in MONTHS)})\.?"
_DAY_OF_MONTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_BEFORE_MONTH = "in|of|since|by|during|last|this|early|late|mid|until|before|after"
"""Words after which `may` and `march` alone are months."""
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"\b(?P<year>\d{4})([-/])(?P<month>\d\d)\2(?P<day>\d\d)\b",
        rf"(?<!:)\b{_DAY_OF_MONTH}(?: of)? {_ANY}(?:,? {_YEAR})?\b",
        rf"\b{_ANY} {_DAY_OF_MONTH}\b(?:,? {_YEAR}\b)?",
        rf"\b{_ANY},? (?:of )?{_YEAR}\b",
        rf"\b(?:{_BEFORE_MONTH}) (?P<month>{_FULL})\b",
        r"\b(?P<year>(?:19|20)\d\d)\b",
    )
]
_TO = r"\s*(?:-|–|—|to|until|till)\s*"
_PLAIN_STAMP = r"\b\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d)?"
_OFFSET = r"(?:z|[+-](?:0\d|1[0-4]):?\d\d)"
_STAMP = re.compile(rf"{_PLAIN_STAMP}{_OFFSET}(?![\w:])")
_STAMPS = re.compile(
    rf"({_PLAIN_STAMP}{_OFFSET}?){_TO}({_PLAIN_STAMP}{_OFFSET}?)(?![\w:])"
)
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_RELATIVE = {"day after tomorrow": 2, "tomorrow": 1, "today": 0, "tonight": 0}
_DAY_WORDS = re.compile(rf"\b(?:the )?({'|'.join([*_RELATIVE, *WEEKDAYS])})\b(?!'s)")
_CLOCK = r"(\d{1,2})(?::(\d\d)(?::\d\d)?)?(?:\s?([ap])\.?m\b\.?)?"
_CLOCKS = re.compile(
    rf"(?<![\w:.,$€£/+-]){_CLOCK}(?:{_TO}{_CLOCK})?(\s?(?:utc|gmt)\b|z\b)?(?![\w:/%€£$+-])"
)
_OTHER_ZONE = re.compile(
    r"\s?\(?(?:[ecmp][sd]?t|ak[sd]t|hst|[bij]st|wes?t|ces?t|ees?t|msk|kst|sgt|hkt|a[ec][sd]t|awst|"
    r"nz[sd]t|[a-z]+/[a-z_]+|(?!(?:my|our|local) )(?:[\w']+ ){1,3}time)\b"
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
    r"told|ago|yesterday|\d+(?:st|nd|rd|th)|in \w+ (?:hours?|minutes?))\b|n't\b"
)
"""Words that change the meaning of a day or time beside them."""
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}


@dataclass(frozen=True)
class NamedDay:
    """A date as a text names it; parts that it leaves out are None."""

    year: int | None
    month: int | None
    day: int | None


def named_days(query: str) -> list[NamedDay]:
    """The dates in a query: `May 7`, `7 May 2023`, `2023-05-07`, `in May`, `2023`."""
    return split_days(query)[0]


def split_days(query: str) -> tuple[list[NamedDay], str]:
    """The dates in a query, and its other words in lower case."""
    rest, days = query.lower(), []
    for pattern in _PATTERNS:
        days += [_named(**match.groupdict()) for match in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
    return days, rest


def _named(
    year: str | None = None, month: str | None = None, day: str | None = None
) -> NamedDay:
    numbers = [
        int(_MONTHS.get(part, part)) if part else None for part in (year, month, day)
    ]
    return NamedDay(*numbers)


def day_fit(named: list[NamedDay], said: date) -> float:
    """How well a message's day fits the best of the dates named, from 0 to 1."""
    return max((_fit(day, said) for day in named), default=0.0)


def _fit(named: NamedDay, said: date) -> float:
    if named.month is None:
        return 0.25 if named.year == said.year else 0.0
    if named.day is None:
        return float(named.month == said.month and named.year in (None, said.year))
    try:
        meant = date(named.year or said.year, named.month, named.day)
    except ValueError:  # the 31st of June
        return 0.0
    late = (said - meant).days
    if abs(late) <= 1:
        return 1.0
    if late in _TALKED_ABOUT:
        return 0.5
    return 0.25 if (said.year, said.month) == (meant.year, meant.month) else 0.0


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
    # 31st of June, after 9999 …
    except (InvalidInputError, ValueError, OverflowError, TypeError):
        return None
    return event if event and event.start > in_zone(now, UTC) else None


def _proposed(request: str, now: datetime, zone: str | None) -> EventTime | None:
    """The event of one day and one time of day."""
    named, days, clocks, rest = _parts(_STAMPS.sub(_with_length, request.lower()))
    lengths, rest = _taken(_LENGTH, rest)
    day = _day(named, days, now.date())
    if day is None or len(clocks) != 1 or len(lengths) > 1 or _AMBIGUOUS.search(rest):
        return None
    clock = clocks[0]
    if _OTHER_ZONE.match(clock.string, clock.end()) or _is_half_unclear(clock):
        return None
    start, end = _between(clock)
    begin = datetime.combine(day, start)
    until = datetime.combine(day if end > start else day + _DAY, end) if end else None
    if until is None and lengths:
        until = begin + _length(*lengths[0].groups())
    return EventTime(time_zone="UTC" if clock[7] else zone, start=begin, end=until)


def _parts(text: str) -> tuple[list[NamedDay], set[str], list[re.Match[str]], str]:
    """The dates, the words for days and the times of day in a text, and its other
    words.
    """
    words = " ".join(text.lower().replace("\u2019", "'").split())
    words = re.sub(r"(?<=\d)t(?=\d)", " ", _STAMP.sub(_in_utc, words))
    named, rest = split_days(re.sub(r"\bnoon\b", "12:00", words))
    days, rest = _taken(_DAY_WORDS, rest)
    clocks, rest = _taken(_CLOCKS, rest, _is_clock)
    return named, {match[1] for match in days}, clocks, rest


def _with_length(stamps: re.Match[str]) -> str:
    """Of two ISO times, the first and how long it is to the second."""
    start, end = (datetime.fromisoformat(stamp.upper()) for stamp in stamps.groups())
    if end <= start:
        raise ValueError("it ends before it begins")
    return f"{stamps[1]} for {(end - start) // timedelta(minutes=1)} minutes"


def _in_utc(stamp: re.Match[str]) -> str:
    return f"{to_utc(stamp[0].upper()):%Y-%m-%d %H:%Mz}"


def _taken(
    pattern: re.Pattern[str], words: str, counts: Callable[[re.Match[str]], bool] = bool
) -> tuple[list[re.Match[str]], str]:
    """The matches that count, and the words without them."""
    matches = [match for match in pattern.finditer(words) if counts(match)]
    rest = words
    for match in reversed(matches):
        rest = f"{rest[: match.start()]} , {rest[match.end() :]}"
    return matches, rest


def _is_clock(match: re.Match[str]) -> bool:
    """True for a time of day, false for a mere number."""
    return any(match[place] for place in (2, 3, 5, 6))


def _is_half_unclear(clock: re.Match[str]) -> bool:
    """True for a 3:30 that may be in the morning or in the afternoon."""
    hours = [hour for hour in (clock[1], clock[4]) if hour]
    plain = (
        clock[3] or clock[6] or any(len(hour) == 2 and hour > "12" for hour in hours)
    )
    return len(clock[1]) == 1 and not plain


def _between(clock: re.Match[str]) -> tuple[time, time | None]:
    """The start and the end, if any; of "3 to 4pm" both are in the afternoon."""
    hour, minute, half, last_hour, last_minute, last_half = clock.groups()[:6]
    if last_hour is None:
        return _time(hour, minute, half), None
    end = _time(last_hour, last_minute, last_half)
    if last_half is None or half is not None or int(hour) > 12:
        return _time(hour, minute, half), end
    same, other = (
        _time(hour, minute, last_half),
        _time(hour, minute, "pa"[last_half == "p"]),
    )
    return (same if same < end else other), end


def _time(hour: str, minute: str | None, half: str | None) -> time:
    number = int(hour)
    if half and number > 12:
        raise ValueError(f"{hour} {half}m")
    return time(number % 12 + 12 * (half == "p") if half else number, int(minute or 0))


def _day(named: Sequence[NamedDay], words: set[str], today: date) -> date | None:
    """The one day that is meant; None where the words name none, or several."""
    days = {_dated(day, today) for day in named}
    days |= moved([today], [_RELATIVE[w] * _DAY for w in words if w in _RELATIVE])
    weekdays = {WEEKDAYS.index(word) for word in words if word in WEEKDAYS}
    if not days and len(weekdays) == 1:
        ahead = (min(weekdays) - today.weekday()) % 7
        # today's weekday: today, or in a week
        days |= moved([today], [ahead * _DAY]) if ahead else set()
    day = next(iter(days)) if len(days) == 1 else None
    return day if day and weekdays <= {day.weekday()} else None


def only_time(text: str, today: date | None) -> tuple[str, str] | None:
    """Start and end (or "") in ISO 8601 of the one time that is all a text names, else
    None.

    Args:
        text: "3 February 2026 9:15", "Tuesday, 3 February", "tomorrow 9-10 am", "March
            2026".
        today: when it was written; without it, a day counts only with its year.
    """
    named, days, clocks, rest = _parts(text)
    if len(clocks) > 1 or re.search(
        r"[^\W_]", re.sub(r"\b(?:on|the|of|at)\b", " ", rest)
    ):
        return None
    whole = _day_or_month(named, days, today)
    if whole is None or not clocks:
        return (whole, "") if whole else None
    start, end = (f"{whole}T{one:%H:%M}" if one else "" for one in _between(clocks[0]))
    return (f"{start}Z", end and f"{end}Z") if clocks[0][7] else (start, end)


def _day_or_month(
    named: list[NamedDay], days: set[str], today: date | None
) -> str | None:
    one = named[0] if len(named) == 1 and not days else None
    if one and one.year and one.month and one.day is None:
        return f"{one.year:04}-{one.month:02}"
    if today is None and not (named and all(day.year for day in named)):
        return None
    day = _day(named, days, today or date.min)
    return day.isoformat() if day else None


def take_clock(text: str) -> tuple[time | None, str]:
    """The one time of day in a text, and its other words; None for no time, or
    several.
    """
    words = re.sub(r"\bnoon\b", "12:00", " ".join(text.lower().split()))
    clocks, rest = _taken(_CLOCKS, words, _is_clock)
    if len(clocks) != 1 or clocks[0][4]:
        return None, words
    with suppress(ValueError):  # 25:00
        return _time(*clocks[0].groups()[:3]), rest.strip(" ,")
    return None, words


def _dated(named: NamedDay, today: date) -> date | None:
    """The date in full; without its year, the next one that is not far off."""
    if named.month is None or named.day is None:
        return None
    if named.year is not None:
        return date(named.year, named.month, named.day)
    near = days_that_exist(
        (year, named.month, named.day) for year in (today.year, today.year + 1)
    )
    return next((day for day in near if timedelta(0) <= day - today <= _NEAR), None)


def _length(count: str, unit: str) -> timedelta:
    minutes = 60 if unit.startswith("h") else 1
    return timedelta(minutes=minutes * (_COUNTS.get(count) or float(count)))
