"""Dates in figures: ISO 8601, 24/12/2025, 2023年5月7日, a year alone.

Each reader takes a place in a sentence and gives a moment with the place behind it, or
None. None looks further ahead than a fixed number of tokens.
"""

from langmem_graph.moments.calendar_days import readings
from langmem_graph.moments.made import Read, made
from langmem_graph.moments.moment import Moment, NamedDay
from langmem_graph.moments.sentence import Sentence

_BEFORE_FIGURES = frozenset(
    "am vom bis zum ab den der dem le du au il dal al op van tot on by until till from "
    "to since the den".split()
)
_YEAR_SIGNS = frozenset("年 년".split())
_MONTH_SIGNS = frozenset("月 월".split())
_DAY_SIGNS = frozenset("日 일 号 號".split())
_LAST_DAY = 31
_MONTHS = 12
_CENTURY = 2_000


def in_figures(sentence: Sentence, place: int) -> Read | None:
    """A date in figures that begins at a place."""
    if not sentence.begins(place):
        return None
    return (
        _in_iso(sentence, place)
        or _in_characters(sentence, place)
        or _month_and_year(sentence, place)
        or _in_figures(sentence, place)
    )


def _in_iso(sentence: Sentence, place: int) -> Read | None:
    """2023-05-07, 2023/05/07, 2023.5.7, and the month 2023-05."""
    year = sentence.at(place)
    sign = sentence.sign(place + 1)
    month = sentence.at(place + 2)
    is_year = len(year.text) == 4 and year.value > 0 and sign in ("-", "/", ".")
    is_month = 1 <= month.value <= 12 and len(month.text) <= 2
    if not (is_year and is_month and _are_glued(sentence, place + 1, 2)):
        return None
    if sentence.sign(place + 3) == sign and _are_glued(sentence, place + 3, 2):
        day = sentence.at(place + 4)
        is_day = day.kind == "number" and len(day.text) <= 2
        if not is_day or not (_is_stamp(sentence, place) or sentence.ends(place + 5)):
            return None
        named = NamedDay(year.value, month.value, day.value)
        return made(sentence, place, place + 5, named, is_english=True)
    if sign != "-" or len(month.text) != 2 or not sentence.ends(place + 3):
        return None
    named = NamedDay(year.value, month.value, None)
    return made(sentence, place, place + 3, named, is_english=True)


def _is_stamp(sentence: Sentence, place: int) -> bool:
    """Whether T and a time of day follow the day."""
    return sentence.word(place + 5) == "t" and sentence.at(place + 6).is_glued


def _are_glued(sentence: Sentence, place: int, count: int) -> bool:
    return all(sentence.at(place + n).is_glued for n in range(count))


def _in_characters(sentence: Sentence, place: int) -> Read | None:
    """2023年5月7日, 5月7日, 5月, 2023년 5월 7일, 2023年."""
    after = place
    year = None
    number = sentence.at(place)
    if len(number.text) == 4 and sentence.word(place + 1) in _YEAR_SIGNS:
        year = number.value
        after = place + 2
    month = sentence.at(after)
    if not (1 <= month.value <= 12 and sentence.word(after + 1) in _MONTH_SIGNS):
        if year is None:
            return None
        named = NamedDay(year, None, None)
        return made(sentence, place, after, named, is_english=False)
    after += 2
    day = sentence.at(after)
    if 1 <= day.value <= _LAST_DAY and sentence.word(after + 1) in _DAY_SIGNS:
        named = NamedDay(year, month.value, day.value)
        return made(sentence, place, after + 2, named, is_english=False)
    named = NamedDay(year, month.value, None)
    return made(sentence, place, after, named, is_english=False)


