"""Search in a user's room and in shared rooms together: one ranking over the candidates
of all.

Each room is read in a transaction of its own, so that the walls around it hold. How
rare a word is is counted over all rooms, and every signal is compared over all of them.
A shared room that fails is left out, and the notes say so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np
from sqlalchemy import Connection

from langmem_graph.results import SearchBy
from langmem_graph.retrieval import message_search
from langmem_graph.retrieval.message_search import different, gather, hits_of
from langmem_graph.retrieval.ranking import (
    Candidates,
    Ranking,
    Vector,
    rank_messages,
    rank_sessions,
)
from langmem_graph.retrieval.record_search import (
    RankedRecords,
    found_records,
    hits_of_records,
)
from langmem_graph.retrieval.search_common import Sought, UserSearch
from langmem_graph.rooms import left_out, shared_name
from langmem_graph.schemas import MessageHit, RecordHit
from langmem_graph.storage import vector_rows
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS
from langmem_graph.storage.tables_and_migrations import get_meta
from langmem_graph.storage.vector_rows import Centroids
from langmem_graph.storage.words import TermCounts, query_terms
from langmem_graph.trust import bounded

T = TypeVar("T")
InRoom = tuple[UserSearch, T]
"""A room's search with what it found."""
_APART = 1 << 40  # between the numbers of two rooms' sessions


def search_best(
    search: UserSearch, query: str, k: int, by: SearchBy
) -> list[MessageHit]:
    """The `k` best messages, or sessions each represented by its best message, best
    first.
    """
    if search.others is None:
        return message_search.search_best(search, query, k, by)
    found = _gathered(search, query, k)
    ranking = rank_messages(found.all, search.settings)
    best = ranking.best()
    if by == "session":
        ranking, best = rank_sessions(
            found.all, ranking, found.centroids(), search.settings
        )
    return found.hits(ranking, best[:k])


def search_different(
    search: UserSearch, query: str, k: int, *, past: bool = False, foreign: float = 1.0
) -> tuple[list[MessageHit], list[InRoom[RankedRecords]]]:
    """The `k` best messages with different texts, and the ranked records of each room.

    At most the share `foreign` of the messages holds words of tools and imports.
    """
    if search.others is None:
        hits, ranked = message_search.search_different(
            search, query, k, past=past, foreign=foreign
        )
        return hits, [(search, ranked)]
    found = _gathered(search, query, k, past=past)
    ranking = rank_messages(found.all, search.settings)
    best, hits, read = ranking.best(), list[MessageHit](), 0
    while read < len(best) and len(hits) < k:
        more = best[read : read + max(k, read)]
        hits = bounded(different([*hits, *found.hits(ranking, more)]), k, foreign)
        read += len(more)
    return hits[:k], [(one, part.ranked_records) for one, part in found.parts]


def _ranked_records(
    searches: Sequence[UserSearch], sought: Sought
) -> list[InRoom[RankedRecords]]:
    """The records found in each room, scored over all of them."""
    found = each_room(searches, lambda one, c: found_records(one, c, sought))
    best = max((float(part.words.max(initial=0.0)) for _, part in found), default=0.0)
    return [(one, part.ranked(best)) for one, part in found]


def each_room(
    searches: Iterable[UserSearch], work: Callable[[UserSearch, Connection], T]
) -> list[InRoom[T]]:
    """The work in a read transaction of each room, without the shared rooms where it
    fails.
    """
    done = list[InRoom[T]]()
    for one in searches:
        try:
            with one.room.database.read_transaction() as connection:
                done.append((one, work(one, connection)))
        except Exception as error:
            if one.others is None or shared_name(one.key) is None:
                raise
            one.notes.warn(left_out(one.key, error))
    return done


def _usable(search: UserSearch, query: str) -> tuple[Vector | None, list[UserSearch]]:
    """The query's vector, and the rooms' searches, each of which knows how rare the
    words are.

    A shared room whose vectors were made by another embedder is left out.
    """
    if search.others is None:
        return search.vector(query), [search]
    terms = query_terms(query)
    fitting = each_room(
        search.alone(), lambda one, c: one.room.check_embedder(one.embedder.name, c)
    )
    vector = fitting[0][0].vector(query) if fitting else None

    def count(one: UserSearch, connection: Connection) -> tuple[TermCounts, TermCounts]:
        if vector is not None:
            one.room.check_dimension(vector.size, get_meta(connection, "dimension"))
        return MESSAGE_WORDS.counted(connection, terms), RECORD_WORDS.counted(
            connection, terms
        )

    counts = each_room((one for one, _ in fitting), count)
    none = TermCounts(0, dict.fromkeys(terms, 0))
    messages = reduce(add, (own for _, (own, _) in counts), none)
    records = reduce(add, (own for _, (_, own) in counts), none)
    known = [
        replace(one, message_terms=messages, record_terms=records) for one, _ in counts
    ]
    return vector, known


