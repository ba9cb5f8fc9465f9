"""Where a token begins and ends: "12" is no token of "120", "3.12", "AB-12" or "-12"."""

import re
import unicodedata
from collections.abc import Iterator

from langmem_graph.write.value_patterns import UNSPACED

_UNSPACED = re.compile(f"[{UNSPACED}]")
_ALWAYS, _BETWEEN_DIGITS, _IN_CODES, _HYPHENS = "@_.", ",:'’", "/-\u2011", "-\u2011"
_SIGNS = "-−"
_LOOK = "\ufe0f"


def find_token(raw: str, text: str) -> int | None:
    """Where `raw` stands in the text as a whole token, byte for byte; None where it does not."""
    start = text.find(raw) if raw.strip() else -1
    while start >= 0:
        if is_token(text, start, start + len(raw)):
            return start
        start = text.find(raw, start + 1)
    return None


def tokens(pattern: re.Pattern[str], text: str, *, ranges: bool = False) -> Iterator[re.Match[str]]:
    """Every place where the pattern matches whole tokens, overlapping ones included."""
    found = pattern.search(text)
    while found:
        if is_token(text, *found.span(), ranges=ranges):
            yield found
        found = pattern.search(text, found.start() + 1)


def is_token(text: str, start: int, end: int, *, ranges: bool = False) -> bool:
    """True when nothing before or after the span belongs to it.

    Args:
        ranges: `10-12` are two numbers, not one code.
    """
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    first, last = text[start : min(end, start + 2)], text[max(start, end - 2) : end]
    if _is_signed(before, first):
        return False
    return not (_joins(before, first, ranges) or _joins(last, after, ranges))


def _is_signed(before: str, first: str) -> bool:
    """True for the 5 of "-5", not for that of "2-5"."""
    if before[-1:] not in tuple(_SIGNS) or not first[:1].isdigit():
        return False
    return len(before) == 1 or not (before[0].isalnum() or before[0] in ")]")


def _joins(left: str, right: str, ranges: bool) -> bool:
    """True when a token goes on from `left` to `right`, directly or over a connector."""
    if not left or not right:
        return False
    if _is_mark(right[0]) or (_is_word(left[-1]) and _is_word(right[0])):
        return True
    around = (left[-1], right[0], right[1:2]), (left[-2:-1], left[-1], right[0])
    return any(_connects(*signs, ranges) for signs in around)


def _connects(one: str, connector: str, other: str, ranges: bool) -> bool:
    """True where the connector between two signs makes them one token."""
    if not (one and other and _is_word(one) and _is_word(other)):
        return False
    if one.isdigit() and other.isdigit() and connector in _HYPHENS:
        return not ranges
    if connector in _BETWEEN_DIGITS:
        return one.isdigit() and other.isdigit()
    if connector in _IN_CODES:
        return all(sign.isdigit() or sign.isupper() for sign in (one, other))
    return connector in _ALWAYS


def _is_word(sign: str) -> bool:
    return sign.isdigit() or ((sign.isalnum() or sign == "_") and not _UNSPACED.match(sign))


def _is_mark(sign: str) -> bool:
    """True for what belongs to the sign before it: an accent or a vowel, not an emoji's look."""
    return unicodedata.category(sign)[0] == "M" and sign != _LOOK
