"""The numbers that a text states, in figures and in English words up to 99."""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from langmem_graph.values.matching import is_part, is_token, multiplies

DIGITS = re.compile(r"(?:(?<![\w)\]])[+\-−])?\d++(?:[.,'’\u00a0\u202f]\d++)*+")
_MOST_DIGITS = 40
_WRITTEN = re.compile(  # with a decimal mark, or with groups of thousands
    r"[+\-−]?(?:(?:0|(?!0)\d+)(?:[.,]\d+)?"
    r"|[1-9]\d{0,2}(?:(?:,\d{3})+\.\d+|(?:\.\d{3})+,\d+|(?:,\d{3}){2,}|(?:\.\d{3}){2,})"
    r"|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?)"  # 1,00,000
)
_OTHER_MARK = {",": ".", ".": ","}
_SPACE = "[ \u00a0\u202f]"
_GROUPED = re.compile(  # the 12 500 of "12 500 kr", with no digit beside it
    r"(?<![\w.,+\-−])(?<!\d[ \u00a0\u202f])[1-9]\d{0,2}(?:[ \u00a0\u202f]\d{3})+"
    r"(?![\w-]|[ \u00a0\u202f.]\d)"
)
_CODE = "(?:EUR|CHF|USD|GBP)"
_EACH = rf"\s?{_CODE}?\s?(?:/|per|a|the)\s?(?i:l|lit(?:er|re)|gallon|kwh|kg)\b"
_UNCERTAIN = r"[+\-−]?[1-9]\d{0,2}[.,]\d{3}"
_PRICED = re.compile(  # without width, as the code of one may be that of the next
    rf"(?<![\w.,])(?=(?:{_CODE}\s?(?P<after>{_UNCERTAIN})(?![\d.,]\d)"
    rf"|(?P<before>{_UNCERTAIN})\s?{_CODE}(?!\w))(?!{_EACH}))"
)
"""An amount of money, but no price of a litre, which has thousandths."""
_AMBIGUOUS = re.compile(_UNCERTAIN)
_IN_DOLLARS = re.compile(rf"[$£]\s?({_UNCERTAIN})")
_SHORT_RANGE = re.compile(r"(?<![\w.,-])(\d{1,3})[-–](?=\d{1,3}(?![\w.,-]))")
_NEGATED = re.compile(r"(?:(?<!\w)[-−][$€£¥₹]?|\d ?minus )$", re.IGNORECASE)
_MINUS = re.compile(r"\bminus $", re.IGNORECASE)
_ATTACHED = re.compile(
    r"kg|mg|km|cm|mm|ml|cl|lbs?|kwh?|k|g|m|l|h|s|p|mins?|hrs?|th|st|nd|rd", re.I
)
_FOLLOWING = re.compile(rf"{_SPACE}?-?(?P<word>[^\W\d_]+|%)")
_TIMES = {
    "k": 1_000,
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
}
_TIMES |= {"dozen": 12}
_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_IN_WORDS = {name: Decimal(number) for number, name in enumerate(_NAMES)}
_IN_WORDS |= {
    f"{ten}-{name}" if one else ten: Decimal(place * 10 + one)
    for place, ten in enumerate(_TENS, 2)
    for one, name in enumerate(_NAMES[:10])
}
_IN_WORDS |= {"half a dozen": Decimal(6), "a dozen": Decimal(12)}
_WORDS = re.compile(
    rf"(?<![\w-])({'|'.join(sorted(_IN_WORDS, key=len, reverse=True))})(?![\w-])",
    re.IGNORECASE,
)
_OTHER = re.compile(r"half|quarter|third|point|and a|plus|minus", re.IGNORECASE)
_BEFORE = re.compile(r"(?<![^\W\d_])([^\W\d_]+)(?: and)?[ -]\Z")
_NEAR = 60  # characters before a number that may say something of it


class Amount(NamedTuple):
    """A number with the unit behind it."""

    value: Decimal
    unit: str  # in lower case; empty where no word follows


def amounts(text: str, context: str = "", *, whole: bool = False) -> list[Amount]:
    """The numbers of a text, in figures and, up to 99, in words.

    Parts of dates in figures, of times and of codes are none: "AB-12" has no number. A
    longer text around it, the context, may show how it writes decimals. With `whole`,
    "1.200" is 1200.
    """
    plain = _SHORT_RANGE.sub(r"\1 – ", text)
    plain = _GROUPED.sub(lambda found: re.sub(_SPACE, "", found[0]), plain)
    return [*_in_figures(plain, context or text, whole), *_in_words(plain)]


