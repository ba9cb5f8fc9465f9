"""How sure a mean is, and how well two groups are told apart. Needs scipy."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from langmem_graph.errors import MissingExtraError

ROUNDS = 2_000


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0
) -> tuple[float, float]:
    """The 95% interval of the mean, by drawing the items again with replacement."""
    return _interval(tuple(values), seed)


@lru_cache(maxsize=512)
def _interval(values: tuple[float, ...], seed: int) -> tuple[float, float]:
    if len(set(values)) < 2:  # nothing varies
        return (values[0], values[0]) if values else (0.0, 0.0)
    found = _scipy_stats().bootstrap(
        (np.asarray(values, dtype=np.float64),),
        np.mean,
        n_resamples=ROUNDS,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def require() -> None:
    """Find out before a long run whether scipy is there.

    Raises:
        MissingExtraError: it is not.
    """
    _scipy_stats()


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingExtraError("Intervals need scipy: pip install scipy.") from error
    return stats


def auc(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """How often a positive scores above a negative; a tie counts half. 0.5 is
    chance.
    """
    above = np.subtract.outer(np.asarray(positives), np.asarray(negatives))
    return float(np.mean((above > 0) + (above == 0) / 2))
