"""Times as models write them, read into the time of an event.

The prompt asks for ISO 8601 and an RFC 5545 rule such as `FREQ=WEEKLY;BYDAY=TU`. Other
forms are read where they have one meaning ("every second Tuesday" may also be one
Tuesday of each month); what cannot be read is refused with the form that is asked for.
iCalendar's lines are read too, in one line or several: DTSTART gives the start, EXDATE
the occurrences that are left out.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import in_zone
from langmem_graph.schedule.recurrence_rules import first_start
from langmem_graph.schedule.time_phrases import only_time, take_clock
from langmem_graph.schedule.times import (
    EventTime,
    Granularity,
    first_span,
    occurrences,
    zone_of,
)

NONE = ("", "none", "null", "n/a", "unknown", "once", "-")
"""What models write for "no time is known" and "it does not recur"."""
_LINE = re.compile(r"(?:^|\s)(RRULE|DTSTART|EXDATE)((?:;[^:\s]*)?):", re.IGNORECASE)
_ONE_TIME = re.compile(r"\d{4}-?\d\d-?\d\d(?:T[\d:]+Z?)?", re.IGNORECASE)
_UNITS = {
    "hour": "HOURLY",
    "day": "DAILY",
    "week": "WEEKLY",
    "month": "MONTHLY",
    "year": "YEARLY",
}
_ADVERBS = {period.lower(): period for period in _UNITS.values()} | {
    "fortnightly": "WEEKLY;INTERVAL=2",
    "annually": "YEARLY",
}
_NUMBERS = {"other": "2", "two": "2", "three": "3", "four": "4", "six": "6"}
_GROUPS = {"weekend": "SA,SU", "weekday": "MO,TU,WE,TH,FR"}
# "tues" is read in one way: its last letter is none of a plural
_WEEKDAY = r"(?>mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?s?"
_DATE = r"\d\d?(?:st|nd|rd|th)?"
_PHRASE = re.compile(
    rf"(?:(?P<adverb>{'|'.join(_ADVERBS)})|(?P<every>(?:once )?(?:every|each|an?|per))"
    rf"(?: (?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)}))?(?: "
    rf"(?P<unit>{'|'.join(_UNITS)})s?)?)?"
    rf"(?:(?:^| )(?:on )?(?P<days>weekdays?|weekends?|{_WEEKDAY}(?: {_WEEKDAY})*))?"
    rf"(?: on (?:the )?(?P<dates>{_DATE}(?: {_DATE})*))?"
)


@dataclass(frozen=True)
class Recurrence:
    """A recurrence as it was written: the rule, and what else stood beside it."""

    rule: str
    clock: time | None = None
    start: str = ""  # of a DTSTART line, in ISO 8601
    zone: str | None = None  # the zone of that line
    skipped: tuple[str, ...] = ()  # of EXDATE lines, in ISO 8601

    @property
    def is_timed(self) -> bool:
        """True for what takes place at a time of day."""
        return bool(self.clock or "BYHOUR" in self.rule)


def read_recurrence(text: str) -> Recurrence | None:
    """The recurrence that a model wrote, None for none; InvalidInputError for any other
    text.
    """
    plain = " ".join(text.split())
    if plain.casefold() in NONE:
        return None
    if re.search(r"\bFREQ ?=", plain, re.IGNORECASE):
        return _of_lines(plain)
    if phrase := recurrence_in_words(plain):
        return phrase
    raise _no_recurrence(text)


def recurrence_in_words(text: str) -> Recurrence | None:
    """The recurrence of a phrase such as "every Tuesday at 18:00"; None where it is
    none.
    """
    clock, rest = take_clock(text)
    rule = _rule_in_words(" ".join(re.sub(r"[,.&]|\b(?:and|at)\b", " ", rest).split()))
    return Recurrence(rule, clock) if rule else None


def _rule_in_words(phrase: str) -> str | None:
    found = _PHRASE.fullmatch(phrase)
    period = _period(found) if found else None
    if found is None or period is None:
        return None
    days = found["days"]
    dates = found["dates"]
    misplaced = days and not period.startswith(("DAILY", "WEEKLY"))
    if misplaced or (dates and not period.startswith("MONTHLY")):
        return None
    on_days = f";BYDAY={_weekdays(days)}" if days else ""
    on_dates = f";BYMONTHDAY={','.join(re.findall('[0-9]+', dates))}" if dates else ""
    return f"FREQ={period}{on_days}{on_dates}"


def _period(found: re.Match[str]) -> str | None:
    """`WEEKLY;INTERVAL=2` of "every 2 weeks" and of "every other Tuesday"."""
    if found["adverb"]:
        return _ADVERBS[found["adverb"]]
    number = found["number"]
    unit = found["unit"]
    days = found["days"] or ""
    if unit is None:
        are_many = days.endswith("s") or found["every"] in ("every", "each")
        if not days or not are_many or number not in (None, "other"):
            return None
    interval = _NUMBERS.get(number, number) or "1"
    return _UNITS[unit or "week"] + (f";INTERVAL={interval}" if interval != "1" else "")


def _weekdays(days: str) -> str:
    group = _GROUPS.get(days.removesuffix("s"))
    return group or ",".join(dict.fromkeys(day[:2].upper() for day in days.split()))


def _of_lines(text: str) -> Recurrence:
    """The rule of iCalendar's lines, or of a rule alone."""
    before, *parts = _LINE.split(text)
    if before:
        parts = ["RRULE", "", before, *parts]
    names = [name.upper() for name in parts[::3]]
    lines = dict(zip(names, zip(parts[1::3], parts[2::3], strict=True), strict=True))
    if "RRULE" not in lines or len(lines) < len(names):
        raise _no_recurrence(text)
    parameters, start = lines.get("DTSTART", ("", ""))
    zone = re.search(r"TZID=([\w/+-]+)", parameters, re.IGNORECASE)
    skipped = re.findall(r"[^\s,]+", lines.get("EXDATE", ("", ""))[1])
    if not all(map(_ONE_TIME.fullmatch, skipped)):
        raise _no_recurrence(text)
    rule = _plain(lines["RRULE"][1])
    return Recurrence(rule, None, start, zone[1] if zone else None, tuple(skipped))


