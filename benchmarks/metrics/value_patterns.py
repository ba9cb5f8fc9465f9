"""Values in texts by their form: numbers, prices, dates, codes, links and others.

`find_values` finds them; the measures of tool calls compare values with it.

The order of the patterns matters: an earlier one takes its characters away from the
later ones, so that the digits of a URL are not also a number. Every repetition is
bounded or possessive, so that no message takes more than linear time.
"""

import re
import unicodedata
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from typing import Literal, NamedTuple

from benchmarks.metrics.stated_numbers import DIGITS, decimal_of
from langmem_graph.values.matching import UNSPACED, is_token

ValueType = Literal[
    "number", "price", "date", "time", "identifier", "url", "email", "phone", "address"
]


MONTHS = (
    "january february march april may june july august september october "
    "november december"
).split()
_MONTH = rf"(?:{'|'.join(MONTHS)}|sept|{'|'.join(name[:3] for name in MONTHS)})\b\.?"
_NUM = r"(?<!\d)(?<!\d[.,'’\u00a0\u202f])\d++(?:[.,'’\u00a0\u202f]\d++)*+"
_SIGN = r"(?:(?<![\w)\]\0])[+\-−])?"
_CURRENCY = r"[$€£¥₹₩₽₺₫฿₴₪¢]"
_MONEY = (
    r"(?:USD|EUR|GBP|JPY|CNY|CHF|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|KRW|BRL|MXN"
    r"|dollars?|euros?|pounds?|francs?|rupees?|yen|yuan|cents?|bucks)"
)
_UNIT = (
    r"(?:°\s?[CF]|℃|%|‰|km/h|kmh|mph|kcal|kwh|kw|kg|mg|km|cm|mm|mi|ml|lbs?|oz|ft|sqm|m²|m2"
    r"|[kmgt]i?b|[kmg]bps|[kmg]?hz|mins?|hrs?|secs?|ms|gal|pts?|px|bn|st|nd|rd|th|[kmglhsxw])"
)
_CUE = (
    r"\b(?:order|booking|reservation|confirmation|reference|ref|invoice|ticket|tracking|account"
    r"|customer|member|passport|flight|gate|seat|room|locker|pin|code|serial|id|case|policy)"
    r"(?:\s(?:number|no|nr|id|code))?[.:]?\s?[#:]?\s?"
)
_STREET = (
    r"(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|place|pl|square|sq"
    r"|way|terrace|highway|hwy|parkway|pkwy|close|crescent)"
)
_NAME = r"[^\W\d_a-zß-öø-ÿ][\w'’-]{0,30}"
_ROMANCE = (
    r"\b(?:Rue|Via|Calle|Avenida|Rua|Piazza|Plaza|Plaça|Boulevard)"
    rf"(?:\s{_NAME}|\sd[aeiou][lrs]?|\sl[ae]s?){{1,5}}"
)
_CHUNK = r"[A-Za-z0-9](?:[A-Za-z0-9_./+=:~-]*[A-Za-z0-9=])?"
_MONTH_NAMES = {name[:3]: number for number, name in enumerate(MONTHS, 1)}
_CURRENCIES = {"€": "EUR", "£": "GBP", "₹": "INR", "euro": "EUR", "euros": "EUR"}
_CLOSING = {")": "(", "]": "[", "}": "{"}
_TAKEN = "\0"
"""Stands for characters that belong to a value found before."""
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_COUNTED = re.compile(
    r"\d+(?:[-/][a-z]+)+|\d+(?:st|nd|rd|th|s)?|[a-z]+-\d+", re.IGNORECASE
)
"""`5-day`, `1st`, `90s`, `covid-19`: words around a number, not codes."""
_LONG_NUMBER = 7
"""From this many digits on, or with a leading zero, plain digits are a code."""


def _compiled(pattern: str, *, any_case: bool = True) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE if any_case else 0)


