"""Recurrence rules (RFC 5545, `FREQ=WEEKLY;BYDAY=MO,WE`), checked before dateutil
expands them.

A rule comes from a model, and dateutil accepts rules that run for ever (`INTERVAL=0`)
or search eight thousand years for a 30th of February. So each part is checked first.
dateutil also walks day by day from the start to the next occurrence. So a start near
the time that is asked for takes its place, the end of a COUNT is reckoned once, and it
is not asked for a time without a day that fits.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from math import gcd, prod

from dateutil.rrule import rrule, rrulestr

from langmem_graph.errors import InvalidInputError

_MAX_CHARS = 500
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = f"(?:{'|'.join(_DAYS)})"
_MONTH_DAY = r"[+-]?(?:0?[1-9]|[12]\d|3[01])"
_LISTS = {
    "BYDAY": rf"(?:[+-]?[1-5])?{_DAY}",
    "BYMONTH": "0?[1-9]|1[0-2]",
    "BYMONTHDAY": _MONTH_DAY,
    "BYSETPOS": _MONTH_DAY,
    "BYHOUR": r"[01]?\d|2[0-3]",
    "BYMINUTE": r"[0-5]?\d",
}
_PARTS = {
    "FREQ": "HOURLY|DAILY|WEEKLY|MONTHLY|YEARLY",
    "INTERVAL": r"[1-9]\d{0,3}",
    "COUNT": r"[1-9]\d{0,3}",
    "UNTIL": r".+",
    "WKST": _DAY,
    **{name: f"(?:{one})(?:,(?:{one}))*" for name, one in _LISTS.items()},
}
_PERIODS = {"HOURLY": timedelta(hours=1), "DAILY": timedelta(1), "WEEKLY": timedelta(7)}
"""Frequencies whose periods all have the same length."""
_HOURS_OF_A_WEEK = 168
_MOST_A_DAY = 96  # a quarter of an hour apart; a denser rule is none of a schedule
_LONGEST_COUNT = timedelta(days=36_525)  # a hundred years, walked day by day
_YEARS_OF_ROUND = 400  # after which each date has its weekday again
_PERIODS_OF_ROUND = {
    "YEARLY": 400,
    "MONTHLY": 4_800,
    "WEEKLY": 20_871,
    "DAILY": 146_097,
}
_HOURLY_PARTS = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", "BYHOUR"}


@dataclass(frozen=True)
class _Rule:
    """A checked rule without its end, and when it happens first and last."""

    parts: Mapping[str, str]
    begin: datetime
    last: datetime | None


def first_start(text: str, first: datetime, zone: tzinfo) -> datetime:
    """When a rule over wall-clock times from `first` on happens first;
    InvalidInputError says why it cannot be used.
    """
    return _checked(text, first, zone).begin


def starts_from(
    text: str, first: datetime, zone: tzinfo, since: datetime, until: datetime
) -> Iterator[datetime]:
    """The wall-clock times of a checked rule between `since` and `until`."""
    rule = _checked(text, first, zone)
    since = max(since, rule.begin)
    until = min(until, rule.last or until)
    if not _has_such_a_day(rule.parts, since, until):
        return iter(())
    times = _expanded(rule.parts, _start_near(rule.parts, first, since))
    return takewhile(lambda time: time <= until, times.xafter(since, inc=True))


def _checked(text: str, first: datetime, zone: tzinfo) -> _Rule:
    read = _read(text, first, zone)
    if isinstance(read, str):
        raise _refusal(text, read)
    return read


@lru_cache(maxsize=10_000)  # a stored one is read at every look at the schedule
def _read(text: str, first: datetime, zone: tzinfo) -> _Rule | str:
    """The rule, or why it cannot be used."""
    parts = _parts(text)
    endless = {name: parts[name] for name in parts if name not in ("COUNT", "UNTIL")}
    try:
        begin = _first_time(endless, first)
        last = _last_time(parts, endless, first, zone) if begin else None
    except (ValueError, OverflowError) as error:
        return str(error)
    if begin is None or (last is not None and last < begin):
        return f"from {first.isoformat()} on it never happens"
    return _Rule(endless, begin, last)


def _expanded(parts: Mapping[str, str], first: datetime) -> rrule:
    text = ";".join(f"{name}={value}" for name, value in parts.items())
    rule = rrulestr(text, dtstart=first)
    assert isinstance(rule, rrule)
    return rule


def _has_such_a_day(parts: Mapping[str, str], since: datetime, until: datetime) -> bool:
    """Whether a day of this time has a month, a day and a weekday that the rule names.

    dateutil would search on for decades where there is none.
    """
    months = {int(month) for month in _values(parts, "BYMONTH")}
    days = {int(day) for day in _values(parts, "BYMONTHDAY")}
    weekdays = {_DAYS.index(day[-2:]) for day in _values(parts, "BYDAY")}
    return any(
        (not months or day.month in months)
        and (not weekdays or day.weekday() in weekdays)
        and (not days or day.day in days or _from_the_end(day) in days)
        for day in map(
            date.fromordinal, range(since.toordinal(), until.toordinal() + 1)
        )
    )


def _values(parts: Mapping[str, str], name: str) -> list[str]:
    return [value for value in parts.get(name, "").split(",") if value]


def _from_the_end(day: date) -> int:
    """-1 for the last day of a month."""
    return day.day - 1 - monthrange(day.year, day.month)[1]


def _start_near(parts: Mapping[str, str], first: datetime, since: datetime) -> datetime:
    """A start shortly before `since` with the same times after it."""
    interval = int(parts.get("INTERVAL", "1"))
    period = _PERIODS.get(parts["FREQ"])
    if period is not None:
        step = period * interval
        return first + max(0, (since - first) // step - 1) * step
    if parts["FREQ"] == "MONTHLY":
        interval //= gcd(interval, 12)  # years after which the same months come again
    latest = first.year + max(0, (since.year - first.year) // interval - 1) * interval
    for year in range(latest, first.year, -interval):
        with suppress(ValueError):  # a 29th of February
            return first.replace(year=year)
    return first


def _first_time(parts: Mapping[str, str], first: datetime) -> datetime | None:
    """When a rule without an end happens first; None where it never would.

    dateutil searches up to the year 9999. The calendar comes again after 400 years, so
    the last of its rounds that begin like the first one is searched instead.
    """
    if parts["FREQ"] == "HOURLY":
        if _fits_no_hour(parts, first):
            return None
        return next(iter(_expanded(parts, first)), None)
    interval = int(parts.get("INTERVAL", "1"))
    rounds = interval // gcd(interval, _PERIODS_OF_ROUND[parts["FREQ"]])
    years = _YEARS_OF_ROUND * rounds
    later = max(0, (MAXYEAR - first.year) // years - 1) * years
    times = iter(_expanded(parts, first.replace(year=first.year + later)))
    found = next(times, None)
    return found and found.replace(year=found.year - later)


def _last_time(
    parts: Mapping[str, str], endless: Mapping[str, str], first: datetime, zone: tzinfo
) -> datetime | None:
    """When a rule that happens ends; None for one without an end."""
    if "UNTIL" in parts:
        return _last_moment(parts["UNTIL"], zone)
    if "COUNT" not in parts:
        return None
    latest = first + _LONGEST_COUNT
    last = first
    for last in islice(_expanded(endless, first), int(parts["COUNT"])):
        if last > latest:
            raise ValueError("its COUNT takes more than a hundred years; give UNTIL")
    return last


def _fits_no_hour(parts: Mapping[str, str], first: datetime) -> bool:
    """Whether a rule of hours meets none of its weekdays and hours: each step leads to
    the same hours of every week.
    """
    step = timedelta(hours=int(parts.get("INTERVAL", "1")))
    days = [day[-2:] for day in parts.get("BYDAY", ",".join(_DAYS)).split(",")]
    hours = [int(hour) for hour in parts.get("BYHOUR", "").split(",") if hour]
    moments = (first + count * step for count in range(_HOURS_OF_A_WEEK))
    return not any(
        _DAYS[moment.weekday()] in days and (not hours or moment.hour in hours)
        for moment in moments
    )


def _parts(text: str) -> dict[str, str]:
    """`{"FREQ": "WEEKLY", …}`, every part checked."""
    if len(text) > _MAX_CHARS:
        raise _refusal(text[:40] + "…", f"longer than {_MAX_CHARS} characters")
    parts: dict[str, str] = {}
    for part in text.strip().upper().removeprefix("RRULE:").strip(";").split(";"):
        name, _, value = (side.strip() for side in part.partition("="))
        if name in parts:
            raise _refusal(text, f"{name} stands twice")
        if name not in _PARTS or not re.fullmatch(_PARTS[name], value, re.ASCII):
            raise _refusal(text, f"{part!r} is unknown or out of range")
        parts[name] = value
    times = [parts.get(name, "").count(",") + 1 for name in ("BYHOUR", "BYMINUTE")]
    if prod(times) > _MOST_A_DAY:
        raise _refusal(text, f"it happens more than {_MOST_A_DAY} times a day")
    if problem := _contradiction(parts):
        raise _refusal(text, problem)
    return parts


def _contradiction(parts: dict[str, str]) -> str | None:
    """Which parts contradict each other, or None."""
    frequency = parts.get("FREQ")
    if frequency is None:
        return "FREQ is missing"
    if "COUNT" in parts and "UNTIL" in parts:
        return "COUNT and UNTIL exclude each other"
    if frequency == "HOURLY" and not parts.keys() <= _HOURLY_PARTS:
        return f"HOURLY goes with {', '.join(sorted(_HOURLY_PARTS))} only"
    if "BYSETPOS" in parts and frequency not in ("MONTHLY", "YEARLY"):
        return "BYSETPOS goes with MONTHLY and YEARLY only"
    months = [int(month) for month in parts.get("BYMONTH", "1").split(",")]
    days = [abs(int(day)) for day in parts.get("BYMONTHDAY", "1").split(",")]
    if min(days) > max(monthrange(2024, month)[1] for month in months):
        return "none of these months has such a day"
    return None


def _last_moment(until: str, zone: tzinfo) -> datetime:
    """UNTIL as a wall-clock time; a mere day counts to its end."""
    last = datetime.fromisoformat(until)
    if "T" not in until:
        return datetime.combine(last, time.max)
    return last.astimezone(zone).replace(tzinfo=None) if last.tzinfo else last


def _refusal(text: str, problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"The recurrence {text!r} cannot be used: {problem}. "
        "Give one RFC 5545 rule such as FREQ=WEEKLY;BYDAY=MO."
    )
