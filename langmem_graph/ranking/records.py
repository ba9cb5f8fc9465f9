"""Ranks records the way messages are ranked: nearest vectors and best words, one weighted sum."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.ranking.dates import day_fit, named_days
from langmem_graph.ranking.fusion import Scores, share_of_best, weighted_sum
from langmem_graph.ranking.search_parts import Depths, SearchNotes, nearest
from langmem_graph.ranking.weights import RECORD_WEIGHTS
from langmem_graph.store import lookups, record_lookups
from langmem_graph.store.ledger import RECORDS
from langmem_graph.store.room import Room
from langmem_graph.store.words import query_terms, telling_terms


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
    if not record_lookups.newest_record(connection):
        return RankedRecords([], np.zeros(0), {})
    allowed = record_lookups.true_now(connection)
    if as_of is not None:
        allowed = set(record_lookups.numbers_true_at(connection, as_of))
    words = _by_words(connection, query, depths.words, allowed)
    near = near_records(room, connection, vector, depths.dense, notes, allowed)
    items = sorted((set(words) | set(near)) & _meant(connection, set(words) | set(near), allowed))
    facts = record_lookups.facts_of(connection, items)
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
    return record_lookups.active(connection, items) if allowed is None else allowed


def _by_words(
    connection: Connection, query: str, depth: int, allowed: set[int] | None
) -> dict[int, float]:
    terms = query_terms(query)
    counts = record_lookups.word_counts(connection, terms)
    chosen = telling_terms(counts, record_lookups.newest_record(connection))
    if not chosen:
        return {}
    if allowed is None:
        return dict(record_lookups.words_search(connection, chosen, depth))
    every = record_lookups.words_search_any(connection, chosen)
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
    small = record_lookups.newest_record(connection) <= depth
    if allowed is not None or room.read_only or small:
        everything: Iterable[lookups.VectorRows] = lookups.all_vectors(connection, RECORDS)
        return [n for n in nearest(everything, vector, None) if allowed is None or n in allowed][
            :depth
        ]
    try:
        found = room.index.query(RECORDS, vector, depth)
    except IndexUnavailableError as error:
        notes.warn(error)
        return nearest(lookups.all_vectors(connection, RECORDS), vector, depth)
    waiting = nearest([lookups.waiting_vectors(connection, RECORDS)], vector, depth)
    return [*lookups.items_of_vectors(connection, found), *waiting]


def _exact(connection: Connection, items: list[int], vector: NDArray[np.float32] | None) -> Scores:
    dense = np.zeros(len(items))
    if vector is None:
        return dense
    rows = lookups.vectors_of(connection, items, RECORDS)
    place = {n: number for number, n in enumerate(items)}
    for item, cosine in zip(
        rows.items.tolist(), (rows.matrix @ vector).tolist() if len(rows) else [], strict=True
    ):
        dense[place[item]] = max(dense[place[item]], cosine)
    return dense
