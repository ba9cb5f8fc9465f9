"""Expands the facts found so far along causal and semantic edges (ActMem 1.3, step 3).

Causes and effects come first, in both directions; then semantic neighbours, in the order of their
similarity to the risks.
"""

from collections.abc import Sequence

import numpy as np

from langmem_graph.config import Settings
from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.models import Fact
from langmem_graph.ranking.candidates import query_vector
from langmem_graph.ranking.search_parts import SearchNotes
from langmem_graph.recall.facts import facts_by_number
from langmem_graph.services import Services
from langmem_graph.store import lookups, record_lookups
from langmem_graph.store.clusters import CAUSAL, SEMANTIC, neighbours
from langmem_graph.store.ledger import RECORDS
from langmem_graph.store.room import Room


async def expand_along_edges(
    services: Services, user_id: str, seeds: Sequence[Fact], queries: Sequence[str]
) -> list[Fact]:
    """Neighbours of the seeds, without the seeds; at most `Settings.graph_facts`."""
    settings = services.settings
    ids = [fact.record_id for fact in seeds if fact.record_id]
    if not ids or not settings.graph_facts:
        return []
    return await services.in_known_room(
        user_id, lambda room: _neighbours(room, services.embedder, settings, ids, queries), []
    )


def _neighbours(
    room: Room, embedder: Embedder, settings: Settings, ids: Sequence[str], queries: Sequence[str]
) -> list[Fact]:
    with room.database.reading() as connection:
        seeds = list(record_lookups.numbers_of(connection, ids).values())
        joined = neighbours(connection, seeds, CAUSAL) if settings.use_causal_edges else []
        near = neighbours(connection, seeds, SEMANTIC) if settings.use_semantic_edges else []
        similar = [n for n, _ in near]
        rows = lookups.vectors_of(connection, similar, RECORDS)
    vectors = [query_vector(room, embedder, query, SearchNotes()) for query in queries]
    wanted = [vector for vector in vectors if vector is not None]
    if wanted and len(rows):
        cosines = (rows.matrix @ np.stack(wanted).T).max(axis=1)
        best = dict(zip(rows.items.tolist(), cosines.tolist(), strict=True))
        similar.sort(key=lambda n: -best.get(n, -1.0))
    return facts_by_number(room, [n for n, _ in joined] + similar)[: settings.graph_facts]
