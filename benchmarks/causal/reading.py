"""Scores of all pairs by every causal scorer, each text read by the language model
once.
"""

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from benchmarks.causal.pairs import KINDS, Group
from langmem_graph.causal.scorers import (
    ALONE,
    CausalScorer,
    Pair,
    TokenLogProbs,
    calibrate,
    create_causal_scorer,
)
from langmem_graph.embeddings.minilm import MiniLMEmbeddings

Scores = NDArray[np.float64]
"""One row per kind of pair, one column per group."""
READINGS = {"pmi": 2, "contrast": 2, "contrast+later": 3}


class Remembering:
    """A language model that reads nothing twice, and times what it reads."""

    def __init__(self, lm: TokenLogProbs) -> None:
        self._lm, self._known = lm, dict[tuple[str, str], float]()
        self.seconds = 0.0

    def nll(self, prefix: str, continuation: str) -> float:
        """As the model has it."""
        if (asked := (prefix, continuation)) not in self._known:
            start = perf_counter()
            self._known[asked] = self._lm.nll(prefix, continuation)
            self.seconds += perf_counter() - start
        return self._known[asked]

    def mean_seconds(self) -> float:
        """Per reading."""
        return self.seconds / len(self._known)


class Reading:
    """What the scorers say of these groups."""

    def __init__(self, lm: TokenLogProbs, groups: Sequence[Group]) -> None:
        lm.nll("A first text", " so that a model loads before the clock runs.")
        self._lm, self._groups = Remembering(lm), groups
        self.scorers: dict[str, CausalScorer] = {
            "pmi": create_causal_scorer("pmi", self._lm),
            "contrast": create_causal_scorer("contrast", self._lm),
            "contrast+later": create_causal_scorer("contrast+later", self._lm),
        }

    def scores(self) -> dict[str, Scores]:
        """By name, combinations included; topicality is what "Also," and the cause
        explain.
        """
        own = {name: self._by_kind(scorer) for name, scorer in self.scorers.items()}
        cosine, topicality = self._cosines(), own["pmi"] - own["contrast"]
        return own | {
            "pmi + contrast": own["pmi"] + own["contrast"],
            "contrast + cosine": own["contrast"] + cosine,
            "contrast+later + cosine": own["contrast+later"] + cosine,
            "contrast − topicality / 4": own["contrast"] - topicality / 4,
            "cosine": cosine,
            "(effect alone)": self._alone(),
        }

    def threshold(self, name: str) -> float:
        """Calibrated on all texts, taken as one user's records."""
        texts = [
            text
            for group in self._groups
            for text in (group.cause, *group.effects.values())
        ]
        return calibrate(self.scorers[name], texts)

    def right_order(self, name: str) -> Scores:
        """1 where a causal pair scores higher than the same pair turned round,
        else 0.
        """
        pairs = self._pairs("causal")
        turned = [(effect, cause) for cause, effect in pairs]
        score = self.scorers[name].score
        return (np.array(score(pairs)) > np.array(score(turned))).astype(np.float64)

    def seconds(self, name: str) -> str:
        """Per pair with nothing read before; empty for what is no scorer."""
        readings = READINGS.get(name)
        return f"{readings * self._lm.mean_seconds():.2f}" if readings else ""

    def _pairs(self, kind: str) -> list[Pair]:
        return [(group.cause, group.effects[kind]) for group in self._groups]

    def _by_kind(self, scorer: CausalScorer) -> Scores:
        return np.array([scorer.score(self._pairs(kind)) for kind in KINDS])

    def _alone(self) -> Scores:
        """How likely the effect is without its cause."""
        return np.array(
            [
                [-self._lm.nll(ALONE, f" {e}") for _, e in self._pairs(kind)]
                for kind in KINDS
            ]
        )

    def _cosines(self) -> Scores:
        embed = MiniLMEmbeddings().embed_documents
        causes = np.array(embed([group.cause for group in self._groups]))
        effects = (np.array(embed([e for _, e in self._pairs(kind)])) for kind in KINDS)
        return np.array([(causes * of_kind).sum(axis=1) for of_kind in effects])
