"""Ranking of messages and sessions: a weighted sum of signals, or a method without weights.

Messages have no recency signal: what matters may have been said long ago.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from langmem_graph.retrieval.record_search import RankedRecords
from langmem_graph.retrieval.search_common import (
    MESSAGE_WEIGHTS,
    SESSION_WEIGHTS,
    Ranking,
    Scores,
    Vector,
    as_scores,
    best_places,
    date_fit,
    reciprocal_rank_fusion,
    share_of_best,
    weighted_sum,
)
from langmem_graph.settings import Settings
from langmem_graph.storage.message_queries import Facts
from langmem_graph.storage.vector_rows import Centroids

SESSION_BEST = 3  # best cosines of a session that are averaged; 5 and 16 differ little
TOP_DENSE, TOP_WORDS, TOP_RECORDS, PROFILE = 3, 8, 3, 8
"""A session's averaged cosines, BM25 and record scores, and the sessions in the profile signal."""
NOT_FOUND = -np.inf  # score of a candidate that a method with one signal did not find; it is no hit


@dataclass(frozen=True)
class Candidates:
    """Messages to be ranked, as parallel columns."""

    query: str
    vector: Vector | None
    facts: list[Facts]
    sessions: NDArray[np.int64]  # each message's session, by number
    dense: Scores  # cosine of the best piece; 0 where there is no vector
    words: Scores  # BM25, higher is better; 0 where the word search did not find the message
    spans: NDArray[np.int64]  # start and end of the best piece; 0, 0 where there is no vector
    records: Scores  # score of the best record that cites the message; 0 where none does
    ranked_records: RankedRecords  # the records that were ranked for the query


def rank_messages(found: Candidates, settings: Settings) -> Ranking:
    """Score the candidates by the settings' method."""
    method = settings.ranking.method
    if method == "hybrid":
        signals = _message_signals(found)
        return Ranking(weighted_sum(signals, MESSAGE_WEIGHTS), signals)
    signals = {"dense": found.dense, "words": found.words}
    if method == "rrf":
        return Ranking(reciprocal_rank_fusion(signals.values(), settings.ranking.rrf_k), signals)
    return Ranking(np.where(signals[method] != 0, signals[method], NOT_FOUND), signals)


def _message_signals(found: Candidates) -> dict[str, Scores]:
    words = share_of_best(found.words)
    _, session_of = np.unique(found.sessions, return_inverse=True)
    sums, counts = _sums_of_best(found.dense, session_of, SESSION_BEST)
    return {
        "dense": found.dense,
        "words": words,
        "records": found.records,
        "session": (sums / counts)[session_of],
        "session_words": _best_of_others(words, session_of),
        "speaker": _speaker_named(found),
        "date": date_fit(found.query, [fact.at for fact in found.facts]),
        "length": np.log1p([fact.chars for fact in found.facts]),
        "question": as_scores(fact.is_question for fact in found.facts),
    }


def _best_of_others(values: Scores, session_of: NDArray[np.int64]) -> Scores:
    """Mean of the three best values among the other candidates of the same session."""
    three, _ = _sums_of_best(values, session_of, SESSION_BEST)
    four, counts = _sums_of_best(values, session_of, SESSION_BEST + 1)
    own = np.maximum(values, (four - three)[session_of])  # or the fourth best, which is not needed
    return np.asarray((four[session_of] - own) / np.maximum(counts - 1, 1)[session_of])


def _speaker_named(found: Candidates) -> Scores:
    """1 where the query names the message's speaker."""
    names = {fact.name for fact in found.facts if fact.name}
    named = {n for n in names if re.search(rf"\b{re.escape(n)}\b", found.query, re.IGNORECASE)}
    return as_scores(fact.name in named for fact in found.facts)