def _plain(rule: str) -> str:
    """The rule in capitals, without spaces and seconds, its weekdays in two letters."""
    plain = re.sub(r"\s|;BYSECOND=0\b", "", rule.upper()).strip(";")
    longer = r"(?<=[=,\d])([A-Z]{2})[A-Z]+"
    return re.sub("BYDAY=[^;]+", lambda days: re.sub(longer, r"\1", days[0]), plain)


def _no_recurrence(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"recurrence: {text[:200]!r} cannot be read. Give an RFC 5545 rule such as "
        "FREQ=WEEKLY;BYDAY=TU, or nothing where it does not recur."
    )


_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_LARGEST_OFFSET = timedelta(hours=14)
_WHOLE: dict[Granularity, str] = {
    "year": r"\d{4}",
    "month": r"\d{4}-\d\d",
    "week": r"\d{4}-?W\d\d",
    "day": r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d-?\d",
}
_ZONE = re.compile(r" ?[\[(]?\b([A-Z][A-Za-z]{1,30}/[A-Za-z_/+-]{1,60})[\])]?\Z")
_RANGE = re.compile(r"\S+ (\d\d:\d\d)-(\d\d:\d\d)")
_TO = re.compile(r" ?/ ?| (?:-|–|—|to|until|till) ")


def written_event(
    when: str,
    until: str = "",
    recurrence: str = "",
    zone: str | None = None,
    said_at: datetime | None = None,
) -> EventTime:
    """The time that a model wrote.

    A mere day, week (`2025-W23`), month or year is meant as a whole. What recurs may
    have no `when`, or a mere time of day: it then begins on the first day that fits its
    rule, from the day on which it was said. An end that is a mere day includes that
    day; one that lies behind the second occurrence is the end of the series.

    Args:
        when: when it starts, or an interval.
        until: when it ends; may be empty, and is ignored where it is no time or before
            the start.
        recurrence: an RFC 5545 rule, iCalendar's lines or an English phrase; may be
            empty.
        zone: the zone of times without an offset; UTC for None.
        said_at: when it was said; dates without a year, and "tomorrow", need it.

    Raises:
        InvalidInputError: `when` or `recurrence` cannot be read; the message says
            which, and gives the form that is asked for.
    """
    zone_of(zone)
    repeated = read_recurrence(recurrence)
    when, zone = _zone_apart(when, zone)
    today = in_zone(said_at, zone_of(zone)).date() if said_at else None
    start, end = _interval(when, today)
    if not start:
        repeated = _routine(when, repeated)
        start = repeated.start
        zone = repeated.zone or zone
    if repeated and (
        not start or (repeated.is_timed and _granularity_of(start) == "day")
    ):
        begin = date.fromisoformat(start) if start else today
        start = _first_time(repeated, begin, zone) if begin else ""
    try:
        once = _once(start, _end(until, start) or end, zone)
    except InvalidInputError as error:
        raise _refusal(when or start) from error
    try:
        return _recurring(once, repeated) if repeated else once
    except InvalidInputError as error:
        raise InvalidInputError(f"recurrence: {error}") from error


