"""Search for records: nearest vectors and best words, ranked by one weighted sum of
signals.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from langmem_graph.retrieval.ranking import (
    RECORD_WEIGHTS,
    TELLING,
    Ranking,
    Scores,
    Vector,
    as_scores,
    best_places,
    telling_words,
    weighted_sum,
)
from langmem_graph.retrieval.search_common import (
    RoomSearch,
    Sought,
    best_cosines,
    nearest,
    telling,
)
from langmem_graph.schemas import RecordHit
from langmem_graph.storage import record_queries, superseded_labels, vector_rows
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.superseded_labels import PAST
from langmem_graph.storage.tables import RECORDS
from langmem_graph.storage.words import TermCounts

_SHOWN = {
    *"record_id kind text message_ids facet subject attribute".split(),
    *"confirmation status metadata origin room author".split(),
}
MOST_PAST = 2_048  # records that no longer hold whose vectors are compared; ours


@dataclass(frozen=True)
class FoundRecords:
    """Records to be ranked, as parallel columns."""

    numbers: list[int]
    past: frozenset[int]
    dense: Scores
    words: Scores  # BM25
    date: Scores

    def ranked(self, best_words: float | None = None) -> "RankedRecords":
        """Score them; of several rooms the best BM25 score of all is given."""
        words = telling_words(self.words, best_words) ** TELLING
        signals = {"dense": self.dense, "words": words, "date": self.date}
        scores = weighted_sum(signals, RECORD_WEIGHTS)
        return RankedRecords(scores, signals, self.numbers, self.past)


@dataclass(frozen=True)
class RankedRecords(Ranking):
    """The ranking of records, which are known by their numbers."""

    numbers: list[int]
    past: frozenset[int] = frozenset()  # those that no longer hold

    def best_numbers(self, signal: str | None = None) -> list[int]:
        """Numbers of the records, best first; by one signal, only those that it
        found.
        """
        if signal is None or not self.numbers:
            return [self.numbers[place] for place in self.best()]
        values = self.signals[signal]
        return [
            self.numbers[place] for place in best_places(values) if values[place] > 0
        ]


def found_records(
    search: RoomSearch, connection: Reading, sought: Sought, newest: int | None = None
) -> FoundRecords:
    """Find the records that hold now, or held then; with a depth for them also past
    ones.

    `newest` is the number of the record that was stored last, where it is known.
    """
    vector = sought.vector
    newest = record_queries.newest_record(connection) if newest is None else newest
    if not newest:
        none = np.zeros(0)
        return FoundRecords([], frozenset(), none, none, none)
    allowed = record_queries.true_now(connection)
    if sought.then is not None:
        allowed = set(record_queries.numbers_true_at(connection, sought.then))
    if allowed is not None:
        allowed = connection.seen(RECORDS, allowed)
    terms, counted = telling(
        RECORD_WORDS, connection, sought.query, newest, search.record_terms
    )
    words = _by_words(connection, terms, sought.words, allowed, counted)
    near = near_records(search, connection, vector, sought.dense, allowed)
    told = search.said_on_days(connection, RECORDS, sought)
    candidates = {*words, *near, *told}
    active = (
        record_queries.active(connection, candidates) if allowed is None else allowed
    )
    past = _past(connection, terms, vector, sought.past, counted) if sought.past else {}
    found = connection.seen(RECORDS, candidates & active | past.keys())
    items = sorted(found)
    words = words | past
    facts = record_queries.facts_of(connection, items)
    return FoundRecords(
        items,
        frozenset(past),
        dense=search.scale(vector).of(_cosines(connection, items, vector)),
        words=as_scores([words.get(n, 0.0) for n in items]),
        date=sought.days.fit([facts[n].said_at for n in items]),
    )


def _by_words(
    connection: Reading,
    terms: Sequence[str],
    depth: int,
    allowed: set[int] | None,
    counted: TermCounts | None,
) -> dict[int, float]:
    if allowed is None:
        return dict(
            record_queries.words_search(connection, terms, depth, counted=counted)
        )
    every = RECORD_WORDS.search(connection, terms, counted=counted)
    return {n: score for n, score in every if n in allowed}


def _past(
    connection: Reading,
    terms: Sequence[str],
    vector: Vector | None,
    depth: int,
    counted: TermCounts | None,
) -> dict[int, float]:
    """Records that no longer hold, found by words or by vector, with their BM25 scores.

    Chroma has no vectors of these, so they are compared exactly: of very many, the
    newest.
    """
    newest = superseded_labels.newest_past(connection, MOST_PAST)
    if not newest:
        return {}
    near = list[int]()
    if vector is not None:
        near = nearest(
            [vector_rows.vectors_of(connection, newest, RECORDS)], vector, depth
        )
    words = dict(record_queries.words_search(connection, terms, depth, PAST, counted))
    found = {*near, *words}
    further = superseded_labels.standing(connection, found.difference(newest))
    return {n: words.get(n, 0.0) for n in found.intersection(newest) | further.past}


def near_records(
    search: RoomSearch,
    connection: Reading,
    vector: Vector | None,
    depth: int,
    allowed: set[int] | None = None,
) -> list[int]:
    """Records with the nearest vectors; where only some are allowed, all are compared
    exactly.
    """
    if vector is None:
        return []
    filtered = connection.where is not None
    if allowed is None and (
        filtered or record_queries.newest_record(connection) > depth
    ):
        return search.near(connection, RECORDS, vector, depth)
    exact = nearest(vector_rows.all_vectors(connection, RECORDS), vector, None)
    return [n for n in exact if allowed is None or n in allowed][:depth]


def _cosines(connection: Reading, items: list[int], vector: Vector | None) -> Scores:
    best: dict[int, float] = {}
    if vector is not None:
        best = best_cosines(
            [vector_rows.vectors_of(connection, items, RECORDS)], vector
        )
    return as_scores([max(0.0, best.get(n, 0.0)) for n in items])


def hits_of_records(
    connection: Reading, ranked: RankedRecords, k: int, explain: bool, *, labelled: bool
) -> list[list[RecordHit]]:
    """The `k` best chains, best first; each has the score of its best record."""
    chains = ranked_chains(connection, ranked, k)
    numbers = [n for chain in chains for n in chain]
    found = record_queries.records_by_number(connection, numbers)
    labels = superseded_labels.labels_of_records(
        connection, numbers if labelled else []
    )
    places = {n: place for place, n in enumerate(ranked.numbers)}
    return [
        [
            RecordHit(
                at=found[n].said_at,
                score=float(ranked.scores[places[chain[-1]]]),
                # the newest of a chain may not have been found itself
                signals=(ranked.signals_of(places[n]) if n in places else {})
                if explain
                else None,
                **found[n].model_dump(include=_SHOWN) | {"labels": labels.get(n, [])},
            )
            for n in chain
            if n in found
        ]
        for chain in chains
    ]


def ranked_chains(
    connection: Reading, ranked: RankedRecords, k: int, signal: str | None = None
) -> list[tuple[int, ...]]:
    """The numbers of the `k` best chains, best first; by one signal, only what that
    found.
    """
    numbers = ranked.best_numbers(signal)
    newest = superseded_labels.chains_of(connection, ranked.past) if ranked.past else {}
    return best_of_chains(numbers, newest, k)


def best_of_chains(
    best: Iterable[int], newest: Mapping[int, int], k: int
) -> list[tuple[int, ...]]:
    """The `k` best chains: of each its `newest` record, then the best one where that is
    another.
    """
    chains: dict[int, tuple[int, ...]] = {}
    for n in best:
        last = newest.get(n, n)
        if last not in chains:
            if len(chains) == k:
                break
            chains[last] = (last,) if last == n else (last, n)
    return list(chains.values())
