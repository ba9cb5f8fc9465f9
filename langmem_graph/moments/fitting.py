"""How well the day on which something was said fits the days that a question names."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

from langmem_graph.moments.calendar_days import readings, whole
from langmem_graph.moments.moment import Days, Grain, Moment, NamedDay
from langmem_graph.moments.scanner import scan

THE_DAY = 1.0
SOON_AFTER = 0.5
SAME_MONTH = 0.25
_TALKED_ABOUT = range(-3, 15)  # days after an event on which people talk about it
MOST_ASKED = 50
"""Different times of a question that are compared; each is, with every candidate."""
_UNFIT = ("clock", "recurrence", "feast")
_LOOKS_BACK = re.compile(r"\b(?:did|was|were|had|said|told|happened)\b", re.IGNORECASE)
"""Without these, "today" and "on Friday" may be what is planned."""


@dataclass(frozen=True)
class Asked:
    """A time that a question names: a date as it is written, or days that are known."""

    grain: Grain
    dates: tuple[NamedDay, ...]
    is_span: bool
    days: tuple[Days, ...]

    def fit(self, said: date) -> float:
        """How well a day fits it, from 0 to 1."""
        spans = _in_its_year(self, said) if self.dates else self.days
        return max((_fit(days, self.grain, said) for days in spans), default=0.0)

    def spans(self, years: Iterable[int]) -> set[Days]:
        """The days that it means; of a date without a year those of each of these."""
        if not self.dates:
            return set(self.days)
        return {days for year in years for days in _in_its_year(self, date(year, 1, 1))}


def asked_days(question: str, asked: date | None) -> list[Asked]:
    """The different times that a question names which something that was said may fit;
    of many the first `MOST_ASKED`.

    What is still to come says nothing of when it was said, and is left out.

    Args:
        question: "What did I do yesterday?"
        asked: the day on which it is asked; without it, only dates count.
    """
    looks_back = bool(_LOOKS_BACK.search(question))
    moments = [moment for moment in scan(question, asked) if moment.kind not in _UNFIT]
    has_date = any(moment.dates for moment in moments)
    found = dict[Asked, None]()
    for moment in moments:
        if moment.kind == "weekday" and (has_date or not looks_back):
            continue
        days = _passed(moment, asked, looks_back=looks_back) if asked else ()
        if moment.dates or days:
            is_span = moment.kind == "span"
            found[Asked(moment.grain, moment.dates, is_span, days)] = None
    return list(islice(found, MOST_ASKED))


def best_fit(asked: Sequence[Asked], said: date) -> float:
    """How well a day fits the best of the times asked for, from 0 to 1."""
    return max((one.fit(said) for one in asked), default=0.0)


def _passed(moment: Moment, asked: date, *, looks_back: bool) -> tuple[Days, ...]:
    """The readings of a relative time that lie in the past, as wide as they are
    meant.
    """
    if looks_back:
        past = [days for days in moment.days if days.first <= asked]
    else:
        past = [days for days in moment.days if days.last < asked]
    return tuple(_widened(days, moment) for days in past)


def _widened(days: Days, moment: Moment) -> Days:
    """Two months ago is a whole month."""
    if moment.grain in ("month", "year"):
        return whole(days.first, moment.grain)
    return days


def _in_its_year(asked: Asked, said: date) -> Iterator[Days]:
    """The days of a date; where it names no year, in the year of what was said."""
    every = [_of_year(named, said) for named in asked.dates]
    known = [days for days in every if days]
    if not asked.is_span:
        yield from known
    elif len(known) == len(every):
        yield Days(known[0].first, known[-1].last)


def _of_year(named: NamedDay, said: date) -> Days | None:
    if named.month is None and named.year is None:
        return None
    year = said.year if named.year is None else named.year
    found = readings(named._replace(year=year), None)
    return found[0] if found else None


def _fit(days: Days, grain: str, said: date) -> float:
    is_within = days.first <= said <= days.last
    if grain == "year":
        return SAME_MONTH if is_within else 0.0
    if grain == "month":
        return THE_DAY if is_within else 0.0
    early = (said - days.first).days
    late = (said - days.last).days
    if early >= -1 and late <= 1:
        return THE_DAY
    if early >= _TALKED_ABOUT.start and late < _TALKED_ABOUT.stop:
        return SOON_AFTER
    months = [(day.year, day.month) for day in days]
    return SAME_MONTH if months[0] <= (said.year, said.month) <= months[-1] else 0.0
