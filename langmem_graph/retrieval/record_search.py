"""Search for records: nearest vectors and best words, ranked by one weighted sum of signals."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import Connection

from langmem_graph.messages import to_utc
from langmem_graph.retrieval.search_common import (
    RECORD_WEIGHTS,
    Depths,
    Scores,
    SearchNotes,
    Vector,
    best_cosines,
    check_query,
    near_items,
    nearest,
    query_vector,
    share_of_best,
    weighted_sum,
)
from langmem_graph.schedule.time_phrases import day_fit, named_days
from langmem_graph.schemas import Record, RecordHit
from langmem_graph.storage import record_queries, vector_rows
from langmem_graph.storage.full_text import RECORD_WORDS, query_terms, telling_terms
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.tables_and_migrations import RECORDS
from langmem_graph.storage.user_room import Room


@dataclass(frozen=True)
class RankedRecords:
    """Records by number, with their scores and the signals that the scores were made of."""

    numbers: list[int]
    scores: Scores
    signals: dict[str, Scores]

    def best(self, k: int) -> list[int]:
        """Places of the best records, best first."""
        return _places(self.scores, k)

    def best_numbers(self, k: int, signal: str | None = None) -> list[int]:
        """Numbers of the best records, best first; by one signal, only those that it found."""
        if signal is None:
            return [self.numbers[place] for place in self.best(k)]
        values = self.signals.get(signal, self.scores)
        return [self.numbers[place] for place in _places(values, k) if values[place] > 0]


def _places(values: Scores, k: int) -> list[int]:
    order: list[int] = np.argsort(-values, kind="stable")[:k].tolist()
    return order


def rank_records(
    room: Room,
    connection: Connection,
    query: str,
    vector: Vector | None,
    depths: Depths,
    notes: SearchNotes,
    as_of: datetime | None = None,
) -> RankedRecords:
    """Score the records that may matter for a query.

    Args:
        room: the user's room.
        connection: a read transaction.
        query: the query's words.
        vector: the query's vector; None where the embedder fails.
        depths: number of candidates from each list.
        notes: takes the parts that fail.
        as_of: rank the records that were true then (naive UTC); None is now.
    """
    if not record_queries.newest_record(connection):
        return RankedRecords([], np.zeros(0), {})
    allowed = record_queries.true_now(connection)
    if as_of is not None:
        allowed = set(record_queries.numbers_true_at(connection, as_of))
    words = _by_words(connection, query, depths.words, allowed)
    near = near_records(room, connection, vector, depths.dense, notes, allowed)
    candidates = {*words, *near}
    active = record_queries.active(connection, candidates) if allowed is None else allowed
    items = sorted(candidates & active)
    facts = record_queries.facts_of(connection, items)
    named = named_days(query)
    signals = {
        "dense": _cosines(connection, items, vector),
        "words": share_of_best(np.array([words.get(n, 0.0) for n in items], dtype=np.float64)),
        "date": np.array(
            [day_fit(named, facts[n].said_at.date()) for n in items], dtype=np.float64
        ),
    }
    return RankedRecords(items, weighted_sum(signals, RECORD_WEIGHTS), signals)


def _by_words(
    connection: Connection, query: str, depth: int, allowed: set[int] | None
) -> dict[int, float]:
    terms = query_terms(query)
    counts = RECORD_WORDS.counts(connection, terms)
    chosen = telling_terms(counts, record_queries.newest_record(connection))
    if not chosen:
        return {}
    if allowed is None:
        return dict(record_queries.words_search(connection, chosen, depth))
    every = record_queries.words_search_any(connection, chosen)
    return {n: score for n, score in every.items() if n in allowed}


def near_records(
    room: Room,
    connection: Connection,
    vector: Vector | None,
    depth: int,
    notes: SearchNotes,
    allowed: set[int] | None = None,
) -> list[int]:
    """Records with the nearest vectors; where only some are allowed, all are compared exactly."""
    if vector is None:
        return []
    if allowed is None and record_queries.newest_record(connection) > depth:
        return near_items(room, connection, RECORDS, vector, depth, notes)
    exact = nearest(vector_rows.all_vectors(connection, RECORDS), vector, None)
    return [n for n in exact if allowed is None or n in allowed][:depth]


def _cosines(connection: Connection, items: list[int], vector: Vector | None) -> Scores:
    best: dict[int, float] = {}
    if vector is not None:
        best = best_cosines([vector_rows.vectors_of(connection, items, RECORDS)], vector)
    return np.array([max(0.0, best.get(n, 0.0)) for n in items], dtype=np.float64)


def search_records(
    services: Services, user_id: str, query: str, k: int, as_of: object, explain: bool
) -> list[RecordHit]:
    """The best records for a query, best first.

    Raises:
        InvalidInputError: the query or the number cannot be used.
    """
    check_query(query, k)
    then = naive(to_utc(as_of)) if as_of is not None else None
    if not services.has(user_id):
        return []
    depths, notes = Depths.of(services.settings, k), SearchNotes()
    with services.room(user_id) as room:
        vector = query_vector(room, services.embedder, query, notes)
        with room.database.read_transaction() as connection:
            ranked = rank_records(room, connection, query, vector, depths, notes, then)
            best = ranked.best(k)
            found = record_queries.records_by_number(connection, [ranked.numbers[p] for p in best])
    return [_hit(found[ranked.numbers[p]], ranked, p, explain) for p in best]


def _hit(record: Record, ranked: RankedRecords, place: int, explain: bool) -> RecordHit:
    signals = {name: float(values[place]) for name, values in ranked.signals.items()}
    return RecordHit(
        at=record.said_at,
        score=float(ranked.scores[place]),
        signals=signals if explain else None,
        **record.model_dump(
            include={
                *("record_id", "kind", "text", "message_ids", "facet", "subject"),
                *("attribute", "confirmation", "status"),
            }
        ),
    )
