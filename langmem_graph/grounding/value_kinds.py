"""Kinds of values, and what code can refute (Mem2ActBench 3.3).

A `copied` text stands in the words that are quoted for it. A `read` value is the
model's reading of them: a number, a yes or no, an allowed value, a date or time, a
short code.
What words mean is the model's to say; code refutes only what it can know.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from unicodedata import numeric

from langmem_graph.grounding.schema_check import problem
from langmem_graph.grounding.tool_schema import Slot, every_form
from langmem_graph.values.matching import is_token, places, quoted_in

MOST_JOINED, LONGEST_JOINED = 3, 60
"""Quotes that are put together to a text, and their characters in all."""
LONGEST_CODE = 3
_ALWAYS_COPIED = frozenset(
    "email idn-email uri uri-reference iri hostname idn-hostname uuid ipv4 ipv6".split()
)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?")
_ISO_TIME = re.compile(r"\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")
_ISO_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])")
_CALLED = re.compile(r"\+[1-9]\d{6,14}")
_SAID_NUMBER = re.compile(r"\(?\d[\d\s()/.-]*\d")
_FEWEST_CALLED = 5  # digits of a phone number
_SHORT_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,5})(?:\.\d{1,2})?")
"""A number as a text, as the arguments of plain functions are; longer ones may be
numbers of accounts and cards, which are copied.
"""
_YES_OR_NO = frozenset(("true", "false", "yes", "no"))
_PADDING = ("A", "a", "0", "-", " ")
_NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f ]\d+)*")
_FRACTION = re.compile("[¼½¾⅓⅔⅛⅜⅝⅞]")
_BARE_NUMBER = re.compile(
    r"(?:[^\W\d]+\s)?[^\w\s]{0,2}\s?\d[\d.,:'’ ]*[^\w\s]?"
    r"(?:\s?[^\W\d]+\.?(?:\s[^\W\d]+\.?)?)?"
)
"""A number with at most a word before and two behind it: "3 nights", "with 2 bags"."""
_FACTORS = tuple(map(Decimal, (1, 7, 10, 12, 24, 60, 100, 1_000, 1_000_000)))
"""Between units of length, time and money, dozens, per cent, thousands."""
_DATE_PARTS = re.compile(r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})")
_BETWEEN = " ,;/"  # quotes that are joined
_CHUNK = re.compile(r"[^\W_]+|\+(?=\d)")
_SPACING = re.compile(r"[\s\-\u2010\u2011\u2013/()_]*")
_FEWEST_DIGITS = 5  # of a code of digits alone that is spelled without its spaces


def copied(value: str, quotes: Sequence[str]) -> str | None:
    """The value as its quotes have it; None where it does not stand in them.

    Case and spacing do not count, nor the spaces and hyphens of identifiers and phone
    numbers. Up to three short quotes may be put together: first name and surname.
    """
    for words in quotes:
        if (found := quoted_in(value, words)) is not None:
            return found
    is_same = any(_is_respelled(value, words) for words in quotes)
    return value if is_same or _is_joined(value, quotes) else None


def is_readable(value: Any, slot: Slot) -> bool:
    """Whether a value is of a kind that a model may read from other words."""
    if isinstance(value, bool | int | float) or value in slot.choices:
        return True
    formats = {form.get("format") for form in every_form(slot.schema)}
    if not isinstance(value, str) or formats & _ALWAYS_COPIED:
        return False
    is_plain = _SHORT_NUMBER.fullmatch(value) or value.casefold() in _YES_OR_NO
    return bool(is_plain) or is_moment(value) or _is_code(value, slot)


def is_called(value: Any, quotes: Sequence[str]) -> bool:
    """Whether a text is a phone number that was said, behind a calling code.

    The digits were said; which country's code belongs before them is the model's
    reading.
    """
    if not isinstance(value, str) or not _CALLED.fullmatch(value):
        return False
    digits = value[1:]
    for words in quotes:
        for match in _SAID_NUMBER.finditer(words):
            said = re.sub(r"\D", "", match.group()).lstrip("0")
            code = digits.removesuffix(said)
            if len(said) >= _FEWEST_CALLED and 0 < len(code) <= LONGEST_CODE:
                return True
    return False


def is_moment(value: str) -> bool:
    """Whether a text is a month, a date, a time or both as ISO 8601 has them."""
    if _ISO_MONTH.fullmatch(value):
        return True
    read: Any = None
    if _ISO_DATE.fullmatch(value):
        read = datetime.fromisoformat
    elif _ISO_TIME.fullmatch(value):
        read = time.fromisoformat
    try:
        return read is not None and read(value) is not None
    except ValueError:
        return False


def _is_code(value: str, slot: Slot) -> bool:
    """Whether a text is a short code, and its schema lets nothing longer through."""
    if not 0 < len(value) <= LONGEST_CODE:
        return False
    lacking = LONGEST_CODE + 1 - len(value)
    signs = (*_PADDING, value[0], value[-1])
    longer = {text for sign in signs for text in _padded(value, sign * lacking)}
    return all(problem(text, slot.schema) for text in longer)


def _padded(value: str, more: str) -> tuple[str, str]:
    return value + more, more + value


def is_refuted(value: Any, quotes: Sequence[str]) -> bool:
    """Whether the quoted words are known to say something else.

    A number is refuted where nothing but another number is quoted, a day where nothing
    but another day is, both in figures.
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return _is_other_number(Decimal(str(value)), quotes)
    if isinstance(value, str) and _SHORT_NUMBER.fullmatch(value):
        return _is_other_number(Decimal(value), quotes)
    if isinstance(value, str) and _ISO_DATE.fullmatch(value) and is_moment(value):
        return _is_other_day(date.fromisoformat(value[:10]), quotes)
    return False


