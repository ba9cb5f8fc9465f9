"""All days and times of day that a text names, as candidates: rules that only ever add.

Where `time_phrases` reads the one time that a request means, these leave the choice to
somebody who understands the text: of "7 May" the dates before and after the day on
which it was said.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta

from langmem_graph.ids_and_times import days_that_exist, moved
from langmem_graph.moments.moment import Moment, NamedDay
from langmem_graph.moments.scanner import scan
from langmem_graph.schedule.time_phrases import MONTHS, WEEKDAYS

_DAY = timedelta(days=1)
_WEEKDAY = re.compile(rf"\b(?:(last|next) )?({'|'.join(WEEKDAYS)})\b")
_KINDS = ("day", "weekday", "recurrence", "span")
_DAY_OF_MONTH = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_CLOCK = re.compile(
    r"(?<![\d.:,+-])(\d{1,2})(?:[:.h](\d\d))?(?::\d\d)?(?:\s?([ap])\.?m\b|\s?(uhr)\b|(?![\d.,:]))"
)
_MONTH = rf"(?P<month>{'|'.join(MONTHS)}|{'|'.join(name[:3] for name in MONTHS)})\b\.?"
_ITEM = (
    rf"(?:(?:{'|'.join(WEEKDAYS)}),? )?(?:the "
    rf")?\d{{1,2}}(?:st|nd|rd|th|\.)?(?![\w:]|[.,]\d)"
)
_AND = r"(?:\s?[-–—&]\s?|,? (?:and|or|to|until|till|through|und|bis) )"
_ITEMS = rf"(?P<items>{_ITEM}(?:, {_ITEM}){{0,30}}{_AND}{_ITEM})"  # a month's days
_LISTED = [  # several days of one month: 23, 24 and 25 April
    re.compile(rf"(?<![\w.,:/+-]){_ITEMS} (?:of )?{_MONTH}(?:,? (?P<year>\d{{4}})\b)?"),
    re.compile(
        rf"(?<!\d )(?<!\d\. )(?<!\w){_MONTH} {_ITEMS}(?:,? (?P<year>\d{{4}})\b)?"
    ),
]
_ONLY_DAYS = re.compile(  # days without a month: Saturday 14, the 26th, 23 to 25
    rf"(?<![\w.,:/+-])(?:{_ITEMS}(?! ?[^\W\d_]|[ ]?[%€$£])"
    rf"|(?P<one>(?:{'|'.join(WEEKDAYS)}),? (?:the "
    rf")?\d{{1,2}}(?:st|nd|rd|th|\.)?(?![\w:]|[.,]\d)"
    r"|\d{1,2}(?:st|nd|rd|th)\b))"
)
_PART = re.compile(
    rf"(?:(?P<weekday>{'|'.join(WEEKDAYS)}),? )?(?:the )?(?P<day>\d{{1,2}})"
)
_CAPITAL_MONTH = re.compile(rf"\b({'|'.join(MONTHS).title()})\b(?: (\d{{4}}))?")
_CLOCK_WORDS = {"noon": time(12), "midday": time(12), "midnight": time(0)}


def days_in(words: str, said: date | None) -> set[date]:
    """The days that words name; with the day on which they were said, those without a
    year too.
    """
    days = {
        days.first
        for moment in scan(words, said)
        if moment.kind in _KINDS and _is_named(moment)
        for days in moment.days
        if moment.dates or moment.kind == "day" or (said and days.first >= said)
    }
    if not days and said is not None:
        lower = " ".join(words.casefold().split())
        later = (said.year + said.month // 12, said.month % 12 + 1)
        months = ((said.year, said.month), later)
        numbers = map(int, _DAY_OF_MONTH.findall(lower))
        days |= {
            one
            for n in numbers
            for one in days_that_exist((*month, n) for month in months)
        }
    return days


def _is_named(moment: Moment) -> bool:
    """False for "the 14th", of which the month is sought by itself."""
    return not moment.dates or moment.dates[0].month is not None


def dates_in(words: str) -> list[NamedDay]:
    """The dates, months and years that words name, as they are written."""
    return [named for moment in scan(words, None) for named in moment.dates]


def names_day(day: date, quotes: Sequence[tuple[str, date | None]]) -> bool:
    """Whether words name a day among several, or its month in other words than its
    number.
    """
    plain = [(" ".join(words.casefold().split()), said) for words, said in quotes]
    months = {
        m.month for words, _ in quotes for m in months_in(words, date(2000, 7, 1))
    }
    for words, said in plain:
        for pattern in _LISTED:
            for found in pattern.finditer(words):
                month = 1 + [name[:3] for name in MONTHS].index(found["month"][:3])
                dated = _dated(int(found["year"] or 0) or None, month, day.day, said)
                if day in dated and _fits(found, day):
                    return True
        if said is None or dates_in(words) or any(one.search(words) for one in _LISTED):
            continue
        near = moved([said], [n * _DAY for n in range(62)]) if not months else set()
        meant = {one for month in months for one in _dated(None, month, day.day, said)}
        meant |= set(sorted(one for one in near if one.day == day.day)[:1])
        if day in meant and any(
            _fits(found, day) for found in _ONLY_DAYS.finditer(words)
        ):
            return True
    return False


def _fits(found: re.Match[str], day: date) -> bool:
    """Whether one of the days listed is that of the month, and its weekday agrees."""
    parts = _PART.finditer(found["items"] or found["one"])
    own = [one for one in parts if int(one["day"]) == day.day]
    return any(one["weekday"] in (None, WEEKDAYS[day.weekday()]) for one in own)


def months_in(words: str, said: date) -> Iterator[date]:
    """The months that words name, as their first days: the nearest one without
    a year.
    """
    for name, year in _CAPITAL_MONTH.findall(words):
        month = MONTHS.index(name.casefold()) + 1
        years = [int(year)] if year else [said.year - 1, said.year, said.year + 1]
        near = days_that_exist((one, month, 1) for one in years)
        yield from sorted(near, key=lambda one: abs(one - said))[:1]


def weekdays_of_next_week(quotes: Sequence[tuple[str, date | None]]) -> set[date]:
    """The days of next week whose weekdays are named, in the same words or in
    others.
    """
    plain = [(words.casefold(), said) for words, said in quotes]
    named = {
        WEEKDAYS.index(name)
        for words, _ in plain
        for _, name in _WEEKDAY.findall(words)
    }
    named |= {
        n
        for n, name in enumerate(WEEKDAYS)
        for words, _ in plain
        if f"{name}s" in words
    }
    weeks = [
        said for words, said in plain if said and re.search(r"\bnext week\b", words)
    ]
    steps = [(one, (7 - one.weekday() + n) * _DAY) for one in weeks for n in named]
    return {day for one, step in steps for day in moved([one], [step])}


def _dated(year: int | None, month: int, day: int, said: date | None) -> set[date]:
    """A date in full; without its year, the ones before and after the day on which it
    was said.
    """
    if year:
        return {*days_that_exist([(year, month, day)])}
    if said is None:
        return set()
    # for the 29th of February
    years = range(said.year - 8, said.year + 9)
    every = days_that_exist((one, month, day) for one in years)
    return {
        *[one for one in every if one <= said][-1:],
        *[one for one in every if one >= said][:1],
    }


def times_in(words: str) -> set[time]:
    """The times of day that words name."""
    lower = words.casefold()
    named = {
        clock
        for word, clock in _CLOCK_WORDS.items()
        if re.search(rf"\b{word}\b", lower)
    }
    for hour, minute, half, german in _CLOCK.findall(lower):
        number = int(hour) % 12 + 12 * (half == "p") if half else int(hour)
        if (minute or half or german) and number < 24 and int(minute or 0) < 60:
            named.add(time(number, int(minute or 0)))
    return named
