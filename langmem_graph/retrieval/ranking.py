"""Scores: weights, weighted sums and rank fusion, and the ranking of messages and
sessions.

Messages have no recency signal: what matters may have been said long ago.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from langmem_graph.embeddings.cosine_scale import CosineScale
from langmem_graph.ids_and_times import in_zone, to_utc
from langmem_graph.moments.fitting import Asked, asked_days, best_fit
from langmem_graph.moments.moment import Days
from langmem_graph.settings import Settings
from langmem_graph.storage.message_queries import Facts
from langmem_graph.storage.vector_rows import Centroids

if TYPE_CHECKING:
    from langmem_graph.retrieval.record_search import RankedRecords

Scores = NDArray[np.float64]
Vector = NDArray[np.float32]
MESSAGE_WEIGHTS = {
    "dense": 1.0,  # cosine of the best piece
    "words": 2.75,  # BM25, for what it tells apart; see `telling_words`
    "records": 0.25,  # score of the best record that cites it
    "turn": 1.0,  # cosine of the reply to it, or of the message that it replies to
    "session": 1.3,  # mean of the session's three best cosines
    "date": 1.0,  # how well the message's day fits a date named in the query
    "length": 0.1,  # log of the characters, up to 100: "Yes!" rarely is the answer
    "question": -0.2,  # a short question rarely holds the answer
    # the user said it and the assistant's words are asked for, or the other way round
    "other_speaker": -0.4,
}
RECORD_WEIGHTS = {"dense": 1.0, "words": 2.75, "date": 1.0}
TOLD_APART = 20
"""How many of the next best messages tell whether a query's words tell anything."""
TELLING = 1.6
"""The power that holds back what some words of the query are in."""
WHOLE_CHARS, QUESTION_CHARS = 100, 140
"""A message of so many characters is no mere "Yes!"; a longer question tells something
besides.
"""
TURN = 4
"""Messages from the user's to the reply at most: calls of tools may lie between."""
SESSION_WEIGHTS = {
    "dense": 1.0,  # mean of the session's three best cosines
    # mean of its eight best BM25 scores, as a share of the best session's
    "words": 0.25,
    # mean of its messages' three best, as a share of the best session's
    "records": 0.5,
    "profile": 1.0,  # likeness to the best sessions of a first pass
    # log of how many sessions ago it began; see Settings.ranking.session_age_weight
    "age": -0.15,
}
SESSION_BEST = 3  # best cosines of a session that are averaged; 5 and 16 differ little
TOP_DENSE, TOP_WORDS, TOP_RECORDS, PROFILE = 3, 8, 3, 8
"""A session's averaged cosines, BM25 and record scores, and the sessions in the profile
signal.
"""
MOST_SPANS = 100  # days of a query whose messages are looked up; ours
# score of a candidate that a method with one signal did not find; it is no hit
NOT_FOUND = -np.inf


@dataclass(frozen=True)
class Ranking:
    """Scores of the candidates, and the signals that the scores were made of."""

    scores: Scores
    signals: dict[str, Scores]

    def signals_of(self, place: int) -> dict[str, float]:
        """Each signal's value for one candidate."""
        return {name: float(values[place]) for name, values in self.signals.items()}

    def best(self) -> list[int]:
        """The candidates' places, best first."""
        return best_places(self.scores)


@dataclass(frozen=True)
class QueryDays:
    """The days that a query names."""

    named: tuple[Asked, ...]
    zone: tzinfo = UTC  # of the user's clock

    @classmethod
    def of(cls, query: str, asked: datetime | None = None) -> "QueryDays":
        """Read a query.

        Args:
            query: "What did I do on May 7?", "last Friday".
            asked: when it is asked, on the user's clock; without it only dates count,
                and no "yesterday".
        """
        named = asked_days(query, asked.date() if asked else None)
        return cls(tuple(named), (asked.tzinfo if asked else None) or UTC)

    def spans(self, years: Iterable[int]) -> list[tuple[datetime, datetime]]:
        """Begin and end of the times that are meant, in naive UTC, the newest first; of
        dates without a year those of each of these.

        A whole year says too little of when something was said.
        """
        meant = set[Days]()
        for asked in self.named:
            if asked.grain != "year":
                meant |= asked.spans(years)
        newest = sorted(meant, reverse=True)[:MOST_SPANS]
        return [(self._start(days.first), self._start(days.last, 1)) for days in newest]

    def _start(self, day: date, later: int = 0) -> datetime:
        """When a day begins on the user's clock, or one that is so many days later."""
        try:
            begin = datetime.combine(day + timedelta(days=later), time.min, self.zone)
            return begin.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:  # on the first or the last day that there is
            return datetime.max if later else datetime.min

    def fit(self, times: Sequence[datetime]) -> Scores:
        """How well each time fits the best of the days; zeros where there is none."""
        if not self.named:
            return np.zeros(len(times))
        days = [in_zone(to_utc(time), self.zone).date() for time in times]
        fits = {day: best_fit(self.named, day) for day in set(days)}
        return as_scores([fits[day] for day in days])


