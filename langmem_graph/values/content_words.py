"""The words of a text that carry meaning, for look-ups; no model's answer is judged by
them.
"""

import re
import unicodedata
from functools import cache

from langmem_graph.values import word_list

_TOKEN = re.compile(r"[^\W_]+(?:[.:@+/-]+[^\W_]+)*")
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")
_ENDINGS = ("ing", "ed", "es", "e", "s")


@cache
def _common_stems() -> frozenset[str]:
    """The stems of common English words, which say nothing about what a text is
    about.
    """
    return frozenset(stem(token) for token in tokens(word_list("common_words")))


def plain(text: str) -> str:
    """Without case, accents, curly apostrophes and double spaces."""
    folded = unicodedata.normalize("NFKD", text.replace("\u2019", "'").casefold())
    bare = "".join(char for char in folded if not "\u0300" <= char <= "\u036f")
    return " ".join(unicodedata.normalize("NFC", bare).split())


def tokens(text: str) -> list[str]:
    """Words, numbers, times and addresses, each in one piece and without a possessive
    ending.
    """
    return _TOKEN.findall(_POSSESSIVE.sub(" ", plain(text)))


def stem(token: str) -> str:
    """A word without its commonest endings; the same for `lives`, `lived` and
    `living`.
    """
    for ending in _ENDINGS:
        if token.endswith(ending) and len(token) - len(ending) >= 3:
            return token[: -len(ending)]
    return token


def content(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset(stem(token) for token in tokens(text)) - _common_stems()
