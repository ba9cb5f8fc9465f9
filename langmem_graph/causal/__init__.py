"""Causal scores: is one record the cause of another (ActMem, 1.2 step 6)?

A chat model proposes pairs of records; a scorer gives each a number, and what scores above a
threshold becomes an edge. Which scorer to take, and with which figures: docs/causal.md.

Example:
    ```python
    scorer = create_causal_scorer(lm=LlamaServer("http://127.0.0.1:8080"))
    enough = calibrate(scorer, texts_of_this_users_records)
    edges = [pair for pair, score in zip(pairs, scorer.score(pairs)) if score > enough]
    ```
"""

from typing import TYPE_CHECKING, Any

from langmem_graph.causal.scorers import (
    PMI_MIN,
    CausalScorer,
    ContrastScorer,
    NoScorer,
    Pair,
    PmiScorer,
    ScorerName,
    TokenLogProbs,
    Verdict,
    VerifierScorer,
    acalibrate,
    calibrate,
    create_causal_scorer,
)

if TYPE_CHECKING:
    from langmem_graph.causal.local_models import HuggingFaceModel, LlamaServer

__all__ = [
    "PMI_MIN",
    "CausalScorer",
    "ContrastScorer",
    "HuggingFaceModel",
    "LlamaServer",
    "NoScorer",
    "Pair",
    "PmiScorer",
    "ScorerName",
    "TokenLogProbs",
    "Verdict",
    "VerifierScorer",
    "acalibrate",
    "calibrate",
    "create_causal_scorer",
]


def __getattr__(name: str) -> Any:
    if name == "HuggingFaceModel":
        from langmem_graph.causal.local_models import HuggingFaceModel

        return HuggingFaceModel
    if name == "LlamaServer":
        from langmem_graph.causal.local_models import LlamaServer

        return LlamaServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
