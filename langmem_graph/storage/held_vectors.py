"""The vectors of messages of a room, held in memory between searches.

Comparing with all of them takes less time than asking an index and reading what it
found, and is exact. They are used only where they are those of the transaction: a
number is never given twice and every deletion leaves a mark, so the greatest numbers
and that mark tell whether any was added or deleted, by whichever process.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from langmem_graph.errors import LangMemGraphError
from langmem_graph.storage import message_queries, vector_rows
from langmem_graph.storage.full_text import MESSAGE_WORDS
from langmem_graph.storage.message_queries import Facts
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import (
    MESSAGES,
    VECTORS_DELETED,
    messages,
    meta,
    records,
    vectors,
)
from langmem_graph.storage.vector_rows import Matrix, Pieces, VectorRows
from langmem_graph.storage.where_conditions import messages_matching
from langmem_graph.storage.words import Passes
from langmem_graph.threads import result_of, start_thread

if TYPE_CHECKING:
    from langmem_graph.storage.postgres_database import PostgresDatabase
    from langmem_graph.storage.sqlite_database import Database

    _Key = weakref.ref[Database | PostgresDatabase]

MOST_BYTES = 160 << 20  # of one room: 109,226 vectors of 384 numbers
# from so many of a server's on searches do not wait until they are read
MANY = vector_rows.BLOCK
BESIDE_BYTES = 8 << 20  # from so many on a thread of its own is worth while
# a larger room is held only where it takes the place of none in use
SMALL_BYTES = 32 << 20
ALL_BYTES = 256 << 20  # of all rooms of the process
IN_USE_SECONDS = 300.0
REFUSED_SECONDS = 60.0
READING_SECONDS = 30.0
TERMS = 10_000  # of one room whose counts are remembered
FILTERS = 16  # of one room whose messages are remembered
_LAST = [
    sa.select(sa.func.max(t.c.n)).scalar_subquery()
    for t in (vectors, messages, records)
]
_FACTS = [
    sa.select(meta.c.value).where(meta.c.key == key).scalar_subquery()
    for key in (VECTORS_DELETED, "embedder", "dimension")
]
_STATE = sa.select(*(sa.func.coalesce(last, 0) for last in _LAST), *_FACTS)
_COUNT = sa.select(sa.func.count()).where(vectors.c.layer == MESSAGES)
_GUARD = threading.RLock()  # the collector may drop a room while its thread has it
_RECENT: "OrderedDict[_Key, _Place]" = OrderedDict()


class State(NamedTuple):
    """What tells whether a room's vectors or messages have changed, read by one
    query.
    """

    vector: int
    """The greatest number of a vector, of whichever layer."""
    message: int
    record: int
    deleted: str | None
    """Another one after each deletion."""
    embedder: str | None
    dimension: str | None

    @classmethod
    def of(cls, connection: Reading) -> "State":
        """That of the transaction."""
        return cls._make(connection.execute(_STATE).one())


@dataclass(frozen=True)
class HeldVectors:
    """All vectors of messages as they were at one time, in the order of their
    numbers.
    """

    state: State
    rows: VectorRows
    space: Matrix
    """What the rows' matrix is the beginning of: later vectors are written
    behind it.
    """
    by_item: NDArray[np.int64]
    """The places of the vectors in the order of their messages."""
    facts: dict[int, Facts] = field(default_factory=dict)
    """Of messages with a vector, as far as asked for: these are stored, and never
    edited.
    """
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By term: up to which message it was counted, and in how many of these it
    occurs.
    """
    passing: "OrderedDict[str, Passes]" = field(default_factory=OrderedDict)
    """By filter: of each message's number whether it passes. Metadata are never
    edited.
    """

    @property
    def size(self) -> int:
        """Bytes of its vectors."""
        return self.space.nbytes

    def nearest(self, cosines: Matrix, k: int, passes: Passes | None) -> list[int]:
        """The items of the `k` nearest vectors, of messages that pass a filter."""
        places = np.arange(len(cosines))
        if passes is not None:
            places = np.flatnonzero(passes[self.rows.items])
        items: list[int] = self.rows.items[
            places[_greatest(cosines[places], k)]
        ].tolist()
        return items

    def begin_comparing(self, vector: Matrix) -> Callable[[], Matrix]:
        """Begin to compute each vector's cosine with this one; the result waits for
        them.

        A thread does it where they are many, while SQLite looks words up: neither takes
        turns with other threads for Python's lock.
        """
        work = partial(vector_rows.cosines, self.rows.matrix, vector)
        if self.rows.matrix.nbytes < BESIDE_BYTES:
            return work
        begun = start_thread(work)

        def cosines() -> Matrix:
            try:
                return result_of(begun, READING_SECONDS)
            # at exit no thread can be started
            except (LangMemGraphError, TimeoutError):
                return work()

        return cosines

    def pieces_of(self, items: Collection[int], cosines: Matrix) -> Pieces:
        """All vectors of these messages."""
        places = self.places_of(items)
        return Pieces(self.rows.items[places], self.rows.spans[places], cosines[places])

    def places_of(self, items: Collection[int]) -> NDArray[np.int64]:
        """The places of all vectors of these messages."""
        wanted = np.unique(np.fromiter(items, dtype=np.int64))
        ordered = self.rows.items
        first = np.searchsorted(ordered, wanted, sorter=self.by_item)
        count = np.searchsorted(ordered, wanted, "right", sorter=self.by_item) - first
        before = np.repeat(first - (np.cumsum(count) - count), count)
        places: NDArray[np.int64] = self.by_item[before + np.arange(len(before))]
        return places

    def facts_of(self, connection: Reading, items: Collection[int]) -> dict[int, Facts]:
        """What ranking needs to know of these messages, by number."""
        known = {n: self.facts[n] for n in items if n in self.facts}
        unknown = [n for n in items if n not in known]
        if not unknown:
            return known
        read = message_queries.facts_of(connection, unknown)
        embedded = self.rows.items[self.places_of(read)].tolist()
        self.facts.update((n, read[n]) for n in embedded)
        return known | read

    def word_counts(self, connection: Reading, terms: Sequence[str]) -> dict[str, int]:
        """In how many messages each term occurs.

        Only those that arrived since it was last asked for are counted.
        """
        last = self.state.message
        known = {t: self.counted.get(t, (0, 0)) for t in terms}
        known = {t: one if one[0] <= last else (0, 0) for t, one in known.items()}
        new = {t: n for t, (n, _) in known.items() if n < last}
        found = MESSAGE_WORDS.counts(connection, new, new) if new else {}
        counts = {t: count + found.get(t, 0) for t, (_, count) in known.items()}
        if len(self.counted) > TERMS:
            self.counted.clear()
        self.counted.update((t, (last, counts[t])) for t in new)
        return counts

    def passing_filter(self, connection: Reading) -> Passes | None:
        """Of each message's number whether it passes the connection's filter; None
        without one.

        Only messages that arrived since the filter was last asked for are looked at.
        """
        where = connection.where
        if where is None:
            return None
        # True and 1 are equal, but not the same
        name = repr(where)
        last = self.state.message
        known = self.passing.get(name, np.zeros(1, dtype=np.bool_))
        if len(known) <= last:
            numbers = messages_matching(where, after=len(known) - 1)
            known = np.concatenate(
                [known, np.zeros(last + 1 - len(known), dtype=np.bool_)]
            )
            known[np.array(connection.scalars(numbers).all(), dtype=np.int64)] = True
        with _GUARD:
            self.passing[name] = known
            self.passing.move_to_end(name)
            if len(self.passing) > FILTERS:
                self.passing.popitem(last=False)
        return known[: last + 1]

    def at(self, state: State) -> "HeldVectors":
        """As it was at an earlier state, since which nothing was deleted."""
        count = int(np.searchsorted(self.rows.ids, state.vector, "right"))
        first = self.rows.at(slice(count))
        return replace(self, state=state, rows=first, by_item=_order(first.items))


