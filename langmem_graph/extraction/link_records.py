"""link: new records join clusters and get semantic edges, without a model (ActMem 1.2,
steps 3, 4).

Causal edges are looked for where a session or a flush has ended (`link_causally`).
"""

from typing import NamedTuple

import numpy as np

from langmem_graph.extraction.state import Dependencies, ExtractionState
from langmem_graph.runtime import StepRun
from langmem_graph.settings import Settings
from langmem_graph.storage import graph_neighbours, record_queries, vector_rows
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import RECORDS
from langmem_graph.storage.user_room import Room
from langmem_graph.storage.vector_rows import VectorRows

SAMPLE_RECORDS, MIN_SAMPLE = 200, 20
"""Records whose pairs calibrate the thresholds; below the second number the defaults
hold. Own.
"""
PERCENTILES = (97.0, 95.0)
"""Of random pairs' cosines: to join a cluster, to get an edge. With them a cluster has
2 to 6 records and a record 6 to 8 edges in LoCoMo's observations and in sets of our
own; ActMem has 5.
"""
MAX_EDGES = 8  # semantic edges that a new record gets at most; own figure
MOST_COMPARED = 500
"""Vectors of a cluster with which a new record is compared, the newest ones; own
figure.
"""


class _Thresholds(NamedTuple):
    """Cosines from which a record joins a cluster, and from which two records get an
    edge.
    """

    join: float
    edge: float


# for MiniLM; used in a memory with few records
DEFAULT_THRESHOLDS = _Thresholds(0.55, 0.5)


async def link(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Cluster the new records, and link each with those of its cluster that are most
    similar.
    """
    settings = deps.services.settings

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            new = record_queries.all_numbers(connection, cluster=None)
            thresholds = (
                _thresholds(connection, settings) if new else DEFAULT_THRESHOLDS
            )
            clusters = graph_neighbours.all_clusters(connection)
            vectors = _ClusterVectors(connection)
            for n in new:
                _join(connection, clusters, vectors, n, thresholds)
        return {}

    return await deps.services.in_room(run.user, work)


def _thresholds(connection: Reading, settings: Settings) -> _Thresholds:
    """As set, else what few of the user's own random pairs reach (ActMem 1.6, A1)."""
    numbers = record_queries.all_numbers(connection)
    sample = numbers[:: max(1, len(numbers) // SAMPLE_RECORDS)]
    calibrated = DEFAULT_THRESHOLDS
    if len(numbers) >= MIN_SAMPLE:
        matrix = vector_rows.vectors_of(connection, sample, RECORDS).matrix
        cosines = (matrix @ matrix.T)[np.triu_indices(len(matrix), 1)]
        if len(cosines):
            calibrated = _Thresholds(*np.percentile(cosines, PERCENTILES).tolist())
    distance = settings.extraction.cluster_max_distance
    edge = settings.extraction.semantic_floor
    return _Thresholds(
        join=calibrated.join if distance is None else 1 - distance,
        edge=calibrated.edge if edge is None else edge,
    )


class _ClusterVectors:
    """The vectors of clusters that new records join: read once, then kept."""

    def __init__(self, connection: Reading) -> None:
        self._connection = connection
        self._rows = dict[int, VectorRows]()

    def of(self, cluster: int) -> VectorRows:
        """The newest vectors of a cluster."""
        if cluster not in self._rows:
            own = record_queries.all_numbers(self._connection, cluster=cluster)
            newest = own[-MOST_COMPARED:]
            read = vector_rows.vectors_of(self._connection, newest, RECORDS)
            self._rows[cluster] = read
        return self._rows[cluster]

    def add(self, cluster: int, rows: VectorRows) -> None:
        """Note the vectors of a record that has joined."""
        former = self._rows.get(cluster)
        both = [former, rows] if former else [rows]
        matrix = np.concatenate([one.matrix for one in both])
        newest = slice(-MOST_COMPARED, None)
        self._rows[cluster] = vector_rows.joined(both, matrix).at(newest)


def _join(
    connection: Reading,
    clusters: graph_neighbours.Clusters,
    vectors: _ClusterVectors,
    n: int,
    thresholds: _Thresholds,
) -> None:
    """Let a record join the nearest cluster, or start one, and link it with the most
    similar there.

    A record that is not embedded yet is clustered with a later batch.
    """
    own = vector_rows.vectors_of(connection, [n], RECORDS)
    if not len(own):
        return
    vector = np.asarray(own.matrix[0], dtype=np.float32)
    place, cosine = clusters.nearest(vector)
    near = place if cosine >= thresholds.join else -1
    others = vectors.of(clusters.numbers[near]) if near >= 0 else None
    cluster = graph_neighbours.join(connection, clusters, near, n, vector)
    vectors.add(cluster, own)
    if not others:
        return
    cosines = zip(others.items.tolist(), (others.matrix @ vector).tolist(), strict=True)
    nearest = sorted(cosines, key=lambda pair: -pair[1])[:MAX_EDGES]
    linked = [(other, cosine) for other, cosine in nearest if cosine > thresholds.edge]
    graph_neighbours.link_semantically(connection, n, linked, "cluster")
