"""Moments made of dates as they are written."""

from typing import Literal

from langmem_graph.moments.calendar_days import readings
from langmem_graph.moments.moment import Days, Moment, NamedDay
from langmem_graph.moments.sentence import Sentence

Read = tuple[Moment, int]
"""A moment, and the place behind it."""


def made(
    sentence: Sentence, first: int, after: int, named: NamedDay, *, is_english: bool
) -> Read:
    """The moment of one date."""
    start, end = sentence.span(first, after)
    kind: Literal["day", "month", "year"] = "year"
    if named.month is not None:
        kind = "month" if named.day is None else "day"
    days = readings(named, sentence.said)
    moment = Moment(
        kind, start, end, days=days, dates=(named,), grain=kind, is_english=is_english
    )
    return moment, after


def span_of(
    start: int,
    end: int,
    firsts: tuple[Days, ...],
    lasts: tuple[Days, ...],
    dates: list[NamedDay],
    *,
    is_english: bool,
) -> Moment:
    """The days from one to the other; no reading where none ends after its start."""
    following = [(one, [last for last in lasts if last >= one]) for one in firsts]
    days = tuple(Days(one.first, own[0].last) for one, own in following if own)
    return Moment(
        "span", start, end, days=days, dates=tuple(dates), is_english=is_english
    )
