"""Candidate messages for a query: by vector, by words and by records that cite them, joined."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.retrieval.record_search import RankedRecords, rank_records
from langmem_graph.retrieval.search_common import (
    Depths,
    Scores,
    SearchNotes,
    Vector,
    near_items,
    query_vector,
)
from langmem_graph.storage import full_text, message_queries, record_queries, vector_rows
from langmem_graph.storage.full_text import query_terms, telling_terms
from langmem_graph.storage.message_queries import Facts
from langmem_graph.storage.tables_and_migrations import MESSAGES
from langmem_graph.storage.user_room import Room
from langmem_graph.storage.vector_rows import VectorRows


@dataclass(frozen=True)
class Candidates:
    """Messages to be ranked, as parallel columns."""

    query: str
    vector: Vector | None
    facts: list[Facts]
    sessions: NDArray[np.int64]
    """Each message's session, by number."""
    dense: Scores
    """Cosine of the best piece; 0 where there is no vector."""
    words: Scores
    """BM25, higher is better; 0 where the word search did not find the message."""
    spans: NDArray[np.int64]
    """Start and end of the best piece; 0, 0 where there is no vector."""
    records: Scores
    """Score of the best record that cites the message; 0 where none does."""
    ranked_records: RankedRecords
    """The records that were ranked for the query."""


def gather(
    room: Room, embedder: Embedder, query: str, depths: Depths, notes: SearchNotes
) -> Candidates:
    """The best messages by vector, by words and by the records that cite them, joined."""
    vector = query_vector(room, embedder, query, notes)
    with room.database.read_transaction() as connection:
        with notes.stage("words"):
            words = _by_words(connection, query, depths.words)
        with notes.stage("vectors"):
            near = near_items(room, connection, MESSAGES, vector, depths.dense, notes)
        with notes.stage("records"):
            ranked = rank_records(room, connection, query, vector, depths, notes)
            cited = _cited(connection, ranked, depths)
        with notes.stage("exact"):
            items = sorted({*words, *near, *cited})
            rows = vector_rows.vectors_of(connection, items) if vector is not None else None
            facts = message_queries.facts_of(connection, items)
    stored = [facts[n] for n in items if n in facts]
    return _columns(query, vector, stored, words, cited, rows, ranked)


def _cited(connection: Connection, ranked: RankedRecords, depths: Depths) -> dict[int, float]:
    """Messages that the best records cite, each with its best record's score."""
    best = {
        ranked.numbers[place]: float(ranked.scores[place]) for place in ranked.best(depths.dense)
    }
    cited: dict[int, float] = {}
    for record, messages in record_queries.citing(connection, best).items():
        for message in messages:
            cited[message] = max(best[record], cited.get(message, 0.0))
    return cited


def _by_words(connection: Connection, query: str, depth: int) -> dict[int, float]:
    terms = query_terms(query)
    messages = message_queries.newest_message(connection)
    chosen = telling_terms(full_text.MESSAGE_WORDS.counts(connection, terms), messages)
    return dict(full_text.words_search(connection, chosen, depth)) if chosen else {}


def _columns(
    query: str,
    vector: Vector | None,
    facts: list[Facts],
    words: dict[int, float],
    cited: dict[int, float],
    rows: VectorRows | None,
    ranked: RankedRecords,
) -> Candidates:
    places = {fact.n: place for place, fact in enumerate(facts)}
    dense, spans = np.zeros(len(facts)), np.zeros((len(facts), 2), dtype=np.int64)
    if rows is not None and vector is not None and len(rows):
        for item, cosine, span in zip(rows.items, rows.matrix @ vector, rows.spans, strict=True):
            place = places.get(int(item))
            if place is not None and (cosine > dense[place] or not spans[place].any()):
                dense[place], spans[place] = cosine, span
    by_words = np.array([words.get(fact.n, 0.0) for fact in facts], dtype=np.float64)
    by_records = np.array([cited.get(fact.n, 0.0) for fact in facts], dtype=np.float64)
    sessions = np.array([fact.session for fact in facts], dtype=np.int64)
    return Candidates(query, vector, facts, sessions, dense, by_words, spans, by_records, ranked)
