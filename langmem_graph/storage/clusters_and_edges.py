"""Clusters of records, and the semantic and causal edges between records.

A cluster keeps the sum of its records' vectors, so that its centroid need not be recomputed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert, select, update

from langmem_graph.storage.record_writes import add_link
from langmem_graph.storage.tables_and_migrations import ACTIVE, clusters, links, records

SEMANTIC, CAUSAL = "semantic", "causal"
Vector = NDArray[np.float32]


@dataclass
class Clusters:
    """All clusters: their numbers, the sums of their unit vectors, and their sizes."""

    numbers: list[int]
    sums: list[Vector]
    counts: list[int]

    def nearest(self, vector: Vector) -> tuple[int, float]:
        """Position and cosine of the nearest centroid; (-1, -1) when there are no clusters."""
        if not self.numbers:
            return -1, -1.0
        matrix = np.stack(self.sums)
        cosines = (matrix @ vector) / np.maximum(np.linalg.norm(matrix, axis=1), 1e-9)
        place = int(np.argmax(cosines))
        return place, float(cosines[place])


def all_clusters(connection: Connection) -> Clusters:
    """Load all clusters."""
    rows = connection.execute(select(clusters).order_by(clusters.c.n)).all()
    return Clusters(
        [row.n for row in rows],
        [np.frombuffer(row.vector_sum, dtype=np.float32) for row in rows],
        [row.vector_count for row in rows],
    )


def join(connection: Connection, held: Clusters, place: int, record: int, vector: Vector) -> int:
    """Add a record to the cluster at a position of `held`, or to a new one (-1); its number."""
    if place < 0:
        new = insert(clusters).values(vector_sum=vector.tobytes(), vector_count=1)
        n: int = connection.execute(new.returning(clusters.c.n)).scalar_one()
        held.numbers.append(n)
        held.sums.append(vector)
        held.counts.append(1)
    else:
        n = held.numbers[place]
        held.sums[place] = np.asarray(held.sums[place] + vector, dtype=np.float32)
        held.counts[place] += 1
        grown = {"vector_sum": held.sums[place].tobytes(), "vector_count": held.counts[place]}
        connection.execute(update(clusters).where(clusters.c.n == n).values(**grown))
    connection.execute(update(records).where(records.c.n == record).values(cluster=n))
    return n


def link_semantically(
    connection: Connection, record: int, others: Sequence[tuple[int, float]], origin: str
) -> None:
    """Add semantic edges, which have no direction, to records with their cosines."""
    for other, cosine in others:
        low, high = sorted((record, other))
        add_link(connection, low, high, SEMANTIC, weight=cosine, scorer="cosine", origin=origin)


def neighbours(connection: Connection, items: Sequence[int], kind: str) -> list[tuple[int, float]]:
    """Active records that edges of a kind connect to these, without these themselves.

    Edges count in either direction; each record comes with its best weight, the highest first.
    """
    given, best = set(items), dict[int, float]()
    for here, there in ((links.c.source, links.c.target), (links.c.target, links.c.source)):
        query = (
            select(there, links.c.weight)
            .join(records, (records.c.n == there) & (records.c.status == ACTIVE))
            .where(links.c.kind == kind, here.in_(given))
        )
        for n, weight in connection.execute(query):
            if n not in given:
                best[n] = max(weight, best.get(n, weight))
    return sorted(best.items(), key=lambda pair: -pair[1])