def _in_figures(sentence: Sentence, place: int) -> Read | None:
    """24/12/2025, 24.12.2025, 24-12-2025, 24/12, "am 24.12."."""
    sign = sentence.sign(place + 1)
    second = sentence.at(place + 2)
    first = sentence.at(place)
    are_short = all(one.value > 0 and len(one.text) <= 2 for one in (first, second))
    is_joined = sign in ("/", ".", "-") and _are_glued(sentence, place + 1, 2)
    if not (are_short and is_joined):
        return None
    if sentence.sign(place + 3) == sign and sentence.at(place + 3).is_glued:
        third = sentence.at(place + 4)
        if third.kind == "number" and third.is_glued:
            year = _year_in_figures(sentence, place, sign)
            if year is None or not sentence.ends(place + 5):
                return None
            parts = first.value, second.value
            return _figures(sentence, place, place + 5, parts, sign, year)
    if not _is_day_without_year(sentence, place, sign):
        return None
    after = place + 4 if sign == "." else place + 3
    return _figures(sentence, place, after, (first.value, second.value), sign, None)


def _month_and_year(sentence: Sentence, place: int) -> Read | None:
    """03/2026."""
    month = sentence.at(place)
    year = sentence.at(place + 2)
    if sentence.sign(place + 1) != "/" or not _are_glued(sentence, place + 1, 2):
        return None
    is_month = 1 <= month.value <= _MONTHS and len(month.text) <= 2
    is_year = len(year.text) == 4 and year.value > 0
    if not (is_month and is_year and sentence.ends(place + 3)):
        return None
    named = NamedDay(year.value, month.value, None)
    return made(sentence, place, place + 3, named, is_english=True)


def _year_in_figures(sentence: Sentence, place: int, sign: str) -> int | None:
    """A year of four figures; of two only where nothing else looks like it."""
    year = sentence.at(place + 4)
    if len(year.text) == 4:
        return year.value
    parts = (sentence.at(place), sentence.at(place + 2))
    is_plain = sign == "/" or (sign == "." and all(len(p.text) == 2 for p in parts))
    return _CENTURY + year.value if len(year.text) == 2 and is_plain else None


def _is_day_without_year(sentence: Sentence, place: int, sign: str) -> bool:
    first = sentence.at(place)
    second = sentence.at(place + 2)
    if sign == "/":
        if not sentence.ends(place + 3) or (first.value, second.value) == (24, 7):
            return False
        # 1/2 is a half, but for "on 1/2"
        is_fraction = max(first.value, second.value) <= _MONTHS
        return not is_fraction or sentence.word(place - 1) in _BEFORE_FIGURES
    is_dotted = sign == "." and sentence.sign(place + 3) == "."
    if not is_dotted or not sentence.at(place + 3).is_glued:
        return False
    if not sentence.ends(place + 4):
        return False
    return sentence.word(place - 1) in _BEFORE_FIGURES


def _figures(
    sentence: Sentence,
    place: int,
    after: int,
    parts: tuple[int, int],
    sign: str,
    year: int | None,
) -> Read | None:
    """Both readings, day first and month first; with dots the day stands first."""
    one, other = parts
    day_first = NamedDay(year, other, one)
    month_first = NamedDay(year, one, other)
    possible = [named for named in (day_first, month_first) if _exists(named)]
    if sign == "." and day_first in possible:
        possible = [day_first]
    if not possible:
        return None
    if len(possible) == 1 or one == other:
        return made(sentence, place, after, possible[0], is_english=True)
    start, end = sentence.span(place, after)
    meant = [readings(named, sentence.said) for named in possible]
    days = tuple(sorted({one for several in meant for one in several}))
    return (Moment("ambiguous", start, end, days=days, dates=tuple(possible)), after)


def _exists(named: NamedDay) -> bool:
    return bool(readings(named._replace(year=named.year or _CENTURY), None))


def year_alone(sentence: Sentence, place: int) -> Read | None:
    """A year from 1900 to 2099 that is no amount."""
    year = sentence.at(place)
    if len(year.text) != 4 or not 1900 <= year.value <= 2099:
        return None
    ends = sentence.ends(place + 1) or sentence.sign(place + 1) == "-"
    is_amount = sentence.is_money(place - 1) or sentence.is_money(place + 1)
    if not (ends and sentence.begins(place)) or is_amount:
        return None
    named = NamedDay(year.value, None, None)
    return made(sentence, place, place + 1, named, is_english=True)
