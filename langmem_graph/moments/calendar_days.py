"""Readings of a date as days: those before and after the day on which it was said."""

from calendar import monthrange
from datetime import MAXYEAR, MINYEAR, date, timedelta

from dateutil.relativedelta import relativedelta

from langmem_graph.ids_and_times import days_that_exist, moved
from langmem_graph.moments.moment import Days, Grain, NamedDay

_LEAP = 8  # years within which a 29th of February comes
_DAY = timedelta(days=1)


def readings(named: NamedDay, said: date | None) -> tuple[Days, ...]:
    """What a date may mean; nothing where it does not exist, or cannot be known."""
    if named.month is None:
        return _year(named.year) if named.year else ()
    if named.year is not None:
        found = _in_year(named, named.year)
        return (found,) if found else ()
    if said is None:
        return ()
    near = range(said.year - _LEAP, said.year + _LEAP + 1)
    every = [found for year in near if (found := _in_year(named, year))]
    before = [days for days in every if days.first <= said][-1:]
    after = [days for days in every if days.last >= said][:1]
    return tuple(dict.fromkeys([*before, *after]))


def _year(year: int) -> tuple[Days, ...]:
    if not MINYEAR <= year <= MAXYEAR:
        return ()
    return (Days(date(year, 1, 1), date(year, 12, 31)),)


def _in_year(named: NamedDay, year: int) -> Days | None:
    month = named.month or 1
    if not (MINYEAR <= year <= MAXYEAR and 1 <= month <= 12):
        return None
    if named.day is None:
        last = monthrange(year, month)[1]
        return Days(date(year, month, 1), date(year, month, last))
    days = days_that_exist([(year, month, named.day)])
    return Days(days[0], days[0]) if days else None


def stepped(said: date, unit: str, count: int) -> date | None:
    """The day so many days, weeks, months or years later; none outside the calendar."""
    step = relativedelta(**{f"{unit}s": count})  # type: ignore[arg-type]
    try:
        return said + step
    except (ValueError, OverflowError):
        return None


def whole(day: date, grain: Grain) -> Days:
    """The week (from Monday), month or year in which a day lies."""
    if grain == "year":
        return Days(date(day.year, 1, 1), date(day.year, 12, 31))
    if grain == "month":
        last = monthrange(day.year, day.month)[1]
        return Days(day.replace(day=1), day.replace(day=last))
    if grain == "week":
        return between(day, -day.weekday(), 6 - day.weekday()) or Days(day, day)
    return Days(day, day)


def between(said: date, first: int, last: int) -> Days | None:
    """The days from one to another, counted from a day; none outside the calendar."""
    ends = sorted(moved([said], [first * _DAY, last * _DAY]))
    expected = 1 if first == last else 2
    return Days(ends[0], ends[-1]) if len(ends) == expected else None


def single(said: date, steps: list[int]) -> tuple[Days, ...]:
    """The days so many days later, each a reading of its own."""
    days = sorted(moved([said], [step * _DAY for step in steps]))
    return tuple(Days(day, day) for day in days)