@dataclass(frozen=True)
class Candidates:
    """Messages to be ranked, as parallel columns."""

    query: str
    vector: Vector | None
    facts: list[Facts]
    sessions: NDArray[np.int64]  # each message's session, by number
    dense: Scores  # cosine of the best piece; 0 where there is no vector
    # BM25, higher is better; 0 where the word search did not find the message
    words: Scores
    scale: CosineScale  # of the embedder
    # start and end of the best piece; 0, 0 where there is no vector
    spans: NDArray[np.int64]
    # score of the best record that cites the message; 0 where none does
    records: Scores
    ranked_records: "RankedRecords"  # the records that were ranked for the query
    days: QueryDays

    @property
    def likeness(self) -> Scores:
        """The cosines on the scale that all embedders have in common."""
        return self.scale.of(self.dense)


def rank_messages(found: Candidates, settings: Settings) -> Ranking:
    """Score the candidates by the settings' method."""
    method = settings.ranking.method
    if method == "hybrid":
        signals = _message_signals(found)
        return Ranking(weighted_sum(signals, MESSAGE_WEIGHTS), signals)
    signals = {"dense": found.dense, "words": found.words}
    if method == "rrf":
        return Ranking(
            reciprocal_rank_fusion(signals.values(), settings.ranking.rrf_k), signals
        )
    return Ranking(np.where(signals[method] != 0, signals[method], NOT_FOUND), signals)


def _message_signals(found: Candidates) -> dict[str, Scores]:
    dense = found.likeness
    chars = as_scores([fact.chars for fact in found.facts])
    questions = as_scores([fact.is_question for fact in found.facts])
    _, session_of = np.unique(found.sessions, return_inverse=True)
    sums, counts = _sums_of_best(dense, session_of, SESSION_BEST)
    return {
        "dense": dense,
        "words": telling_words(found.words) ** TELLING,
        "records": found.records,
        "turn": _of_the_turn(found, dense),
        "session": (sums / counts)[session_of],
        "date": found.days.fit([fact.at for fact in found.facts]),
        "length": np.log1p(np.minimum(chars, WHOLE_CHARS)),
        "question": questions * (chars < QUESTION_CHARS),
        "other_speaker": _said_by_the_other(found),
    }


def telling_words(words: Scores, best: float | None = None) -> Scores:
    """BM25 scores as shares of the best one, times how much the query's words tell
    apart.

    A rare name is in a few messages: the next best ones have small shares, and words
    count in full. Where a whole talk shares the query's words, they tell nothing.

    Args:
        words: BM25 of each candidate; 0 where the word search did not find it.
        best: the best score of all rooms, where these are the scores of one.
    """
    shares = share_of_best(words, best)
    next_best = np.sort(shares)[::-1][1 : 1 + TOLD_APART]
    told_apart = 1.0 - next_best.mean() if len(next_best) else 1.0
    return np.asarray(shares * told_apart)


def _of_the_turn(found: Candidates, likeness: Scores) -> Scores:
    """The likeness of the other message of the same turn, if it is a candidate; else 0.

    What a user says briefly is often clear by the reply alone, and the other way round.
    """
    numbers = np.array([fact.n for fact in found.facts], dtype=np.int64)
    of_user = np.array([fact.role == "user" for fact in found.facts], dtype=bool)
    order = np.lexsort((numbers, found.sessions))
    first = order[:-1]
    second = order[1:]
    is_turn = (
        (found.sessions[first] == found.sessions[second])
        & (numbers[second] - numbers[first] <= TURN)
        & of_user[first]
        & ~of_user[second]
    )
    asked = first[is_turn]
    reply = second[is_turn]
    others = np.zeros(len(numbers))
    others[asked], others[reply] = likeness[reply], likeness[asked]
    return others


