"""Days reckoned from the one on which a text was said: yesterday, last Friday, N weeks
ago.

Phrases are looked up in a tree of words; what only English says is read here. Each
reader takes a place in a sentence and looks at a fixed number of tokens.
"""

from collections.abc import Iterator
from datetime import date

from dateutil.easter import easter

from langmem_graph.ids_and_times import days_that_exist
from langmem_graph.moments.calendar_days import (
    between,
    readings,
    single,
    stepped,
    whole,
)
from langmem_graph.moments.made import Read
from langmem_graph.moments.moment import Days, Grain, Kind, Moment, NamedDay
from langmem_graph.moments.month_words import days_and_month
from langmem_graph.moments.sentence import Sentence
from langmem_graph.moments.vocabulary import (
    NUMBER,
    Meaning,
    Node,
    months,
    numbers,
    phrases,
)

_LONGEST = 10  # tokens of a phrase
_MOST = 999  # days, weeks, months or years ago
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
_EVERY = frozenset("every each".split())
_OTHER = frozenset("other second".split())
_LONGEST_MONTH = 31
_NO_DAY_OF_MONTH = frozenset(
    "of century floor grade street avenue place time anniversary birthday".split()
)
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_PLURALS = {f"{name}s": number for number, name in enumerate(_WEEKDAYS)}
WORDS = frozenset({*_ORDINALS, *_EVERY, *_PLURALS, "the"})
"""With which something begins that only English says."""
_GRAINS: dict[str, Grain] = {
    "day": "day",
    "week": "week",
    "fortnight": "week",
    "month": "month",
    "year": "year",
}
_NOT_AFTER = {
    "morgen": frozenset(
        "guten jeden am heute gestern der diesen den vom goede elke iedere deze de s n "
        "god hver en denne om einem in zum good".split()
    ),
    "mañana": frozenset("la una las esta cada de media".split()),
    "domingo": frozenset("santo plácido placido".split()),
}
"""Words after which one is a morning, or a name."""
_ONLY_WITH = {"hier": frozenset("est que qui nous vous fait avons ai était j".split())}
"""A word that is another one in other languages: it counts beside words of its own."""
_WITHIN = 12  # tokens on either side in which those are looked for


def phrase(sentence: Sentence, place: int) -> Read | None:
    """The longest phrase that begins at a place."""
    if not sentence.begins(place):
        return None
    found = _longest(sentence, place)
    if found is None:
        return None
    meaning, count, after = found
    if not _counts(sentence, place, after):
        return None
    moment = _meant(sentence, meaning, count, *sentence.span(place, after))
    return (moment, after) if moment else None


def _longest(sentence: Sentence, place: int) -> tuple[Meaning, int, int] | None:
    """The meaning of the longest phrase, the number in it, and the place behind it."""
    found = None
    branches = [(phrases(), 0)]
    for after in range(place, place + _LONGEST):
        branches = list(_steps(sentence, after, branches))
        for node, count in branches:
            if node.meaning is not None:
                found = node.meaning, count, after + 1
        if not branches:
            break
    return found


def _steps(
    sentence: Sentence, place: int, branches: list[tuple[Node, int]]
) -> Iterator[tuple[Node, int]]:
    token = sentence.at(place)
    for node, count in branches:
        if token.text in node.next and token.text != NUMBER:
            yield node.next[token.text], count
        number = _number(sentence, place)
        if number is not None and NUMBER in node.next:
            yield node.next[NUMBER], number


def _number(sentence: Sentence, place: int) -> int | None:
    token = sentence.at(place)
    if token.kind == "word":
        return numbers().get(token.text)
    is_whole = 0 <= token.value <= _MOST and sentence.begins(place)
    return token.value if is_whole and sentence.ends(place + 1) else None


def _counts(sentence: Sentence, place: int, after: int) -> bool:
    """Whether the words are no part of a name or of other words."""
    name = sentence.word(place)
    before = sentence.word(place - 1)
    if name in _NOT_AFTER and after == place + 1:
        is_capital = sentence.text[sentence.at(place).start].isupper()
        is_noun = is_capital and not sentence.starts_sentence(place)
        if before in _NOT_AFTER[name] or (name == "morgen" and is_noun):
            return False
    if name in _ONLY_WITH and after == place + 1:
        around = range(max(0, place - _WITHIN), place + _WITHIN)
        return any(sentence.word(one) in _ONLY_WITH[name] for one in around)
    if name == "mardi" and sentence.word(after) == "gras":
        return False
    follows = sentence.at(after)
    further = sentence.at(after + 1)
    is_hangul = "\uac00" <= sentence.at(place).text[:1] <= "\ud7af"
    if is_hangul and sentence.at(place).is_glued and sentence.at(place - 1).is_cjk:
        return False
    is_address = follows.text in (".", "_") and follows.is_glued and further.is_glued
    return not (is_address and further.kind == "word")


