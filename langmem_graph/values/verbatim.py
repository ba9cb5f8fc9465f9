"""Where a token begins and ends: "12" is no token of "120", "3.12", "AB-12" or "-12"."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from pydantic import BaseModel, ConfigDict, Field

from langmem_graph.values.patterns import PATTERNS, RELATIVE, UNSPACED, ValueType, normalize

_UNSPACED = re.compile(f"[{UNSPACED}]")
_ALWAYS, _BETWEEN_DIGITS, _IN_CODES, _HYPHENS = "@_.", ",:'’", "/-\u2011", "-\u2011"
_SIGNS = "-−"
_LOOK = "\ufe0f"

_CLOSING = {")": "(", "]": "[", "}": "{"}
_TAKEN = "\0"
_COUNTED = re.compile(r"\d+(?:[-/][a-z]+)+|\d+(?:st|nd|rd|th|s)?|[a-z]+-\d+", re.IGNORECASE)
"""`5-day`, `1st`, `90s`, `covid-19`: words around a number, not codes."""
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_LONG_NUMBER = 7
"""From this many digits on, or with a leading zero, plain digits are a code."""


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


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Value(_Model):
    """One value that must be kept verbatim."""

    name: str = ""
    """What it is a value of ("ticket price"); only a model can tell."""
    type: ValueType
    raw: str
    """Exactly as it was said."""
    normalized: str
    """For comparison: `2025-05-07`, `1200.50 EUR`."""


class Grounded(_Model):
    """The values of a text, by whether a source holds them."""

    values: list[Value] = Field(default_factory=list)
    ungrounded: list[Value] = Field(default_factory=list)
    inferred: list[Value] = Field(default_factory=list)
    """Those ungrounded dates and times that a source may imply, with "next Friday", "in two hours"
    or a date without its year. A record that keeps them was inferred, and must say so."""


def find_values(text: str) -> list[Value]:
    """Every value in the text that must be verbatim, in the order it is said.

    Numbers in words ("two") are none: they may be said in other words.
    """
    rest = plain = text.encode("utf-8", "replace").decode()  # half characters become "?"
    found: list[tuple[int, Value]] = []
    for kind, pattern in PATTERNS:
        spans = [span for match in pattern.finditer(rest) if (span := _span(match, plain, kind))]
        found += [(start, _value(kind, plain[start:end])) for start, end in spans]
        rest = _without(rest, spans)
    return [value for _, value in sorted(found, key=lambda one: one[0])]


def _span(match: re.Match[str], plain: str, kind: ValueType) -> tuple[int, int] | None:
    """The match's place without a sentence's punctuation, or None when it is no such value."""
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
    unopened = {sign: url.count(sign) - url.count(opening) for sign, opening in _CLOSING.items()}
    end = len(url)
    while end and (url[end - 1] in ".,;:!?'’*" or unopened.get(url[end - 1], 0) > 0):
        end -= 1
        unopened[url[end]] = unopened.get(url[end], 0) - 1
    return url[:end]


def _is_code(match: re.Match[str], raw: str) -> bool:
    """True for what is named a code ("order 4711") or has a code's form."""
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
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], _TAKEN * (end - start)]
        last = end
    return "".join([*parts, text[last:]])


def _value(kind: ValueType, raw: str) -> Value:
    return Value(type=kind, raw=raw, normalized=normalize(kind, raw))


def ground(text: str, sources: Sequence[str]) -> Grounded:
    """Each value of the text, by whether one of the sources holds it exactly."""
    values: list[Value] = []
    ungrounded: list[Value] = []
    for value in find_values(text):
        (ungrounded if verbatim(value.raw, sources) is None else values).append(value)
    implied = any(map(relative_dates, sources))
    inferred = [value for value in ungrounded if implied and value.type in ("date", "time")]
    return Grounded(values=values, ungrounded=ungrounded, inferred=inferred)


def verbatim(raw: str, sources: Iterable[str]) -> str | None:
    """The value as a source holds it, byte for byte, or None where none does.

    A value is held when it stands in a source as a whole token: "12" does not stand in "120".
    """
    for source in sources:
        start = find_token(raw, source)
        if start is not None:
            return source[start : start + len(raw)]
        if raw in raws(source):  # `10` of the range `10-12`
            return raw
    return None


@lru_cache(maxsize=64)
def raws(source: str) -> frozenset[str]:
    """The values of a text, as they stand in it."""
    return frozenset(value.raw for value in find_values(source))


def relative_dates(text: str) -> list[str]:
    """What in the text means a date without stating it: "next Friday", "May 7" of some year."""
    said = [match.group() for match in RELATIVE.finditer(text)]
    dates = [value for value in find_values(text) if value.type == "date"]
    return said + [value.raw for value in dates if value.normalized.startswith("--")]
