"""Candidates for a query: the nearest vectors and the best words, joined, with exact cosines."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.errors import EmbedderMismatchError, EmbeddingError, IndexUnavailableError
from langmem_graph.ranking.fusion import Scores
from langmem_graph.store import lookups
from langmem_graph.store.lookups import Facts, VectorRows
from langmem_graph.store.room import Room
from langmem_graph.store.words import query_terms, telling_terms

_log = logging.getLogger(__name__)


@dataclass
class Trail:
    """What a search notes of itself on the way: how long each stage took, and what failed."""

    milliseconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time the block takes to the stage."""
        start = perf_counter()
        try:
            yield
        finally:
            passed = (perf_counter() - start) * 1_000
            self.milliseconds[name] = self.milliseconds.get(name, 0.0) + passed

    def warn(self, problem: Exception) -> None:
        """Note a part that failed; the search goes on without it."""
        _log.warning("%s", problem)
        self.warnings.append(str(problem))


@dataclass(frozen=True)
class Depths:
    """How many messages each list gives."""

    dense: int
    words: int


@dataclass(frozen=True)
class Candidates:
    """Messages to be ranked, as parallel columns."""

    query: str
    vector: NDArray[np.float32] | None
    facts: list[Facts]
    sessions: NDArray[np.int64]
    """Each message's session, by number."""
    dense: Scores
    """Cosine of the best piece; 0 where there is no vector."""
    words: Scores
    """BM25, higher is better; 0 where the words did not find it."""
    spans: NDArray[np.int64]
    """Start and end of the best piece; 0, 0 where there is no vector."""


def gather(room: Room, embedder: Embedder, query: str, depths: Depths, trail: Trail) -> Candidates:
    """The best messages by vector and the best by words, joined, with exact cosines."""
    vector = _query_vector(room, embedder, query, trail)
    with room.database.reading() as connection:
        with trail.stage("words"):
            words = _by_words(connection, query, depths.words)
        with trail.stage("vectors"):
            near = _by_vector(room, connection, vector, depths.dense, trail)
        with trail.stage("exact"):
            items = sorted(set(words) | set(near))
            rows = lookups.vectors_of(connection, items) if vector is not None else None
            facts = lookups.facts_of(connection, items)
    return _columns(query, vector, [facts[n] for n in items if n in facts], words, rows)


def _query_vector(
    room: Room, embedder: Embedder, query: str, trail: Trail
) -> NDArray[np.float32] | None:
    try:
        room.check_embedder(embedder.name)
        with trail.stage("embed"):
            vector = embedder.embed_query(query)
        room.check_dimension(vector.size)
        return vector
    except EmbedderMismatchError:
        raise
    except EmbeddingError as error:
        trail.warn(error)
        return None


def _by_words(connection: Connection, query: str, depth: int) -> dict[int, float]:
    terms = query_terms(query)
    messages = lookups.newest_message(connection)
    chosen = telling_terms(lookups.word_counts(connection, terms), messages)
    return dict(lookups.words_search(connection, chosen, depth)) if chosen else {}


def _by_vector(
    room: Room,
    connection: Connection,
    vector: NDArray[np.float32] | None,
    depth: int,
    trail: Trail,
) -> list[int]:
    """Messages with the nearest vectors: Chroma's, and those Chroma does not have yet."""
    if vector is None:
        return []
    if room.read_only:
        return _nearest(lookups.all_vectors(connection), vector, depth)
    try:
        found = room.index.query(vector, depth)
    except IndexUnavailableError as error:
        trail.warn(error)
        return _nearest(lookups.all_vectors(connection), vector, depth)
    exactly = _nearest(_beside_chroma(connection, depth), vector, depth)
    return [*lookups.items_of_vectors(connection, found), *exactly]


def _beside_chroma(connection: Connection, depth: int) -> Iterable[VectorRows]:
    """What Chroma does not have yet; of a small memory everything, since Chroma may miss some."""
    if lookups.newest_vector(connection) <= depth:
        return lookups.all_vectors(connection)
    return [lookups.waiting_vectors(connection)]


def _nearest(blocks: Iterable[VectorRows], vector: NDArray[np.float32], depth: int) -> list[int]:
    """The messages with the nearest of these vectors, compared one by one."""
    best: dict[int, float] = {}
    for rows in blocks:
        cosines: list[float] = (rows.matrix @ vector).tolist() if len(rows) else []
        for item, cosine in zip(rows.items.tolist(), cosines, strict=True):
            best[item] = max(cosine, best.get(item, -2.0))
    return sorted(best, key=lambda item: -best[item])[:depth]


def _columns(
    query: str,
    vector: NDArray[np.float32] | None,
    facts: list[Facts],
    words: dict[int, float],
    rows: VectorRows | None,
) -> Candidates:
    place = {fact.n: number for number, fact in enumerate(facts)}
    dense, spans = np.zeros(len(facts)), np.zeros((len(facts), 2), dtype=np.int64)
    if rows is not None and vector is not None and len(rows):
        for item, cosine, span in zip(rows.items, rows.matrix @ vector, rows.spans, strict=True):
            number = place.get(int(item))
            if number is not None and (cosine > dense[number] or not spans[number].any()):
                dense[number], spans[number] = cosine, span
    found = np.array([words.get(fact.n, 0.0) for fact in facts], dtype=np.float64)
    own = np.array([fact.session for fact in facts], dtype=np.int64)
    return Candidates(query, vector, facts, own, dense, found, spans)
