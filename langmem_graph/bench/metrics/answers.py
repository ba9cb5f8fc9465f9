"""answers: a short answer against the right one, by its words; no judge is asked."""

import re

from langmem_graph.bench.metrics.overlap import bleu1, token_f1, words

_ARTICLES = frozenset({"a", "an", "the"})
_ABSTAINS = re.compile(
    r"\b(?:don['’]?t|do not|does not|doesn['’]?t|can(?:not|['’]t)|could not|couldn['’]?t) "
    r"(?:know|say|tell|determine|be (?:determined|answered))"
    r"|\bunknown\b|\bno (?:information|record|mention|memory|evidence)\b"
    r"|\bnot (?:mentioned|known|stated|said|specified|sure)\b|\b(?:unanswerable|no such)\b",
    re.IGNORECASE,
)


def answer_tokens(text: str) -> list[str]:
    """Words, case-folded, without articles; not stemmed."""
    return [word for word in words(text) if word not in _ARTICLES]


def answer_f1(answer: str, gold: str) -> float:
    """F1 of the words."""
    return token_f1(answer_tokens(answer), answer_tokens(gold))


def answer_bleu1(answer: str, gold: str) -> float:
    """BLEU-1 of the words."""
    return bleu1(answer_tokens(answer), answer_tokens(gold))


def abstains(answer: str) -> bool:
    """Whether an answer says that it is not known, by its words."""
    return _ABSTAINS.search(answer) is not None
