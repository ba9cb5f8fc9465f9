"""Measures of one ranked list against its gold items, and the uncertainty of their mean."""

from collections.abc import Collection, Sequence
from math import log2

import numpy as np


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The fraction of the gold items that are among the first `k`."""
    return len(set(ranked[:k]) & set(gold)) / len(set(gold))


def recall_any(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 when any gold item is among the first `k`, else 0."""
    return float(not set(gold).isdisjoint(ranked[:k]))


def recall_all(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 when every gold item is among the first `k`, else 0."""
    return float(set(gold) <= set(ranked[:k]))


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted gain, binary, discount `log2(rank + 1)`."""
    discounts = [1 / log2(rank + 1) for rank in range(1, k + 1)]
    return _gain(ranked, gold, discounts) / sum(discounts[: len(set(gold))])


def ndcg_realmem(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """As RealMem's script has it: rank 1 and 2 weigh the same, then discount `log2(rank)`."""
    discounts = [1.0, *(1 / log2(rank) for rank in range(2, k + 1))]
    return _gain(ranked, gold, discounts) / sum(discounts[: len(set(gold))])


def _gain(ranked: Sequence[str], gold: Collection[str], discounts: Sequence[float]) -> float:
    """Each gold item counts once, at its first place."""
    places = {item: place for place, item in reversed(list(enumerate(ranked[: len(discounts)])))}
    return sum(discounts[places[item]] for item in set(gold) if item in places)


def bootstrap_interval(
    values: Sequence[float], *, rounds: int = 2_000, seed: int = 0
) -> tuple[float, float]:
    """The 95% interval of the mean, by drawing the questions again with replacement."""
    numbers, random = np.asarray(values, dtype=np.float64), np.random.default_rng(seed)
    drawn = random.integers(0, len(numbers), size=(rounds, len(numbers)))
    low, high = np.percentile(numbers[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def auc(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """How often a positive scores above a negative; a tie counts half. 0.5 is chance."""
    above = np.subtract.outer(np.asarray(positives), np.asarray(negatives))
    return float(np.mean((above > 0) + (above == 0) / 2))
