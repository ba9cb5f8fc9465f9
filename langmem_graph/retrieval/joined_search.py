"""One search path: candidates of one or several rooms, ranked together.

Each room is read in a transaction of its own, so that the walls around it hold. How
rare a word is is counted over all rooms, and every signal is compared over all of them.
A shared room that fails is left out, and the notes say so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np

from langmem_graph.results import SearchBy
from langmem_graph.retrieval.message_search import different, gather, hits_of
from langmem_graph.retrieval.ranking import (
    NOT_FOUND,
    Candidates,
    Ranking,
    rank_messages,
    rank_sessions,
)
from langmem_graph.retrieval.record_search import (
    RankedRecords,
    found_records,
    hits_of_records,
)
from langmem_graph.retrieval.search_common import RoomSearch, Sought, UserSearch
from langmem_graph.rooms import left_out
from langmem_graph.schemas import MessageHit, RecordHit
from langmem_graph.storage import vector_rows
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS
from langmem_graph.storage.held_vectors import State
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.vector_rows import Centroids
from langmem_graph.storage.words import TermCounts, query_terms
from langmem_graph.trust import bounded

T = TypeVar("T")
InRoom = tuple[RoomSearch, T]
"""A room's search with what it found."""
OpenRoom = InRoom[Reading]
"""A room's search with its read transaction."""
# searches where most texts are equal, each so many times as deep
ATTEMPTS = 3
DEEPER = 8
_APART = 1 << 40  # between the numbers of two rooms' sessions


def search_best(
    search: UserSearch, query: str, k: int, by: SearchBy
) -> list[MessageHit]:
    """The `k` best messages, or sessions each represented by its best message, best
    first.
    """
    sought = search.first.sought(query, search.first.embedded(query), k)
    with _candidates(search, sought) as found:
        ranking = found.ranking()
        best = ranking.best()
        if by == "session":
            ranking, best = found.session_ranking(ranking)
        return found.hits(ranking, best[:k])


def search_different(
    search: UserSearch, query: str, k: int, *, past: bool = False, foreign: float = 1.0
) -> tuple[list[MessageHit], list[InRoom[RankedRecords]]]:
    """The `k` best messages with different texts, and the records of each room as they
    were ranked beside them.

    Used for prompts: a question that was asked often would otherwise take up all
    places. With `past` records that no longer hold are ranked too; the messages are
    ranked without them. Of the messages at most the share `foreign` holds words of
    tools and imports.
    """
    sought = search.first.sought(query, search.first.embedded(query), k, past=past)
    for _ in range(ATTEMPTS):
        with _candidates(search, sought) as found:
            ranking = found.ranking()
            best = ranking.best()
            hits = _different_hits(found, ranking, best, k, foreign)
        all_seen = len(best) < sought.dense or ranking.scores[best[-1]] == NOT_FOUND
        if len(hits) == k or all_seen or search.notes.warnings:
            break
        sought = replace(
            sought, dense=sought.dense * DEEPER, words=sought.words * DEEPER
        )
    return hits, [(one, part.ranked_records) for (one, _), part in found.parts]


def _different_hits(
    found: "_Found", ranking: Ranking, best: Sequence[int], k: int, foreign: float
) -> list[MessageHit]:
    """Read the texts in growing portions, until `k` of them differ, and few enough are
    foreign.
    """
    hits: list[MessageHit] = []
    read = 0
    while read < len(best) and len(hits) < k:
        more = best[read : read + max(k, read)]
        hits = bounded(different([*hits, *found.hits(ranking, more)]), k, foreign)
        read += len(more)
    return hits[:k]


