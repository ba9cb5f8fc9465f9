"""A short answer against the right one, by the words they share; no judge is asked."""

import re
from collections import Counter
from collections.abc import Sequence
from math import exp
from unicodedata import normalize

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})
_ABSTAINS = re.compile(
    r"\b(?:don['’]?t|do not|does not|doesn['’]?t|can(?:not|['’]t)|could "
    r"not|couldn['’]?t) "
    r"(?:know|say|tell|determine|be (?:determined|answered))"
    r"|\bunknown\b|\bno (?:information|record|mention|memory|evidence)\b"
    r"|\bnot (?:mentioned|known|stated|said|specified|sure)\b|\b(?:unanswerable|no "
    r"such)\b",
    re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Words, case-folded; a letter with an accent is one, however it is written."""
    return _WORD.findall(normalize("NFC", text).casefold())


def shared_tokens(predicted: Sequence[str], gold: Sequence[str]) -> int:
    """Tokens in both, each as often as it is in both."""
    return (Counter(predicted) & Counter(gold)).total()


def token_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """The harmonic mean of precision and recall; 1 when both are empty."""
    if not predicted or not gold:
        return float(not predicted and not gold)
    return 2 * shared_tokens(predicted, gold) / (len(predicted) + len(gold))


def bleu1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Clipped precision of single tokens, less for what is shorter than the gold."""
    if not predicted or not gold:
        return float(not predicted and not gold)
    brevity = min(1.0, exp(1 - len(gold) / len(predicted)))
    return brevity * shared_tokens(predicted, gold) / len(predicted)


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
