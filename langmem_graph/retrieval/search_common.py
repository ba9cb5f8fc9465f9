"""What every search shares: request checks, what it works with, and nearest
neighbours.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter
from typing import Any, get_args

from sqlalchemy import Select

from langmem_graph.embeddings.cosine_scale import PLAIN, CosineScale
from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import (
    EmbeddingError,
    IndexUnavailableError,
    InvalidInputError,
    for_log,
    quoted,
)
from langmem_graph.filters import Filter
from langmem_graph.ids_and_times import in_zone, message_ids, to_utc
from langmem_graph.results import RecallMode
from langmem_graph.retrieval.ranking import QueryDays, Vector
from langmem_graph.schedule.times import zone_of
from langmem_graph.schemas import MessageHit
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage import vector_rows
from langmem_graph.storage.full_text import WordTable
from langmem_graph.storage.held_vectors import HeldVectors, State, held
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.user_room import OpenLedger, Room
from langmem_graph.storage.vector_rows import VectorRows
from langmem_graph.storage.where_conditions import at_most
from langmem_graph.storage.words import TermCounts, query_terms, telling_terms
from langmem_graph.view import View

MAX_K = 1_000_000
FEW, MOST_COMPARED, SHARE = 2_000, 20_000, 4
"""Under a filter the vectors of so few items are always compared one by one, and of
more where they are less than a quarter of all: the index would have to be asked too
deep for them; measured.
"""
# how much deeper the index is asked under one, and at most; ours
DEEPER = 4
MOST_ASKED = 20_000
NEAR_MISSES = 3  # candidates behind the last hit that an explanation names
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecallRequest:
    """Request of a recall; None takes the default of the settings."""

    query: str
    mode: RecallMode = "auto"
    k: int | None = None  # number of facts of the first look-up
    max_tokens: int | None = None  # token budget of the context
    # ids and texts that the model sees anyway; not quoted again
    in_view: Sequence[str] = ()
    at: datetime | None = None  # when it is asked, in UTC; None is the present


def recall_request(
    settings: Settings,
    query: str,
    mode: RecallMode,
    k: int | None,
    max_tokens: int | None,
    in_view: Sequence[str],
    at: object,
) -> RecallRequest:
    """The request of a recall; InvalidInputError for a query or option of no use."""
    check_query(query, settings.context.k if k is None else k)
    budget: object = settings.context.max_tokens if max_tokens is None else max_tokens
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidInputError(
            f"max_tokens must be a whole number above 0, not {quoted(budget)}."
        )
    check_choice("mode", mode, get_args(RecallMode))
    asked_at = None if at is None else to_utc(at)
    seen = message_ids(in_view, "in_view")
    most = min(budget, sys.maxsize)
    return RecallRequest(query, mode, k, most, seen, asked_at)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise InvalidInputError for an option that is none of the choices."""
    if value not in choices:
        raise InvalidInputError(
            f"{name} must be one of {', '.join(choices)}, not {quoted(value)}."
        )


def check_query(query: object, k: object) -> None:
    """Raise InvalidInputError for a query without words, or a number of hits that is
    none.
    """
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(
            f"The query must be a text with words in it, not {quoted(query)}."
        )
    check_k(k)


def check_k(k: object) -> None:
    """Raise InvalidInputError for a number of hits that is none."""
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        raise InvalidInputError(
            f"k must be a whole number from 1 to {MAX_K:,}, not {quoted(k)}."
        )


def why_missed(hit: MessageHit, last: MessageHit) -> str:
    """How far a candidate is behind the last hit."""
    return (
        f"{last.score - hit.score:.3f} behind the last hit, whose score is "
        f"{last.score:.3f}"
    )


def signals_line(hit: MessageHit) -> str:
    """A hit's signals on one line."""
    return "  ".join(
        f"{name} {value:.2f}" for name, value in (hit.signals or {}).items()
    )


@dataclass
class SearchNotes:
    """Notes on a search: how long each stage took, and what failed."""

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
        """Note a part that failed; the search continues without it."""
        _log.warning("%s", for_log(problem))
        if str(problem) not in self.warnings:
            self.warnings.append(str(problem))


@dataclass(frozen=True)
class Sought:
    """What a search looks for, and how many candidates it takes from each list."""

    query: str
    vector: Vector | None  # of the query; None where the embedder failed
    days: QueryDays
    dense: int
    words: int
    past: int = 0  # of each list of records that no longer hold
    # records have to hold at this time, in naive UTC; None is now
    then: datetime | None = None


