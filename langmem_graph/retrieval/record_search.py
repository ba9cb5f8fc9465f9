"""Search for records: nearest vectors and best words, ranked by one weighted sum of signals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import Connection

from langmem_graph.filters import Where, parsed
from langmem_graph.messages import to_utc
from langmem_graph.retrieval.search_common import (
    RECORD_WEIGHTS,
    Depths,
    Ranking,
    Scores,
    UserSearch,
    Vector,
    as_scores,
    best_cosines,
    best_places,
    check_query,
    date_fit,
    nearest,
    share_of_best,
    weighted_sum,
)
from langmem_graph.schemas import RecordHit
from langmem_graph.storage import record_queries, superseded_labels, vector_rows
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.superseded_labels import PAST
from langmem_graph.storage.tables_and_migrations import RECORDS
from langmem_graph.storage.where_conditions import numbers_within, passing
from langmem_graph.storage.words import query_terms, telling_terms

_SHOWN = set(
    "record_id kind text message_ids facet subject attribute confirmation status metadata".split()
) | {"origin"}
MOST_PAST = 2_048  # records that no longer hold whose vectors are compared; ours


@dataclass(frozen=True)
class RankedRecords(Ranking):
    """The ranking of records, which are known by their numbers."""

    numbers: list[int]
    past: frozenset[int] = frozenset()  # those that no longer hold

    def best_numbers(self, signal: str | None = None) -> list[int]:
        """Numbers of the records, best first; by one signal, only those that it found."""
        if signal is None or not self.numbers:
            return [self.numbers[place] for place in self.best()]
        values = self.signals[signal]
        return [self.numbers[place] for place in best_places(values) if values[place] > 0]


def rank_records(
    search: UserSearch,
    connection: Connection,
    query: str,
    vector: Vector | None,
    depths: Depths,
    as_of: datetime | None = None,
) -> RankedRecords:
    """Score the records for a query that hold now, or held at a time (`as_of`, naive UTC)."""
    if not record_queries.newest_record(connection):
        return RankedRecords(np.zeros(0), {}, [])
    allowed = record_queries.true_now(connection)
    if as_of is not None:
        allowed = set(record_queries.numbers_true_at(connection, as_of))
    if allowed is not None:
        allowed = passing(connection, RECORDS, allowed)
    counts = RECORD_WORDS.counts(connection, query_terms(query))
    terms = telling_terms(counts, record_queries.newest_record(connection))
    words = _by_words(connection, terms, depths.words, allowed)
    near = near_records(search, connection, vector, depths.dense, allowed)
    candidates = {*words, *near}
    active = record_queries.active(connection, candidates) if allowed is None else allowed
    past = _past(connection, terms, vector, depths.past) if depths.past else {}
    found = passing(connection, RECORDS, candidates & active | past.keys())
    items, words = sorted(found), words | past
    facts = record_queries.facts_of(connection, items)
    signals = {
        "dense": _cosines(connection, items, vector),
        "words": share_of_best(as_scores(words.get(n, 0.0) for n in items)),
        "date": date_fit(query, [facts[n].said_at for n in items]),
    }
    return RankedRecords(weighted_sum(signals, RECORD_WEIGHTS), signals, items, frozenset(past))


def _by_words(
    connection: Connection, terms: Sequence[str], depth: int, allowed: set[int] | None
) -> dict[int, float]:
    if allowed is None:
        return dict(record_queries.words_search(connection, terms, depth))
    every = RECORD_WORDS.search(connection, terms)
    return {n: score for n, score in every if n in allowed}


def _past(
    connection: Connection, terms: Sequence[str], vector: Vector | None, depth: int
) -> dict[int, float]:
    """Records that no longer hold, found by words or by vector, with their BM25 scores.

    Chroma has no vectors of these, so they are compared exactly: of very many, the newest.
    """
    newest = superseded_labels.newest_past(connection, MOST_PAST)
    if not newest:
        return {}
    near = list[int]()
    if vector is not None:
        near = nearest([vector_rows.vectors_of(connection, newest, RECORDS)], vector, depth)
    words = dict(record_queries.words_search(connection, terms, depth, PAST))
    found = {*near, *words}
    further = superseded_labels.standing(connection, found.difference(newest))
    return {n: words.get(n, 0.0) for n in found.intersection(newest) | further.past}


def near_records(
    search: UserSearch,
    connection: Connection,
    vector: Vector | None,
    depth: int,
    allowed: set[int] | None = None,
) -> list[int]:
    """Records with the nearest vectors; where only some are allowed, all are compared exactly."""
    if vector is None:
        return []
    filtered = numbers_within(connection, RECORDS) is not None
    if allowed is None and (filtered or record_queries.newest_record(connection) > depth):
        return search.near(connection, RECORDS, vector, depth)
    exact = nearest(vector_rows.all_vectors(connection, RECORDS), vector, None)
    return [n for n in exact if allowed is None or n in allowed][:depth]


def _cosines(connection: Connection, items: list[int], vector: Vector | None) -> Scores:
    best: dict[int, float] = {}
    if vector is not None:
        best = best_cosines([vector_rows.vectors_of(connection, items, RECORDS)], vector)
    return as_scores(max(0.0, best.get(n, 0.0)) for n in items)


def search_records(
    services: Services,
    user_id: str,
    query: str,
    k: int,
    as_of: object,
    explain: bool,
    where: Where | None = None,
) -> list[RecordHit]:
    """The best records for a query, best first; what no longer holds is labelled.

    Each has the score of the best record of its chain.
    """
    check_query(query, k)
    then = naive(to_utc(as_of)) if as_of is not None else None
    with services.within(parsed(where)).known_room(user_id) as room:
        if room is None:
            return []
        search = UserSearch.of(services, room)
        vector, depths = search.vector(query), search.depths(k, past=then is None)
        with room.database.read_transaction() as connection:
            ranked = rank_records(search, connection, query, vector, depths, then)
            chains = ranked_chains(connection, ranked, k)
            numbers = [n for chain in chains for n in chain]
            found = record_queries.records_by_number(connection, numbers)
            labelled = superseded_labels.labels_of_records(connection, [] if then else numbers)
    places = {n: place for place, n in enumerate(ranked.numbers)}
    return [
        RecordHit(
            at=found[n].said_at,
            score=float(ranked.scores[places[chain[-1]]]),
            # the newest of a chain may not have been found itself
            signals=(ranked.signals_of(places[n]) if n in places else {}) if explain else None,
            labels=labelled.get(n, []),
            **found[n].model_dump(include=_SHOWN),
        )
        for chain in chains
        for n in chain
    ]


def ranked_chains(
    connection: Connection, ranked: RankedRecords, k: int, signal: str | None = None
) -> list[tuple[int, ...]]:
    """The numbers of the `k` best chains, best first; by one signal, only what that found."""
    numbers = ranked.best_numbers(signal)
    newest = superseded_labels.chains_of(connection, ranked.past) if ranked.past else {}
    return best_of_chains(numbers, newest, k)


def best_of_chains(best: Iterable[int], newest: Mapping[int, int], k: int) -> list[tuple[int, ...]]:
    """The `k` best chains: of each its `newest` record, then the best one where that is another."""
    chains: dict[int, tuple[int, ...]] = {}
    for n in best:
        last = newest.get(n, n)
        if last not in chains:
            if len(chains) == k:
                break
            chains[last] = (last,) if last == n else (last, n)
    return list(chains.values())
