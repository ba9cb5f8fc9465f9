"""Days that a text names in words, read on the day it was said; English rules that only
add.

`worded_days` reads more, and more loosely, than `time_phrases`: what it finds is
compared with other days, never taken for the time of a record. Where words can mean two
days, both are found.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta

from langmem_graph.schedule.time_phrases import MONTHS, WEEKDAYS, NamedDay, split_days

LONGEST_SPAN = 62  # days of one span that are compared; ours
_DAY = timedelta(days=1)
_DAYS = "|".join(WEEKDAYS)
_WEEKDAY = rf"(?P<weekday>{_DAYS})"
_COUNTS = (
    "a:1 an:1 one:1 two:2 three:3 four:4 five:5 six:6 seven:7 eight:8 nine:9 "
    "ten:10 twelve:12"
)
_NUMBERS = {
    name: int(number) for name, number in (pair.split(":") for pair in _COUNTS.split())
}
_AHEAD = re.compile(
    rf"\b(?P<within>in )?(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)}) "
    r"(?P<unit>day|week|fortnight|month|year)s?\b(?: (?P<from>ago|from "
    r"(?:now|today))\b)?"
)
_RELATIVE = {
    "today|tonight": 0,
    "(?<!after )tomorrow": 1,
    "day after tomorrow": 2,
    "yesterday": -1,
}
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
_MONTH = (
    rf"(?P<month>(?:the |this |next )?month|{'|'.join(MONTHS)})(?: (?P<year>\d{{4}}))?"
)
_ORDINAL = rf"(?P<nth>{'|'.join(_ORDINALS)})"
_TO = r"(?:\s*[-–—]\s*| (?:to|until|till|through|and) )(?:the )?"
_SAME_MONTH = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?{_TO}(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? "
    rf"({'|'.join(MONTHS)})\b"
)
_NUMERIC = (
    r"\b\d{1,2}(?:/\d{1,2}(?:/\d{2}(?:\d\d)?)?|\.\d{1,2}\.(?:\d{2}(?:\d\d)?)?)(?![\w/])"
)
_FEASTS = {
    r"christmas eve": (12, 24), r"christmas(?: day)?(?! eve)": (12, 25),
    r"boxing day": (12, 26),
    r"new year'?s eve|hogmanay|silvester": (12, 31), r"new year'?s day": (1, 1),
    r"hallowe'?en": (10, 31), r"valentine'?s(?: day)?": (2, 14),
}  # fmt: skip
_EASTER = {r"good friday": -2, r"easter(?: sunday)?(?! monday)": 0, r"easter monday": 1}
_WEEKLY = re.compile(
    rf"\b(?:every|each) (?:other |second )?({_DAYS})\b|\b({_DAYS})s\b(?!')"
)
_YEARLY = re.compile(
    r"\b(?:birthday|anniversary|(?:every|each) year|annual(?:ly)?|yearly)\b"
)


def worded_days(text: str, said: date, asked: Collection[date] = ()) -> set[date]:
    """The days that a text names, read on the day on which it was said.

    What recurs ("on Thursdays", a birthday) is looked for among the days `asked`.
    """
    words = " ".join(text.lower().replace("\u2019", "'").split())
    found = set[date]()
    for rule in (_dates, _relative, _weekdays, _of_month, _feasts):
        with suppress(ValueError, OverflowError):  # the 31st of June, after 9999
            found |= set(rule(words, said))
    weekly = {
        WEEKDAYS.index(every or plural) for every, plural in _WEEKLY.findall(words)
    }
    found |= {day for day in asked if day.weekday() in weekly}
    if _YEARLY.search(words):
        named = {(day.month, day.day) for day in found}
        found |= {day for day in asked if (day.month, day.day) in named}
    return found


def _dates(words: str, said: date) -> Iterator[date]:
    """Dates with a month, and the days from one to the other where a span is named."""
    spelt = _SAME_MONTH.sub(r"\1 \3 to \2 \3", words)
    marks = list(re.finditer(_NUMERIC, spelt))
    for reading in _readings(spelt, marks):
        named = [day for day in split_days(reading)[0] if day.month and day.day]
        year = next((day.year for day in named if day.year), None)
        days = [_full(replace(day, year=day.year or year), said) for day in named]
        yield from days
        if len(days) == 2 and re.search(rf"\w{_TO}(?:\d|[a-z]+ \d)", spelt):
            yield from _span(min(days), max(days))


def _readings(words: str, marks: list[re.Match[str]]) -> Iterator[str]:
    """The words with numeric dates written out, day first and month first."""
    for day, month in ((0, 1), (1, 0)) if marks else ((0, 1),):
        reading = words
        for mark in reversed(marks):
            parts = [int(part) for part in re.findall(r"\d+", mark[0])]
            name = MONTHS[parts[month] - 1] if 1 <= parts[month] <= 12 else "?"
            year = f" {parts[2] + 2_000 * (parts[2] < 100)}" if len(parts) > 2 else ""
            reading = (
                f"{reading[: mark.start()]}{parts[day]} "
                f"{name}{year}{reading[mark.end() :]}"
            )
        yield reading


def _full(named: NamedDay, said: date) -> date:
    """The date in full; without its year, the next one."""
    day = date(named.year or said.year, named.month or 1, named.day or 1)
    return day if named.year or day >= said else day.replace(year=day.year + 1)


def _span(first: date, last: date) -> Iterator[date]:
    for number in range(min((last - first).days + 1, LONGEST_SPAN)):
        yield first + number * _DAY


def _relative(words: str, said: date) -> Iterator[date]:
    """Today, tomorrow, yesterday; in two weeks, a month ago."""
    for word, days in _RELATIVE.items():
        if re.search(rf"\b(?:{word})\b", words):
            yield said + days * _DAY
    for found in _AHEAD.finditer(words):
        number, unit = (
            _NUMBERS.get(found["count"]) or int(found["count"]),
            found["unit"],
        )
        days = {"day": 1, "week": 7, "fortnight": 14}.get(unit, 0) * number
        months = {"month": 1, "year": 12}.get(unit, 0) * number
        step = relativedelta(days=days, months=months)
        if found["within"] or found["from"]:
            yield said - step if found["from"] == "ago" else said + step


def _weekdays(words: str, said: date) -> Iterator[date]:
    """A weekday, with what narrows it down; of "next Friday" both readings."""
    plain = re.sub(
        rf"{_ORDINAL} {_WEEKDAY} (?:of|in) |good friday|easter monday", "", words
    )
    for found in re.finditer(
        rf"\b(?P<which>last|next|past)? ?{_WEEKDAY}\b(?P<week> week)?(?!s)", plain
    ):
        ahead = (WEEKDAYS.index(found["weekday"]) - said.weekday()) % 7
        if found["which"] in ("last", "past"):
            yield said + (ahead - 7 if ahead else -7) * _DAY
            continue
        near = said + (ahead or 7) * _DAY
        if not found["week"]:
            yield near
        if found["week"] or found["which"] == "next":
            yield near + 7 * _DAY
    if weekend := re.search(r"\b(?P<next>next )?weekend\b", words):
        saturday = said + (5 - said.weekday()) * _DAY + 7 * _DAY * bool(weekend["next"])
        yield from (saturday, saturday + _DAY)


def _of_month(words: str, said: date) -> Iterator[date]:
    """The last Friday of next month, the second week of October, the 14th."""
    for found in re.finditer(
        rf"\b{_ORDINAL} (?:{_WEEKDAY}|week) (?:of|in) {_MONTH}\b", words
    ):
        first, nth = _first_of(found, said), _ORDINALS[found["nth"]]
        month = [
            day for day in _span(first, first + 30 * _DAY) if day.month == first.month
        ]
        if found["weekday"]:
            yield [d for d in month if d.weekday() == WEEKDAYS.index(found["weekday"])][
                nth
            ]
        else:
            yield from month[-7:] if nth == -1 else month[7 * nth : 7 * nth + 7]
    for nth in re.findall(
        r"\bthe (\d{1,2})(?:st|nd|rd|th)\b(?! [a-z]*(?:century|floor))", words
    ):
        following = [said + number * _DAY for number in range(31)]
        yield from (day for day in following if day.day == int(nth))


def _first_of(found: re.Match[str], said: date) -> date:
    """The first day of the month that is meant."""
    if found["month"] not in MONTHS:
        return said.replace(day=1) + relativedelta(
            months=found["month"].startswith("next")
        )
    month = date(int(found["year"] or said.year), MONTHS.index(found["month"]) + 1, 1)
    past = not found["year"] and month < said.replace(day=1)
    return month.replace(year=month.year + past)


def _feasts(words: str, said: date) -> Iterator[date]:
    """Holidays, the next one of each."""
    for pattern, (month, day) in _FEASTS.items():
        if re.search(rf"\b(?:{pattern})\b", words):
            yield _full(NamedDay(None, month, day), said)
    for pattern, days in _EASTER.items():
        if re.search(rf"\b(?:{pattern})\b", words):
            moved = [easter(year) + days * _DAY for year in (said.year, said.year + 1)]
            yield next(day for day in moved if day >= said)
