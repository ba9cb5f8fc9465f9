"""Whether a text states a value, exactly or approximately (Mem2ActBench 3.4.1).

Only figures rest on this: a call is filled by the checks of `langmem_graph.grounding`,
which accept nothing that is merely alike.
"""

import re
import unicodedata
from decimal import Decimal
from typing import Any

from rapidfuzz import fuzz

from benchmarks.metrics.stated_numbers import amounts
from benchmarks.metrics.value_patterns import Value, find_values
from langmem_graph.values.matching import says

OVERLAP = 0.8
"""Share of a value's words that must occur in the text."""
FUZZY = 85.0
"""Least similarity, in percent, with the most similar part of the text."""
SHORTEST = 3
"""Characters; shorter values must occur in the text exactly."""
_WORD = re.compile(r"\w+")


def supports(text: str, value: Any) -> bool:
    """True when the text states the value, exactly or approximately.

    Args:
        text: a message or a record.
        value: a string, a number, or a list or an object of these, each of which the
            text must state. No text states a boolean: whether one follows is for the
            step `verify`.
    """
    if isinstance(value, list | dict):
        parts = value if isinstance(value, list) else list(value.values())
        return bool(parts) and all(supports(text, part) for part in parts)
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return any(amount.value == Decimal(str(value)) for amount in amounts(text))
    return says(text, str(value)) or says_nearly(text, str(value))


def says_nearly(text: str, value: str) -> bool:
    """True for the same date or amount in another form, most words, or almost the same
    letters.

    Links, addresses, codes and numbers must be equal: with one other letter they
    differ.
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
    windows = (
        " ".join(text_words[at : at + len(words)]) for at in range(len(text_words))
    )
    return any(fuzz.ratio(" ".join(words), window) >= FUZZY for window in windows)


def _is_same_value(text: str, value: str, parsed: Value) -> bool:
    """True for `7 May 2025` and `2025-05-07`, `$1,200` and `1200 USD`."""
    return parsed.raw.strip() == value.strip() and any(
        (v.type, v.normalized) == (parsed.type, parsed.normalized)
        for v in find_values(text)
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
