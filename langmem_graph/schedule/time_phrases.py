"""Three parsers of times: what a model writes, dates named in a query, and a request's own time.

`written_event` reads ISO 8601 as models write it, with or without a time of day. `named_days` finds
the dates that a query names, for the ranking of messages. `spoken_time` reads the time to come that
a request names, and gives up on everything that is ambiguous.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from langmem_graph.errors import InvalidInputError
from langmem_graph.messages import to_utc
from langmem_graph.schedule.times import EventTime, Granularity, zone_of

LONGEST = 500
"""Characters; a longer request is not searched for a time."""
_DAY = timedelta(days=1)
_NEAR = timedelta(days=183)
"""A day that is named without its year lies within this time."""
_TALKED_ABOUT = range(-3, 15)
"""Days after an event on which people talk about it."""
_WHOLE: dict[Granularity, str] = {"year": r"\d{4}", "month": r"\d{4}-\d\d", "week": r"\d{4}-?W\d\d"}
_NAMES = (
    "january february march april may june july august september october november december".split()
)
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
_FULL = "|".join(_NAMES)
_ANY = rf"(?P<month>{_FULL}|sept|{'|'.join(name[:3] for name in _NAMES)})\.?"
_DAY_OF_MONTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_BEFORE_MONTH = "in|of|since|by|during|last|this|early|late|mid|until|before|after"
"""Words after which `may` and `march` alone are months."""
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b",
        rf"(?<!:)\b{_DAY_OF_MONTH}(?: of)? {_ANY}(?:,? {_YEAR})?\b",
        rf"\b{_ANY} {_DAY_OF_MONTH}\b(?:,? {_YEAR}\b)?",
        rf"\b{_ANY},? (?:of )?{_YEAR}\b",
        rf"\b(?:{_BEFORE_MONTH}) (?P<month>{_FULL})\b",
        r"\b(?P<year>(?:19|20)\d\d)\b",
    )
]
_TO = r"\s*(?:-|–|—|to|until|till)\s*"
_STAMP = r"(\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d)?(?:z|[+-]\d\d:?\d\d)?)"
_STAMPS = re.compile(rf"\b{_STAMP}(?:{_TO}{_STAMP})?")
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_RELATIVE = {"day after tomorrow": 2, "tomorrow": 1, "today": 0, "tonight": 0}
_DAY_WORDS = re.compile(rf"\b(?:the )?({'|'.join([*_RELATIVE, *_WEEKDAYS])})\b(?!'s)")
_CLOCK = r"(\d{1,2})(?::(\d\d)(?::\d\d)?)?(?:\s?([ap])\.?m\b\.?)?"
_CLOCKS = re.compile(
    rf"(?<![\w:.,$€£/+-]){_CLOCK}(?:{_TO}{_CLOCK})?(\s?(?:utc|gmt)\b|z\b)?(?![\w:/%€£$+-])"
)
_OTHER_ZONE = re.compile(
    r"\s?\(?(?:[ecmp][sd]?t|ak[sd]t|hst|[bij]st|wes?t|ces?t|ees?t|msk|kst|sgt|hkt|a[ec][sd]t|awst|"
    r"nz[sd]t|[a-z]+/[a-z_]+|(?!(?:my|our|local) )(?:[\w']+ ){1,3}time)\b"
)
"""What makes the time of day before it one of another zone; which zone, rules cannot tell."""
_COUNTS = {"a": 1.0, "an": 1.0, "half an": 0.5, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0}
_LENGTH = re.compile(
    rf"\b(?:for )?(half an|\d{{1,3}}(?:\.\d)?|{'|'.join(_COUNTS)})[ -]?(h|hr|hour|min|minute)s?\b"
)
_AMBIGUOUS = re.compile(
    r"\b(?:next|last|past|every|each|other|following|previous|before|after|by|until|till|since|than|"
    r"early|earlier|later|first|second|third|fourth|fifth|weeks?|weekdays?|weekends?|months?|daily|"
    r"weekly|monthly|yearly|midnight|instead|except|not|never|cancel\w*|mov(?:e|ed|ing)|"
    r"re-?schedul\w*|postpon\w*|shift\w*|push\w*|swap\w*|skip\w*|call off|did|was|were|had|said|"
    r"told|ago|yesterday|\d+(?:st|nd|rd|th)|in \w+ (?:hours?|minutes?))\b|n't\b"
)
"""Words that change the meaning of a day or time beside them."""
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}


def written_event(
    when: str, until: str = "", recurrence: str = "", zone: str | None = None
) -> EventTime:
    """The time that a model wrote.

    A mere day, week (`2025-W23`), month or year is meant as a whole. An end that is a mere day
    includes that day. An end earlier on the same day is on the next one: from 22:00 to 02:00. Any
    other end before the start is ignored.

    Args:
        when: when it starts.
        until: when it ends; may be empty.
        recurrence: an RFC 5545 rule; may be empty.
        zone: the zone of times without an offset; UTC for None.

    Raises:
        InvalidInputError: the start is no time, or the rule is none.
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
    """What a text names: a minute where it has a time of day, else a day or a longer unit."""
    for unit, pattern in _WHOLE.items():
        if re.fullmatch(pattern, when.strip()):
            return unit
    return "day" if re.fullmatch(r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d-?\d", when.strip()) else "minute"


def _ends(start: str, until: str, unit: Granularity) -> Iterator[str | datetime | None]:
    """Possible ends, the likeliest first, and None as the last."""
    try:
        first, last = datetime.fromisoformat(start), datetime.fromisoformat(until)
    except ValueError:  # no end, a month, or no time at all
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


def _named(year: str | None = None, month: str | None = None, day: str | None = None) -> NamedDay:
    numbers = [int(_MONTHS.get(part, part)) if part else None for part in (year, month, day)]
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


def spoken_time(request: str, now: datetime, zone: str | None = None) -> EventTime | None:
    """The time to come that a request names; None where there is none, or more than one reading.

    Args:
        request: the user's words.
        now: when they are said.
        zone: the zone of the times in it; UTC for None.
    """
    words = " ".join(request.lower().replace("\u2019", "'").split())
    if len(words) > LONGEST:
        return None
    try:
        event = _stamped(words, zone) or _phrased(words, now.astimezone(zone_of(zone)), zone)
    except (InvalidInputError, ValueError, OverflowError):  # the 31st of June, 25:00, after 9999
        return None
    return event if event and event.start > to_utc(now) else None


def _stamped(words: str, zone: str | None) -> EventTime | None:
    """The event of one ISO time, which another may follow as its end."""
    stamps, rest = _taken(_STAMPS, words)
    lengths, rest = _taken(_LENGTH, rest)
    named, rest = split_days(rest)
    others = [*named, *_taken(_DAY_WORDS, rest)[0], *_taken(_CLOCKS, rest, _is_clock)[0]]
    if len(stamps) != 1 or others or len(lengths) > 1 or _AMBIGUOUS.search(rest):
        return None
    start, end = stamps[0].groups()
    return _with_length(written_event(start.upper(), (end or "").upper(), zone=zone), lengths)


def _phrased(words: str, now: datetime, zone: str | None) -> EventTime | None:
    """The event of one day and one time of day, in words."""
    named, rest = split_days(re.sub(r"\bnoon\b", "12:00", words))
    days, rest = _taken(_DAY_WORDS, rest)
    lengths, rest = _taken(_LENGTH, rest)
    clocks, rest = _taken(_CLOCKS, rest, _is_clock)
    day = _day(named, {match[1] for match in days}, now.date())
    if day is None or len(clocks) != 1 or len(lengths) > 1 or _AMBIGUOUS.search(rest):
        return None
    clock = clocks[0]
    if _OTHER_ZONE.match(clock.string, clock.end()) or _is_half_unclear(clock):
        return None
    start, end = _between(clock)
    begin = datetime.combine(day, start)
    until = end and datetime.combine(day if end > start else day + _DAY, end)
    event = EventTime(time_zone="UTC" if clock[7] else zone, start=begin, end=until)
    return _with_length(event, lengths)


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
    plain = clock[3] or clock[6] or any(len(hour) == 2 and hour > "12" for hour in hours)
    return len(clock[1]) == 1 and not plain


def _between(clock: re.Match[str]) -> tuple[time, time | None]:
    """The start and the end, if any; of "3 to 4pm" both are in the afternoon."""
    hour, minute, half, last_hour, last_minute, last_half = clock.groups()[:6]
    if last_hour is None:
        return _time(hour, minute, half), None
    end = _time(last_hour, last_minute, last_half)
    if last_half is None or half is not None or int(hour) > 12:
        return _time(hour, minute, half), end
    same, other = _time(hour, minute, last_half), _time(hour, minute, "pa"[last_half == "p"])
    return (same if same < end else other), end


def _time(hour: str, minute: str | None, half: str | None) -> time:
    number = int(hour)
    if half and number > 12:
        raise ValueError(f"{hour} {half}m")
    return time(number % 12 + 12 * (half == "p") if half else number, int(minute or 0))


def _day(named: Sequence[NamedDay], words: set[str], today: date) -> date | None:
    """The one day that is meant; None where the words name none, or several."""
    days = {_dated(day, today) for day in named}
    days |= {today + _RELATIVE[word] * _DAY for word in words if word in _RELATIVE}
    weekdays = {_WEEKDAYS.index(word) for word in words if word in _WEEKDAYS}
    if not days and len(weekdays) == 1:
        ahead = (min(weekdays) - today.weekday()) % 7
        days = {today + ahead * _DAY if ahead else None}  # today's weekday: today, or in a week
    day = next(iter(days)) if len(days) == 1 else None
    return day if day and weekdays <= {day.weekday()} else None


def _dated(named: NamedDay, today: date) -> date | None:
    """The date in full; without its year, the next one that is not far off."""
    if named.month is None or named.day is None:
        return None
    if named.year is not None:
        return date(named.year, named.month, named.day)
    near = [date(year, named.month, named.day) for year in (today.year, today.year + 1)]
    return next((day for day in near if today <= day <= today + _NEAR), None)


def _with_length(event: EventTime, lengths: Sequence[re.Match[str]]) -> EventTime:
    """The event with the length that the words give, where it has no end."""
    if not lengths or event.end is not None:
        return event
    count, unit = lengths[0].groups()
    number = _COUNTS.get(count) or float(count)
    length = timedelta(hours=number) if unit.startswith("h") else timedelta(minutes=number)
    return event.model_copy(update={"end": event.start + length})
