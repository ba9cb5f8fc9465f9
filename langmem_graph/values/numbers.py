"""The numbers that a text states: one reading of whole tokens, for copying and for checking."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from langmem_graph.values import word_list
from langmem_graph.values.matching import is_part, is_token, multiplies


@cache
def number_words(language: str) -> Mapping[str, int]:
    """The numbers that a language has words for here: one to twelve, and those of clocks."""
    lines = word_list("number_words").splitlines()
    rows = {name: words.split() for name, words in (line.split(" ", 1) for line in lines)}
    plain = {word: place for place, word in enumerate(rows[language][:12], 1)}
    return plain | {word: int(n) for n, _, word in (p.partition("=") for p in rows[language][12:])}


DIGITS = re.compile(r"(?:(?<![\w)\]])[+\-−])?\d++(?:[.,'’\u00a0\u202f]\d++)*+")
_MOST_DIGITS = 40
_WRITTEN = re.compile(  # with a decimal mark, or with groups of thousands
    r"[+\-−]?(?:(?:0|(?!0)\d+)(?:[.,]\d+)?"
    r"|[1-9]\d{0,2}(?:(?:,\d{3})+\.\d+|(?:\.\d{3})+,\d+|(?:,\d{3}){2,}|(?:\.\d{3}){2,})"
    r"|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?)"  # 1,00,000
)
_OTHER_MARK = {",": ".", ".": ","}
_AMBIGUOUS = re.compile(r"[+\-−]?[1-9]\d{0,2}[.,]\d{3}")
_SPACE = "[ \u00a0\u202f]"
_GROUPED = re.compile(  # the 12 500 of "12 500 kr", with no digit beside it
    r"(?<![\w.,+\-−])(?<!\d[ \u00a0\u202f])[1-9]\d{0,2}(?:[ \u00a0\u202f]\d{3})+"
    r"(?![\w-]|[ \u00a0\u202f.]\d)"
)
_CODE = "(?:EUR|CHF|USD|GBP)"
_EACH = rf"\s?{_CODE}?\s?(?:/|per|a|the)\s?(?i:l|lit(?:er|re)|gallon|kwh|kg)\b"
_PRICED = r"(?<![\w.,])(?:{0}\s?{1}(?![\d.,]\d)|{1}\s?{0}(?!\w))(?!{2})"
"""An amount of money, but no price of a litre, which has thousandths."""
_SHORT_RANGE = re.compile(r"(?<![\w.,-])(\d{1,3})[-–](?=\d{1,3}(?![\w.,-]))")
_NEGATED = re.compile(r"(?:(?<!\w)[-−][$€£¥₹]?|\d ?minus )$", re.IGNORECASE)
_MINUS = re.compile(r"\bminus $", re.IGNORECASE)
_ATTACHED = re.compile(r"kg|mg|km|cm|mm|ml|cl|lbs?|kwh?|k|g|m|l|h|s|p|mins?|hrs?|th|st|nd|rd", re.I)
_FOLLOWING = re.compile(rf"{_SPACE}?-?(?P<word>[^\W\d_]+|%)")
_TIMES = {"k": 1_000, "hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9}
_TIMES |= {"dozen": 12}
_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_IN_WORDS = {name: Decimal(number) for number, name in enumerate(_NAMES)}
_IN_WORDS |= {
    f"{ten}-{name}" if one else ten: Decimal(place * 10 + one)
    for place, ten in enumerate(_TENS, 2)
    for one, name in enumerate(_NAMES[:10])
}
_OTHERWISE = frozenset("eins een une una sept elf once".split())  # other words too
_IN_WORDS |= {
    word: Decimal(number)
    for language in ("de", "nl", "fr", "es")
    for word, number in number_words(language).items()
    if word not in _OTHERWISE
}
_IN_WORDS |= {"half a dozen": Decimal(6), "a dozen": Decimal(12)}
_WORDS = re.compile(
    rf"(?<![\w-])({'|'.join(sorted(_IN_WORDS, key=len, reverse=True))})(?![\w-])", re.IGNORECASE
)
_OTHER = re.compile(r"half|quarter|third|point|and a|plus|minus", re.IGNORECASE)
_BEFORE = re.compile(r"([^\W\d_]+)(?: and)?[ -]\Z")


class Amount(NamedTuple):
    """A number with the unit behind it."""

    value: Decimal
    unit: str  # in lower case; empty where no word follows


def measure_of(unit: str) -> tuple[str, Decimal]:
    """What a unit measures, in its plural too, and its factor; no name for an unknown one."""
    known = _units()
    return known.get(unit) or known.get(unit.removesuffix("s")) or ("", Decimal(1))


@cache
def _units() -> dict[str, tuple[str, Decimal]]:
    rows = [line.split() for line in word_list("units").splitlines()]
    return {name: (of, Decimal(factor)) for of, factor, *names in rows for name in names}


def amounts(text: str, context: str = "", *, whole: bool = False) -> list[Amount]:
    """The numbers of a text, in figures and, up to 99, in words.

    Parts of dates in figures, of times and of codes are none: "AB-12" has no number. A longer text
    around it, the context, may show how it writes decimals. With `whole`, "1.200" is 1200.
    """
    plain = _SHORT_RANGE.sub(r"\1 – ", text)
    plain = _GROUPED.sub(lambda found: re.sub(_SPACE, "", found[0]), plain)
    return [*_in_figures(plain, context or text, whole), *_in_words(plain)]


def _in_figures(text: str, context: str, whole: bool) -> Iterator[Amount]:
    for digits in DIGITS.finditer(text):
        number, (start, end) = decimal_of(digits.group(), context), digits.span()
        if whole and (number is None or number % 1) and _AMBIGUOUS.fullmatch(digits.group()):
            number = Decimal(re.sub("[.,]", "", digits.group()).replace("−", "-"))
        attached = _ATTACHED.match(text, end)
        last = attached.end() if attached else end
        if number is None or _NEGATED.search(text[:start]) or not is_token(text, start, last):
            continue
        number = -number if _MINUS.search(text[:start]) else number
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
        number, following = _IN_WORDS[found[1].casefold()], _FOLLOWING.match(text, found.end())
        unit = following["word"].casefold() if following else ""
        near = f"{text[max(0, found.start() - 10) : found.start()]} {text[found.end() :][:8]}"
        before = _BEFORE.search(text[: found.start()])
        if before and (multiplies(before[1]) or before[1].casefold() in _IN_WORDS):
            continue
        if following and unit == "dozen":
            rest = _FOLLOWING.match(text, following.end())
            number, unit = number * _TIMES[unit], rest["word"].casefold() if rest else ""
        if not (multiplies(unit) or unit in _IN_WORDS or _OTHER.search(near)):
            yield Amount(number, unit)


def decimal_of(digits: str, text: str = "") -> Decimal | None:
    """The number that digits and separators write; None where that is not certain.

    "1,5" is 1.5, "1.200,50" is 1200.50 and "3,4,5" is none. "1.200" may be two numbers, unless a
    currency's code stands beside it, a dollar or pound sign before "1,200", or the text shows
    elsewhere which mark it uses.
    """
    plain = re.sub(r"(?<=\d)['’\u00a0\u202f ](?=\d{3}(?:\D|$))", "", digits)
    if len(plain) > _MOST_DIGITS or not _WRITTEN.fullmatch(plain):
        return None
    mark = _mark_in(digits, text) if _AMBIGUOUS.fullmatch(plain) else _mark_of(plain)
    if not mark:
        return None
    return Decimal(plain.replace(_OTHER_MARK[mark], "").replace(mark, ".").replace("−", "-"))


def _mark_of(plain: str) -> str:
    """The decimal mark of an unambiguous number; where it has none, the one it does not use."""
    last = max(plain.rfind("."), plain.rfind(","))
    mark = plain[last] if last >= 0 else "."
    return mark if plain.count(mark) <= 1 else _OTHER_MARK[mark]


def _mark_in(digits: str, text: str) -> str:
    """The decimal mark that the rest of a text shows; empty where it shows none, or both."""
    if re.search(_PRICED.format(_CODE, re.escape(digits), _EACH), text):
        return _OTHER_MARK["," if "," in digits else "."]
    if "," in digits and re.search(rf"[$£]\s?{re.escape(digits)}", text):
        return "."
    written = [one for one in DIGITS.findall(text) if _WRITTEN.fullmatch(one)]
    clear = [one for one in written if re.search("[.,]", one) and not _AMBIGUOUS.fullmatch(one)]
    marks = {_mark_of(one) for one in clear}
    return marks.pop() if len(marks) == 1 else ""
