"""One comparable form per value: `1,200.50` is 1200.50, `May 7, 2025` is 2025-05-07.

The form serves comparison only. What is stored and passed to tools is always the raw text.
"""

import re
import unicodedata
from datetime import date

from langmem_graph.write.value_patterns import MONTHS, ValueType

_MONTH = {name[:3]: number for number, name in enumerate(MONTHS, 1)}
_CURRENCIES = {"€": "EUR", "£": "GBP", "₹": "INR", "euro": "EUR", "euros": "EUR"}
_MAX_DIGITS = 40  # longer ones are codes; their form is themselves


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
    if named and named.group()[:3] in _MONTH:
        return _with_month_name(numbers, _MONTH[named.group()[:3]]) or lower
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
