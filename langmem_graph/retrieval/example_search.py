"""Search by example sentences, by their vectors alone, and along the edges between
records.

The sentences are statements such as the user may have made, and are embedded as
statements. `MemorySearch` has the searches that steps of graphs make in the memory of a
run's user.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from rapidfuzz import fuzz

from langmem_graph.embeddings.embedder import Vectors
from langmem_graph.errors import EmbeddingError
from langmem_graph.results import Fact, Relation
from langmem_graph.retrieval.facts import (
    fact_of_message,
    fact_of_record,
    facts_by_number,
    find_facts,
    hits_by_number,
)
from langmem_graph.retrieval.joined_search import each_room
from langmem_graph.retrieval.ranking import Vector
from langmem_graph.retrieval.record_search import near_records
from langmem_graph.retrieval.search_common import (
    RoomSearch,
    SearchNotes,
    UserSearch,
    best_cosines,
)
from langmem_graph.rooms import shared_name
from langmem_graph.storage import record_queries, vector_rows
from langmem_graph.storage.graph_neighbours import CAUSAL, SEMANTIC, neighbours
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import MESSAGES, RECORDS
from langmem_graph.storage.user_room import Room
from langmem_graph.threads import in_thread

if TYPE_CHECKING:
    from langmem_graph.runtime import StepRun
Search = Callable[[str, int, Relation, "StepRun"], Awaitable[list[Fact]]]
"""Searches a memory: query, number of facts, relation, run."""


def nearest_to_examples(
    search: UserSearch,
    sentences: Sequence[str],
    depth: int,
    vectors: Vectors | None = None,
) -> dict[str, list[Fact]]:
    """For each sentence the `depth` nearest facts, best first.

    Raises:
        EmbeddingError: the sentences cannot be embedded, whose `vectors` may be given.
    """
    vectors = search.embedder.embed(list(sentences)) if vectors is None else vectors
    found = each_room(
        search.rooms, lambda one, c: _nearest_facts(one, c, vectors, depth)
    )
    several = zip(*(nearest for _, nearest in found), strict=True)
    best = (
        sorted(chain(*lists), key=lambda fact: -fact.likeness)[:depth]
        for lists in several
    )
    return dict(zip(sentences, best, strict=False))


def _nearest_facts(
    search: RoomSearch, connection: Reading, vectors: Vectors, depth: int
) -> list[list[Fact]]:
    """For each vector the `depth` nearest facts of one room, best first."""
    _check_vectors(search, connection, vectors)
    found = [_nearest(search, connection, vector, depth) for vector in vectors]
    messages = hits_by_number(connection, {n for m, _ in found for n in m})
    known = record_queries.active(connection, {n for _, r in found for n in r})
    records = record_queries.records_by_number(connection, known)
    facts = {(RECORDS, n): fact_of_record(record) for n, record in records.items()} | {
        (MESSAGES, n): fact_of_message(message) for n, message in messages.items()
    }
    return [_joined(near, facts)[:depth] for near in found]


def _check_vectors(search: RoomSearch, connection: Reading, vectors: Vectors) -> None:
    """Raise where the room's vectors were made by another embedder."""
    dimension = search.room.check_embedder(search.embedder.name, connection)
    search.room.check_dimension(vectors.shape[1], dimension)


