"""The words of a text, as the full-text index stores and looks them up.

SQLite's tokenizer splits at spaces and punctuation. Chinese and Japanese have none, so runs of
their characters are written as overlapping pairs, in the index and in the query alike.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

# Kana, Han (with extensions and compatibility forms) and Hangul.
_CJK_RUN = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_TOKEN = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being
    below between both but by can could d did do does doing don down during each few for from
    further get go got had has have having he her here hers him his how i if in into is it its
    itself just ll m me might more most must my no nor not now of off on once one only or other
    our out over own re s same she should so some such t than that the their them then there
    these they this those through to too under until up us ve very was we were what when where
    which while who whom whose why will with would you your yours
    """.split()
)
MAX_QUERY_TERMS = 48  # of a query as long as a report, the first
MAX_TERMS = 12  # looked up; with 8 instead recall is the same, with 4 lower (docs/ranking.md)
COMMON_SHARE, COMMON_FLOOR = 0.2, 20  # a term in more messages than this is left out


def searchable(text: str) -> str:
    """The text as it goes into the index: CJK runs become pairs of characters."""
    plain = unicodedata.normalize("NFC", text.replace("\0", " "))
    return _CJK_RUN.sub(lambda run: f" {_pairs(run.group())} {run.group()[-1]} ", plain)


def _pairs(run: str) -> str:
    return " ".join(map("".join, pairwise(run)))


def query_terms(query: str) -> list[str]:
    """The query's distinct words without stop words; all words where nothing else is left."""
    plain = unicodedata.normalize("NFC", query.replace("\0", " "))
    paired = _CJK_RUN.sub(lambda run: f" {_pairs(run.group()) or run.group()} ", plain)
    words = list({word.lower(): word for word in _TOKEN.findall(paired)}.values())
    telling = [word for word in words if word.lower() not in _STOP_WORDS]
    return (telling or words)[:MAX_QUERY_TERMS]


def telling_terms(counts: dict[str, int], messages: int) -> list[str]:
    """The rarest terms of a query; very common ones cost time and tell nothing.

    Args:
        counts: in how many messages each term occurs.
        messages: how many messages there are.
    """
    known = sorted((term for term, count in counts.items() if count), key=counts.__getitem__)
    common = max(COMMON_FLOOR, COMMON_SHARE * messages)
    rare = [term for term in known if counts[term] <= common]
    return (rare or known[:1])[:MAX_TERMS]


def match_expression(terms: Sequence[str]) -> str:
    """An FTS5 expression that matches any term. Quoting keeps FTS5's own syntax out.

    A single CJK character also matches the pairs that begin with it.
    """
    alone = (
        f'"{term}"{"*" if _CJK_RUN.fullmatch(term) and len(term) == 1 else ""}' for term in terms
    )
    return " OR ".join(alone)
