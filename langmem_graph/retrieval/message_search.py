"""Search for messages and sessions: candidates, ranking, and the messages of the best places."""

from collections.abc import Sequence

import numpy as np

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.retrieval.hybrid_candidates import Candidates, gather
from langmem_graph.retrieval.ranking import NOT_FOUND, Ranking, rank_messages, rank_sessions
from langmem_graph.retrieval.record_search import RankedRecords
from langmem_graph.retrieval.search_common import Depths, SearchNotes
from langmem_graph.schemas import MessageHit
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage import message_queries, vector_rows
from langmem_graph.storage.user_room import Room

ATTEMPTS, DEEPER = 3, 8
"""Searches where most candidates have the same text, and the factor of depth between them."""


def search_messages(
    room: Room, embedder: Embedder, query: str, k: int, settings: Settings, notes: SearchNotes
) -> list[MessageHit]:
    """The `k` best messages, best first."""
    found, ranking, best = _ranked(room, embedder, query, Depths.of(settings, k), settings, notes)
    with notes.stage("texts"):
        return _hits(room, found, ranking, best[:k])


def search_different(
    room: Room, embedder: Embedder, query: str, k: int, settings: Settings, notes: SearchNotes
) -> tuple[list[MessageHit], RankedRecords]:
    """The `k` best messages with different texts, and the records as they were ranked beside them.

    Used for prompts: a question that was asked often would otherwise take up all places.
    """
    depths = Depths.of(settings, k)
    for _ in range(ATTEMPTS):
        found, ranking, best = _ranked(room, embedder, query, depths, settings, notes)
        with notes.stage("texts"):
            hits = _different_hits(room, found, ranking, best, k)
        all_seen = len(best) < depths.dense or ranking.scores[best[-1]] == NOT_FOUND
        if len(hits) == k or all_seen or notes.warnings:
            break
        depths = Depths(depths.dense * DEEPER, depths.words * DEEPER)
    return hits, found.ranked_records


def _different_hits(
    room: Room, found: Candidates, ranking: Ranking, best: Sequence[int], k: int
) -> list[MessageHit]:
    """Read the texts in growing portions, until `k` of them differ."""
    hits: list[MessageHit] = []
    read = 0
    while read < len(best) and len(hits) < k:
        more = best[read : read + max(k, read)]
        hits = different([*hits, *_hits(room, found, ranking, more)])
        read += len(more)
    return hits[:k]


def different(hits: Sequence[MessageHit]) -> list[MessageHit]:
    """The hits without repetitions: of equal texts by one speaker the newest, at the best place."""
    newest: dict[tuple[str, str | None, str], MessageHit] = {}
    for hit in hits:
        text = (hit.role, hit.name, hit.text)
        newest[text] = max(newest.get(text, hit), hit, key=lambda same: (same.at, same.position))
    return list(newest.values())


def _ranked(
    room: Room,
    embedder: Embedder,
    query: str,
    depths: Depths,
    settings: Settings,
    notes: SearchNotes,
) -> tuple[Candidates, Ranking, list[int]]:
    """The candidates, their scores, and their places, best first."""
    found = gather(room, embedder, query, depths, notes)
    with notes.stage("rank"):
        ranking = rank_messages(found, settings.ranking.method, settings.ranking.rrf_k)
        best: list[int] = np.argsort(-ranking.scores, kind="stable").tolist()
    return found, ranking, best


def search_sessions(
    room: Room, embedder: Embedder, query: str, k: int, settings: Settings, notes: SearchNotes
) -> list[MessageHit]:
    """The `k` best sessions, each represented by its best message, best first."""
    found = gather(room, embedder, query, Depths.of(settings, k), notes)
    with notes.stage("rank"), room.database.read_transaction() as connection:
        centroids = vector_rows.centroids(connection)
        messages = rank_messages(found, settings.ranking.method, settings.ranking.rrf_k)
        ranking, best = rank_sessions(found, messages, centroids, settings)
    with notes.stage("texts"):
        return _hits(room, found, ranking, best[:k])


def with_method(settings: Settings, method: RankingMethod | None) -> Settings:
    """The settings with another ranking method, for one call."""
    if method is None:
        return settings
    ranking = settings.ranking.model_copy(update={"method": method})
    return settings.model_copy(update={"ranking": ranking})


def _hits(room: Room, found: Candidates, ranking: Ranking, best: Sequence[int]) -> list[MessageHit]:
    best = [place for place in best if ranking.scores[place] != NOT_FOUND]
    numbers = [found.facts[place].n for place in best]
    with room.database.read_transaction() as connection:
        messages = message_queries.messages_by_number(connection, numbers)
    hits = []
    for place, n in zip(best, numbers, strict=True):
        message = messages.get(n)
        if message is None:  # forgotten meanwhile
            continue
        start, end = _without_speaker(found, place)
        hits.append(
            MessageHit(
                message_id=message.id,
                score=float(ranking.scores[place]),
                position=n,
                excerpt=message.text[start:end] if end > start else message.text,
                signals=ranking.signals_of(place),
                **message.model_dump(include={"session_id", "role", "name", "at", "text"}),
            )
        )
    return hits


def _without_speaker(found: Candidates, place: int) -> tuple[int, int]:
    """The best piece's span in the message's own text; what is embedded begins `speaker: `."""
    name = found.facts[place].name
    prefix = len(f"{name}: ") if name else 0
    start, end = found.spans[place].tolist()
    return max(0, start - prefix), max(0, end - prefix)
