"""Which records belong together: of one attribute or message, of one cluster, or by
edges.

A cluster keeps the sum of its records' vectors, so that its centroid need not be
recomputed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import insert, select, update

from langmem_graph.storage.effects import ACTIVE
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import add_link, plain
from langmem_graph.storage.tables import (
    attributes,
    clusters,
    links,
    record_sources,
    records,
)

SEMANTIC = "semantic"
CAUSAL = "causal"
Vector = NDArray[np.float32]


@dataclass
class Clusters:
    """All clusters: their numbers, the sums of their unit vectors, and their sizes."""

    numbers: list[int]
    sums: list[Vector]
    counts: list[int]

    def nearest(self, vector: Vector) -> tuple[int, float]:
        """Position and cosine of the nearest centroid; (-1, -1) when there are no
        clusters.
        """
        if not self.numbers:
            return -1, -1.0
        matrix = np.stack(self.sums)
        cosines = (matrix @ vector) / np.maximum(np.linalg.norm(matrix, axis=1), 1e-9)
        place = int(np.argmax(cosines))
        return place, float(cosines[place])


def all_clusters(connection: Reading) -> Clusters:
    """Load all clusters."""
    rows = connection.execute(select(clusters).order_by(clusters.c.n)).all()
    return Clusters(
        [row.n for row in rows],
        [np.frombuffer(row.vector_sum, dtype=np.float32) for row in rows],
        [row.vector_count for row in rows],
    )


def join(
    connection: Reading, held: Clusters, place: int, record: int, vector: Vector
) -> int:
    """Add a record to the cluster at a position of `held`, or to a new one (-1); its
    number.
    """
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
        grown = {
            "vector_sum": held.sums[place].tobytes(),
            "vector_count": held.counts[place],
        }
        connection.execute(update(clusters).where(clusters.c.n == n).values(**grown))
    connection.execute(update(records).where(records.c.n == record).values(cluster=n))
    return n


def link_semantically(
    connection: Reading, record: int, others: Sequence[tuple[int, float]], origin: str
) -> None:
    """Add semantic edges, which have no direction, to records with their cosines."""
    for other, cosine in others:
        low, high = sorted((record, other))
        add_link(
            connection,
            low,
            high,
            SEMANTIC,
            weight=cosine,
            scorer="cosine",
            origin=origin,
        )


def cluster_members(connection: Reading, items: Sequence[int], most: int) -> list[int]:
    """The newest active records in the clusters of these records, without these
    themselves.
    """
    touched = select(records.c.cluster).where(records.c.n.in_(items))
    near = records.c.cluster.in_(touched) & records.c.n.not_in(items)
    query = select(records.c.n).where(near, records.c.status == ACTIVE)
    return list(connection.scalars(query.order_by(records.c.n.desc()).limit(most)))


def neighbours(
    connection: Reading, items: Sequence[int], kind: str
) -> list[tuple[int, float]]:
    """Active records that edges of a kind connect to these, without these themselves.

    Edges count in either direction; each record comes with its best weight, the highest
    first.
    """
    given = set(items)
    best = dict[int, float]()
    for here, there in (
        (links.c.source, links.c.target),
        (links.c.target, links.c.source),
    ):
        query = (
            select(there, links.c.weight)
            .join(records, (records.c.n == there) & (records.c.status == ACTIVE))
            .where(links.c.kind == kind, here.in_(given))
        )
        for n, weight in connection.execute(query):
            if n not in given:
                best[n] = max(weight, best.get(n, weight))
    return sorted(best.items(), key=lambda pair: -pair[1])


def of_same_attribute(
    connection: Reading, items: Sequence[int], most: int
) -> list[int]:
    """For each of these records, the newest active ones of the same subject and
    attribute.
    """
    r = records.c
    found = list[int]()
    for n in items:
        own = (
            select(r.attribute)
            .where(r.n == n, r.attribute.is_not(None))
            .scalar_subquery()
        )
        same = select(r.n).where(r.attribute == own, r.status == ACTIVE, r.n != n)
        found += connection.scalars(same.order_by(r.n.desc()).limit(most))
    return list(dict.fromkeys(found))


def of_attribute(
    connection: Reading, subject: str | None, name: str | None, most: int
) -> list[int]:
    """The newest active records of a subject's attribute; none without both names."""
    if not subject or not name:
        return []
    r = records.c
    a = attributes.c
    meant = (a.subject == plain(subject)) & (a.name == plain(name))
    of_it = (
        select(r.n)
        .join(attributes, a.n == r.attribute)
        .where(meant, r.status == ACTIVE)
    )
    return list(connection.scalars(of_it.order_by(r.n.desc()).limit(most)))


def citing_messages(connection: Reading, items: Sequence[int]) -> list[int]:
    """The active records that cite these messages, in the order of the messages."""
    s = record_sources.c
    cited = select(s.message, s.record).join(records, records.c.n == s.record)
    rows = rows_where_in(
        connection, cited.where(records.c.status == ACTIVE), s.message, items
    )
    place = {message: place for place, message in enumerate(items)}
    ordered = sorted(rows, key=lambda row: (place[row.message], row.record))
    return list(dict.fromkeys(row.record for row in ordered))


def made_from(connection: Reading, items: Sequence[int], most: int) -> list[int]:
    """The newest active records that cite one of these messages."""
    s = record_sources.c
    r = records.c
    cited = select(s.record).where(s.message.in_(items))
    query = select(r.n).where(r.n.in_(cited), r.status == ACTIVE)
    return list(connection.scalars(query.order_by(r.n.desc()).limit(most)))
