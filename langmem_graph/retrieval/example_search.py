"""Search by example sentences, by their vectors alone, and along the edges between records.

The sentences are statements such as the user may have made, and are embedded as statements.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import (
    fact_of_message,
    fact_of_record,
    facts_by_number,
    hits_by_number,
)
from langmem_graph.retrieval.joined_search import each_room
from langmem_graph.retrieval.ranking import Vector
from langmem_graph.retrieval.record_search import near_records
from langmem_graph.retrieval.search_common import UserSearch, best_cosines
from langmem_graph.storage import record_queries, vector_rows
from langmem_graph.storage.graph_neighbours import CAUSAL, SEMANTIC, neighbours
from langmem_graph.storage.tables_and_migrations import MESSAGES, RECORDS

if TYPE_CHECKING:
    pass


def nearest_to_examples(
    search: UserSearch, sentences: Sequence[str], depth: int
) -> dict[str, list[Fact]]:
    """For each sentence the `depth` nearest facts, best first; EmbeddingError where that fails."""
    vectors = search.embedder.embed(list(sentences))
    found = each_room(search.alone(), lambda one, c: _nearest_facts(one, c, vectors, depth))
    several = zip(*(nearest for _, nearest in found), strict=True)
    best = (sorted(chain(*lists), key=lambda fact: -fact.likeness)[:depth] for lists in several)
    return dict(zip(sentences, best, strict=False))


def _nearest_facts(
    search: UserSearch, connection: Connection, vectors: NDArray[np.float32], depth: int
) -> list[list[Fact]]:
    """For each vector the `depth` nearest facts of one room, best first."""
    dimension = search.room.check_embedder(search.embedder.name, connection)
    search.room.check_dimension(vectors.shape[1], dimension)
    found = [_nearest(search, connection, vector, depth) for vector in vectors]
    messages = hits_by_number(connection, {n for m, _ in found for n in m})
    known = record_queries.active(connection, {n for _, r in found for n in r})
    records = record_queries.records_by_number(connection, known)
    facts = {(RECORDS, n): fact_of_record(record) for n, record in records.items()} | {
        (MESSAGES, n): fact_of_message(message) for n, message in messages.items()
    }
    return [_joined(near, facts)[:depth] for near in found]


def _nearest(
    search: UserSearch, connection: Connection, vector: Vector, depth: int
) -> tuple[dict[int, float], dict[int, float]]:
    """Messages and records by number, with their cosines."""
    messages = search.near(connection, MESSAGES, vector, depth)
    records = near_records(search, connection, vector, depth)
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


def linked_facts(search: UserSearch, ids: Sequence[str], queries: Sequence[str]) -> list[Fact]:
    """The neighbours of records along causal, then semantic edges, nearest to the queries.

    At most `Settings.reasoning.graph_facts`; the queries are embedded as the search embeds them.
    """
    options = search.settings.reasoning
    with search.room.database.read_transaction() as connection:
        seeds = list(record_queries.numbers_of(connection, ids).values())
        causal = neighbours(connection, seeds, CAUSAL) if options.use_causal_edges else []
        edges = neighbours(connection, seeds, SEMANTIC) if options.use_semantic_edges else []
        similar = [n for n, cosine in edges if cosine >= options.semantic_edge_floor]
        rows = vector_rows.vectors_of(connection, similar, RECORDS)
    wanted = [vector for query in queries if (vector := search.vector(query)) is not None]
    if wanted and len(rows):
        cosines = (rows.matrix @ np.stack(wanted).T).max(axis=1)
        best = dict(zip(rows.items.tolist(), cosines.tolist(), strict=True))
        similar.sort(key=lambda n: -best.get(n, -1.0))
    return facts_by_number(search.room, [*(n for n, _ in causal), *similar])[: options.graph_facts]