def _meant(
    sentence: Sentence, meaning: Meaning, count: int, start: int, end: int
) -> Moment | None:
    kind, grain = _kind_of(meaning)
    said = sentence.said
    return Moment(
        kind,
        start,
        end,
        days=_days(meaning, count, said) if said else (),
        grain=grain,
        weekday=int(meaning.value) if kind == "weekday" else None,
        is_english=meaning.is_english,
    )


def _kind_of(meaning: Meaning) -> tuple[Kind, Grain]:
    if meaning.kind in ("ago", "ahead"):
        return "day", _GRAINS[meaning.value]
    kinds: dict[str, tuple[Kind, Grain]] = {
        "week": ("span", "week"),
        "weekend": ("span", "day"),
        "month": ("month", "month"),
        "year": ("year", "year"),
        "weekday": ("weekday", "day"),
        "feast": ("feast", "day"),
        "easter": ("feast", "day"),
    }
    return kinds.get(meaning.kind, ("day", "day"))


def _days(meaning: Meaning, count: int, said: date) -> tuple[Days, ...]:
    """The readings of a phrase on the day on which it was said."""
    if meaning.kind in ("ago", "ahead"):
        steps = -count if meaning.kind == "ago" else count
        return _distant(said, meaning.value, steps)
    if meaning.kind == "feast":
        month, day = map(int, meaning.value.split("-"))
        return readings(NamedDay(None, month, day), said)
    number = int(meaning.value)
    if meaning.kind == "weekday":
        return _near_weekdays(said, number)
    if meaning.kind == "of":
        return _of_week(said, meaning.weekday, number)
    if meaning.kind == "easter":
        return _near_easter(said, number)
    return _unit(said, meaning.kind, number)


def _distant(said: date, unit: str, count: int) -> tuple[Days, ...]:
    """Three weeks ago, in two months."""
    if unit == "fortnight":
        unit = "week"
        count = 2 * count
    day = stepped(said, unit, count)
    return (Days(day, day),) if day else ()


def _unit(said: date, unit: str, number: int) -> tuple[Days, ...]:
    """Yesterday, next weekend; last week, month or year as a whole."""
    if unit == "weekend":
        saturday = 5 - said.weekday() + 7 * number
        days = between(said, saturday, saturday + 1)
        return (days,) if days else ()
    day = stepped(said, unit, number)
    return (whole(day, _GRAINS[unit]),) if day else ()


def _near_weekdays(said: date, weekday: int) -> tuple[Days, ...]:
    """The last one and the coming one, and today where it is that weekday."""
    ahead = (weekday - said.weekday()) % 7
    return single(said, [ahead - 7, ahead] if ahead else [-7, 0, 7])


def _of_week(said: date, weekday: int, number: int) -> tuple[Days, ...]:
    """Last Friday, this Friday, and of next Friday both readings."""
    ahead = (weekday - said.weekday()) % 7
    if number < 0:
        return single(said, [ahead - 7])
    if number == 0:
        return single(said, [ahead] if ahead else [0, 7])
    near = ahead or 7
    return single(said, [near, near + 7])


def _near_easter(said: date, number: int) -> tuple[Days, ...]:
    first = max(said.year - 1, 1583)
    last = min(said.year + 1, 4099)
    sundays = [easter(year) for year in range(first, last + 1)]
    days = [one.first for day in sundays for one in single(day, [number])]
    before = [day for day in days if day <= said][-1:]
    after = [day for day in days if day >= said][:1]
    return tuple(Days(day, day) for day in dict.fromkeys([*before, *after]))


# --- only in English ---


def in_english(sentence: Sentence, place: int) -> Read | None:
    """What takes more than a phrase: every Friday, Mondays, Monday week, the 14th."""
    return (
        _nth(sentence, place)
        or _recurring(sentence, place)
        or _week_after(sentence, place)
        or _day_of_month(sentence, place)
    )


