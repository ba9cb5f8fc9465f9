"""Values in a text, and whether a source holds them word for word (Mem2ActBench 3.3).

The first half finds values (numbers, prices, dates, codes, links, …) and looks them up in sources.
The second half tells where a token begins and ends: "12" is no token of "120", "3.12", "AB-12" or
"-12".
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from pydantic import BaseModel, Field

from langmem_graph.values.patterns import PATTERNS, UNSPACED, ValueType, normalize

_CLOSING = {")": "(", "]": "[", "}": "{"}
_TAKEN = "\0"
"""Stands for characters that belong to a value found before."""
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_COUNTED = re.compile(r"\d+(?:[-/][a-z]+)+|\d+(?:st|nd|rd|th|s)?|[a-z]+-\d+", re.IGNORECASE)
"""`5-day`, `1st`, `90s`, `covid-19`: words around a number, not codes."""
_LONG_NUMBER = 7
"""From this many digits on, or with a leading zero, plain digits are a code."""
_ALWAYS, _BETWEEN_DIGITS, _IN_CODES, _HYPHENS = "@_.", ",:'’", "/-\u2011", "-\u2011"
"""Characters that connect two parts of one token, by what stands around them."""
_SIGNS = "-−"
_EMOJI_STYLE = "\ufe0f"
_UNSPACED = re.compile(f"[{UNSPACED}]")


class Value(BaseModel, frozen=True):
    """One value that must be kept word for word."""

    name: str = ""
    """What it is a value of ("ticket price"); empty where only a model could tell."""
    type: ValueType
    raw: str
    """Exactly as it stands in the text."""
    normalized: str
    """For comparison: `2025-05-07`, `1200.50 EUR`."""


class Grounded(BaseModel, frozen=True):
    """The values of a text, by whether a source holds them."""

    values: list[Value] = Field(default_factory=list)
    ungrounded: list[Value] = Field(default_factory=list)


def ground(text: str, sources: Sequence[str]) -> Grounded:
    """Sort the values of a text by whether one of the sources holds them word for word."""
    values: list[Value] = []
    ungrounded: list[Value] = []
    for value in find_values(text):
        (ungrounded if verbatim(value.raw, sources) is None else values).append(value)
    return Grounded(values=values, ungrounded=ungrounded)


def verbatim(raw: str, sources: Iterable[str]) -> str | None:
    """The value, if a source holds it byte for byte as a whole token; else None."""
    # A value is no token of its own in a range: the `10` of `10-12`.
    held = any(_holds_token(source, raw) or raw in raws(source) for source in sources)
    return raw if held else None


@lru_cache(maxsize=64)
def raws(source: str) -> frozenset[str]:
    """The values of a text, as they stand in it."""
    return frozenset(value.raw for value in find_values(source))


def find_values(text: str) -> list[Value]:
    """Every value of the text that must be kept word for word, in order.

    Numbers in words ("two") are not among them: a text may say them in other words.
    """
    rest = plain = text.encode("utf-8", "replace").decode()  # half characters become "?"
    found: list[tuple[int, Value]] = []
    for kind, pattern in PATTERNS:
        spans = [span for match in pattern.finditer(rest) if (span := _span(match, plain, kind))]
        for start, end in spans:
            raw = plain[start:end]
            found.append((start, Value(type=kind, raw=raw, normalized=normalize(kind, raw))))
        rest = _without(rest, spans)
    return [value for _, value in sorted(found, key=lambda placed: placed[0])]


def _span(match: re.Match[str], plain: str, kind: ValueType) -> tuple[int, int] | None:
    """Where the value stands, without a sentence's punctuation; None where the match is none."""
    group = "value" if "value" in match.re.groupindex else 0
    start, end = match.span(group)
    if kind == "url":
        end = start + len(_without_closing(plain[start:end]))
    while end > start and (plain[end - 1].isspace() or (kind == "date" and plain[end - 1] == ".")):
        end -= 1  # "12 May." ends a sentence, and "12 Feb." is found without its dot as well
    if kind == "identifier" and not _is_code(match, plain[start:end]):
        return None
    return (start, end) if is_token(plain, start, end, ranges=True) else None


def _without_closing(url: str) -> str:
    """A link without the full stop or bracket of the sentence around it."""
    unopened = {close: url.count(close) - url.count(opening) for close, opening in _CLOSING.items()}
    end = len(url)
    while end and (url[end - 1] in ".,;:!?'’*" or unopened.get(url[end - 1], 0) > 0):
        end -= 1
        unopened[url[end]] = unopened.get(url[end], 0) - 1
    return url[:end]


def _is_code(match: re.Match[str], raw: str) -> bool:
    """True for what follows the name of a code ("order 4711"), or has the form of one."""
    if not any(sign.isdigit() for sign in raw):
        return False
    if "value" not in match.re.groupindex or match.start("value") > match.start():
        return True
    if raw.isdigit():
        return len(raw) >= _LONG_NUMBER or (len(raw) > 1 and raw[0] == "0")
    if raw.replace(".", "").isdigit():
        return raw.count(".") >= 2 and not _THOUSANDS.fullmatch(raw)  # a version
    return any(sign.isalpha() for sign in raw) and not _COUNTED.fullmatch(raw)


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with the characters of these spans taken, in its old length."""
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], _TAKEN * (end - start)]
        last = end
    return "".join([*parts, text[last:]])


def _holds_token(text: str, raw: str) -> bool:
    return bool(raw.strip()) and any(tokens(re.compile(re.escape(raw)), text))


def tokens(pattern: re.Pattern[str], text: str, *, ranges: bool = False) -> Iterator[re.Match[str]]:
    """Every match of the pattern that consists of whole tokens, overlapping ones included."""
    match = pattern.search(text)
    while match:
        if is_token(text, *match.span(), ranges=ranges):
            yield match
        match = pattern.search(text, match.start() + 1)


def is_token(text: str, start: int, end: int, *, ranges: bool = False) -> bool:
    """True when the span begins and ends where tokens do.

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
    """True when one token reaches from `left` to `right`, directly or by a connector."""
    if not left or not right:
        return False
    if _is_mark(right[0]) or (_is_word(left[-1]) and _is_word(right[0])):
        return True
    around = (left[-1], right[0], right[1:2]), (left[-2:-1], left[-1], right[0])
    return any(_connects(*signs, ranges) for signs in around)


def _connects(one: str, connector: str, other: str, ranges: bool) -> bool:
    """True where the connector makes one token of the characters around it."""
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
    """True for a combining mark, such as an accent or a vowel; not for an emoji's style."""
    return unicodedata.category(sign)[0] == "M" and sign != _EMOJI_STYLE
