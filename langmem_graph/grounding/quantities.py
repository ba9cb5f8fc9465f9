"""Quantities: reads one number with its unit, and detects numbers that are part of another."""

import re
from decimal import Decimal

from langmem_graph.write.value_forms import normalize

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
