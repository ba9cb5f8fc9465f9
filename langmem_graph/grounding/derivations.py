"""What code itself can derive from quoted words: dates, times, numbers, and other
spellings.

Each derivation has a name, which the call's grounding states.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from langmem_graph.grounding.tool_schema import PLAIN_NUMBER
from langmem_graph.ids_and_times import days_that_exist, moved
from langmem_graph.schedule.named_moments import (
    dates_in,
    days_in,
    months_in,
    names_day,
    times_in,
    weekdays_of_next_week,
)
from langmem_graph.schedule.times import zone_of
from langmem_graph.values.content_words import content
from langmem_graph.values.countries import (
    is_money,
    is_same_number,
    minor_units,
    place_derivation,
)
from langmem_graph.values.matching import is_token, places, says
from langmem_graph.values.numbers import (
    Amount,
    amounts,
    clocks_in,
    in_english,
    measure_of,
)

_DAY = timedelta(days=1)
_ANY_DAY = date(2000, 1, 1)  # of a time of day alone
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_MONTH_FORM = re.compile(r"(\d{4})-(0[1-9]|1[0-2])|(0[1-9]|1[0-2])/(\d{4})")
_ORDER = re.compile(r"(?:mm([/.-])dd|dd([/.-])mm)[/.-]yyyy", re.IGNORECASE)
_PERCENT = ("%", "percent", "pct")
_MINOR = frozenset("cent pence penny minor centime centavo öre".split())
MOST_PARTS = 40
"""Each part reads the whole text again, which takes some hundredths of a second."""
MOST_READ = 150_000
"""Parts times the characters that are read for each."""
_CHUNK = re.compile(r"[^\W_]+|\+(?=\d)")
_SPACING = re.compile(r"[\s\-\u2010\u2011\u2013/()_]*")
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
_ORDINAL = re.compile(
    rf"\b({'|'.join(_ORDINALS)}|\d{{1,3}}(?:st|nd|rd|th)) ([^\W\d_]+)"
)
_BETWEEN = " ,;/"  # quotes that are joined
_FEWEST_DIGITS = 5  # of a code of digits alone that is spelled without its spaces


@dataclass(frozen=True)
class Quoted:
    """Words of a source, and what is needed to understand them."""

    words: str
    text: str  # the whole text in which they stand
    day: date | None  # when they were said


def number_derivation(
    value: float | Decimal, about: str, quotes: Sequence[Quoted], *, whole: bool = False
) -> str | None:
    """How a number follows from the words, else None; `about` the slot may name its
    unit.

    With `whole` the slot takes whole numbers only.
    """
    wanted = Decimal(str(value))
    found = [amounts(one.words, one.text) for one in quotes]
    units = {
        word.removesuffix("s") for word in re.findall(r"[^\W\d_]+|%", about.casefold())
    }
    stated = [one for own in found for one in own]
    percent, minor = (not units.isdisjoint(some) for some in (_PERCENT, _MINOR))
    as_they_are = [n for n in stated if percent or n.unit not in _PERCENT]
    if wanted in {n.value for n in as_they_are if not (minor and is_money(n.unit))}:
        return "number"
    others = list({measure_of(unit) for unit in units})
    if whole and any(
        one.value == wanted and _is_measured_so(one.unit, others)
        for quoted in quotes
        for one in amounts(quoted.words, quoted.text, whole=True)
    ):
        return "number"
    if wanted in {
        n for one in quotes for n, noun in _ordinals(one.words) if noun in units
    }:
        return "number"
    if _is_in_other_unit(wanted, quotes, found, others):
        return "unit"
    if minor and _is_in_minor_units(wanted, quotes, found):
        return "unit"
    single = [own[0] for own in found if len(own) == 1]
    # as far as units are known
    is_one_unit = len({measure_of(one.unit) for one in single}) == 1
    is_sum = is_one_unit and len(single) == len(quotes) > 1
    return "sum" if is_sum and sum(one.value for one in single) == wanted else None


def _is_in_other_unit(
    wanted: Decimal,
    quotes: Sequence[Quoted],
    found: Sequence[Sequence[Amount]],
    others: Sequence[tuple[str, Decimal]],
) -> bool:
    """True where one of the amounts is the value in a unit that the slot names."""
    measured = [(one, one.unit) for own in found for one in own]
    measured += [
        (one, unit)
        for quoted, own in zip(quotes, found, strict=True)
        for unit in _shared(quoted)
        for one in own
        if not measure_of(one.unit)[0]
    ]
    for one, unit in measured:
        of, factor = measure_of(unit)
        if of and wanted in {
            one.value * factor / own for other, own in others if other == of
        }:
            return True
    return False


def _is_in_minor_units(
    wanted: Decimal, quotes: Sequence[Quoted], found: Sequence[Sequence[Amount]]
) -> bool:
    """True where one of the amounts of money is the value in cents, pence or the like.

    Beside an amount with a currency, those without one are none of money.
    """
    words = " … ".join(one.words for one in quotes)
    stated = [one for own in found for one in own]
    money = [one for one in stated if is_money(one.unit)]
    bare = [one for one in stated if one.unit != "%" and not content(one.unit)]
    return wanted / minor_units(words) in {one.value for one in money or bare}


def _ordinals(words: str) -> list[tuple[Decimal, str]]:
    """The ordinal numbers, each with its noun: "third floor"."""
    found = _ORDINAL.findall(words.casefold())
    return [
        (Decimal(1 + _ORDINALS.index(n) if n in _ORDINALS else n[:-2]), x)
        for n, x in found
    ]


def _shared(quoted: Quoted) -> list[str]:
    """The unit that a text states for all its numbers: "94 by 148, all centimetres"."""
    found = re.findall(r"\ball (?:in )?([a-z]+)", quoted.text.casefold())
    return [unit for unit in dict.fromkeys(found) if measure_of(unit)[0]]


def _is_measured_so(unit: str, others: Sequence[tuple[str, Decimal]]) -> bool:
    """Whether a slot wants its numbers in this unit, as far as it names one."""
    own = measure_of(unit)
    same = [other for other in others if other[0] == own[0]]
    return not own[0] or not same or own in same


def text_derivation(
    value: str, about: str, quotes: Sequence[Quoted], zone: str | None
) -> str | None:
    """How a text that does not stand in the words as it is follows from them; None: it
    does not.
    """
    if how := _form_derivation(value, about, quotes, zone):
        return how
    is_phone = is_same_number(value, [(one.words, one.text) for one in quotes], zone)
    return "phone" if is_phone else choice_derivation(value, quotes) or None


def _form_derivation(
    value: str, about: str, quotes: Sequence[Quoted], zone: str | None
) -> str | None:
    """The same without the tables of countries and towns, which are read from disk."""
    if _is_moment(value, about, quotes, zone):
        return "date"
    if any(_is_respelled(value, one.words) for one in quotes):
        return "spacing"
    if "digit" in about.casefold() and any(
        _is_without_letters(value, one.words) for one in quotes
    ):
        return "spacing"
    if PLAIN_NUMBER.fullmatch(value) and number_derivation(
        Decimal(value), about, quotes
    ):
        return "number"
    return "joined" if _is_joined(value, [one.words for one in quotes]) else None


def choice_derivation(value: str, quotes: Sequence[Quoted]) -> str:
    """How an allowed value follows from words that do not have its name; empty: it does
    not.

    The words name a country, a currency, a month or a day; the value is its code, or
    the weekday.
    """
    words = (
        (re.sub(r"days\b", "day", in_english(one.words)), one.day) for one in quotes
    )
    days = {day for text, said in words for day in days_in(text, said)}
    named = {f"{day:%A}" for day in days} | {f"{day:%a}" for day in days}
    if value.title() in named:
        return "date"
    return place_derivation(value, " … ".join(one.words for one in quotes))


def states(text: str, value: Any) -> bool:
    """Whether a text states a value, or all parts of a list or object, in this or
    another form. What has more than `MOST_PARTS` parts counts as not stated; for many
    parts only the first characters of a long text are read.
    """
    parts = _parts(value)
    if not parts:
        return False
    read = text[: MOST_READ // len(parts)]
    return all(_states_part(read, part) for part in parts)


def _parts(value: Any) -> list[Any]:
    """What is no list or object in a value; nothing where it is too large, or where a
    list or object in it is empty.
    """
    parts: list[Any] = []
    open_values = [value]
    for _ in range(2 * MOST_PARTS):
        if not open_values:
            return parts
        part = open_values.pop()
        if not isinstance(part, list | dict):
            parts.append(part)
            continue
        inner = part if isinstance(part, list) else list(part.values())
        if not inner:
            return []
        open_values.extend(inner)
    return []


def _states_part(text: str, value: Any) -> bool:
    quotes = [Quoted(text, text, None)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_derivation(value, "", quotes) is not None
    return says(text, str(value)) or bool(
        _form_derivation(str(value), "", quotes, None)
    )


def _is_respelled(value: str, words: str) -> bool:
    """True for the same letters and digits with other spaces and hyphens."""
    wanted = _CHUNK.findall(value)
    joined = "".join(wanted)
    digits = sum(sign.isdigit() for sign in joined)
    is_short = digits < _FEWEST_DIGITS and joined.isdigit()
    if not digits or is_short or _SPACING.sub("", value) != joined:
        return False
    where = [n for n, sign in enumerate(words) if not _SPACING.fullmatch(sign)]
    bare = [words[n] for n in where]
    upper = [sign.upper() if len(sign.upper()) == 1 else sign for sign in bare]
    for text in ("".join(bare), "".join(upper)):
        for place in places(joined, text):
            start = where[place]
            end = where[place + len(joined) - 1] + 1
            if is_token(words, start, end) and not _goes_on(words, start, end):
                return True
    return False


def _is_without_letters(value: str, words: str) -> bool:
    """True for the digits of a code that begins with letters: 509887214 of
    PT509887214.
    """
    is_code = value.isdigit() and len(value) >= _FEWEST_DIGITS
    return is_code and bool(re.search(rf"(?<!\w)[^\W\d_]{{1,3}}{value}(?!\w)", words))


def _goes_on(words: str, start: int, end: int) -> bool:
    """True where more digits stand on either side: a part of a phone number."""
    before = re.search(r"\d[ \-/]$", words[max(0, start - 3) : start])
    after = re.match(r"[ \-/]\d", words[end : end + 2])
    return bool(
        (before and words[start].isdigit()) or (after and words[end - 1].isdigit())
    )


def _is_joined(value: str, quotes: Sequence[str]) -> bool:
    """True where the value is whole quotes one after another, such as first name and
    surname.
    """
    whole = _plain(value)
    place = 0
    parts = Counter(filter(None, (_plain(quote).strip(".,;") for quote in quotes)))
    while place < len(whole):
        fitting = [
            one
            for one in +parts
            if whole.startswith(one, place)
            and whole[place + len(one) : place + len(one) + 1] in _BETWEEN
        ]
        if not fitting:
            return False
        own = max(fitting, key=len)
        parts[own] -= 1
        place += len(own)
        while place < len(whole) and whole[place] in _BETWEEN:
            place += 1
        if own[-1].isdigit() and whole[place : place + 1].isdigit():
            return False  # digits of two quotes side by side would be another number
    return len(quotes) > 1


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


# --- dates and times ---


def _is_moment(
    value: str, about: str, quotes: Sequence[Quoted], zone: str | None
) -> bool:
    """True for a date or time that the words name, or that lies a quoted length after
    one.
    """
    said = [(in_english(one.words), one.day) for one in quotes]
    if month := _MONTH_FORM.fullmatch(value):
        year = int(month[1] or month[4])
        number = int(month[2] or month[3])
        named = {one for words, on in said if on for one in months_in(words, on)}
        return not named.isdisjoint(days_that_exist([(year, number, 1)]))
    if re.fullmatch(r"\d\d-\d\d", value) and re.search(r"(?<!Y-)\bMM-DD\b", about):
        value = f"--{value}"
    if re.fullmatch(r"--\d\d-\d\d", value):
        dated = [days_in(words, on) for words, on in said if dates_in(words)]
        return any(f"--{one:%m-%d}" == value for days in dated for one in days)
    day, clock, offset = _read(value, about)
    if day is None and clock is None:
        return False
    days = {
        one for quoted in quotes for one in _days_in(quoted)
    } | weekdays_of_next_week(said)
    days |= {day} if day and names_day(day, said) else set()
    clocks = {one for quoted in quotes for one in times_in(quoted.words)}
    clocks |= {one for quoted in quotes for one in clocks_in(quoted.words, quoted.text)}
    wanted = datetime.combine(day or _ANY_DAY, clock or time(0))
    if (
        offset is not None
        and wanted.replace(tzinfo=zone_of(zone)).utcoffset() != offset
    ):
        return False
    days = days if day else {_ANY_DAY}
    clocks = clocks if clock else {time(0)}
    ends = {wanted} if day else {wanted, wanted + _DAY}
    lengths = {timedelta(0), *(one for quoted in quotes for one in _lengths(quoted))}
    starts = moved(ends, [-length for length in lengths])
    return any(one.date() in days and one.time() in clocks for one in starts)


def _read(value: str, about: str) -> tuple[date | None, time | None, timedelta | None]:
    """Day, time of day and offset that a value writes."""
    try:
        if _ISO_TIME.fullmatch(value):
            moment = datetime.fromisoformat(value)
            return moment.date(), moment.time(), moment.utcoffset()
        if re.fullmatch(r"\d\d:\d\d(?::\d\d)?", value):
            return None, time.fromisoformat(value), None
        if order := _ORDER.search(about):
            form = "%m/%d/%Y" if order[1] else "%d/%m/%Y"
            return (
                datetime.strptime(re.sub("[.-]", "/", value), form).date(),
                None,
                None,
            )
        return date.fromisoformat(value), None, None
    except ValueError:
        return None, None, None


def _days_in(quoted: Quoted) -> set[date]:
    """The days that the words name, "in three days" and "2 weeks ago" too."""
    days = days_in(in_english(quoted.words), quoted.day)
    lower = quoted.words.casefold()
    sign = -1 if re.search(r"\bago\b", lower) else 1
    if quoted.day and (sign < 0 or re.search(r"\b(?:in|from now|later)\b", lower)):
        whole = [one for one in _lengths(quoted) if one % _DAY == timedelta(0)]
        days |= moved([quoted.day], [sign * one for one in whole])
    return days


def _lengths(quoted: Quoted) -> list[timedelta]:
    """The lengths of time that the words state, below ten years."""
    measured = [
        (one.value, *measure_of(one.unit)) for one in amounts(quoted.words, quoted.text)
    ]
    seconds = [float(value * factor) for value, of, factor in measured if of == "time"]
    return [timedelta(seconds=one) for one in seconds if 0 < one < 3650 * 86_400]
