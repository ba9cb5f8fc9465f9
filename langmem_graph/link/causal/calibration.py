"""A threshold for one scorer and one user: what their own random pairs hardly ever reach."""

import asyncio
from collections.abc import Sequence
from random import Random

import numpy as np

from langmem_graph.errors import InvalidInputError
from langmem_graph.link.causal.scorers import CausalScorer, Pair

PERCENTILE = 95.0
PAIRS = 200


def calibrate(
    scorer: CausalScorer,
    texts: Sequence[str],
    *,
    percentile: float = PERCENTILE,
    pairs: int = PAIRS,
    seed: int = 0,
) -> float:
    """The score that this share of random pairs does not exceed; accept what is above it.

    Random records are seldom cause and effect, so about `100 - percentile` percent of unrelated
    pairs pass. Of pairs on one topic more do: docs/causal.md says how many. A threshold holds for
    this scorer, this language model and this user only.

    Args:
        scorer: whose scores the threshold is for.
        texts: one user's records, at best all; from fewer than about 20 it means little.
        percentile: from 0 to 100, default 95 (ours).
        pairs: how many to draw, default 200 (ours); all there are, where there are fewer.
        seed: the same seed draws the same pairs.

    Raises:
        InvalidInputError: fewer than two different texts, or a number out of its range.
        CausalModelError: from the scorer.
    """
    if not 0 <= percentile <= 100 or pairs < 1:
        raise InvalidInputError(
            f"percentile={percentile} must be from 0 to 100, and pairs={pairs} at least 1."
        )
    scores = scorer.score(_random_pairs(texts, pairs, seed))
    return float(np.percentile(scores, percentile, method="higher"))


async def acalibrate(
    scorer: CausalScorer,
    texts: Sequence[str],
    *,
    percentile: float = PERCENTILE,
    pairs: int = PAIRS,
    seed: int = 0,
) -> float:
    """Async twin of `calibrate`, in a thread."""
    return await asyncio.to_thread(
        calibrate, scorer, texts, percentile=percentile, pairs=pairs, seed=seed
    )


def _random_pairs(texts: Sequence[str], pairs: int, seed: int) -> list[Pair]:
    """Ordered pairs of two different texts, none twice."""
    different = sorted({text for text in texts if text.strip()})
    size = len(different)
    if size < 2:
        raise InvalidInputError(
            f"Calibration needs two different texts at least, got {size}: wait for more records."
        )
    places = range(size * (size - 1))
    drawn = Random(seed).sample(places, min(pairs, len(places)))  # noqa: S311 - no secret
    return [_pair(different, place) for place in drawn]


def _pair(texts: Sequence[str], place: int) -> Pair:
    first, step = divmod(place, len(texts) - 1)
    return texts[first], texts[(first + 1 + step) % len(texts)]
