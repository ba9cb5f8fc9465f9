"""Search: candidates, scores, whole messages. No model is called."""

from collections.abc import Sequence

import numpy as np

from langmem_graph.config import RankingMethod, Settings
from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.models import MessageHit
from langmem_graph.ranking.candidates import Candidates, gather
from langmem_graph.ranking.messages import NOT_FOUND, Ranking, rank_messages
from langmem_graph.ranking.records import RankedRecords
from langmem_graph.ranking.search_parts import Depths, Trail
from langmem_graph.ranking.sessions import rank_sessions
from langmem_graph.store import lookups
from langmem_graph.store.room import Room


def search_messages(
    room: Room, embedder: Embedder, query: str, k: int, settings: Settings, trail: Trail
) -> list[MessageHit]:
    """The `k` best messages, best first."""
    return search_both(room, embedder, query, k, settings, trail)[0]


def search_both(
    room: Room, embedder: Embedder, query: str, k: int, settings: Settings, trail: Trail
) -> tuple[list[MessageHit], RankedRecords]:
    """The `k` best messages, best first, and the records as they were ranked beside them."""
    found = gather(room, embedder, query, _depths(settings, k), trail)
    with trail.stage("rank"):
        ranking = rank_messages(found, settings.ranking, settings.rrf_k)
        best = np.argsort(-ranking.scores, kind="stable")[:k].tolist()
    with trail.stage("texts"):
        return _hits(room, found, ranking, best), found.ranked_records


def search_sessions(
    room: Room, embedder: Embedder, query: str, k: int, settings: Settings, trail: Trail
) -> list[MessageHit]:
    """The `k` best sessions, each represented by its best message, best first."""
    found = gather(room, embedder, query, _depths(settings, k), trail)
    with trail.stage("rank"), room.database.reading() as connection:
        centroids = lookups.centroids(connection)
        messages = rank_messages(found, settings.ranking, settings.rrf_k)
        ranking, best = rank_sessions(found, messages, centroids, settings)
    with trail.stage("texts"):
        return _hits(room, found, ranking, best[:k])


def _depths(settings: Settings, k: int) -> Depths:
    return Depths(max(settings.dense_candidates, k), max(settings.word_candidates, k))


def with_method(settings: Settings, method: RankingMethod | None) -> Settings:
    """The settings with another ranking, for one call."""
    return settings if method is None else settings.model_copy(update={"ranking": method})


def _hits(room: Room, found: Candidates, ranking: Ranking, best: Sequence[int]) -> list[MessageHit]:
    best = [place for place in best if ranking.scores[place] != NOT_FOUND]
    numbers = [found.facts[place].n for place in best]
    with room.database.reading() as connection:
        messages = lookups.messages_by_number(connection, numbers)
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
