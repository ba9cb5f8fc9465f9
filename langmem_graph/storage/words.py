"""The words of a text as they are indexed and looked up, the same for both engines.

Texts are split at spaces and punctuation, and English endings are taken off (Porter's
algorithm). Chinese and Japanese words are not separated by spaces, so runs of their
characters become overlapping pairs.
"""

import math
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

Passes = NDArray[np.bool_]
"""Of each message's number, from 0 on, whether it passes a filter."""
# Kana, Han (with extensions and compatibility forms) and Hangul.
_CJK_RUN = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been
    before being below between both but by can could d did do does doing don down
    during each few for from further get go got had has have having he her here hers
    him his how i if in into is it its itself just ll m me might more most must my
    no nor not now of off on once one only or other our out over own re s same she
    should so some such t than that the their them then there these they this those
    through to too under until up us ve very was we were what when where which while
    who whom whose why will with would you your yours""".split()
)
MAX_QUERY_TERMS = 48  # the first words of a long query are considered
# terms looked up; with 8 recall is the same, with 4 lower (docs/ranking.md)
MAX_TERMS = 12
COMMON_SHARE, COMMON_FLOOR = 0.2, 20  # a term in more messages than this is left out
LEAST = 1e-6  # what a term counts that most rows have, as in FTS5
# characters of a word that count; PostgreSQL's index takes no very long ones
LONGEST = 64
_stemmers = threading.local()  # a stemmer serves one thread at a time


def words_of_text(text: str) -> list[str]:
    """The words of a text in order, without endings."""
    return [_stem(word) for word in _split(text, spaced=_with_pairs)]


def query_terms(query: str) -> list[str]:
    """The query's distinct terms without stop words; all its terms if it has only stop
    words.
    """
    plain = list(_split(query, spaced=_only_pairs))
    telling = [word for word in plain if word not in _STOP_WORDS]
    return list(dict.fromkeys(map(_stem, telling or plain)))[:MAX_QUERY_TERMS]


def telling_terms(counts: dict[str, int], messages: int) -> list[str]:
    """The rarest terms of a query; very common ones cost time and do not discriminate.

    `counts` tells in how many of the messages each term occurs.
    """
    known = sorted(
        (term for term, count in counts.items() if count), key=counts.__getitem__
    )
    common = max(COMMON_FLOOR, COMMON_SHARE * messages)
    rare = [term for term in known if counts[term] <= common]
    return (rare or known[:1])[:MAX_TERMS]


@dataclass(frozen=True)
class TermCounts:
    """How many rows one full-text table has, or several together, and how many have
    each term.
    """

    rows: int
    having: dict[str, int]
    pooled: bool = False
    """Whether they are of several tables together, and not of the one that is
    searched.
    """

    def __add__(self, other: "TermCounts") -> "TermCounts":
        having = {
            term: count + other.having[term] for term, count in self.having.items()
        }
        return TermCounts(self.rows + other.rows, having, pooled=True)

    def rarity(self, term: str) -> float:
        """How much a term counts that so many of the rows have (idf), as in FTS5."""
        having = self.having[term]
        return max(LEAST, math.log((self.rows - having + 0.5) / (having + 0.5)))


def is_prefix(term: str) -> bool:
    """Whether a term also matches the words that begin with it: a single CJK
    character.
    """
    return len(term) == 1 and _CJK_RUN.fullmatch(term) is not None


def _split(text: str, *, spaced: Callable[[re.Match[str]], str]) -> Iterator[str]:
    """Yield the lower-case words of a text, without accents on Latin letters."""
    plain = unicodedata.normalize("NFC", text)
    letters = map(_letter, _CJK_RUN.sub(spaced, plain).lower())
    return (word[:LONGEST] for word in "".join(letters).split())


def _with_pairs(run: re.Match[str]) -> str:
    return f" {_pairs(run.group())} {run.group()[-1]} "


def _only_pairs(run: re.Match[str]) -> str:
    return f" {_pairs(run.group()) or run.group()} "


def _pairs(run: Sequence[str]) -> str:
    return " ".join(map("".join, pairwise(run)))


@lru_cache(maxsize=10_000)
def _letter(char: str) -> str:
    """The character as it is indexed: without accent where it is a Latin letter, else a
    space.

    Marks stay part of a word in scripts that write vowels with them.
    """
    parts = unicodedata.normalize("NFD", char)
    if len(parts) > 1 and parts[0].isascii():
        return parts[0]
    kind = unicodedata.category(char)
    if "\u0300" <= char <= "\u036f":  # an accent without a letter of its own
        return ""
    return char if kind[0] in "LNM" or kind == "Co" else " "


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    if not hasattr(_stemmers, "porter"):
        _stemmers.porter = snowballstemmer.stemmer("porter")
    stem: str = _stemmers.porter.stemWord(word) if len(word) > 2 else word
    return stem