@dataclass
class _Place:
    """What is held of one room."""

    reading: threading.Lock = field(default_factory=threading.Lock)
    vectors: HeldVectors | None = None
    used: float = 0.0
    refused: tuple[str | None, float] = ("", 0.0)
    """After which deletion it was too large, and until when it is not looked at
    again.
    """

    @property
    def size(self) -> int:
        return self.vectors.size if self.vectors else 0


def held(
    database: "Database | PostgresDatabase", connection: Reading, state: State, few: int
) -> HeldVectors | None:
    """The vectors of messages of the transaction, whose state this is.

    None where they are `few`, too many, or where the memory for them is in use by other
    rooms.
    """
    if state.vector <= few:
        return None
    key = weakref.ref(database, _drop)
    with _GUARD:
        place = _RECENT.setdefault(key, _Place())
        _RECENT.move_to_end(key)
    place.used = monotonic()
    if place.vectors is not None and place.vectors.state == state:
        return place.vectors
    if place.refused[0] == state.deleted and place.used < place.refused[1]:
        return None
    if connection.dialect.name == "postgresql" and _unread(state, place) > MANY:
        cast("PostgresDatabase", database).read_beside(partial(_read_beside, place))
        return None
    if not place.reading.acquire(timeout=READING_SECONDS):
        return None
    try:
        return _renewed(connection, state, place)
    finally:
        place.reading.release()


