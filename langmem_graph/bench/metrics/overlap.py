"""overlap: how many tokens two lists share, as F1 and as BLEU-1."""

import re
from collections import Counter
from collections.abc import Sequence
from math import exp
from unicodedata import normalize

_WORD = re.compile(r"\w+")


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
