"""Whether a text states a value, exactly or in another form (Mem2ActBench 3.3).

`supports` compares a value of any type with a text; `number_in` and `is_part` tell which number a
text states, and which digits are only a part of one.
"""

import re
import unicodedata
from decimal import Decimal
from typing import Any

from rapidfuzz import fuzz

from langmem_graph.values.patterns import normalize
from langmem_graph.values.verbatim import Value, find_values, tokens

OVERLAP = 0.8
"""Share of a value's words that must occur in the text."""
FUZZY = 85.0
"""Least similarity, in percent, with the most similar part of the text."""
SHORTEST = 3
"""Characters; shorter values must occur in the text exactly."""
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
"""Characters that multiply it, or make it a fraction or an estimate."""
_OTHER_WORDS = frozenset(
    "half halves third thirds quarter quarters fifth fifths tenth tenths hundredth hundredths "
    "percent pct procent prozent am pm and or to".split()
)
"""Words that make the number before them a fraction, a percentage, a time or a range."""
_FOLLOWING = re.compile(r"[ \u00a0\u202f-]?(?P<word>[^\W\d_]+)")
_FRACTION = re.compile(r" (?:\d/\d|[¼½¾⅓⅔]|(?:and|&) (?:a|one) (?:half|quarter|third)\b)")
_GROUP = re.compile(r"[ \u00a0\u202f]\d{3}(?!\w)")
_GROUPS_BEFORE = re.compile(r"(?<![\w.,-])[1-9]\d{0,2}[ \u00a0\u202f]\Z")


def supports(text: str, value: Any) -> bool:
    """True when the text states the value, exactly or approximately.

    Args:
        text: a message or a record.
        value: a string, a number, or a list or an object of these, each of which the text must
            state. No text states a boolean: whether one follows is for the step `verify`.
    """
    if isinstance(value, list | dict):
        parts = value if isinstance(value, list) else list(value.values())
        return bool(parts) and all(supports(text, part) for part in parts)
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        numbers = (n.group() for n in _NUMBER.finditer(text) if not is_part(text, *n.span()))
        return any(float(n.replace(",", "").replace("−", "-")) == value for n in numbers)
    return says(text, str(value)) or says_nearly(text, str(value))


def says(text: str, value: str) -> bool:
    """True when the value occurs in the text as whole words, ignoring case."""
    wanted = _plain(value)
    return bool(wanted) and any(tokens(re.compile(re.escape(wanted)), _plain(text)))


def says_nearly(text: str, value: str) -> bool:
    """True for the same date or amount in another form, most words, or almost the same letters.

    Links, addresses, codes and numbers must be equal: with one other letter they differ.
    """
    wanted = _plain(value)
    if len(wanted) < SHORTEST:
        return False
    if values := find_values(value):
        return len(values) == 1 and _is_same_value(text, value, values[0])
    words, text_words = _WORD.findall(wanted), _WORD.findall(_plain(text))
    if not words:
        return False
    if sum(word in text_words for word in words) / len(words) >= OVERLAP:
        return True
    windows = (" ".join(text_words[at : at + len(words)]) for at in range(len(text_words)))
    return any(fuzz.ratio(" ".join(words), window) >= FUZZY for window in windows)


def _is_same_value(text: str, value: str, parsed: Value) -> bool:
    """True for `7 May 2025` and `2025-05-07`, `$1,200` and `1200 USD`."""
    return parsed.raw.strip() == value.strip() and any(
        (v.type, v.normalized) == (parsed.type, parsed.normalized) for v in find_values(text)
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def number_in(plain: str, *, percent: bool = False) -> int | float | None:
    """The number of one quantity; None where the text is not exactly one quantity.

    Args:
        plain: the text, without white space around it.
        percent: the slot expects a percentage.
    """
    match = _QUANTITY.fullmatch(plain)
    if not match:
        return None
    unit = match["unit"] or match["letter"] or ""
    in_percent = unit == "%" or unit.casefold() == "percent"
    if not percent if in_percent else (_multiplies(unit) or unit.casefold() in _OTHER_WORDS):
        return None
    value = Decimal(normalize("number", match["number"]))
    return int(value) if value == value.to_integral_value() else float(value)


def is_part(text: str, start: int, end: int) -> bool:
    """True where the span is only a part of a number: the 2 of "2 million" or "2 and a half"."""
    if not text[end - 1 : end].isdigit():
        return False
    word = _FOLLOWING.match(text, end)
    if word and _multiplies(word["word"]):
        return True
    return bool(_FRACTION.match(text, end)) or _is_grouped(text, start, end)


def _is_grouped(text: str, start: int, end: int) -> bool:
    """True for the 12 and for the 500 of "12 500"."""
    digits = text[start:end]
    before, after = _GROUPS_BEFORE.search(text[max(0, start - 5) : start]), _GROUP.match(text, end)
    opens = digits.isdigit() and len(digits) <= 3 and digits[0] != "0"
    return bool((after and opens) or (before and digits.isdigit() and len(digits) == 3))


def _multiplies(word: str) -> bool:
    return word.casefold() in _MULTIPLIERS or word in _SHORT or bool(_CJK & set(word))
