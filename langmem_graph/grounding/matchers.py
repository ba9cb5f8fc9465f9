"""Whether a text supports a value, exactly or in another form (methods 3.3)."""

import re
import unicodedata
from typing import Any

from rapidfuzz import fuzz

from langmem_graph.grounding.quantities import is_part
from langmem_graph.write.boundaries import tokens
from langmem_graph.write.values import find_values

OVERLAP = 0.8
"""Share of a value's words that must occur in the text."""
FUZZY = 85.0
"""Least similarity, in percent, with the most similar part of the text."""
SHORTEST = 3
"""Shorter values must occur in the text exactly (characters)."""
_NUMBER = re.compile(r"(?<![\w.,])[-−+]?\d++(?:,\d+)*+(?:\.\d+)?+(?!\w)")
_WORD = re.compile(r"\w+")


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
