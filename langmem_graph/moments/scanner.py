"""Reads a text from left to right, and gives every time that it names."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from itertools import pairwise

from langmem_graph.moments import clocks
from langmem_graph.moments.calendar_days import readings
from langmem_graph.moments.clocks import clock
from langmem_graph.moments.figures import in_figures, year_alone
from langmem_graph.moments.made import Read, span_of
from langmem_graph.moments.moment import Clock, Moment, NamedDay
from langmem_graph.moments.month_words import TO, days_and_month, month_first
from langmem_graph.moments.relative_days import WORDS, in_english, phrase
from langmem_graph.moments.sentence import Sentence
from langmem_graph.moments.tokens import Token, tokens_of
from langmem_graph.moments.vocabulary import months, numbers, phrases

_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:[Zz]|[+-](?:0\d|1[0-4]):?\d\d)"
    r"(?![\w:])"
)
"""A time in ISO 8601 with its offset."""
_BETWEEN = TO | frozenset("- – —".split())
_FARTHEST = 12  # characters between the two ends of a span
LONGEST_READ = 50_000
"""Characters of a text that are read; a second of processor time at worst."""


def scan(text: str, said_at: date | None) -> list[Moment]:
    """The times that a text names, in the order of its words.

    Args:
        text: any text, in one of nineteen languages; of a longer one the first
            `LONGEST_READ` characters are read.
        said_at: the day on which it was said, or a time of it, on the clock of who said
            it. Without it, what is reckoned from that day has no reading, and a date
            without its year has none.
    """
    text = text[:LONGEST_READ]
    said = said_at.date() if isinstance(said_at, datetime) else said_at
    sentence = Sentence(text, tokens_of(text), said)
    found = list[Moment]()
    place = 0
    while place < len(sentence.tokens):
        token = sentence.tokens[place]
        read = _first(sentence, place) if _may_begin(token) else []
        found += [moment for moment, _ in read]
        place = max([place + 1, *(after for _, after in read)])
    return _with_spans(_in_one_order(found, text), text, said)


def _stamp(sentence: Sentence, place: int) -> list[Read] | None:
    """The day and the time of day, in UTC, of an ISO time with its offset."""
    token = sentence.at(place)
    if len(token.text) != 4 or token.kind != "number" or not sentence.begins(place):
        return None
    stamp = _STAMP.match(sentence.text, token.start)
    if stamp is None:
        return None
    after = place + 1
    while sentence.at(after).start and sentence.at(after).start < stamp.end():
        after += 1
    day_end = token.start + len("2026-03-04")
    try:
        moment = datetime.fromisoformat(stamp[0].upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # the 31st of June, before the year 1
        nothing = Moment("day", *stamp.span(), dates=(NamedDay(None, None, None),))
        return [(nothing, after)]
    named = NamedDay(moment.year, moment.month, moment.day)
    days = readings(named, None)
    day = Moment("day", token.start, day_end, days=days, dates=(named,))
    clocks = (Clock(moment.time().replace(second=0, microsecond=0)),)
    time = Moment("clock", day_end, stamp.end(), clocks=clocks, is_utc=True)
    return [(day, after), (time, after)]


READERS = (
    _stamp,
    clock,
    in_figures,
    days_and_month,
    year_alone,
    in_english,
    phrase,
    month_first,
)
"""The first that reads something at a place is right."""


def _may_begin(token: Token) -> bool:
    """Whether a time may begin with a token: most words are looked up once and left."""
    if token.kind == "word":
        return token.text in _beginnings()
    return token.kind == "number"


@cache
def _beginnings() -> frozenset[str]:
    return frozenset({*months(), *phrases().next, *numbers(), *clocks.WORDS, *WORDS})


def _first(sentence: Sentence, place: int) -> list[Read]:
    for reader in READERS:
        read = reader(sentence, place)
        if read:
            return read if isinstance(read, list) else [read]
    return []


def _in_one_order(found: list[Moment], text: str) -> list[Moment]:
    """The moments; where one figure shows that days stand first, or months, the
    ambiguous ones are read so, too.
    """
    orders = {_order(moment, text) for moment in found} - {None}
    if len(orders) != 1:
        return found
    place = orders.pop()
    return [_read_in(moment, place or 0) for moment in found]


def _order(moment: Moment, text: str) -> int | None:
    """0 where the day stands first in a figure, 1 where the month does."""
    head = text[moment.start : moment.end].split("/", maxsplit=1)[0]
    if moment.kind != "day" or not moment.dates or not head.isdecimal():
        return None
    named = moment.dates[0]
    if int(head[:4]) not in (named.day, named.month) or named.day == named.month:
        return None
    return 0 if int(head[:4]) == named.day else 1


def _read_in(moment: Moment, place: int) -> Moment:
    if moment.kind != "ambiguous":
        return moment
    named = moment.dates[place]
    days = tuple(
        days
        for days in moment.days
        if (days.first.month, days.first.day) == (named.month, named.day)
    )
    return replace(moment, kind="day", days=days, dates=(named,))


def _with_spans(found: list[Moment], text: str, said: date | None) -> list[Moment]:
    """The moments; two days with "to" between them are one span."""
    joined = found[:1]
    for before, moment in pairwise(found):
        is_joined = joined[-1] is before and _is_span(before, moment, text)
        if is_joined:
            joined[-1] = _span(before, moment, said)
        else:
            joined.append(moment)
    return joined


def _is_span(first: Moment, last: Moment, text: str) -> bool:
    if first.kind != "day" or last.kind != "day":
        return False
    if not first.dates or not last.dates or last.start - first.end > _FARTHEST:
        return False
    between = text[first.end : last.start].casefold().split()
    is_article = between[1:] in ([], ["the"])
    return bool(between) and between[0] in _BETWEEN and is_article


def _span(first: Moment, last: Moment, said: date | None) -> Moment:
    """From one day to another; the year of one is that of both."""
    begin = first.dates[0]
    end = last.dates[0]
    year = begin.year or end.year
    if begin.month is None:  # "the 12th to 15 June"
        begin = begin._replace(month=end.month)
    if begin.year is None and year is not None:
        is_turn = (begin.month or 0) > (end.month or 0)
        begin = begin._replace(year=year - is_turn)
    if end.year is None:
        end = end._replace(year=year)
    return span_of(
        first.start,
        last.end,
        readings(begin, said),
        readings(end, said),
        [begin, end],
        is_english=first.is_english and last.is_english,
    )
