"""Ranks messages: one weighted sum of seven signals, or a weight-free alternative.

There is no recency here: what matters may have been said long ago.
"""

from dataclasses import dataclass

import numpy as np

from langmem_graph.config import RankingMethod
from langmem_graph.ranking.candidates import Candidates
from langmem_graph.ranking.dates import day_fit, named_days
from langmem_graph.ranking.fusion import (
    Scores,
    reciprocal_rank_fusion,
    share_of_best,
    weighted_sum,
)
from langmem_graph.ranking.weights import MESSAGE_WEIGHTS

SESSION_BEST = 3
"""Best cosines of a session that are averaged; 3, 5 and 16 differ by less than half a point."""


NOT_FOUND = -np.inf
"""Score of a candidate that the one signal asked for did not find; it is no hit."""


@dataclass(frozen=True)
class Ranking:
    """Scores of the candidates, and the signals they were made of."""

    scores: Scores
    signals: dict[str, Scores]

    def signals_of(self, place: int) -> dict[str, float]:
        """Each signal's value for one candidate."""
        return {name: float(values[place]) for name, values in self.signals.items()}


def rank_messages(found: Candidates, method: RankingMethod, rrf_k: int) -> Ranking:
    """Score the candidates by the chosen method."""
    if method == "hybrid":
        signals = _signals(found)
        return Ranking(weighted_sum(signals, MESSAGE_WEIGHTS), signals)
    signals = {"dense": found.dense, "words": found.words}
    if method == "rrf":
        return Ranking(reciprocal_rank_fusion([found.dense, found.words], rrf_k), signals)
    return Ranking(np.where(signals[method] != 0, signals[method], NOT_FOUND), signals)


def _signals(found: Candidates) -> dict[str, Scores]:
    return {
        "dense": found.dense,
        "words": share_of_best(found.words),
        "records": found.records,
        "session": _session_likeness(found),
        "date": _dates(found),
        "length": np.log1p([fact.chars for fact in found.facts]),
        "question": np.array([float(fact.is_question) for fact in found.facts]),
    }


def _session_likeness(found: Candidates) -> Scores:
    likeness = np.zeros(len(found.facts))
    for session in np.unique(found.sessions):
        own = found.sessions == session
        likeness[own] = np.sort(found.dense[own])[-SESSION_BEST:].mean()
    return likeness


def _dates(found: Candidates) -> Scores:
    named = named_days(found.query)
    return np.array([day_fit(named, fact.at.date()) for fact in found.facts], dtype=np.float64)