def _in_figures(text: str, context: str, whole: bool) -> Iterator[Amount]:
    shown = _ShownMarks(context)
    for digits in DIGITS.finditer(text):
        number, (start, end) = _decimal(digits.group(), shown), digits.span()
        if (
            whole
            and (number is None or number != number.to_integral_value())
            and _AMBIGUOUS.fullmatch(digits.group())
        ):
            number = Decimal(re.sub("[.,]", "", digits.group()).replace("−", "-"))
        attached = _ATTACHED.match(text, end)
        last = attached.end() if attached else end
        before = text[max(0, start - _NEAR) : start]
        if number is None or _NEGATED.search(before) or not is_token(text, start, last):
            continue
        if _MINUS.search(before):
            number = -number
        following = _FOLLOWING.match(text, end)
        unit = following["word"].casefold() if following else ""
        if following and multiplies(following["word"].replace("k", "K", unit == "k")):
            times = _TIMES.get(unit.removesuffix("s"))
            rest = _FOLLOWING.match(text, following.end())
            if times and not (rest and multiplies(rest["word"])):
                yield Amount(number * times, rest["word"].casefold() if rest else "")
        elif not is_part(text, start, end):
            yield Amount(number, unit)


def _in_words(text: str) -> Iterator[Amount]:
    for found in _WORDS.finditer(text):
        # a Turkish I is found as an i, and is none
        number = _IN_WORDS.get(found[1].casefold())
        following = _FOLLOWING.match(text, found.end())
        if number is None:
            continue
        unit = following["word"].casefold() if following else ""
        near = (
            f"{text[max(0, found.start() - 10) : found.start()]} "
            f"{text[found.end() : found.end() + 8]}"
        )
        place = found.start()
        before = _BEFORE.search(text[max(0, place - _NEAR) : place])
        if before and (multiplies(before[1]) or before[1].casefold() in _IN_WORDS):
            continue
        if following and unit == "dozen":
            rest = _FOLLOWING.match(text, following.end())
            number = number * _TIMES[unit]
            unit = rest["word"].casefold() if rest else ""
        if not (multiplies(unit) or unit in _IN_WORDS or _OTHER.search(near)):
            yield Amount(number, unit)


def decimal_of(digits: str, text: str = "") -> Decimal | None:
    """The number that digits and separators write; None where that is not certain.

    "1,5" is 1.5, "1.200,50" is 1200.50 and "3,4,5" is none. "1.200" may be two numbers,
    unless a currency's code stands beside it, a dollar or pound sign before "1,200", or
    the text shows elsewhere which mark it uses.
    """
    return _decimal(digits, _ShownMarks(text))


def _decimal(digits: str, shown: "_ShownMarks") -> Decimal | None:
    plain = re.sub(r"(?<=\d)['’\u00a0\u202f ](?=\d{3}(?:\D|$))", "", digits)
    if len(plain) > _MOST_DIGITS or not _WRITTEN.fullmatch(plain):
        return None
    mark = shown.of(plain) if _AMBIGUOUS.fullmatch(plain) else _mark_of(plain)
    if not mark:
        return None
    return Decimal(
        plain.replace(_OTHER_MARK[mark], "").replace(mark, ".").replace("−", "-")
    )


def _mark_of(plain: str) -> str:
    """The decimal mark of an unambiguous number; where it has none, the one it does not
    use.
    """
    last = max(plain.rfind("."), plain.rfind(","))
    mark = plain[last] if last >= 0 else "."
    return mark if plain.count(mark) <= 1 else _OTHER_MARK[mark]


class _ShownMarks:
    """The decimal marks that a text shows; it is searched once, for all its numbers."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, digits: str) -> str:
        """The decimal mark of a number that may be read in two ways; empty where the
        text shows none, or both.
        """
        if digits in self._priced:
            return _OTHER_MARK["," if "," in digits else "."]
        return "." if "," in digits and digits in self._in_dollars else self._clear

    @cached_property
    def _priced(self) -> set[str]:
        return {
            found["after"] or found["before"] for found in _PRICED.finditer(self._text)
        }

    @cached_property
    def _in_dollars(self) -> set[str]:
        return {*_IN_DOLLARS.findall(self._text)}

    @cached_property
    def _clear(self) -> str:
        """The mark of the numbers that can be read in one way only."""
        written = [one for one in DIGITS.findall(self._text) if _WRITTEN.fullmatch(one)]
        marks = {
            _mark_of(one)
            for one in written
            if re.search("[.,]", one) and not _AMBIGUOUS.fullmatch(one)
        }
        return marks.pop() if len(marks) == 1 else ""
