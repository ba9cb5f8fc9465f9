"""Joining signals: a weighted sum, or reciprocal rank fusion (NapMem 5.3, k = 60)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def reciprocal_rank_fusion(signals: Sequence[Scores], k: int) -> Scores:
    """Sum of `1 / (k + rank)` over the signals; ranks count from 1.

    A score of 0 means that the signal did not find the item; it then adds nothing.
    """
    return np.sum([_one(signal, k) for signal in signals], axis=0)  # type: ignore[no-any-return]


def _one(signal: Scores, k: int) -> Scores:
    ranks = np.empty(len(signal))
    ranks[np.argsort(-signal, kind="stable")] = np.arange(1, len(signal) + 1)
    return np.where(signal > 0, 1.0 / (k + ranks), 0.0)


def weighted_sum(signals: dict[str, Scores], weights: dict[str, float]) -> Scores:
    """One score from several signals."""
    return np.sum([weights[name] * values for name, values in signals.items()], axis=0)  # type: ignore[no-any-return]


def share_of_best(values: Scores) -> Scores:
    """Values divided by the greatest; zeros stay zeros."""
    return values / max(float(values.max(initial=0.0)), 1e-9)