def read_day(text: str, zone: str | None = None) -> datetime | None:
    """The first moment, in UTC, of the day, month, year or time that a model wrote;
    else None.

    Args:
        text: "2025-09-14", "2025-09", "2025", "2025-09-14T18:30", "14 September 2025".
        zone: the zone of a text without an offset; UTC for None.
    """
    plain, zone = _zone_apart(text, zone)
    with suppress(InvalidInputError):
        return first_span(_once(_moment(plain, None)[0], "", zone))[0]
    return None


def _zone_apart(text: str, zone: str | None) -> tuple[str, str | None]:
    """A text without the IANA name of a zone at its end, and that zone or else the
    given one.
    """
    plain = " ".join(text.split())
    named = _ZONE.search(plain)
    before = plain[: named.start()] if named else ""
    if named is None or not any(sign.isdigit() for sign in before):
        return plain, zone
    try:
        zone_of(named[1])
    except InvalidInputError:
        return plain, zone
    return before, named[1]


def _interval(text: str, today: date | None) -> tuple[str, str]:
    """Start and end in ISO 8601; both empty for what is no time, the end for one moment
    or day.
    """
    start, end = _moment(text, today)
    parts = _TO.split(text)
    if start or len(parts) != 2:
        return start, end
    start = _moment(parts[0], today)[0]
    end = _end(parts[1], start)
    return (start, end) if start and end else ("", "")


def _moment(text: str, today: date | None) -> tuple[str, str]:
    """One day, time or longer unit in ISO 8601, and its end where the text gives a time
    for it.
    """
    plain = text.strip(" ,.").upper()
    ranged = _RANGE.fullmatch(plain)
    is_range = ranged and ranged[1] < ranged[2]  # otherwise the second one is an offset
    if _granularity_of(plain) != "minute" or (_is_moment(plain) and not is_range):
        return plain, ""
    with suppress(ValueError):  # the 31st of June, 25:00
        return only_time(text, today) or ("", "")
    return "", ""


def _end(text: str, start: str) -> str:
    """The end in ISO 8601; empty where it cannot be read. A mere time is one of the
    start's day.
    """
    try:
        begin = datetime.fromisoformat(start)
    except ValueError:  # a month or a year, or no time at all
        return _moment(text, None)[0]
    if end := _moment(text, begin.date())[0]:
        return end if _granularity_of(end) in ("minute", "day") else _last_day(end)
    clock, rest = take_clock(text)
    if clock is None or rest or _granularity_of(start) != "minute":
        return ""
    return begin.replace(hour=clock.hour, minute=clock.minute).isoformat()


def _last_day(whole: str) -> str:
    """The last day of a week, month or year; empty where there is none."""
    with suppress(InvalidInputError):
        return (first_span(_once(whole, "", None))[1] - _SECOND).date().isoformat()
    return ""


def _granularity_of(when: str) -> Granularity:
    """What a text names: a minute where it has a time of day, else a day or a longer
    unit.
    """
    return next(
        (unit for unit, form in _WHOLE.items() if re.fullmatch(form, when)), "minute"
    )


