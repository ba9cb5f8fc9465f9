"""The words of a text, as the full-text index stores and looks them up.

SQLite's tokenizer splits at spaces and punctuation. Chinese and Japanese have none, so runs of
their characters are written as overlapping pairs, in the index and in the query alike.
"""

import re
from itertools import pairwise

# Kana, Han (with extensions and compatibility forms) and Hangul.
_CJK_RUN = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_TOKEN = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could
    d did do does doing for from get go got had has have having he her here hers him his how i if in
    into is it its just ll m may me might more most my no not now of on one or our out re s she
    should so some such t than that the their them then there these they this those to too up us ve
    very was we were what when where which while who whom whose why will with would you your
    """.split()
)
MAX_QUERY_TERMS = 48


def searchable(text: str) -> str:
    """The text as it goes into the index: CJK runs become pairs of characters."""
    return _CJK_RUN.sub(lambda run: f" {_pairs(run.group())} ", text.replace("\0", " "))


def _pairs(run: str) -> str:
    return run if len(run) == 1 else " ".join(map("".join, pairwise(run)))


def query_terms(query: str) -> list[str]:
    """The query's distinct words without stop words; all words where nothing else is left."""
    words = list(dict.fromkeys(_TOKEN.findall(searchable(query).lower())))
    telling = [word for word in words if word not in _STOP_WORDS]
    return (telling or words)[:MAX_QUERY_TERMS]


def match_expression(terms: list[str]) -> str:
    """An FTS5 expression that matches any term. Quoting keeps FTS5's own syntax out."""
    return " OR ".join(f'"{term}"' for term in terms)