# --- numbers ---


def numbers_in(text: str) -> set[Decimal]:
    """The numbers that a text may state in digits, and the parts of these: "1.500" is
    1500, 1.5, 1 and 500.
    """
    parts = {Decimal(digits) for digits in re.findall(r"\d+", text)}
    signs = {Decimal(str(numeric(sign))) for sign in _FRACTION.findall(text)}
    return whole_numbers_in(text) | parts | signs


def whole_numbers_in(text: str) -> set[Decimal]:
    """The same without parts of numbers."""
    found = set[Decimal]()
    for match in _NUMBER.finditer(text):
        parts = re.split(r"\D", match.group())
        found.add(Decimal("".join(parts)))
        found.add(Decimal(f"{''.join(parts[:-1]) or 0}.{parts[-1]}"))
    return found


def _is_other_number(value: Decimal, quotes: Sequence[str]) -> bool:
    """Whether all that is quoted is a number with its unit, and the value is neither
    that nor the same in another unit.

    Of more words, or of several quotes, code does not know what they make of a number.
    """
    if len(quotes) != 1 or not _BARE_NUMBER.fullmatch(quotes[0].strip()):
        return False
    wanted = abs(value)
    stated = numbers_in(quotes[0])
    return not any(
        wanted in (number * factor, number / factor)
        for number in stated
        for factor in _FACTORS
    )


# --- days ---


def _is_other_day(day: date, quotes: Iterable[str]) -> bool:
    stated = {one for words in quotes for one in _days_in_figures(words)}
    return bool(stated) and day not in stated


def _days_in_figures(words: str) -> Iterator[date]:
    """The days that a text may be, which is a date in figures and nothing else."""
    found = _DATE_PARTS.fullmatch(words.strip())
    if found is None:
        return
    first, middle, last = map(int, found.groups())
    century = 2000 if len(found[3]) == 2 else 0
    orders = (
        [(first, middle, last)]
        if len(found[1]) == 4
        else [(century + last, middle, first), (century + last, first, middle)]
    )
    for order in orders:
        try:
            yield date(*order)
        except ValueError:
            continue


# --- texts ---


def _is_respelled(value: str, words: str) -> bool:
    """Whether the words have the same letters and digits with other spaces and
    hyphens.
    """
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


def _goes_on(words: str, start: int, end: int) -> bool:
    """Whether more digits stand on either side: a part of a phone number."""
    before = re.search(r"\d[ \-/]$", words[max(0, start - 3) : start])
    after = re.match(r"[ \-/]\d", words[end : end + 2])
    return bool(
        (before and words[start].isdigit()) or (after and words[end - 1].isdigit())
    )


def _is_joined(value: str, quotes: Sequence[str]) -> bool:
    """Whether a text is whole quotes one after another."""
    parts = [_plain(quote).strip(".,;") for quote in dict.fromkeys(quotes)]
    parts = [part for part in parts if part]
    is_short = sum(map(len, parts)) <= LONGEST_JOINED
    if not 1 < len(parts) <= MOST_JOINED or not is_short:
        return False
    return _is_made_of(_plain(value), parts)


def _is_made_of(text: str, parts: Sequence[str]) -> bool:
    """Whether a text is these parts in some order, each once, with nothing else but
    signs between them.
    """
    if not parts:
        return not text
    for part in parts:
        after = text[len(part) : len(part) + 1]
        if not text.startswith(part) or (after and after not in _BETWEEN):
            continue
        rest = text[len(part) :].lstrip(_BETWEEN)
        # digits of two quotes side by side would be another number
        is_other_number = part[-1].isdigit() and rest[:1].isdigit()
        others = [other for other in parts if other is not part]
        if not is_other_number and _is_made_of(rest, others):
            return True
    return False


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
