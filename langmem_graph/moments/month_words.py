"""Dates with the name of a month: 7 May 2023, May 7-9, "in May", am 7. Mai.

Each reader takes a place in a sentence and gives moments with the place behind them, or
None. None looks further ahead than a fixed number of tokens.
"""

from typing import NamedTuple

from langmem_graph.moments.calendar_days import readings
from langmem_graph.moments.made import Read, made, span_of
from langmem_graph.moments.moment import NamedDay
from langmem_graph.moments.sentence import Sentence
from langmem_graph.moments.vocabulary import MonthName, months

_ORDINALS = frozenset("st nd rd th er º ª e".split())
_OF = frozenset("of de del di".split())
_LIST = frozenset("and or und oder et ou y o i e och og en ja".split())
TO = frozenset(
    "to until till through thru bis au al alla tot até ao do till til".split()
)
"""Words from one day to another."""
_BEFORE_ENGLISH = frozenset(
    "in of since by during last this next early late mid until before after".split()
)
_BEFORE_SHARED = frozenset(
    "im seit ab anfang ende mitte letzten en em w i fin début depuis desde de di del "
    "van sinds vanaf eind begin od".split()
)
_BEFORE_OTHERS = _BEFORE_SHARED | frozenset("a da dal nel in fra siden nach".split())
"""Words before the name of a month that stands alone."""
_VERBS = frozenset("may march".split())
_PLANETS = frozenset("mars mart".split())
_WORDS_TOO = _VERBS | _PLANETS
"""Months that are other words, too."""
_LIKE_VERBS = frozenset("last this next by late early mid after before until".split())
_MOST_LISTED = 6
_LAST_DAY = 31


class _Numbers(NamedTuple):
    """Days of one month, as a list or as a span."""

    days: list[int]
    is_span: bool
    after: int
    is_ordinal: bool


def days_and_month(sentence: Sentence, place: int) -> list[Read] | None:
    """7 May 2023, the 7th of May, 7. Mai, 12-15 June, 12, 13 and 14 June."""
    numbers = _numbers(sentence, place) if sentence.begins(place) else None
    if numbers is None:
        return None
    after = numbers.after
    has_of = sentence.word(after) in _OF
    after += has_of
    if sentence.word(after) == "d" and sentence.sign(after + 1) == "'":
        after += 2
    month = months().get(sentence.word(after))
    is_joined = sentence.at(after).is_glued and sentence.at(after - 1).kind != "sign"
    if month is None or is_joined:
        return None
    is_sure = numbers.is_ordinal or has_of
    name_place = after
    after += 1
    if month.is_short and sentence.sign(after) == "." and sentence.at(after).is_glued:
        after += 1
    year, after_year = _year_after(sentence, after)
    if year is None and not _is_month(sentence, name_place, month, is_sure=is_sure):
        return None
    is_english = month.is_english and sentence.sign(numbers.after - 1) != "."
    return _several(sentence, place, after_year, numbers, month, year, is_english)


def _is_month(
    sentence: Sentence, place: int, month: MonthName, *, is_sure: bool
) -> bool:
    """Whether a name beside a day without a year is a month, and no other word."""
    name = sentence.word(place)
    if month.is_short and not month.is_english:
        return len(name) > 3
    if is_sure or name not in _WORDS_TOO:
        return True
    is_small = sentence.text[sentence.at(place).start].islower()
    after = sentence.at(place + 1)
    goes_on = after.kind == "word" and after.text not in TO | _LIST
    return not (is_small and goes_on and after.text not in ("at", "in", "i"))


def _numbers(
    sentence: Sentence, place: int, most: int = _MOST_LISTED
) -> _Numbers | None:
    """One or several days of a month, from a place on."""
    days = list[int]()
    is_span = is_ordinal = is_listed = False
    after = place
    while len(days) < most:
        number = sentence.at(after)
        if not 1 <= number.value <= _LAST_DAY or len(number.text) > 2:
            break
        days.append(number.value)
        after += 1
        if sentence.word(after) in _ORDINALS and sentence.at(after).is_glued:
            is_ordinal = True
            after += 1
        elif sentence.sign(after) == "." and sentence.at(after).is_glued:
            after += 1
        joined, is_to = _joint(sentence, after)
        if joined == after or len(days) == most:
            break
        is_span = is_span or is_to
        # of "room 12, 23 April" no list is made
        is_listed = sentence.sign(after) != "," or joined > after + 1
        after = joined
    is_several = len(days) > 1
    if not days or (is_several and not is_listed) or (is_span and len(days) != 2):
        return None
    return _Numbers(days, is_span, after, is_ordinal)


