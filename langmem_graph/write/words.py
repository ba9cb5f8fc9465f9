"""words: everyday words as the gate compares them, from the table `everyday.json`."""

import json
import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Any

_TOKEN = re.compile(r"[^\W_]+(?:[.:@+/-]+[^\W_]+)*")
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")
_ENDINGS = ("ing", "ed", "es", "e", "s")


@cache
def table() -> dict[str, Any]:
    """The whole table."""
    text = files("langmem_graph.write").joinpath("everyday.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def listed(section: str) -> frozenset[str]:
    """A list of the table, in plain letters."""
    return frozenset(plain(phrase) for phrase in table()[section])


@cache
def stems(section: str) -> frozenset[str]:
    """The stems of all words in a list of the table."""
    return frozenset(stem(token) for phrase in listed(section) for token in tokens(phrase))


def plain(text: str) -> str:
    """Without case, accents, curly apostrophes and double spaces."""
    folded = unicodedata.normalize("NFKD", text.replace("\u2019", "'").casefold())
    bare = "".join(char for char in folded if not "\u0300" <= char <= "\u036f")
    return " ".join(unicodedata.normalize("NFC", bare).split())


def tokens(text: str) -> list[str]:
    """Words, numbers, times and addresses, each in one piece and without a possessive ending."""
    return _TOKEN.findall(_POSSESSIVE.sub(" ", plain(text)))


def stem(token: str) -> str:
    """A word without its commonest endings; the same for `lives`, `lived` and `living`."""
    for ending in _ENDINGS:
        if token.endswith(ending) and len(token) - len(ending) >= 3:
            return token[: -len(ending)]
    return token


def content(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset(stem(token) for token in tokens(text)) - stems("common")


def finds(section: str, text: str) -> bool:
    """Whether a text, in whatever case, uses a phrase of the list."""
    return bool(_pattern(section).search(plain(text)))


def without(section: str, text: str) -> str:
    """The text, plain, without the phrases of the list."""
    return _pattern(section).sub(" ", plain(text))


@cache
def _pattern(section: str) -> re.Pattern[str]:
    return re.compile("|".join(map(_as_regex, sorted(listed(section), key=len, reverse=True))))


def _as_regex(phrase: str) -> str:
    """`...` stands for up to four words; `n't` and `'m` may follow a word directly."""
    open_start = phrase.startswith(("n't", "'"))
    words = re.escape(phrase).replace(r"\ \.\.\.\ ", r"(?:\s\S+){0,4}?\s")
    words = words.replace(r"\.\.\.\ ", r"\S+(?:\s\S+){0,4}?\s")
    words += r"(?=\s*(?:[,.;!?]|$))" if phrase == "too" else ""  # not `too sweet`
    return ("" if open_start else r"(?<!\w)") + words + r"(?!\w)"
