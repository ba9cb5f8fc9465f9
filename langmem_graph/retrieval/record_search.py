"""Ranks records the way messages are ranked: nearest vectors and best words, one weighted sum."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.messages import to_utc
from langmem_graph.retrieval.search_common import (
    RECORD_WEIGHTS,
    Depths,
    Scores,
    SearchNotes,
    check_query,
    nearest,
    query_vector,
    share_of_best,
    weighted_sum,
)
from langmem_graph.schedule.parsing import day_fit, named_days
from langmem_graph.schemas import Record, RecordHit
from langmem_graph.storage import record_queries, stored_vectors
from langmem_graph.storage.full_text import RECORD_WORDS, query_terms, telling_terms
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.room import Room
from langmem_graph.storage.services import Services
from langmem_graph.storage.tables import RECORDS


@dataclass(frozen=True)
class RankedRecords:
    """Records by number with their scores and the signals these were made of."""

    numbers: list[int]
    scores: Scores
    signals: dict[str, Scores]

    def best(self, k: int) -> list[int]:
        """Places of the best, best first."""
        order: list[int] = np.argsort(-self.scores, kind="stable")[:k].tolist()
        return order

    def best_numbers(self, k: int, signal: str | None = None) -> list[int]:
        """Numbers of the best, best first; by one signal alone, those that it found."""
        if signal is None:
            return [self.numbers[place] for place in self.best(k)]
        values = self.signals.get(signal, self.scores)
        order: list[int] = np.argsort(-values, kind="stable")[:k].tolist()
        return [self.numbers[place] for place in order if values[place] > 0]


def rank_records(
    room: Room,
    connection: Connection,
    query: str,
    vector: NDArray[np.float32] | None,
    depths: Depths,
    notes: SearchNotes,
    as_of: datetime | None = None,
) -> RankedRecords:
    """Score the records that may matter for a query.

    Args:
        room: whose.
        connection: a read transaction.
        query: the words.
        vector: their vector; None where the embedder is away.
        depths: how many of each list.
        notes: takes what fails.
        as_of: read what was true then (naive UTC); None is what is true now.
    """
    if not record_queries.newest_record(connection):
        return RankedRecords([], np.zeros(0), {})
    allowed = record_queries.true_now(connection)
    if as_of is not None:
        allowed = set(record_queries.numbers_true_at(connection, as_of))
    words = _by_words(connection, query, depths.words, allowed)
    near = near_records(room, connection, vector, depths.dense, notes, allowed)
    items = sorted((set(words) | set(near)) & _meant(connection, set(words) | set(near), allowed))
    facts = record_queries.facts_of(connection, items)
    named = named_days(query)
    signals = {
        "dense": _exact(connection, items, vector),
        "words": share_of_best(np.array([words.get(n, 0.0) for n in items], dtype=np.float64)),
        "date": np.array(
            [day_fit(named, facts[n].said_at.date()) for n in items], dtype=np.float64
        ),
    }
    return RankedRecords(items, weighted_sum(signals, RECORD_WEIGHTS), signals)


def _meant(connection: Connection, items: set[int], allowed: set[int] | None) -> set[int]:
    return record_queries.active(connection, items) if allowed is None else allowed


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
    vector: NDArray[np.float32] | None,
    depth: int,
    notes: SearchNotes,
    allowed: set[int] | None = None,
) -> list[int]:
    """Chroma's nearest and those it does not have yet; as of a date, all compared one by one."""
    if vector is None:
        return []
    small = record_queries.newest_record(connection) <= depth
    if allowed is not None or room.read_only or small:
        everything: Iterable[stored_vectors.VectorRows] = stored_vectors.all_vectors(
            connection, RECORDS
        )
        return [n for n in nearest(everything, vector, None) if allowed is None or n in allowed][
            :depth
        ]
    try:
        found = room.index.query(RECORDS, vector, depth)
    except IndexUnavailableError as error:
        notes.warn(error)
        return nearest(stored_vectors.all_vectors(connection, RECORDS), vector, depth)
    waiting = nearest([stored_vectors.waiting_vectors(connection, RECORDS)], vector, depth)
    return [*stored_vectors.items_of_vectors(connection, found), *waiting]


def _exact(connection: Connection, items: list[int], vector: NDArray[np.float32] | None) -> Scores:
    dense = np.zeros(len(items))
    if vector is None:
        return dense
    rows = stored_vectors.vectors_of(connection, items, RECORDS)
    place = {n: number for number, n in enumerate(items)}
    for item, cosine in zip(
        rows.items.tolist(), (rows.matrix @ vector).tolist() if len(rows) else [], strict=True
    ):
        dense[place[item]] = max(dense[place[item]], cosine)
    return dense


def search_records(
    services: Services, user_id: str, query: str, k: int, as_of: object, explain: bool
) -> list[RecordHit]:
    """The best records, best first."""
    check_query(query, k)
    then = naive(to_utc(as_of)) if as_of is not None else None
    if not services.has(user_id):
        return []
    settings, notes = services.settings, SearchNotes()
    depths = Depths(
        max(settings.ranking.dense_candidates, k), max(settings.ranking.word_candidates, k)
    )
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
