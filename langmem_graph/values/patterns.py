"""Patterns of values that must be kept word for word, by kind, and their forms for comparison.

The order of the patterns matters: an earlier one takes its characters away from the later ones, so
that the digits of a URL are not also a number. Every repetition is bounded or possessive, so that
no message takes more than linear time.
"""

import re
import unicodedata
from datetime import date
from typing import Literal

ValueType = Literal[
    "number", "price", "date", "time", "identifier", "url", "email", "phone", "address"
]

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff"
)
"""Thai, Lao, Burmese, Khmer, kana, Han, Hangul: words follow each other without a space."""

MONTHS = (
    "january february march april may june july august september october november december".split()
)
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
_MAX_DIGITS = 40  # longer ones are codes; their form is themselves


def _compiled(pattern: str, *, any_case: bool = True) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE if any_case else 0)


PATTERNS: list[tuple[ValueType, re.Pattern[str]]] = [
    ("url", _compiled(rf"\b(?:[a-z][a-z0-9+.-]{{1,12}}://|www\.)[^\s<>\"“”«»`{UNSPACED}、。，]++")),
    ("email", _compiled(r"(?<![\w.+-])[\w.+-]++@[a-z0-9-]++(?:\.[a-z0-9-]++)+")),
    (
        "date",
        _compiled(
            r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
            r"(?:\s?Z|[+-]\d{2}:?\d{2})?)?"
        ),
    ),
    ("date", _compiled(r"\d{4}([./])\d{1,2}\1\d{1,2}|\d{4}年\s?\d{1,2}月(?:\s?\d{1,2}日)?")),
    ("date", _compiled(r"\d{1,2}月\s?\d{1,2}日|\d{4}년\s?\d{1,2}월\s?\d{1,2}일")),
    (
        "date",
        _compiled(r"\d{1,2}([./-])\d{1,2}\1\d{4}|\d{2}([./])\d{2}\2\d{2}|\d{1,2}/\d{1,2}/\d{2}"),
    ),
    ("date", _compiled(rf"\d{{1,2}}(?:st|nd|rd|th)?(?:\sof)?\s{_MONTH}(?:,?\s\d{{4}})?")),
    ("date", _compiled(rf"\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?!\d)(?:,?\s\d{{4}})?")),
    ("date", _compiled(rf"\b{_MONTH},?\s(?:of\s)?\d{{4}}")),
    ("time", _compiled(r"\d{1,2}[:.]\d{2}(?::\d{2})?\s?[ap]\.?m\b\.?|\d{1,2}\s?[ap]\.?m\b\.?")),
    ("time", _compiled(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?")),
    (
        "time",
        _compiled(r"\d{1,2}h\d{2}|\d{1,2}(?:[:.]\d{2})?\suhr|\d{1,2}[時时点]\s?(?:\d{1,2}分)?"),
    ),
    ("price", _compiled(rf"(?:\b[A-Z]{{1,3}})?{_CURRENCY}\s?{_NUM}(?:\s?(?:k|m|bn|million)\b)?")),
    (
        "price",
        _compiled(rf"{_NUM}(?:\s?(?:k|m|bn|million))?\s?(?:{_CURRENCY}|{_MONEY}\b|[円元원])"),
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
        _compiled(r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){2,7}(?:\s?[A-Z0-9]{1,3})?", any_case=False),
    ),
    ("phone", _compiled(r"\+\d[\d\u00a0 ().-]{5,20}\d|\(\d{2,5}\)\s?\d[\d .-]{3,14}\d")),
    ("phone", _compiled(r"0\d{1,4}[ /-]\d[\d -]{3,12}\d|\d{3}([-. ])\d{3}\1\d{4}|\d{3}-\d{4}")),
    ("identifier", _compiled(r"\b(?:[A-Z]{2}|[A-Z]\d|\d[A-Z])\s\d{2,4}", any_case=False)),
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
    match = re.search(r"[+\-−]?\d++(?:[.,'’ ]\d++)*+", plain)
    if match is None or len(match.group()) > _MAX_DIGITS:
        return plain
    rest = (plain[: match.start()] + plain[match.end() :]).strip()
    if kind == "price":
        rest = _CURRENCIES.get(rest.lower(), rest.upper())
    return f"{_decimal(match.group())} {rest}".strip()


def _decimal(digits: str) -> str:
    """Separators resolved: the last is the decimal one, unless it only groups thousands."""
    plain = re.sub(r"['’ ]", "", digits).replace("−", "-").lstrip("+")
    last = max(plain.rfind("."), plain.rfind(","))
    mark, after = plain[last : last + 1], len(plain) - last - 1
    both = "." in plain and "," in plain
    below_one = plain[:last].lstrip("-") == "0"  # 0,125 has no thousands
    groups = plain.count(mark) > 1 or (mark == "," and after == 3 and not both and not below_one)
    if last < 0 or groups:
        return re.sub(r"[.,]", "", plain)
    return re.sub(r"[.,]", "", plain[:last]) + "." + plain[last + 1 :]


def _date(plain: str) -> str:
    """ISO where day and month are certain; `--05-07` without a year; else the text itself."""
    lower = plain.lower()
    named = re.search(r"[a-z]{3,}", re.sub(r"\bof\b", "", lower))
    numbers = [int(digits) for digits in re.findall(r"\d+", lower)]
    if named and named.group()[:3] in _MONTH_NAMES:
        return _with_month_name(numbers, _MONTH_NAMES[named.group()[:3]]) or lower
    if re.match(r"\d{4}", lower):
        rest = plain[10:] if re.match(r"\d{4}-\d\d-\d\d", plain) else ""
        return (_iso(*numbers[:3]) or lower) + rest if len(numbers) >= 3 else _month(numbers)
    if re.fullmatch(r"\d+月 ?\d+日", lower):
        return f"--{numbers[0]:02}-{numbers[1]:02}"
    return _day_first(lower, numbers) or lower


def _month(numbers: list[int]) -> str:
    return f"{numbers[0]:04}-{numbers[1]:02}"


def _with_month_name(numbers: list[int], month: int) -> str | None:
    if len(numbers) == 2:
        day, year = numbers
        return _iso(year, month, day)
    if not numbers:
        return None
    return f"{numbers[0]:04}-{month:02}" if numbers[0] > 31 else f"--{month:02}-{numbers[0]:02}"


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
