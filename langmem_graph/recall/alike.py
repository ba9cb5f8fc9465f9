"""Nearest-neighbour search over hypothetical example sentences (HyDE-style expansion).

The sentences are examples of what the user may have said. Only their vectors are compared: their
meaning is of use, their words are arbitrary (ActMem's second retrieval is by vectors too). They are
embedded as statements, not as questions.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.models import Fact
from langmem_graph.ranking.candidates import near_messages
from langmem_graph.ranking.records import near_records
from langmem_graph.ranking.search_parts import SearchNotes
from langmem_graph.recall.facts import fact_of_message, fact_of_record
from langmem_graph.store import lookups, record_lookups
from langmem_graph.store.ledger import MESSAGES, RECORDS
from langmem_graph.store.room import Room

Vector = NDArray[np.float32]


def nearest_to_examples(
    room: Room, embedder: Embedder, sentences: Sequence[str], depth: int, notes: SearchNotes
) -> list[list[Fact]]:
    """For each sentence the `depth` facts nearest to it, best first, with their likeness.

    Raises:
        EmbeddingError: the embedder fails.
    """
    room.check_embedder(embedder.name)
    vectors = embedder.embed(list(sentences))
    room.check_dimension(vectors.shape[1])
    with room.database.reading() as connection:
        found = [_nearest(room, connection, vector, depth, notes) for vector in vectors]
        messages = lookups.messages_by_number(connection, {n for m, _ in found for n in m})
        known = record_lookups.active(connection, {n for _, r in found for n in r})
        records = record_lookups.records_by_number(connection, known)
        outdated = record_lookups.outdated(connection, messages)
    facts = {(RECORDS, n): fact_of_record(record) for n, record in records.items()} | {
        (MESSAGES, n): fact_of_message(message, n in outdated) for n, message in messages.items()
    }
    return [_joined(near, facts)[:depth] for near in found]


def _nearest(
    room: Room, connection: Connection, vector: Vector, depth: int, notes: SearchNotes
) -> tuple[dict[int, float], dict[int, float]]:
    """Messages and records by number, with their cosines."""
    messages = near_messages(room, connection, vector, depth, notes)
    records = near_records(room, connection, vector, depth, notes)
    return (
        _cosines(connection, messages, MESSAGES, vector),
        _cosines(connection, records, RECORDS, vector),
    )


def _cosines(
    connection: Connection, items: Sequence[int], layer: str, vector: Vector
) -> dict[int, float]:
    rows = lookups.vectors_of(connection, items, layer)
    best: dict[int, float] = defaultdict(lambda: -1.0)
    if len(rows):
        for item, cosine in zip(rows.items.tolist(), (rows.matrix @ vector).tolist(), strict=True):
            best[item] = max(best[item], cosine)
    return dict(best)


def _joined(
    near: tuple[dict[int, float], dict[int, float]], facts: dict[tuple[str, int], Fact]
) -> list[Fact]:
    """One list; a message whose record is near too is shown as that record."""
    likeness: dict[str, float] = defaultdict(lambda: -1.0)
    kept: dict[str, Fact] = {}
    told: dict[str, str] = {}
    for layer, cosines in ((RECORDS, near[1]), (MESSAGES, near[0])):
        for n, cosine in cosines.items():
            fact = facts.get((layer, n))
            if fact is None:
                continue
            key = told.get(fact.message_ids[0], fact.id) if layer == MESSAGES else fact.id
            kept.setdefault(key, fact)
            likeness[key] = max(likeness[key], cosine)
            if layer == RECORDS:
                told |= dict.fromkeys(fact.message_ids, fact.id)
    ordered = sorted(kept, key=lambda key: -likeness[key])
    return [kept[key].model_copy(update={"likeness": likeness[key]}) for key in ordered]
