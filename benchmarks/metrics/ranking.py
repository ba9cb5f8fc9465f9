"""Measures of one ranked list against its gold items."""

from collections.abc import Collection, Sequence
from math import log2


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
    """As RealMem's script has it: rank 1 and 2 weigh the same, then discount
    `log2(rank)`.
    """
    discounts = [1.0, *(1 / log2(rank) for rank in range(2, k + 1))]
    return _gain(ranked, gold, discounts) / sum(discounts[: len(set(gold))])


def _gain(
    ranked: Sequence[str], gold: Collection[str], discounts: Sequence[float]
) -> float:
    """Each gold item counts once, at its first place."""
    places = {
        item: place
        for place, item in reversed(list(enumerate(ranked[: len(discounts)])))
    }
    return sum(discounts[places[item]] for item in set(gold) if item in places)