def _is_moment(text: str) -> bool:
    """True for a date and time in ISO 8601, with an offset that exists or
    without one.
    """
    with suppress(ValueError):
        offset = datetime.fromisoformat(text).utcoffset()
        return offset is None or abs(offset) <= _LARGEST_OFFSET
    return False


def _once(start: str, until: str, zone: str | None) -> EventTime:
    """The event without a recurrence; an end that cannot be one is ignored."""
    fields: dict[str, Any] = {"start": start, "time_zone": zone}
    fields["granularity"] = _granularity_of(start)
    once = EventTime(**fields)
    try:
        return EventTime(**fields, end=_last_moment(start, until)) if until else once
    # no time, before the start, after 9999
    except (InvalidInputError, ValueError, OverflowError):
        return once


def _last_moment(start: str, until: str) -> str | datetime | None:
    """The end of a time of day: from 22:00 to 02:00 is on the next day. Other ends are
    whole.
    """
    if _granularity_of(start) != "minute":
        return until
    first = datetime.fromisoformat(start)
    last = datetime.fromisoformat(until)
    is_next = last.date() == first.date() and last.time() < first.time()
    if _granularity_of(until) != "day":
        return last + _DAY if is_next else last
    return last + _DAY if last.date() > first.date() else None


def _routine(when: str, repeated: Recurrence | None) -> Recurrence:
    """The recurrence where `when` names no day: nothing, a time of day, or a phrase."""
    if repeated and when.casefold() in NONE:
        return repeated
    if phrase := recurrence_in_words(when):
        return (
            replace(repeated, clock=phrase.clock or repeated.clock)
            if repeated
            else phrase
        )
    clock, rest = take_clock(when)
    if repeated is None or clock is None or rest:
        raise _refusal(when)
    return replace(repeated, clock=clock)


def _first_time(repeated: Recurrence, begin: date, zone: str | None) -> str:
    """The first day, or day and time, from `begin` on that fits the rule."""
    midnight = datetime.combine(begin, repeated.clock or time.min)
    try:
        first = first_start(repeated.rule, midnight, zone_of(zone))
    except InvalidInputError as error:
        raise InvalidInputError(f"recurrence: {error}") from error
    if repeated.is_timed:
        return first.isoformat(timespec="minutes")
    # what recurs within a day needs the time of its first occurrence
    return "" if "HOURLY" in repeated.rule else first.date().isoformat()


def _recurring(once: EventTime, repeated: Recurrence) -> EventTime:
    """The event with its rule; an end behind the second occurrence is the end of the
    series.
    """
    fields: dict[str, Any] = {
        name: getattr(once, name) for name in ("time_zone", "granularity")
    }
    fields |= {"start": once.start, "recurrence": repeated.rule}
    endless = EventTime(**fields)
    fields["skipped"] = repeated.skipped
    if once.end is None:
        return EventTime(**fields)
    last = once.end if once.granularity == "minute" else first_span(once)[1]
    times = occurrences(endless, once.start, datetime.max.replace(tzinfo=UTC), 2)
    if len(times) < 2 or last <= times[1][0]:
        return EventTime(**fields, end=once.end)
    return EventTime(**fields | {"recurrence": _ending(repeated.rule, last, once)})


def _ending(rule: str, last: datetime, event: EventTime) -> str:
    """The rule with an end, where it has none; an end at midnight belongs to the day
    before.
    """
    if "UNTIL=" in rule or "COUNT=" in rule:
        return rule
    wall = last.astimezone(zone_of(event.time_zone))
    if wall.time() == time.min:
        return f"{rule};UNTIL={wall - _SECOND:%Y%m%d}"
    return f"{rule};UNTIL={last:%Y%m%dT%H%M%SZ}"


def _refusal(when: str) -> InvalidInputError:
    return InvalidInputError(
        f"when: {when[:200]!r} cannot be read. Give ISO 8601, such as "
        "2026-03-05T18:30 or "
        "2026-03-05, or an interval 2026-03-05/2026-03-08."
    )