@dataclass(frozen=True)
class RoomSearch:
    """What a search works with in one room, or among the items of a store."""

    room: OpenLedger
    embedder: Embedder
    settings: Settings
    where: Filter | None
    """What all that is found has to pass."""
    notes: SearchNotes = field(default_factory=SearchNotes)
    is_beside: bool = False
    """A shared room beside the user's own: where it fails, a search goes on without
    it.
    """
    message_terms: TermCounts | None = None
    """How rare the query's words are in all rooms of the search; None is in its own."""
    record_terms: TermCounts | None = None
    asked: datetime | None = None
    """When the query is asked, on the user's clock: the day from which yesterday is
    reckoned. None for a text that nobody asks, such as a sentence of an example.
    """

    @classmethod
    def of(
        cls,
        services: Services,
        room: Room,
        where: Filter | None,
        notes: SearchNotes | None = None,
    ) -> "RoomSearch":
        """With the memory's embedder and settings."""
        notes = notes or SearchNotes()
        return cls(room, services.embedder, services.settings, where, notes)

    @property
    def key(self) -> str:
        """The user's id or the shared room's key; empty for a store."""
        return self.room.user_id if isinstance(self.room, Room) else ""

    def sought(
        self,
        query: str,
        vector: Vector | None,
        k: int,
        *,
        past: bool = False,
        then: datetime | None = None,
    ) -> Sought:
        """What to look for to find `k` hits; with `past` also among records that no
        longer hold.
        """
        dense = max(self.settings.ranking.dense_candidates, k)
        words = max(self.settings.ranking.word_candidates, k)
        past_records = dense if past else 0
        days = QueryDays.of(query, self.asked)
        return Sought(query, vector, days, dense, words, past_records, then)

    def vector(self, query: str) -> Vector | None:
        """The query's vector; None when the embedder fails or its size is wrong, which
        is noted.
        """
        dimension = self.room.check_embedder(self.embedder.name)
        return self._of_size(self.embedded(query), dimension)

    def embedded(self, query: str) -> Vector | None:
        """The query's vector, not yet compared with the stored ones; None when that
        fails.
        """
        try:
            with self.notes.stage("embed"):
                vector = self.embedder.embed_query(query)
                self.scale(vector)  # measured here, and in no transaction
                return vector
        except EmbeddingError as error:
            self.notes.warn(error)
            return None

    def scale(self, vector: Vector | None) -> CosineScale:
        """What cosines with this vector say; without one there are none."""
        return PLAIN if vector is None else self.embedder.scale

    def fitting(self, sought: Sought, state: State) -> Sought:
        """The same without a vector of the wrong size; raises where the embedder is
        another one.
        """
        self.room.check_made_by(state.embedder, self.embedder.name)
        return replace(sought, vector=self._of_size(sought.vector, state.dimension))

    def _of_size(self, vector: Vector | None, stored: str | None) -> Vector | None:
        try:
            if vector is not None:
                self.room.check_dimension(vector.size, stored)
            return vector
        except EmbeddingError as error:
            self.notes.warn(error)
            return None

    def near(
        self, connection: Reading, layer: str, vector: Vector | None, k: int
    ) -> list[int]:
        """The layer's items with the `k` nearest vectors: Chroma's, and those it does
        not have yet.

        Without Chroma, or with few vectors, all are compared exactly: Chroma's search
        is approximate. An embedded one without any vectors is not even opened, which
        takes a while.
        """
        if vector is None:
            return []
        meant = connection.matching(layer)
        if meant is not None:
            return self._near_within(connection, layer, vector, k, meant)
        return self._near(connection, layer, vector, k)

    def _near_within(
        self,
        connection: Reading,
        layer: str,
        vector: Vector,
        k: int,
        meant: Select[Any],
    ) -> list[int]:
        """Of the items that a filter lets through; few are compared one by one.

        Where they are many, the index is asked for more until enough of what it finds
        passes.
        """
        most = vector_rows.newest_vector(connection)
        if at_most(connection, meant, max(FEW, min(MOST_COMPARED, most // SHARE))):
            return vector_rows.nearest_among(connection, layer, meant, vector)[:k]
        depth = DEEPER * k
        while depth < min(most, MOST_ASKED):
            near = self._near(connection, layer, vector, depth)
            found = connection.seen(layer, near)
            if len(found) >= k:
                return [n for n in near if n in found]
            depth = max(2 * depth, 3 * depth * k // (2 * len(found) + 1))
        every = set(connection.scalars(meant))
        blocks = vector_rows.all_vectors(connection, layer)
        return [n for n in nearest(blocks, vector, None) if n in every][:k]

    def _near(
        self, connection: Reading, layer: str, vector: Vector, k: int
    ) -> list[int]:
        found = list[int]()
        exact: Iterable[VectorRows] = vector_rows.all_vectors(connection, layer)
        try:
            index = self.room.index
            needed = not index.embedded or vector_rows.is_any_indexed(connection)
            if needed and not self.room.read_only:
                found = index.query(layer, vector, k, connection)
                if vector_rows.newest_vector(connection) > k:
                    exact = [vector_rows.waiting_vectors(connection, layer)]
        except IndexUnavailableError as error:
            self.notes.warn(error)
        return [
            *vector_rows.items_of_vectors(connection, found),
            *nearest(exact, vector, k),
        ]

    def said_on_days(
        self, connection: Reading, layer: str, sought: Sought
    ) -> list[int]:
        """The layer's items that were said on the days which the query names: as many
        as there are candidates by vector, the nearest.
        """
        if sought.vector is None or not sought.days.named:
            return []
        spans = sought.days.spans(connection.said_years(layer))
        told = connection.said_within(layer, spans, MOST_COMPARED)
        rows = vector_rows.vectors_of(connection, told, layer)
        return nearest([rows], sought.vector, sought.dense)

    def held(self, connection: Reading, state: State) -> HeldVectors | None:
        """The vectors of messages, where they are too many to read each time and few
        enough.
        """
        database = self.room.database
        return held(database, connection, state, self.settings.ranking.dense_candidates)


@dataclass(frozen=True)
class UserSearch:
    """A search of one or several rooms, whose candidates are ranked together."""

    rooms: tuple[RoomSearch, ...]
    """The user's own first; none where nothing is stored in any."""

    @classmethod
    def of(
        cls,
        services: Services,
        room: Room,
        where: Filter | None,
        notes: SearchNotes | None = None,
    ) -> "UserSearch":
        """Of one room."""
        return cls((RoomSearch.of(services, room, where, notes),))

    @classmethod
    def over(
        cls,
        services: Services,
        view: View,
        rooms: Sequence[Room],
        notes: SearchNotes | None = None,
    ) -> "UserSearch":
        """Of a view's rooms, as far as something is stored there."""
        notes = notes or SearchNotes()
        searches = [
            replace(
                RoomSearch.of(services, room, view.where, notes),
                is_beside=room.user_id != view.user,
            )
            for room in rooms
        ]
        return cls(tuple(searches))

    @property
    def first(self) -> RoomSearch:
        """The first room, with what all rooms have in common."""
        return self.rooms[0]

    @property
    def settings(self) -> Settings:
        """The memory's settings."""
        return self.first.settings

    @property
    def notes(self) -> SearchNotes:
        """Milliseconds and warnings of all rooms."""
        return self.first.notes

    @property
    def embedder(self) -> Embedder:
        """The memory's embedder."""
        return self.first.embedder

    def asked_at(self, moment: datetime) -> "UserSearch":
        """The same for a query that is asked at a time."""
        asked = in_zone(moment, zone_of(self.settings.time_zone))
        return UserSearch(tuple(replace(one, asked=asked) for one in self.rooms))

    def by(self, method: RankingMethod | None) -> "UserSearch":
        """The same with another ranking method; None is that of the settings."""
        if method is None:
            return self
        ranking = self.settings.ranking.model_copy(update={"method": method})
        settings = self.settings.model_copy(update={"ranking": ranking})
        return UserSearch(tuple(replace(one, settings=settings) for one in self.rooms))


def telling(
    words: WordTable,
    connection: Reading,
    query: str,
    newest: int,
    known: TermCounts | None,
) -> tuple[list[str], TermCounts]:
    """The terms of a query that tell the rows of a table apart, and how rare they are.

    `newest` is the number of its last row; what is `known` already is of several rooms.
    """
    if known is None:
        known = TermCounts(newest, words.counts(connection, query_terms(query)))
    return telling_terms(known.having, known.rows), known


def nearest(
    blocks: Iterable[VectorRows], vector: Vector, depth: int | None
) -> list[int]:
    """The items with the nearest of these vectors, by exact comparison; None is all of
    them.
    """
    best = best_cosines(blocks, vector)
    return sorted(best, key=lambda item: -best[item])[:depth]


def best_cosines(blocks: Iterable[VectorRows], vector: Vector) -> dict[int, float]:
    """Each item's greatest cosine over its vectors."""
    best: dict[int, float] = {}
    for rows in blocks:
        cosines: list[float] = (rows.matrix @ vector).tolist() if len(rows) else []
        for item, cosine in zip(rows.items.tolist(), cosines, strict=True):
            best[item] = max(cosine, best.get(item, -2.0))
    return best