def _weekday(name: str) -> int | None:
    return _WEEKDAYS.index(name) if name in _WEEKDAYS else None


def _moment(
    sentence: Sentence,
    place: int,
    after: int,
    days: tuple[Days, ...],
    kind: Kind = "day",
) -> Read:
    start, end = sentence.span(place, after)
    return Moment(kind, start, end, days=days if sentence.said else ()), after


def _nth(sentence: Sentence, place: int) -> Read | None:
    """The last Friday of next month, the second week of October 2025."""
    nth = _ORDINALS.get(sentence.word(place))
    if nth is None or sentence.word(place + 2) not in ("of", "in"):
        return None
    what = sentence.word(place + 1)
    weekday = _weekday(what)
    if weekday is None and what != "week":
        return None
    month = _month_meant(sentence, place + 3)
    if month is None:  # "the first Monday of every month"
        return _moment(sentence, place, place + 3, (), "recurrence")
    span, after = month
    every = _each_day(span)
    if weekday is None:
        days = every[-7:] if nth == -1 else every[7 * nth : 7 * nth + 7]
    else:
        fitting = [day for day in every if day.weekday() == weekday]
        days = fitting[nth:][:1]
    found = (Days(days[0], days[-1]),) if days else ()
    return _moment(sentence, place, after, found, "span" if weekday is None else "day")


def _each_day(span: Days) -> list[date]:
    month = (span.first.year, span.first.month)
    return days_that_exist((*month, day) for day in range(1, span.last.day + 1))


def _month_meant(sentence: Sentence, place: int) -> tuple[Days, int] | None:
    """The days of "next month", of "June 2025", or of the next June."""
    said = sentence.said
    if said is None:
        return None
    if sentence.word(place) in ("the", "this", "next"):
        if sentence.word(place + 1) != "month":
            return None
        moved_to = stepped(said, "month", sentence.word(place) == "next")
        return (whole(moved_to, "month"), place + 2) if moved_to else None
    month = months().get(sentence.word(place))
    if month is None or not month.is_english or month.is_short:
        return None
    year = sentence.at(place + 1)
    if len(year.text) == 4 and year.value > 0:
        found = readings(NamedDay(year.value, month.number, None), said)
        return (found[0], place + 2) if found else None
    ahead = readings(NamedDay(None, month.number, None), said)
    return (ahead[-1], place + 1) if ahead else None


def _recurring(sentence: Sentence, place: int) -> Read | None:
    """Every Friday, each other Monday, Thursdays; with the next one of them."""
    word = sentence.word(place)
    after = place + 1
    if word in _EVERY:
        after += sentence.word(after) in _OTHER
        weekday = _weekday(sentence.word(after))
        after += 1
    else:
        weekday = _PLURALS.get(word)
    if weekday is None or sentence.sign(after) == "'":
        return None
    said = sentence.said
    days = _of_week(said, weekday, 0) if said and word in _EVERY else ()
    start, end = sentence.span(place, after)
    return Moment("recurrence", start, end, days=days, weekday=weekday), after


def _week_after(sentence: Sentence, place: int) -> Read | None:
    """Monday week: a week after the coming Monday."""
    weekday = _weekday(sentence.word(place))
    if weekday is None or sentence.word(place + 1) != "week" or not sentence.said:
        return None
    ahead = (weekday - sentence.said.weekday()) % 7 or 7
    days = single(sentence.said, [ahead + 7])
    return _moment(sentence, place, place + 2, days)


def _day_of_month(sentence: Sentence, place: int) -> Read | None:
    """The 14th, of a month that is not named: the next one."""
    day = sentence.at(place + 1)
    ending = sentence.at(place + 2)
    if sentence.word(place) != "the" or not 1 <= day.value <= 31:
        return None
    if ending.text not in ("st", "nd", "rd", "th") or not ending.is_glued:
        return None
    if sentence.word(place + 3) in _NO_DAY_OF_MONTH:
        return None
    if days_and_month(sentence, place + 1):  # the 14th of May
        return None
    said = sentence.said
    following = single(said, list(range(_LONGEST_MONTH))) if said else ()
    days = tuple(one for one in following if one.first.day == day.value)
    start, end = sentence.span(place, place + 3)
    named = NamedDay(None, None, day.value)
    return Moment("day", start, end, days=days, dates=(named,)), place + 3
