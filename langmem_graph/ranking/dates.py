"""Dates named in a query, and how well the day of a message fits them."""

import re
from dataclasses import dataclass
from datetime import date

_NAMES = (
    "january february march april may june july august september october november december".split()
)
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
_SHORT = {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}
_FULL = "|".join(_NAMES)
_ANY = rf"(?P<month>{_FULL}|sept|{'|'.join(name[:3] for name in _NAMES)})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
# `may` and `march` alone are months only after one of these.
_BEFORE_MONTH = "in|of|since|by|during|last|this|early|late|mid|until|before|after"
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b",
        rf"(?<!:)\b{_DAY}(?: of)? {_ANY}(?:,? {_YEAR})?\b",
        rf"\b{_ANY} {_DAY}\b(?:,? {_YEAR}\b)?",
        rf"\b{_ANY},? (?:of )?{_YEAR}\b",
        rf"\b(?:{_BEFORE_MONTH}) (?P<month>{_FULL})\b",
        r"\b(?P<year>(?:19|20)\d\d)\b",
    )
]
_TALKED_ABOUT = range(-3, 15)  # people tell of a thing some days after it happened


@dataclass(frozen=True)
class NamedDay:
    """A date as it was named; what was not said is None."""

    year: int | None
    month: int | None
    day: int | None


def named_days(query: str) -> list[NamedDay]:
    """The dates in a query: `May 7`, `7 May 2023`, `2023-05-07`, `in May`, `2023`."""
    return split_days(query)[0]


def split_days(query: str) -> tuple[list[NamedDay], str]:
    """The dates in a query, and its other words in lower case."""
    rest, found = query.lower(), []
    for pattern in _PATTERNS:
        found += [_named(match) for match in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
    return found, rest


def _named(match: re.Match[str]) -> NamedDay:
    parts = match.groupdict()
    year, month, day = (parts.get(name) for name in ("year", "month", "day"))
    return NamedDay(int(year) if year else None, _month(month), int(day) if day else None)


def _month(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.isdigit() else _MONTHS.get(text) or _SHORT[text]


def day_fit(named: list[NamedDay], said: date) -> float:
    """0 to 1: how well a message's day fits the best of the dates named."""
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