def rank_sessions(
    found: Candidates, messages: Ranking, centroids: Centroids, settings: Settings
) -> tuple[Ranking, list[int]]:
    """Score the sessions of the candidate messages.

    Returns:
        Scores and signals spread over the candidate messages, and the places of the sessions'
        best messages, the best session first.
    """
    numbers, session_of = np.unique(found.sessions, return_inverse=True)
    method = settings.ranking.method
    if method == "hybrid":
        signals = _session_signals(found, numbers, session_of, centroids)
        weights = SESSION_WEIGHTS | {"age": settings.ranking.session_age_weight}
        scores = weighted_sum(signals, weights)
    else:
        columns = {"dense": found.dense, "words": found.words}
        signals = {name: _best(values, session_of, 1) for name, values in columns.items()}
        fused = reciprocal_rank_fusion(signals.values(), settings.ranking.rrf_k)
        scores = fused if method == "rrf" else signals[method]
    spread = {name: values[session_of] for name, values in signals.items()}
    best_of: dict[int, int] = {}  # by session: the place of its best message
    for place in messages.best():
        best_of.setdefault(int(session_of[place]), place)
    return Ranking(scores[session_of], spread), [best_of[n] for n in best_places(scores)]


def _session_signals(
    found: Candidates,
    numbers: NDArray[np.int64],
    session_of: NDArray[np.int64],
    centroids: Centroids,
) -> dict[str, Scores]:
    dense = _best(found.dense, session_of, TOP_DENSE, missing=float(found.dense.min(initial=0.0)))
    words = share_of_best(_best(found.words, session_of, TOP_WORDS))
    unit = _unit_centroids(numbers, centroids)
    first_pass = _standard(dense) + _standard(words)
    if found.vector is not None and unit.size:
        first_pass += _standard(np.asarray(unit @ found.vector, dtype=np.float64))
    ages = centroids.ages
    if ages is None:
        ages = len(centroids.every) - np.searchsorted(centroids.every, numbers)
    return {
        "dense": dense,
        "words": words,
        "records": share_of_best(_best(found.records, session_of, TOP_RECORDS)),
        "profile": _likeness_to_best(first_pass, unit),
        "age": np.log(np.maximum(ages, 1)),
    }


def _best(values: Scores, session_of: NDArray[np.int64], top: int, missing: float = 0.0) -> Scores:
    """Mean of each session's `top` greatest values; `missing` stands for those that it lacks."""
    sums, counts = _sums_of_best(values, session_of, top)
    return np.asarray((sums + missing * (top - counts)) / top)


def _sums_of_best(
    values: Scores, session_of: NDArray[np.int64], top: int
) -> tuple[Scores, NDArray[np.int64]]:
    """Sum of each session's `top` greatest values, and how many it has of them."""
    order = np.lexsort((-values, session_of))
    sessions = session_of[order]
    best = np.arange(len(order)) - np.searchsorted(sessions, sessions) < top
    sums = np.bincount(sessions[best], values[order][best]).astype(np.float64)
    return sums, np.bincount(sessions[best])


def _unit_centroids(numbers: NDArray[np.int64], centroids: Centroids) -> NDArray[np.float32]:
    """Centroids of the sessions at unit length; zeros for a session without vectors."""
    unit = np.zeros((len(numbers), centroids.matrix.shape[1]), dtype=np.float32)
    has = np.isin(numbers, centroids.sessions)
    unit[has] = centroids.matrix[np.searchsorted(centroids.sessions, numbers[has])]
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    return np.asarray(unit / np.maximum(lengths, 1e-9), dtype=np.float32)


def _likeness_to_best(first_pass: Scores, unit: NDArray[np.float32]) -> Scores:
    """Likeness to the mean of the best sessions, each weighted by its lead over the next best."""
    order = np.argsort(-first_pass, kind="stable")
    best = order[:PROFILE]
    last = first_pass[order[min(PROFILE, len(order) - 1)]] if len(order) else 0.0
    lead = first_pass[best] - last
    if lead.sum() <= 0:
        return np.zeros(len(first_pass))
    profile = (lead / lead.sum()) @ unit[best]
    return np.asarray(unit @ profile, dtype=np.float64)


def _standard(values: Scores) -> Scores:
    return (values - values.mean()) / (values.std() + 1e-9) if len(values) else values
