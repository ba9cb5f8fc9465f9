"""All days and times of day that a text names, as candidates: rules that only ever add.

Where `time_phrases` reads the one time that a request means, these leave the choice to somebody who
understands the text: of "7 May" the dates before and after the day on which it was said.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, time, timedelta

from langmem_graph.schedule.time_phrases import WEEKDAYS, split_days

_DAY = timedelta(days=1)
_WEEKDAY = re.compile(rf"\b(?:(last|next) )?({'|'.join(WEEKDAYS)})\b")
_RELATIVE = {"day after tomorrow": 2, "tomorrow": 1, "today": 0, "tonight": 0, "yesterday": -1}
_RELATIVE_DAY = re.compile(rf"\b({'|'.join(_RELATIVE)})\b")
_DAY_OF_MONTH = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_DOTTED = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d)")
_CJK_DAY = re.compile(r"(?:(\d{4})[年년]\s?)?(\d{1,2})[月월]\s?(\d{1,2})[日일]")
_CLOCK = re.compile(
    r"(?<![\d.:,+-])(\d{1,2})(?:[:.h](\d\d))?(?::\d\d)?(?:\s?([ap])\.?m\b|\s?(uhr)\b|(?![\d.,:]))"
)
_CLOCK_WORDS = {"noon": time(12), "midday": time(12), "midnight": time(0)}


def days_in(words: str, said: date | None) -> set[date]:
    """The days that words name; with the day on which they were said, those without a year too."""
    lower = " ".join(words.casefold().split())
    parts = [(day.year, day.month, day.day) for day in split_days(lower)[0]]
    parts += [(int(y), int(m), int(d)) for d, m, y in _DOTTED.findall(lower)]
    parts += [(int(y) if y else None, int(m), int(d)) for y, m, d in _CJK_DAY.findall(lower)]
    days = {one for y, m, d in parts if m and d for one in _dated(y, m, d, said)}
    if said is None:
        return days
    days |= {said + _RELATIVE[name] * _DAY for name in _RELATIVE_DAY.findall(lower)}
    for which, name in _WEEKDAY.findall(lower):
        days |= _weekdays(which, WEEKDAYS.index(name), said)
    if not days:
        later = (said.year + said.month // 12, said.month % 12 + 1)
        months = ((said.year, said.month), later)
        numbers = map(int, _DAY_OF_MONTH.findall(lower))
        days |= {one for n in numbers for one in _existing((*month, n) for month in months)}
    return days


def _dated(year: int | None, month: int, day: int, said: date | None) -> set[date]:
    """A date in full; without its year, the ones before and after the day on which it was said."""
    if year:
        return {*_existing([(year, month, day)])}
    if said is None:
        return set()
    years = range(max(1, said.year - 8), min(9999, said.year + 8) + 1)  # for the 29th of February
    every = _existing((one, month, day) for one in years)
    return {*[one for one in every if one <= said][-1:], *[one for one in every if one >= said][:1]}


def _existing(parts: Iterable[tuple[int, int, int]]) -> list[date]:
    days = list[date]()
    for year, month, day in parts:
        with suppress(ValueError):  # the 31st of June
            days.append(date(year, month, day))
    return days


def _weekdays(which: str, weekday: int, said: date) -> set[date]:
    ahead = (weekday - said.weekday()) % 7
    if which == "last":
        return {said - (7 - ahead) * _DAY}
    if which == "next":
        return {said + (ahead or 7) * _DAY, said + (ahead + 7) * _DAY}
    return {said + ahead * _DAY} | (set() if ahead else {said + 7 * _DAY})


def times_in(words: str) -> set[time]:
    """The times of day that words name."""
    lower = words.casefold()
    named = {clock for word, clock in _CLOCK_WORDS.items() if re.search(rf"\b{word}\b", lower)}
    for hour, minute, half, german in _CLOCK.findall(lower):
        number = int(hour) % 12 + 12 * (half == "p") if half else int(hour)
        if (minute or half or german) and number < 24 and int(minute or 0) < 60:
            named.add(time(number, int(minute or 0)))
    return named
