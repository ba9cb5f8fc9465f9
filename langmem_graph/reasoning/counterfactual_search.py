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

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.retrieval.candidates import near_messages
from langmem_graph.retrieval.facts import fact_of_message, fact_of_record, facts_by_number
from langmem_graph.retrieval.record_search import near_records
from langmem_graph.retrieval.search_common import SearchNotes, query_vector
from langmem_graph.schemas import Fact
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries, record_queries, stored_vectors
from langmem_graph.storage.graph_edges import CAUSAL, SEMANTIC, neighbours
from langmem_graph.storage.room import Room
from langmem_graph.storage.services import Services
from langmem_graph.storage.tables import MESSAGES, RECORDS

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
    with room.database.read_transaction() as connection:
        found = [_nearest(room, connection, vector, depth, notes) for vector in vectors]
        messages = message_queries.messages_by_number(connection, {n for m, _ in found for n in m})
        known = record_queries.active(connection, {n for _, r in found for n in r})
        records = record_queries.records_by_number(connection, known)
        outdated = record_queries.outdated(connection, messages)
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
    rows = stored_vectors.vectors_of(connection, items, layer)
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


async def expand_along_edges(
    services: Services, user_id: str, seeds: Sequence[Fact], queries: Sequence[str]
) -> list[Fact]:
    """Neighbours of the seeds, without the seeds; at most `Settings.reasoning.graph_facts`."""
    settings = services.settings
    ids = [fact.record_id for fact in seeds if fact.record_id]
    if not ids or not settings.reasoning.graph_facts:
        return []
    return await services.in_known_room(
        user_id, lambda room: _neighbours(room, services.embedder, settings, ids, queries), []
    )


def _neighbours(
    room: Room, embedder: Embedder, settings: Settings, ids: Sequence[str], queries: Sequence[str]
) -> list[Fact]:
    with room.database.read_transaction() as connection:
        seeds = list(record_queries.numbers_of(connection, ids).values())
        joined = (
            neighbours(connection, seeds, CAUSAL) if settings.reasoning.use_causal_edges else []
        )
        near = (
            neighbours(connection, seeds, SEMANTIC) if settings.reasoning.use_semantic_edges else []
        )
        similar = [n for n, _ in near]
        rows = stored_vectors.vectors_of(connection, similar, RECORDS)
    vectors = [query_vector(room, embedder, query, SearchNotes()) for query in queries]
    wanted = [vector for vector in vectors if vector is not None]
    if wanted and len(rows):
        cosines = (rows.matrix @ np.stack(wanted).T).max(axis=1)
        best = dict(zip(rows.items.tolist(), cosines.tolist(), strict=True))
        similar.sort(key=lambda n: -best.get(n, -1.0))
    return facts_by_number(room, [n for n, _ in joined] + similar)[: settings.reasoning.graph_facts]