PATTERNS: list[tuple[ValueType, re.Pattern[str]]] = [
    (
        "url",
        _compiled(
            rf"\b(?:[a-z][a-z0-9+.-]{{1,12}}://|www\.)[^\s<>\"“”«»`{UNSPACED}、。，]++"
        ),
    ),
    ("email", _compiled(r"(?<![\w.+-])[\w.+-]++@[a-z0-9-]++(?:\.[a-z0-9-]++)+")),
    (
        "date",
        _compiled(
            r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
            r"(?:\s?Z|[+-]\d{2}:?\d{2})?)?"
        ),
    ),
    (
        "date",
        _compiled(r"\d{4}([./])\d{1,2}\1\d{1,2}|\d{4}年\s?\d{1,2}月(?:\s?\d{1,2}日)?"),
    ),
    ("date", _compiled(r"\d{1,2}月\s?\d{1,2}日|\d{4}년\s?\d{1,2}월\s?\d{1,2}일")),
    (
        "date",
        _compiled(
            r"\d{1,2}([./-])\d{1,2}\1\d{4}|\d{2}([./])\d{2}\2\d{2}|\d{1,2}/\d{1,2}/\d{2}"
        ),
    ),
    (
        "date",
        _compiled(rf"\d{{1,2}}(?:st|nd|rd|th)?(?:\sof)?\s{_MONTH}(?:,?\s\d{{4}})?"),
    ),
    (
        "date",
        _compiled(rf"\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?!\d)(?:,?\s\d{{4}})?"),
    ),
    ("date", _compiled(rf"\b{_MONTH},?\s(?:of\s)?\d{{4}}")),
    (
        "time",
        _compiled(
            r"\d{1,2}[:.]\d{2}(?::\d{2})?\s?[ap]\.?m\b\.?|\d{1,2}\s?[ap]\.?m\b\.?"
        ),
    ),
    ("time", _compiled(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?")),
    (
        "time",
        _compiled(
            r"\d{1,2}h\d{2}|\d{1,2}(?:[:.]\d{2})?\suhr|\d{1,2}[時时点]\s?(?:\d{1,2}分)?"
        ),
    ),
    (
        "price",
        _compiled(
            rf"(?:\b[A-Z]{{1,3}})?{_CURRENCY}\s?{_NUM}(?:\s?(?:k|m|bn|million)\b)?"
        ),
    ),
    (
        "price",
        _compiled(
            rf"{_NUM}(?:\s?(?:k|m|bn|million))?\s?(?:{_CURRENCY}|{_MONEY}\b|[円元원])"
        ),
    ),
    ("price", _compiled(rf"\b(?:USD|EUR|GBP|JPY|CNY|CHF|INR|AUD|CAD)\s?{_NUM}")),
    (
        "address",
        _compiled(
            rf"\d{{1,5}}[A-Za-z]?\s(?:{_NAME}\.?\s){{1,4}}(?i:{_STREET})\b\.?"
            r"(?:,?\s(?i:apt|apartment|suite|unit|flat)\b\.?\s?#?\w{1,6})?",
            any_case=False,
        ),
    ),
    (
        "address",
        _compiled(
            r"\b[^\W\d_]{2,30}(?:straße|strasse|str\.|gasse|weg|platz|allee|damm|ufer)"
            r"\s\d{1,5}(?:\s?[a-z]\b)?",
            any_case=False,
        ),
    ),
    (
        "address",
        _compiled(rf"\d{{1,5}},?\s{_ROMANCE}|{_ROMANCE},?\s\d{{1,5}}", any_case=False),
    ),
    (
        "identifier",
        _compiled(
            r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){2,7}(?:\s?[A-Z0-9]{1,3})?",
            any_case=False,
        ),
    ),
    (
        "phone",
        _compiled(r"\+\d[\d\u00a0 ().-]{5,20}\d|\(\d{2,5}\)\s?\d[\d .-]{3,14}\d"),
    ),
    (
        "phone",
        _compiled(
            r"0\d{1,4}[ /-]\d[\d -]{3,12}\d|\d{3}([-. ])\d{3}\1\d{4}|\d{3}-\d{4}"
        ),
    ),
    (
        "identifier",
        _compiled(r"\b(?:[A-Z]{2}|[A-Z]\d|\d[A-Z])\s\d{2,4}", any_case=False),
    ),
    ("identifier", _compiled(rf"{_CUE}(?P<value>{_CHUNK})")),
    ("number", _compiled(rf"{_SIGN}{_NUM}\s?{_UNIT}(?![\w-])")),
    ("identifier", _compiled(rf"(?P<value>{_CHUNK})")),
    ("number", _compiled(rf"{_SIGN}{_NUM}\s?[%‰℃°]?")),
]


def normalize(kind: ValueType, raw: str) -> str:
    """The comparable form of a value of this kind."""
    plain = " ".join(unicodedata.normalize("NFKC", raw).split())
    if kind in ("number", "price"):
        return _amount(plain, kind)
    if kind == "date":
        return _date(plain)
    if kind == "time":
        return _time(plain)
    if kind == "phone":
        return re.sub(r"[^\d+]", "", plain)
    if kind == "identifier":
        return re.sub(r"[\s-]", "", plain).upper()
    return plain.casefold() if kind in ("email", "address") else raw


def _amount(plain: str, kind: ValueType) -> str:
    plain = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", plain)
    match = DIGITS.search(plain)
    number = match and decimal_of(match.group(), plain)
    if match is None or number is None:
        return plain
    rest = (plain[: match.start()] + plain[match.end() :]).strip()
    if kind == "price":
        rest = _CURRENCIES.get(rest.lower(), rest.upper())
    return f"{number} {rest}".strip()


def _date(plain: str) -> str:
    """ISO where day and month are certain; `--05-07` without a year; else the text
    itself.
    """
    lower = plain.lower()
    named = re.search(r"[a-z]{3,}", re.sub(r"\bof\b", "", lower))
    numbers = [int(digits) for digits in re.findall(r"\d+", lower)]
    if named and named.group()[:3] in _MONTH_NAMES:
        return _with_month_name(numbers, _MONTH_NAMES[named.group()[:3]]) or lower
    if re.match(r"\d{4}", lower):
        rest = plain[10:] if re.match(r"\d{4}-\d\d-\d\d", plain) else ""
        whole = (
            f"{numbers[0]:04}-{numbers[1]:02}"
            if len(numbers) == 2
            else _iso(*numbers[:3])
        )
        return (whole or lower) + rest
    if re.fullmatch(r"\d+月 ?\d+日", lower):
        return f"--{numbers[0]:02}-{numbers[1]:02}"
    return _day_first(lower, numbers) or lower


def _with_month_name(numbers: list[int], month: int) -> str | None:
    if len(numbers) == 2:
        day, year = numbers
        return _iso(year, month, day)
    if not numbers:
        return None
    return (
        f"{numbers[0]:04}-{month:02}"
        if numbers[0] > 31
        else f"--{month:02}-{numbers[0]:02}"
    )


def _day_first(lower: str, numbers: list[int]) -> str | None:
    """`03.05.2025` is the 3rd of May; `3/5/2025` could be either and stays as it is."""
    if len(numbers) != 3:
        return None
    one, other, year = numbers
    year += 2000 if year < 100 else 0
    if "." in lower or one > 12:
        return _iso(year, other, one)
    return _iso(year, one, other) if other > 12 else None


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:  # the 31st of June
        return None


def _time(plain: str) -> str:
    numbers = [int(digits) for digits in re.findall(r"\d+", plain)]
    hour, minute, *seconds = [*numbers, 0] if len(numbers) == 1 else numbers
    lower = plain.lower()
    if "p" in lower and hour < 12:
        hour += 12
    if "a" in lower and hour == 12:
        hour = 0
    return ":".join(f"{part:02}" for part in (hour, minute, *seconds))


class Value(NamedTuple):
    """One value that must be kept word for word."""

    type: ValueType
    raw: str
    """Exactly as it stands in the text."""
    normalized: str
    """For comparison: `2025-05-07`, `1200.50 EUR`."""


@lru_cache(maxsize=64)
def raws(source: str) -> frozenset[str]:
    """The values of a text, as they stand in it."""
    return frozenset(value.raw for value in find_values(source))


def find_values(text: str) -> list[Value]:
    """Every value of the text that must be kept word for word, in order.

    Numbers in words ("two") are not among them: a text may say them in other words.
    """
    return [value for _, value in placed_values(text)]


def placed_values(text: str) -> list[tuple[int, Value]]:
    """The values of `find_values`, each with its place."""
    # half characters become "?"
    rest = plain = text.encode("utf-8", "replace").decode()
    found: list[tuple[int, Value]] = []
    for kind, pattern in PATTERNS:
        spans = [
            span
            for match in pattern.finditer(rest)
            if (span := _span(match, plain, kind))
        ]
        for start, end in spans:
            raw = plain[start:end]
            found.append((start, Value(kind, raw, normalize(kind, raw))))
        rest = _without(rest, spans)
    return sorted(found, key=lambda placed: placed[0])


def _span(match: re.Match[str], plain: str, kind: ValueType) -> tuple[int, int] | None:
    """Where the value stands, without a sentence's punctuation; None where the match is
    none.
    """
    group = "value" if "value" in match.re.groupindex else 0
    start, end = match.span(group)
    if kind == "url":
        end = start + len(_without_closing(plain[start:end]))
    while end > start and (
        plain[end - 1].isspace() or (kind == "date" and plain[end - 1] == ".")
    ):
        # "12 May." ends a sentence, and "12 Feb." is found without its dot as well
        end -= 1
    if kind == "identifier" and not _is_code(match, plain[start:end]):
        return None
    return (start, end) if is_token(plain, start, end, ranges=True) else None


def _without_closing(url: str) -> str:
    """A link without the full stop or bracket of the sentence around it."""
    unopened = {
        close: url.count(close) - url.count(opening)
        for close, opening in _CLOSING.items()
    }
    end = len(url)
    while end and (url[end - 1] in ".,;:!?'’*" or unopened.get(url[end - 1], 0) > 0):
        end -= 1
        unopened[url[end]] = unopened.get(url[end], 0) - 1
    return url[:end]


def _is_code(match: re.Match[str], raw: str) -> bool:
    """True for what follows the name of a code ("order 4711"), or has the form
    of one.
    """
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