def search_records(
    search: UserSearch, query: str, k: int, then: datetime | None, *, explain: bool
) -> list[RecordHit]:
    """The `k` best chains of records, best first: of what holds now, labelled, or what
    held then.

    `then` is naive UTC; with `explain` the hits have their signals.
    """
    vector = search.first.embedded(query)
    sought = search.first.sought(query, vector, k, past=then is None, then=then)
    with open_rooms(search.rooms) as opened:
        ranked = _ranked_records(_counted(opened, query), sought)
        records = {one.key: own for (one, _), own in ranked}
        read = _in_each(
            [room for room, _ in ranked],
            lambda one, c: hits_of_records(
                c, records[one.key], k, explain, labelled=then is None
            ),
        )
    chains = [chain for _, found in read for chain in found if chain]
    best = sorted(chains, key=lambda chain: -chain[0].score)[:k]
    return [hit for chain in best for hit in chain]


def each_room(
    rooms: Iterable[RoomSearch], work: Callable[[RoomSearch, Reading], T]
) -> list[InRoom[T]]:
    """The work in a read transaction of each room, without the shared rooms where it
    fails.
    """
    with open_rooms(rooms) as opened:
        return [(one, done) for (one, _), done in _in_each(opened, work)]


@contextmanager
def open_rooms(rooms: Iterable[RoomSearch]) -> Iterator[list[OpenRoom]]:
    """A read transaction of each room, without the shared rooms that cannot be read."""
    opened = list[OpenRoom]()
    with ExitStack() as stack:
        for one in rooms:
            transaction = one.room.database.read_transaction(one.where)
            with _going_on_without(one):
                opened.append((one, transaction.__enter__()))
                stack.callback(_end, one, transaction)
        yield opened


def _end(search: RoomSearch, transaction: AbstractContextManager[Reading]) -> None:
    with _going_on_without(search):
        transaction.__exit__(None, None, None)


def _in_each(
    opened: Iterable[OpenRoom], work: Callable[[RoomSearch, Reading], T]
) -> list[tuple[OpenRoom, T]]:
    done = list[tuple[OpenRoom, T]]()
    for one, connection in opened:
        with _going_on_without(one):
            done.append(((one, connection), work(one, connection)))
    return done


@contextmanager
def _going_on_without(search: RoomSearch) -> Iterator[None]:
    """Note what fails in a shared room beside the user's own.

    The error is turned into ours here: a transaction only sees what fails while it is
    the only one.
    """
    try:
        with search.room.database.explained():
            yield
    except Exception as error:
        if not search.is_beside:
            raise
        search.notes.warn(left_out(search.key, error))


def _counted(opened: list[OpenRoom], query: str) -> list[OpenRoom]:
    """The rooms' searches, each of which knows how rare the words are in all rooms."""
    if len(opened) == 1:
        return opened
    terms = query_terms(query)
    counts = _in_each(
        opened,
        lambda _, c: (MESSAGE_WORDS.counted(c, terms), RECORD_WORDS.counted(c, terms)),
    )
    none = TermCounts(0, dict.fromkeys(terms, 0))
    messages = reduce(add, (own for _, (own, _) in counts), none)
    records = reduce(add, (own for _, (_, own) in counts), none)
    return [
        (replace(one, message_terms=messages, record_terms=records), connection)
        for (one, connection), _ in counts
    ]


def _ranked_records(
    opened: Iterable[OpenRoom], sought: Sought
) -> list[tuple[OpenRoom, RankedRecords]]:
    """The records found in each room, scored over all of them."""
    found = _in_each(
        opened, lambda one, c: found_records(one, c, one.fitting(sought, State.of(c)))
    )
    best = max((float(part.words.max(initial=0.0)) for _, part in found), default=0.0)
    return [(room, part.ranked(best)) for room, part in found]


@contextmanager
def _candidates(search: UserSearch, sought: Sought) -> Iterator["_Found"]:
    """The candidates of all rooms, whose transactions are open meanwhile."""
    with open_rooms(search.rooms) as opened:
        rooms = _counted(opened, sought.query)
        records = dict[str, RankedRecords]()
        if len(rooms) > 1:  # one room ranks its records beside its messages
            ranked = _ranked_records(rooms, sought)
            rooms = [room for room, _ in ranked]
            records = {one.key: own for (one, _), own in ranked}
        parts = _in_each(
            rooms, lambda one, c: gather(one, c, sought, records.get(one.key))
        )
        yield _Found.of(search, sought, parts)


