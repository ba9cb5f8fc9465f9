"""Ranks sessions: one weighted sum of five signals, each session shown by its best message."""

import numpy as np
from numpy.typing import NDArray

from langmem_graph.config import Settings
from langmem_graph.ranking.candidates import Candidates
from langmem_graph.ranking.fusion import (
    Scores,
    reciprocal_rank_fusion,
    share_of_best,
    weighted_sum,
)
from langmem_graph.ranking.messages import Ranking
from langmem_graph.ranking.weights import SESSION_WEIGHTS
from langmem_graph.store.lookups import Centroids

TOP_DENSE, TOP_WORDS, TOP_RECORDS, PROFILE = 3, 8, 3, 8
"""Cosines, BM25 scores and record scores averaged, and sessions that make the profile."""


def rank_sessions(
    found: Candidates, messages: Ranking, centroids: Centroids, settings: Settings
) -> tuple[Ranking, list[int]]:
    """Score sessions.

    Returns:
        Scores and signals spread over the candidate messages, and the places of the sessions'
        best messages, the best session first.
    """
    numbers, own = np.unique(found.sessions, return_inverse=True)
    scores, signals = _scores(found, numbers, own, centroids, settings)
    spread = Ranking(scores[own], {name: values[own] for name, values in signals.items()})
    representatives = [_best_message(messages.scores, own == s) for s in range(len(numbers))]
    order = np.argsort(-scores, kind="stable")
    return spread, [representatives[s] for s in order]


def _best_message(scores: Scores, mine: NDArray[np.bool_]) -> int:
    places = np.flatnonzero(mine)
    return int(places[np.argmax(scores[places])])


def _scores(
    found: Candidates,
    numbers: NDArray[np.int64],
    own: NDArray[np.int64],
    centroids: Centroids,
    settings: Settings,
) -> tuple[Scores, dict[str, Scores]]:
    best = {"dense": _best(found.dense, own, 1), "words": _best(found.words, own, 1)}
    if settings.ranking == "rrf":
        return reciprocal_rank_fusion(list(best.values()), settings.rrf_k), best
    if settings.ranking != "hybrid":
        return best[settings.ranking], best
    signals = _signals(found, numbers, own, centroids)
    weights = SESSION_WEIGHTS | {"age": settings.session_age_weight}
    return weighted_sum(signals, weights), signals


def _signals(
    found: Candidates, numbers: NDArray[np.int64], own: NDArray[np.int64], centroids: Centroids
) -> dict[str, Scores]:
    dense = _best(found.dense, own, TOP_DENSE, missing=float(found.dense.min(initial=0.0)))
    words = share_of_best(_best(found.words, own, TOP_WORDS))
    middle = _middles(numbers, centroids)
    first_pass = _standard(dense) + _standard(words) + _standard(_likeness(middle, found.vector))
    ages = len(centroids.sessions) - np.searchsorted(centroids.sessions, numbers)
    return {
        "dense": dense,
        "words": words,
        "records": share_of_best(_best(found.records, own, TOP_RECORDS)),
        "profile": _likeness_to_best(first_pass, middle),
        "age": np.log(np.maximum(ages, 1)),
    }


def _best(values: Scores, own: NDArray[np.int64], top: int, missing: float = 0.0) -> Scores:
    """Mean of each session's `top` greatest values; where it has fewer, `missing` fills up."""
    means = np.zeros(int(own.max(initial=-1)) + 1)
    for session in range(len(means)):
        greatest = np.sort(values[own == session])[-top:]
        means[session] = (greatest.sum() + missing * (top - len(greatest))) / top
    return means


def _middles(numbers: NDArray[np.int64], centroids: Centroids) -> NDArray[np.float32]:
    """Unit centroids of the sessions; a session without vectors has none (zeros)."""
    middles = np.zeros((len(numbers), centroids.matrix.shape[1]), dtype=np.float32)
    has = np.isin(numbers, centroids.sessions)
    middles[has] = centroids.matrix[np.searchsorted(centroids.sessions, numbers[has])]
    lengths = np.linalg.norm(middles, axis=1, keepdims=True)
    return np.asarray(middles / np.maximum(lengths, 1e-9), dtype=np.float32)


def _likeness(middles: NDArray[np.float32], vector: NDArray[np.float32] | None) -> Scores:
    if vector is None or not middles.size:
        return np.zeros(len(middles))
    return np.asarray(middles @ vector, dtype=np.float64)


def _likeness_to_best(first_pass: Scores, middles: NDArray[np.float32]) -> Scores:
    """Likeness to the best sessions, each weighted by its lead over the first that is not in."""
    order = np.argsort(-first_pass, kind="stable")
    best = order[:PROFILE]
    last = first_pass[order[min(PROFILE, len(order) - 1)]] if len(order) else 0.0
    lead = first_pass[best] - last
    if lead.sum() <= 0:
        return np.zeros(len(first_pass))
    profile = (lead / lead.sum()) @ middles[best]
    return np.asarray(middles @ profile, dtype=np.float64)


def _standard(values: Scores) -> Scores:
    return (values - values.mean()) / (values.std() + 1e-9) if len(values) else values
