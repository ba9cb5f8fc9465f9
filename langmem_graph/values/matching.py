"""Whether a text supports a value, exactly or in another form (methods 3.3)."""

import re
import unicodedata
from decimal import Decimal
from typing import Any

from rapidfuzz import fuzz

from langmem_graph.values.patterns import normalize
from langmem_graph.values.verbatim import find_values, tokens

OVERLAP = 0.8
"""Share of a value's words that must occur in the text."""
FUZZY = 85.0
"""Least similarity, in percent, with the most similar part of the text."""
SHORTEST = 3
"""Shorter values must occur in the text exactly (characters)."""
_NUMBER = re.compile(r"(?<![\w.,])[-−+]?\d++(?:,\d+)*+(?:\.\d+)?+(?!\w)")
_WORD = re.compile(r"\w+")

_QUANTITY = re.compile(
    r"(?:the\ |[A-Z]{3}\ ?|[$€£¥₹\#]\ ?)?"
    r"(?P<number>[+\-−]?(?:"
    r"[1-9]\d{0,2}(?P<group>[ ,'’])\d{3}(?:(?P=group)\d{3})*(?:\.\d+)?"  # 1,200,000.50
    r"|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?"  # 1,00,000
    r"|[1-9]\d{0,2}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})"  # 1.200,50 and 1.200.000
    r"|\d{1,40}(?:[.,]\d{1,40})?))"
    r"(?:\ ?(?P<unit>[$€£¥₹%]|[^\W\d_]{2,20}[²³]?|[\u2e80-\U0003ffff])|\ (?P<letter>[^\W\d_]))?"
    r"\.?",
    re.VERBOSE,
)
"""One number with a currency or one unit; not `12A`, `7-10`, `1/2` or a date."""
_MULTIPLIERS = frozenset(
    """
    hundred hundreds thousand thousands million millions billion billions trillion trillions dozen
    dozens thou grand mil mill bil tril lakh lakhs lac lacs crore crores mio mrd mln mld bn bln mn
    tn trn tsd tys rb jt kk hundert tausend millionen milliarde milliarden billionen dutzend mille
    milliard milliards douzaine douzaines millón millon millones cientos docena docenas mila milione
    milioni miliardo miliardi milhão milhões bilhão bilhões duizend miljoen miljard honderd tusen
    miljon miljoner miljarder millioner milliarder tysiąc tysiące tysięcy milion miliony milionów
    bin milyon milyar yüz тыс тысяч тысяча тысячи млн миллион миллиона миллионов млрд миллиард
    миллиарда миллиардов ribu juta miliar nghìn ngàn triệu tỷ ألف آلاف مليون ملايين مليار แสน
    """.split()
)
"""Words that multiply the number before them."""
_SHORT = frozenset("k K M MM B T".split())
"""Their abbreviations; `m` and `b` are units."""
_CJK = frozenset("十百千万萬亿億兆京半割几幾多余餘来数만천백억조")
_OTHERS = frozenset(
    "half halves third thirds quarter quarters fifth fifths tenth tenths hundredth hundredths "
    "percent pct procent prozent am pm and or to".split()
)
"""Words that make it a fraction, a percentage, a time or a range."""
_FOLLOWING = re.compile(r"[ \u00a0\u202f-]?(?P<word>[^\W\d_]+)")
_FRACTION = re.compile(r" (?:\d/\d|[¼½¾⅓⅔]|(?:and|&) (?:a|one) (?:half|quarter|third)\b)")
_GROUP = re.compile(r"[ \u00a0\u202f]\d{3}(?!\w)")
_GROUPS_BEFORE = re.compile(r"(?<![\w.,-])[1-9]\d{0,2}[ \u00a0\u202f]\Z")


def supports(text: str, value: Any) -> bool:
    """True when the text states the value, exactly or approximately.

    Args:
        text: a message or a record.
        value: a string, a number, or a list of these, each of which the text must state. A
            boolean is never stated by a text; whether it follows is for the step `verify`.
    """
    if isinstance(value, list):
        return bool(value) and all(supports(text, one) for one in value)
    if isinstance(value, dict):
        return bool(value) and all(supports(text, one) for one in value.values())
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return _says_number(text, float(value))
    return says(text, str(value)) or says_nearly(text, str(value))


def says(text: str, value: str) -> bool:
    """True when the value occurs in the text as whole words, ignoring case."""
    plain, wanted = _plain(text), _plain(value)
    if not wanted:
        return False
    return any(tokens(re.compile(re.escape(wanted)), plain))


def says_nearly(text: str, value: str) -> bool:
    """True for the same date or amount in another form, most words, or almost the same letters.

    Links, addresses, codes and numbers must be equal: one other letter is another value.
    """
    plain, wanted = _plain(text), _plain(value)
    if len(wanted) < SHORTEST:
        return False
    if find_values(value):
        return _same_in_another_form(text, value)
    words, there = _WORD.findall(wanted), _WORD.findall(plain)
    if not words:
        return False
    shared = sum(word in there for word in words)
    if shared / len(words) >= OVERLAP:
        return True
    windows = (" ".join(there[at : at + len(words)]) for at in range(len(there)))
    return any(fuzz.ratio(" ".join(words), window) >= FUZZY for window in windows)


def _says_number(text: str, value: float) -> bool:
    whole = (one.group() for one in _NUMBER.finditer(text) if not is_part(text, *one.span()))
    return any(float(one.replace(",", "").replace("−", "-")) == value for one in whole)


def _same_in_another_form(text: str, value: str) -> bool:
    """`7 May 2025` for `2025-05-07`, `$1,200` for `1200 USD`."""
    meant = find_values(value)
    if len(meant) != 1 or meant[0].raw.strip() != value.strip():
        return False
    (one,) = meant
    return any((v.type, v.normalized) == (one.type, one.normalized) for v in find_values(text))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def number_in(plain: str, *, percent: bool = False) -> int | float | None:
    """The number of one quantity; None where the text is not exactly one quantity.

    Args:
        plain: the text, without white space around it.
        percent: the slot expects a percentage.
    """
    found = _QUANTITY.fullmatch(plain)
    if not found:
        return None
    unit = found["unit"] or found["letter"] or ""
    in_percent = unit == "%" or unit.casefold() == "percent"
    if not percent if in_percent else (_multiplies(unit) or unit.casefold() in _OTHERS):
        return None
    value = Decimal(normalize("number", found["number"]))
    return int(value) if value == value.to_integral_value() else float(value)


def is_part(text: str, start: int, end: int) -> bool:
    """True for digits of a longer number: the 2 of "2 million" or of "2 and a half"."""
    if not text[end - 1 : end].isdigit():
        return False
    word = _FOLLOWING.match(text, end)
    if word and _multiplies(word["word"]):
        return True
    return bool(_FRACTION.match(text, end)) or _is_grouped(text, start, end)


def _is_grouped(text: str, start: int, end: int) -> bool:
    """True for the 12 and for the 500 of "12 500"."""
    own = text[start:end]
    before, after = _GROUPS_BEFORE.search(text[max(0, start - 5) : start]), _GROUP.match(text, end)
    opens = own.isdigit() and len(own) <= 3 and own[0] != "0"
    return bool((after and opens) or (before and own.isdigit() and len(own) == 3))


def _multiplies(word: str) -> bool:
    return word.casefold() in _MULTIPLIERS or word in _SHORT or bool(_CJK & set(word))