@dataclass(frozen=True)
class _Found:
    """The candidates of each room, and all of them as one list."""

    search: UserSearch
    parts: list[tuple[OpenRoom, Candidates]]
    all: Candidates

    @classmethod
    def of(
        cls,
        search: UserSearch,
        sought: Sought,
        parts: list[tuple[OpenRoom, Candidates]],
    ) -> "_Found":
        """Sessions of different rooms get different numbers."""
        apart = [
            (room, replace(part, sessions=part.sessions + n * _APART))
            for n, (room, part) in enumerate(parts)
        ]
        several = [part for _, part in apart]
        joined = several[0] if len(several) == 1 else _joined(search, sought, several)
        return cls(search, apart, joined)

    def ranking(self) -> Ranking:
        """The messages, ranked."""
        with self.search.notes.stage("rank"):
            return rank_messages(self.all, self.search.settings)

    def session_ranking(self, messages: Ranking) -> tuple[Ranking, list[int]]:
        """The sessions, ranked, and the places of their best messages."""
        with self.search.notes.stage("rank"):
            return rank_sessions(
                self.all, messages, self._centroids(), self.search.settings
            )

    def hits(self, ranking: Ranking, best: Sequence[int]) -> list[MessageHit]:
        """The candidates at these places, in their order; each is read in its room."""
        places_of = dict[str, range]()
        begin = 0
        for (one, _), part in self.parts:
            places_of[one.key] = range(begin, begin + len(part.facts))
            begin += len(part.facts)

        def read(one: RoomSearch, connection: Reading) -> dict[int, MessageHit]:
            places = [place for place in best if place in places_of[one.key]]
            return hits_of(connection, self.all, ranking, places)

        with self.search.notes.stage("texts"):
            parts = _in_each((room for room, _ in self.parts), read)
        found = {place: hit for _, hits in parts for place, hit in hits.items()}
        return [found[place] for place in best if place in found]

    def _centroids(self) -> Centroids:
        """The sessions' mean vectors; of each session its age among those of
        its room.
        """
        sessions = {one.key: np.unique(part.sessions) for (one, _), part in self.parts}
        read = _in_each(
            (room for room, _ in self.parts),
            lambda one, c: vector_rows.centroids(
                c, (sessions[one.key] % _APART).tolist()
            ),
        )
        ages = {
            key: np.ones(len(numbers), dtype=np.int64)
            for key, numbers in sessions.items()
        }
        for (one, _), known in read:
            newer = np.searchsorted(known.every, sessions[one.key] % _APART)
            ages[one.key] = len(known.every) - newer
        held = [
            (sessions[one.key], known)
            for (one, _), known in read
            if len(known.sessions)
        ]
        numbers = [known.sessions + (own[0] // _APART) * _APART for own, known in held]
        matrix = [known.matrix for _, known in held] or [
            np.zeros((0, 0), dtype=np.float32)
        ]
        none = np.zeros(0, dtype=np.int64)
        every = np.concatenate([none, *numbers])
        known_ages = np.concatenate([none, *ages.values()])
        return Centroids(every, every, np.concatenate(matrix), known_ages)


def _joined(search: UserSearch, sought: Sought, parts: list[Candidates]) -> Candidates:
    """The candidates of several rooms, or of none, as one list."""
    none = np.zeros(0)
    numbers = np.zeros(0, dtype=np.int64)
    spans = np.zeros((0, 2), dtype=np.int64)
    return Candidates(
        sought.query,
        sought.vector,
        [fact for part in parts for fact in part.facts],
        np.concatenate([numbers, *(part.sessions for part in parts)]),
        dense=np.concatenate([none, *(part.dense for part in parts)]),
        words=np.concatenate([none, *(part.words for part in parts)]),
        scale=search.first.scale(sought.vector),
        spans=np.concatenate([spans, *(part.spans for part in parts)]),
        records=np.concatenate([none, *(part.records for part in parts)]),
        ranked_records=RankedRecords(np.zeros(0), {}, []),
        days=sought.days,
    )
