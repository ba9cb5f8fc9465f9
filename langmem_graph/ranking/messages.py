"""Ranks messages: one linear score of a few signals, or a weight-free alternative."""

from dataclasses import dataclass

from langmem_graph.config import RankingMethod
from langmem_graph.ranking.candidates import Candidates
from langmem_graph.ranking.fusion import Scores, reciprocal_rank_fusion


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
    signals = {"dense": found.dense, "words": found.words}
    return Ranking(reciprocal_rank_fusion([found.dense, found.words], rrf_k), signals)
