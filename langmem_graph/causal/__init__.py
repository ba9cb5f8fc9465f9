"""Scores for possible causal edges between records (ActMem 1.2, step 6); see
docs/causal.md.

Examples:
    ```python
    scorer = create_causal_scorer(lm=LlamaServer("http://127.0.0.1:8080"))
    enough = calibrate(scorer, texts_of_this_users_records)
    edges = [pair for pair, score in zip(pairs, scorer.score(pairs)) if score > enough]
    ```
"""

from langmem_graph.causal.local_models import LlamaServer
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

__all__ = [
    "PMI_MIN",
    "CausalScorer",
    "ContrastScorer",
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