def _nearest(
    search: RoomSearch, connection: Reading, vector: Vector, depth: int
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
    """Both as one list, best first; a near record replaces the messages that it
    cites.
    """
    likeness: dict[str, float] = defaultdict(lambda: -1.0)
    kept: dict[str, Fact] = {}
    record_of: dict[str, str] = {}
    for layer, cosines in ((RECORDS, near[1]), (MESSAGES, near[0])):
        for n, cosine in cosines.items():
            fact = facts.get((layer, n))
            if fact is None:
                continue
            key = (
                record_of.get(fact.message_ids[0], fact.id)
                if layer == MESSAGES
                else fact.id
            )
            kept.setdefault(key, fact)
            likeness[key] = max(likeness[key], cosine)
            if layer == RECORDS:
                record_of |= dict.fromkeys(fact.message_ids, fact.id)
    ordered = sorted(kept, key=lambda key: -likeness[key])
    return [kept[key].model_copy(update={"likeness": likeness[key]}) for key in ordered]


def linked_facts(
    search: UserSearch, seeds: Sequence[Fact], queries: Vectors
) -> list[Fact]:
    """The neighbours of records along causal, then semantic edges, nearest to the
    queries.

    Edges are followed inside each room. At most `Settings.reasoning.graph_facts` over
    all rooms. The queries are vectors of shape (queries, size), embedded as the
    examples are.
    """
    most = search.settings.reasoning.graph_facts
    ids = defaultdict[str | None, list[str]](list)
    for fact in seeds:
        ids[fact.room] += [fact.record_id] if fact.record_id else []
    rooms = [one for one in search.rooms if ids[shared_name(one.key)]]
    found = each_room(
        rooms, lambda one, c: _linked(one, c, ids[shared_name(one.key)], queries)
    )
    linked = chain.from_iterable(own for _, own in found)
    best = sorted(linked, key=lambda one: one[:2], reverse=True)
    return [fact for *_, fact in best[:most]]


def _linked(
    search: RoomSearch, connection: Reading, ids: Sequence[str], queries: Vectors
) -> list[tuple[bool, float, Fact]]:
    """A room's neighbours of these records: whether causal, by which figure they rank,
    and what.
    """
    _check_vectors(search, connection, queries)
    options = search.settings.reasoning
    seeds = list(record_queries.numbers_of(connection, ids).values())
    causal = neighbours(connection, seeds, CAUSAL) if options.use_causal_edges else []
    edges = (
        neighbours(connection, seeds, SEMANTIC) if options.use_semantic_edges else []
    )
    similar = [n for n, cosine in edges if cosine >= options.semantic_edge_floor]
    rows = vector_rows.vectors_of(connection, similar, RECORDS)
    cosines = (rows.matrix @ queries.T).max(axis=1).tolist() if len(rows) else []
    best = dict(zip(rows.items.tolist(), cosines, strict=True))
    ranked = {n: (False, best.get(n, -1.0)) for n in similar} | {
        n: (True, w) for n, w in causal
    }
    facts = facts_by_number(connection, ranked)
    return [(*ranked[n], fact) for n, fact in facts.items()]


class MemorySearch:
    """Finds facts in the memory of a run's user; none where the user has no
    memory yet.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def search(
        self, query: str, k: int, relation: Relation, run: "StepRun"
    ) -> list[Fact]:
        """The best facts for a query; of what fails the run is told."""
        services = self._services
        notes = SearchNotes(warnings=run.warnings)

        def find(rooms: list[Room]) -> list[Fact]:
            if not rooms:
                return []
            search = UserSearch.over(services, run.view, rooms, notes)
            return find_facts(search, query, k, relation)

        return await services.in_rooms(run.view, find, notes.warnings)

    async def near(
        self, sentences: Sequence[str], k: int, run: "StepRun"
    ) -> list[list[Fact]]:
        """For each sentence the `k` nearest facts; none where the embedder fails."""
        services = self._services
        notes = SearchNotes(warnings=run.warnings)

        def find(rooms: list[Room]) -> list[list[Fact]]:
            if not rooms:
                return []
            search = UserSearch.over(services, run.view, rooms, notes)
            with suppress(EmbeddingError):  # words still find
                return list(nearest_to_examples(search, sentences, k).values())
            return []

        return (
            await services.in_rooms(run.view, find, notes.warnings) if sentences else []
        )

    async def likeness(self, text: str, others: Sequence[str], run: "StepRun") -> float:
        """The greatest cosine of a text with the others; by spelling where the embedder
        fails.
        """
        if not others:
            return 0.0
        try:
            vectors = await in_thread(self._services.embedder.embed, [text, *others])
        except EmbeddingError:
            return spelling(text, others)
        return float((vectors[1:] @ vectors[0]).max())


def spelling(text: str, others: Sequence[str]) -> float:
    """The greatest similarity of a text with the others by spelling, whatever the word
    order.
    """
    return max(
        (fuzz.token_sort_ratio(text, other) / 100 for other in others), default=0.0
    )
