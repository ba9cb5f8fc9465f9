"""Days that a text names in words, read on the day it was said.

A policy over `moments.scan` that reads more, and more loosely, than `time_phrases`:
what it finds is compared with other days, never taken for the time of a record. Where
words can mean two days, both are found; a figure that may be two dates is none.
"""

import re
from collections.abc import Collection, Iterator
from datetime import date, timedelta

from langmem_graph.moments.calendar_days import readings
from langmem_graph.moments.moment import Days, Moment
from langmem_graph.moments.scanner import scan

LONGEST_SPAN = 62  # days of one span that are compared; ours
_DAY = timedelta(days=1)
_KINDS = ("day", "weekday", "recurrence", "feast", "span")
_YEARLY = re.compile(
    r"\b(?:birthday|anniversary|(?:every|each) year|annual(?:ly)?|yearly)\b",
    re.IGNORECASE,
)


def worded_days(text: str, said: date, asked: Collection[date] = ()) -> set[date]:
    """The days that a text names, read on the day on which it was said.

    What recurs ("on Thursdays", a birthday) is looked for among the days `asked`.
    """
    moments = [moment for moment in scan(text, said) if moment.kind in _KINDS]
    dates = [named for moment in moments for named in moment.dates]
    year = next((named.year for named in dates if named.year), None)
    found = {day for moment in moments for day in _days(moment, said, year)}
    weekly = {moment.weekday for moment in moments if moment.kind == "recurrence"}
    found |= {day for day in asked if day.weekday() in weekly}
    if _YEARLY.search(text):
        named = {(day.month, day.day) for day in found}
        found |= {day for day in asked if (day.month, day.day) in named}
    return found


def _days(moment: Moment, said: date, year: int | None) -> Iterator[date]:
    """The days of a moment: of what names no year, those of the year that another date
    of the text names, or else the next ones.
    """
    if moment.grain == "week" and moment.kind == "span":
        return
    if moment.kind in ("weekday", "recurrence"):
        meant = [days for days in moment.days if days.first > said][:1]
    elif year and not moment.has_year and moment.dates[0].month:
        meant = _in_year(moment, year)
    elif moment.kind == "feast" or not moment.has_year:
        meant = [days for days in moment.days if days.first >= said][:1]
    else:
        meant = list(moment.days)
    for days in meant:
        yield from _each(days)


def _in_year(moment: Moment, year: int) -> list[Days]:
    """The readings of a date, or from one to another, in a year."""
    first = readings(moment.dates[0]._replace(year=year), None)
    last = readings(moment.dates[-1]._replace(year=year), None)
    pairs = zip(first, last, strict=False)
    return [Days(one.first, other.last) for one, other in pairs if one <= other]


def _each(days: Days) -> Iterator[date]:
    for number in range(min((days.last - days.first).days + 1, LONGEST_SPAN)):
        yield days.first + number * _DAY
