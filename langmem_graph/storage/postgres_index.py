"""The vector index of a room in PostgreSQL, with pgvector: every search compares all
vectors.

A user's vectors are few enough for that; an index over all users would look at
strangers' vectors first and lose the user's own. `migrate --index` makes one of its own
for a very large room.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, insert

from langmem_graph.storage.postgres_database import PostgresDatabase
from langmem_graph.storage.postgres_words import OWN_ROOM, SCHEMA, TABLES, room_column
from langmem_graph.storage.reading import EVERYTHING

AT_ONCE = 2_000
neighbours = sa.Table(
    "neighbours",
    TABLES,
    room_column(),
    sa.Column("layer", sa.Text(collation="C"), primary_key=True),
    sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("embedding", HALFVEC(), nullable=False),
)
"""Vectors with half the precision of the ledger's, with which what is found is compared
again.
"""


_DEPTH = sa.text(
    "SELECT set_config('hnsw.ef_search', :depth, true),"
    " set_config('hnsw.iterative_scan', 'strict_order', true)"
)


class PostgresIndex:
    """The vectors of one room, in the tables of its database."""

    embedded = False
    """There are no files of its own, and several processes may use it."""
    identity = place = f"postgresql:{SCHEMA}.neighbours"

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def count(self, layer: str) -> int:
        """How many vectors of a layer it holds."""
        query = sa.select(sa.func.count()).where(_of(layer))
        return self._database.read(
            lambda connection: connection.scalar(query) or 0, EVERYTHING
        )

    def upsert(
        self, layer: str, ids: Sequence[int], matrix: NDArray[np.float32]
    ) -> None:
        """Add or replace vectors."""
        new = insert(neighbours)
        same = ["room", "layer", "n"]
        either = new.on_conflict_do_update(
            index_elements=same, set_={"embedding": new.excluded.embedding}
        )
        for start in range(0, len(ids), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            pairs = zip(ids[some], matrix[some], strict=True)
            rows = [
                {"layer": layer, "n": n, "embedding": vector} for n, vector in pairs
            ]
            with self._database.write_transaction() as connection:
                connection.execute(either, rows)

    def delete(self, layer: str, ids: Sequence[int]) -> None:
        """Delete vectors; unknown ids are ignored."""
        if ids:
            gone = neighbours.c.n == sa.any_(
                sa.literal(list(ids), ARRAY(sa.BigInteger))
            )
            with self._database.write_transaction() as connection:
                connection.execute(sa.delete(neighbours).where(_of(layer), gone))

    def query(
        self,
        layer: str,
        vector: NDArray[np.float32],
        limit: int,
        connection: Connection,
    ) -> list[int]:
        """The ids of the nearest vectors by cosine, nearest first."""
        # as an index of its own has it
        size = sa.cast(neighbours.c.embedding, HALFVEC(vector.size))
        # Parts of the statement, as its index needs them; else a kept plan may read all
        # vectors.
        room: Any = sa.bindparam("room", self._database.room, literal_execute=True)
        own = neighbours.c.room == room
        own &= neighbours.c.layer == sa.bindparam("layer", layer, literal_execute=True)
        own &= having_size(vector.size)
        distance: Any = size.cosine_distance(vector)
        nearest = sa.select(neighbours.c.n).where(own).order_by(distance).limit(limit)
        connection.execute(_DEPTH, {"depth": str(min(1_000, max(40, 2 * limit)))})
        return list(connection.scalars(nearest))

    def drop(self) -> None:
        """Delete all vectors of the room."""
        with self._database.write_transaction() as connection:
            connection.execute(sa.delete(neighbours).where(_own))

    def close(self) -> None:
        """Nothing is open: its tables belong to the database."""


def having_size(size: int) -> sa.ColumnElement[bool]:
    """Those of so many numbers, which alone an index of a room's own has: vectors of
    another embedder do not fit into it.
    """
    return sa.literal_column(f"vector_dims(embedding) = {size}", sa.Boolean)


_own = neighbours.c.room == sa.literal_column(OWN_ROOM)


def _of(layer: str) -> sa.ColumnElement[bool]:
    return _own & (neighbours.c.layer == layer)