@dataclass(frozen=True)
class _Joined:
    """The candidates of several rooms, and all of them as one list."""

    parts: list[InRoom[Candidates]]
    all: Candidates
    part_of: list[int]  # by place

    def hits(self, ranking: Ranking, best: Sequence[int]) -> list[MessageHit]:
        """The candidates at these places, in their order; each is read in its room."""
        places = [
            [p for p in best if self.part_of[p] == n] for n in range(len(self.parts))
        ]
        own = {id(one): places[n] for n, (one, _) in enumerate(self.parts)}
        read = each_room(
            (one for one, _ in self.parts),
            lambda one, connection: hits_of(
                connection, self.all, ranking, own[id(one)]
            ),
        )
        found = {place: hit for _, hits in read for place, hit in hits.items()}
        return [found[place] for place in best if place in found]

    def centroids(self) -> Centroids:
        """The sessions' mean vectors; of each session its age among those of
        its room.
        """
        sessions = {id(one): np.unique(part.sessions) for one, part in self.parts}
        read = each_room(
            (one for one, _ in self.parts),
            lambda one, c: vector_rows.centroids(
                c, (sessions[id(one)] % _APART).tolist()
            ),
        )
        ages = {
            i: np.ones(len(numbers), dtype=np.int64) for i, numbers in sessions.items()
        }
        for one, known in read:
            newer = np.searchsorted(known.every, sessions[id(one)] % _APART)
            ages[id(one)] = len(known.every) - newer
        held = [
            (sessions[id(one)], known) for one, known in read if len(known.sessions)
        ]
        numbers = [known.sessions + (own[0] // _APART) * _APART for own, known in held]
        matrix = [known.matrix for _, known in held] or [
            np.zeros((0, 0), dtype=np.float32)
        ]
        none = np.zeros(0, dtype=np.int64)
        every, known_ages = (
            np.concatenate([none, *numbers]),
            np.concatenate([none, *ages.values()]),
        )
        return Centroids(every, every, np.concatenate(matrix), known_ages)


def _gathered(search: UserSearch, query: str, k: int, *, past: bool = False) -> _Joined:
    vector, searches = _usable(search, query)
    sought = search.sought(query, vector, k, past=past)
    ranked = _ranked_records(searches, sought)
    records = {id(one): own for one, own in ranked}
    parts = each_room(
        (one for one, _ in ranked),
        lambda one, c: gather(one, c, sought, records[id(one)]),
    )
    apart = [
        replace(p, sessions=p.sessions + n * _APART) for n, (_, p) in enumerate(parts)
    ]
    numbered = [(one, part) for (one, _), part in zip(parts, apart, strict=True)]
    joined = Candidates(
        query,
        vector,
        [fact for part in apart for fact in part.facts],
        np.concatenate(
            [np.zeros(0, dtype=np.int64), *(part.sessions for part in apart)]
        ),
        dense=np.concatenate([np.zeros(0), *(part.dense for part in apart)]),
        words=np.concatenate([np.zeros(0), *(part.words for part in apart)]),
        scale=search.scale(vector),
        spans=np.concatenate(
            [np.zeros((0, 2), dtype=np.int64), *(part.spans for part in apart)]
        ),
        records=np.concatenate([np.zeros(0), *(part.records for part in apart)]),
        ranked_records=RankedRecords(np.zeros(0), {}, []),
        asked=sought.asked,
    )
    return _Joined(
        numbered, joined, [n for n, part in enumerate(apart) for _ in part.facts]
    )


def search_records(
    search: UserSearch, query: str, k: int, then: datetime | None, *, explain: bool
) -> list[RecordHit]:
    """The `k` best chains of records, best first: of what holds now, labelled, or what
    held then.

    `then` is naive UTC; with `explain` the hits have their signals.
    """
    vector, searches = _usable(search, query)
    sought = search.sought(query, vector, k, past=then is None, then=then)
    ranked = _ranked_records(searches, sought)
    own = {id(one): found for one, found in ranked}
    read = each_room(
        (one for one, _ in ranked),
        lambda one, c: hits_of_records(
            c, own[id(one)], k, explain, labelled=then is None
        ),
    )
    chains = [chain for _, found in read for chain in found if chain]
    best = sorted(chains, key=lambda chain: -chain[0].score)[:k]
    return [hit for chain in best for hit in chain]
