"""The vectors of messages of small rooms, held in memory between searches.

Comparing with all of them takes less time than asking an index and reading what it found. They are
used only where they are those of the transaction: a number is never given twice, so the greatest
number and the count of the stored vectors tell whether any was added or deleted, by whichever
process.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.storage import message_queries, vector_rows
from langmem_graph.storage.message_queries import Facts
from langmem_graph.storage.tables_and_migrations import get_meta
from langmem_graph.storage.vector_rows import VectorRows

if TYPE_CHECKING:
    from langmem_graph.storage.postgres_database import PostgresDatabase
    from langmem_graph.storage.sqlite_database import Database

    _Key = weakref.ref[Database | PostgresDatabase]

MOST_BYTES = 32 << 20  # of one room: 21,845 vectors of 384 numbers
ALL_BYTES = 256 << 20  # of all rooms of the process
_GUARD = threading.RLock()  # the collector may drop a room while its thread has it
_RECENT: "OrderedDict[_Key, HeldVectors]" = OrderedDict()


@dataclass(frozen=True)
class HeldVectors:
    """All vectors of messages as they were at one time, by number."""

    newest: int
    count: int  # with those of records
    rows: VectorRows
    facts: dict[int, Facts] = field(default_factory=dict)
    """Of messages with a vector, as far as asked for: these are stored, and never edited."""

    @property
    def size(self) -> int:
        """Bytes of its vectors."""
        return self.rows.matrix.nbytes

    def nearest(self, vector: NDArray[np.float32], k: int, waiting: Collection[int]) -> list[int]:
        """The items of the `k` nearest vectors, and of the `k` nearest among those that wait."""
        cosines, waits = self.rows.matrix @ vector, self._is_of(waiting)
        found = [_greatest(cosines, np.flatnonzero(waits == one), k) for one in (False, True)]
        items: list[int] = self.rows.items[np.concatenate(found)].tolist()
        return items

    def nearest_of(self, vector: NDArray[np.float32], k: int, items: Collection[int]) -> list[int]:
        """Those of these items that have the `k` nearest of their vectors."""
        places = np.flatnonzero(self._is_of(items))
        found: list[int] = self.rows.items[_greatest(self.rows.matrix @ vector, places, k)].tolist()
        return found

    def of_items(self, items: Collection[int]) -> VectorRows:
        """All vectors of these messages."""
        return self.rows.at(np.flatnonzero(self._is_of(items)))

    def facts_of(self, connection: Connection, items: Collection[int]) -> dict[int, Facts]:
        """What ranking needs to know of these messages, by number."""
        unknown = [n for n in items if n not in self.facts]
        read = message_queries.facts_of(connection, unknown) if unknown else {}
        embedded = self.of_items(read).items.tolist() if read else []
        self.facts.update((n, read[n]) for n in embedded)
        return {n: self.facts.get(n) or read[n] for n in items if n in self.facts or n in read}

    def _is_of(self, items: Collection[int]) -> NDArray[np.bool_]:
        return np.isin(self.rows.items, np.fromiter(items, dtype=np.int64), kind="table")


def held(
    database: "Database | PostgresDatabase", connection: Connection, few: int
) -> HeldVectors | None:
    """The vectors of messages of the transaction; None where they are `few`, or too many."""
    newest, count = database.stored_vectors(connection)
    if newest <= few:
        return None
    key = weakref.ref(database, _drop)
    known = _RECENT.get(key)
    if known is None or (known.newest, known.count) != (newest, count):
        known = _read(connection, newest, count, known)
    with _GUARD:
        _RECENT.pop(key, None)
        if known is not None:
            _RECENT[key] = known
        while sum(one.size for one in _RECENT.values()) > ALL_BYTES:
            _RECENT.popitem(last=False)
    return known


def _drop(key: "_Key") -> None:
    """Let go of the vectors of a room that is closed, or was erased."""
    with _GUARD:
        _RECENT.pop(key, None)


def _read(
    connection: Connection, newest: int, count: int, known: HeldVectors | None
) -> HeldVectors | None:
    """All vectors; those that are known are not read again where none was deleted since.

    Then as many numbers are missing as before.
    """
    if count * 4 * int(get_meta(connection, "dimension") or 0) > MOST_BYTES:
        return None
    after, blocks = 0, list[VectorRows]()
    if known is not None and newest - count == known.newest - known.count:
        after, blocks = known.newest, [known.rows]
    blocks += vector_rows.all_vectors(connection, after=after)
    facts = known.facts if known is not None and after else {}
    if not blocks:
        return None
    return HeldVectors(newest, count, vector_rows.joined(blocks), facts)


def _greatest(values: NDArray[np.float32], places: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Of these places the `k` with the greatest values."""
    if len(places) <= k:
        return places
    return places[np.argpartition(-values[places], k - 1)[:k]]