def _joint(sentence: Sentence, place: int) -> tuple[int, bool]:
    """The place behind a word or sign between two days, and whether it makes a span."""
    token = sentence.at(place)
    after = place + 1
    is_to = token.text in TO or token.text in ("-", "–", "—")
    is_comma = token.text == ","
    if not (is_to or is_comma or token.text in _LIST):
        return place, False
    if is_comma and sentence.word(after) in _LIST:
        after += 1
    if sentence.word(after) == "the":
        after += 1
    number = sentence.at(after)
    is_day = 1 <= number.value <= _LAST_DAY and len(number.text) <= 2
    behind = sentence.at(after + 1)
    is_other = behind.is_cjk or behind.text in (":", "am", "pm", "uhr")
    return (after, is_to) if is_day and not is_other else (place, False)


def _several(
    sentence: Sentence,
    place: int,
    after: int,
    numbers: _Numbers,
    month: MonthName,
    year: int | None,
    is_english: bool,
) -> list[Read]:
    """The moments of days of one month."""
    dates = [NamedDay(year, month.number, day) for day in numbers.days]
    if not numbers.is_span:
        return [
            made(sentence, place, after, named, is_english=is_english)
            for named in dates
        ]
    ends = [readings(named, sentence.said) for named in dates]
    start, end = sentence.span(place, after)
    moment = span_of(start, end, ends[0], ends[1], dates, is_english=is_english)
    return [(moment, after)]


def _year_after(sentence: Sentence, place: int) -> tuple[int | None, int]:
    """A year of four figures behind a month, and the place behind it."""
    after = place
    if sentence.sign(after) in (",", "/") or sentence.word(after) in _OF:
        after += 1
    year = sentence.at(after)
    if len(year.text) != 4 or year.value < 1 or not sentence.ends(after + 1):
        return None, place
    return year.value, after + 1


def month_first(sentence: Sentence, place: int) -> Read | list[Read] | None:
    """May 7, May 7-9, May 7th, 2023, May 2023, "in May"."""
    month = months().get(sentence.word(place))
    if month is None or not sentence.begins(place):
        return None
    after = place + 1
    if sentence.sign(after) == "." and sentence.at(after).is_glued:
        after += 1
    return (
        _month_and_days(sentence, place, after, month)
        or _month_and_year(sentence, place, after, month)
        or _month_alone(sentence, place, month)
    )


def _month_and_days(
    sentence: Sentence, place: int, after: int, month: MonthName
) -> list[Read] | None:
    numbers = _numbers(sentence, after) if month.is_english else None
    if numbers is None or sentence.at(after).is_glued:
        return None
    if len(numbers.days) > 1 and _counts_things(sentence, numbers.after):
        numbers = _numbers(sentence, after, most=1) or numbers
    if not sentence.ends(numbers.after) or sentence.is_money(numbers.after):
        return None
    year, end = _year_after(sentence, numbers.after)
    return _several(sentence, place, end, numbers, month, year, is_english=True)


def _counts_things(sentence: Sentence, place: int) -> bool:
    """Whether a noun may follow a number: "June 3 and 4 friends"."""
    word = sentence.word(place)
    return bool(word) and word not in ("in", "at", "from", "for")


def _month_and_year(
    sentence: Sentence, place: int, after: int, month: MonthName
) -> Read | None:
    year, end = _year_after(sentence, after)
    if year is None:
        return None
    name = sentence.word(place)
    is_plain = month.is_english or not month.is_short
    is_led = sentence.word(place - 1) in _BEFORE_OTHERS - {"in"}
    if not is_led and (name in _PLANETS or not is_plain):
        return None
    named = NamedDay(year, month.number, None)
    return made(sentence, place, end, named, is_english=month.is_english)


def _month_alone(sentence: Sentence, place: int, month: MonthName) -> Read | None:
    before = sentence.word(place - 1)
    name = sentence.word(place)
    if month.is_short or not _is_led(before, name, month):
        return None
    if sentence.at(place + 1).is_glued and sentence.at(place + 1).kind != "sign":
        return None
    is_small = sentence.text[sentence.at(place).start].islower()
    if is_small and name in _WORDS_TOO and before in _LIKE_VERBS:
        return None
    named = NamedDay(None, month.number, None)
    return made(sentence, place, place + 1, named, is_english=month.is_english)


def _is_led(before: str, name: str, month: MonthName) -> bool:
    """Whether a word of the right language stands before the name of a month."""
    if name in _VERBS:
        return before in _BEFORE_ENGLISH
    if name in _PLANETS:
        return before in _BEFORE_SHARED
    if month.is_english:
        return before in _BEFORE_ENGLISH | _BEFORE_SHARED
    return before in _BEFORE_OTHERS
