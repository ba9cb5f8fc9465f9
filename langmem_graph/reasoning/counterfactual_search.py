"""The two searches of the step `counterfactual` (ActMem 1.3, step 3).

The first is a nearest-neighbour search over hypothetical example sentences (HyDE-style expansion):
examples of what the user may have said. Only their vectors are compared, since their words are
arbitrary, and they are embedded as statements, not as questions. The second follows the edges of
the memory graph.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.retrieval.facts import fact_of_message, fact_of_record, facts_by_number
from langmem_graph.retrieval.record_search import near_records
from langmem_graph.retrieval.search_common import (
    SearchNotes,
    Vector,
    best_cosines,
    near_items,
    query_vector,
)
from langmem_graph.schemas import Fact
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries, record_queries, vector_rows
from langmem_graph.storage.clusters_and_edges import CAUSAL, SEMANTIC, neighbours
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.tables_and_migrations import MESSAGES, RECORDS
from langmem_graph.storage.user_room import Room


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
    messages = near_items(room, connection, MESSAGES, vector, depth, notes)
    records = near_records(room, connection, vector, depth, notes)
    return (
        best_cosines([vector_rows.vectors_of(connection, messages, MESSAGES)], vector),
        best_cosines([vector_rows.vectors_of(connection, records, RECORDS)], vector),
    )


def _joined(
    near: tuple[dict[int, float], dict[int, float]], facts: dict[tuple[str, int], Fact]
) -> list[Fact]:
    """Both as one list, best first; a near record replaces the messages that it cites."""
    likeness: dict[str, float] = defaultdict(lambda: -1.0)
    kept: dict[str, Fact] = {}
    record_of: dict[str, str] = {}
    for layer, cosines in ((RECORDS, near[1]), (MESSAGES, near[0])):
        for n, cosine in cosines.items():
            fact = facts.get((layer, n))
            if fact is None:
                continue
            key = record_of.get(fact.message_ids[0], fact.id) if layer == MESSAGES else fact.id
            kept.setdefault(key, fact)
            likeness[key] = max(likeness[key], cosine)
            if layer == RECORDS:
                record_of |= dict.fromkeys(fact.message_ids, fact.id)
    ordered = sorted(kept, key=lambda key: -likeness[key])
    return [kept[key].model_copy(update={"likeness": likeness[key]}) for key in ordered]


async def expand_along_edges(
    services: Services, user_id: str, seeds: Sequence[Fact], queries: Sequence[str]
) -> list[Fact]:
    """The seeds' neighbours along causal edges, then along semantic edges, nearest to the queries.

    At most `Settings.reasoning.graph_facts`, none of them a seed.
    """
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
    options = settings.reasoning
    with room.database.read_transaction() as connection:
        seeds = list(record_queries.numbers_of(connection, ids).values())
        causal = _linked(connection, seeds, CAUSAL) if options.use_causal_edges else []
        similar = _linked(connection, seeds, SEMANTIC) if options.use_semantic_edges else []
        rows = vector_rows.vectors_of(connection, similar, RECORDS)
    vectors = [query_vector(room, embedder, query, SearchNotes()) for query in queries]
    wanted = [vector for vector in vectors if vector is not None]
    if wanted and len(rows):
        cosines = (rows.matrix @ np.stack(wanted).T).max(axis=1)
        best = dict(zip(rows.items.tolist(), cosines.tolist(), strict=True))
        similar.sort(key=lambda n: -best.get(n, -1.0))
    return facts_by_number(room, [*causal, *similar])[: options.graph_facts]


def _linked(connection: Connection, seeds: Sequence[int], kind: str) -> list[int]:
    return [number for number, _ in neighbours(connection, seeds, kind)]