def _unread(state: State, place: _Place) -> int:
    """How many vectors there are at most that have not been read."""
    known = place.vectors.state if place.vectors else None
    return state.vector - (
        known.vector if known and known.deleted == state.deleted else 0
    )


def _read_beside(place: _Place, connection: Reading) -> None:
    if place.reading.acquire(blocking=False):
        try:
            _renewed(connection, State.of(connection), place)
        finally:
            place.reading.release()


def _renewed(connection: Reading, state: State, place: _Place) -> HeldVectors | None:
    known = place.vectors
    if known is not None and known.state.deleted == state.deleted:
        if state.vector < known.state.vector or state.message < known.state.message:
            return known.at(state)
    else:
        known = None
    place.vectors = _read(connection, state, known, place)
    return place.vectors


def _read(
    connection: Reading, state: State, known: HeldVectors | None, place: _Place
) -> HeldVectors | None:
    """All vectors; those that are known are not read again."""
    if known is not None and known.state.vector == state.vector:
        return replace(known, state=state)
    dimension = int(state.dimension or 0)
    after = 0
    rows = list[VectorRows]()
    space = np.empty((0, dimension), dtype=np.float32)
    if known is not None:
        after = known.state.vector
        rows = [known.rows]
        space = known.space
    used = sum(map(len, rows))
    count = used + (state.vector - after if known else connection.scalar(_COUNT) or 0)
    if not count or not _is_space(4 * count * dimension, state, place):
        return None
    if count > len(space):
        space, old = np.empty((count + count // 8, dimension), dtype=np.float32), space
        space[:used] = old[:used]
    for block in vector_rows.all_vectors(connection, after=after):
        space[used : used + len(block)] = block.matrix
        used += len(block)
        # or all would be held twice meanwhile
        rows.append(replace(block, matrix=space[:0]))
    joined = vector_rows.joined(rows, space[:used])
    own = joined, space, _order(joined.items)
    return (
        HeldVectors(state, *own, known.facts, known.counted, known.passing)
        if known
        else HeldVectors(state, *own)
    )


def _is_space(size: int, state: State, own: _Place) -> bool:
    """Whether a room's vectors may be held; other rooms are let go of for them, the
    idlest first.

    A large room takes the place of none that is in use: two that do would be read again
    and again.
    """
    now = monotonic()
    too_large = size > MOST_BYTES
    with _GUARD:
        others = [place for place in _RECENT.values() if place is not own]
        in_use = (one.size for one in others if one.used > now - IN_USE_SECONDS)
        if too_large or (size > SMALL_BYTES and size + sum(in_use) > ALL_BYTES):
            own.refused = state.deleted, inf if too_large else now + REFUSED_SECONDS
            return False
        while others and size + sum(one.size for one in others) > ALL_BYTES:
            others.pop(0).vectors = None
    return True


def _drop(key: "_Key") -> None:
    """Let go of the vectors of a room that is closed, or was erased."""
    with _GUARD:
        _RECENT.pop(key, None)


def _order(items: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(items, kind="stable")


def _greatest(values: Matrix, k: int) -> NDArray[np.int64]:
    """The places of the `k` greatest values; of equal ones the first."""
    if len(values) <= k:
        return np.arange(len(values))
    if k <= 0:
        return np.arange(0)
    least = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > least)
    return np.concatenate([above, np.flatnonzero(values == least)[: k - len(above)]])