_ASKS_ASSISTANT = re.compile(
    r"\bdid you\b"
    r"|\byou(?:'d| had)? (?:\w+ly )?(?!need\b)"
    r"(?:\w+ed|said|told|gave|wrote|showed|made|meant|came|put|thought|chose)\b"
    r"|\byour (?:recommendation|suggestion|advice|answer|explanation|list|example"
    r"|table|code|reply|estimate|proposal|version|draft|outline|plan)s?\b",
    re.IGNORECASE,
)
"""What asks in English for the assistant's own words: "Which one did you suggest?"."""


def _said_by_the_other(found: Candidates) -> Scores:
    """1 for an assistant without a name, or where its words are asked for, for all
    others.
    """
    by_assistant = as_scores(
        [fact.role == "assistant" and not fact.name for fact in found.facts]
    )
    return 1 - by_assistant if _ASKS_ASSISTANT.search(found.query) else by_assistant


def rank_sessions(
    found: Candidates, messages: Ranking, centroids: Centroids, settings: Settings
) -> tuple[Ranking, list[int]]:
    """Score the sessions of the candidate messages.

    Returns:
        Scores and signals spread over the candidate messages, and the places of the
        sessions' best messages, the best session first.
    """
    numbers, session_of = np.unique(found.sessions, return_inverse=True)
    method = settings.ranking.method
    if method == "hybrid":
        signals = _session_signals(found, numbers, session_of, centroids)
        weights = SESSION_WEIGHTS | {"age": settings.ranking.session_age_weight}
        scores = weighted_sum(signals, weights)
    else:
        columns = {"dense": found.dense, "words": found.words}
        signals = {
            name: _best(values, session_of, 1) for name, values in columns.items()
        }
        fused = reciprocal_rank_fusion(signals.values(), settings.ranking.rrf_k)
        scores = fused if method == "rrf" else signals[method]
    spread = {name: values[session_of] for name, values in signals.items()}
    best_of: dict[int, int] = {}  # by session: the place of its best message
    for place in messages.best():
        best_of.setdefault(int(session_of[place]), place)
    return Ranking(scores[session_of], spread), [
        best_of[n] for n in best_places(scores)
    ]


def _session_signals(
    found: Candidates,
    numbers: NDArray[np.int64],
    session_of: NDArray[np.int64],
    centroids: Centroids,
) -> dict[str, Scores]:
    likeness = found.likeness
    least = float(likeness.min(initial=0.0))
    dense = _best(likeness, session_of, TOP_DENSE, missing=least)
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


def _best(
    values: Scores, session_of: NDArray[np.int64], top: int, missing: float = 0.0
) -> Scores:
    """Mean of each session's `top` greatest values; `missing` stands for those that it
    lacks.
    """
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


def _unit_centroids(
    numbers: NDArray[np.int64], centroids: Centroids
) -> NDArray[np.float32]:
    """Centroids of the sessions at unit length; zeros for a session without vectors."""
    unit = np.zeros((len(numbers), centroids.matrix.shape[1]), dtype=np.float32)
    has = np.isin(numbers, centroids.sessions)
    unit[has] = centroids.matrix[np.searchsorted(centroids.sessions, numbers[has])]
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    return np.asarray(unit / np.maximum(lengths, 1e-9), dtype=np.float32)


def _likeness_to_best(first_pass: Scores, unit: NDArray[np.float32]) -> Scores:
    """Likeness to the mean of the best sessions, each weighted by its lead over the
    next best.
    """
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


def as_scores(values: Sequence[float]) -> Scores:
    """The values as one array."""
    return np.array(values, dtype=np.float64)


def best_places(values: Scores) -> list[int]:
    """The places of the values, the greatest first."""
    places: list[int] = np.argsort(-values, kind="stable").tolist()
    return places


def reciprocal_rank_fusion(signals: Iterable[Scores], k: int) -> Scores:
    """Sum of `1 / (k + rank)` over the signals; ranks count from 1.

    A score of 0 means that the signal did not find the item; it then adds nothing.
    """
    shares = []
    for signal in signals:
        ranks = 1 + np.argsort(best_places(signal))
        shares.append(np.where(signal > 0, 1.0 / (k + ranks), 0.0))
    return np.sum(shares, axis=0)  # type: ignore[no-any-return]


def weighted_sum(signals: dict[str, Scores], weights: dict[str, float]) -> Scores:
    """The weighted sum of several signals."""
    return np.sum([weights[name] * values for name, values in signals.items()], axis=0)  # type: ignore[no-any-return]


def share_of_best(values: Scores, best: float | None = None) -> Scores:
    """The values divided by the greatest of them, or by a greater one; zeros stay
    zeros.
    """
    return values / max(float(values.max(initial=0.0)) if best is None else best, 1e-9)
