"""link: new records join clusters and get edges (ActMem 1.2, steps 3 to 6; 1.4).

Clusters and semantic edges need no model and are made in every batch. Causal edges are looked for
when a session has ended: the model names pairs of a cluster, a scorer rates them, and time alone
decides which of the two is the cause.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from langmem_graph.causal.scorers import NoScorer, VerifierScorer
from langmem_graph.extraction.state import (
    ExtractionDependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.llm.answer_schemas import CausalPairs
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import event_in
from langmem_graph.schemas import Record
from langmem_graph.settings import Settings
from langmem_graph.storage import clusters_and_edges, record_queries, vector_rows
from langmem_graph.storage.clusters_and_edges import CAUSAL
from langmem_graph.storage.record_writes import add_link
from langmem_graph.storage.tables_and_migrations import RECORDS
from langmem_graph.storage.user_room import Room

CAUSAL_CLUSTERS, CAUSAL_RECORDS = 2, 30
"""Clusters that one session's end asks the model about, and records of a question (ActMem 1.4)."""
SAMPLE_RECORDS, MIN_SAMPLE = 200, 20
"""Records whose pairs calibrate the thresholds; below the second number the defaults hold. Own."""
PERCENTILES = (97.0, 95.0)
"""Of random pairs' cosines: to join a cluster, to get an edge. With them a cluster has 2 to 6
records and a record 6 to 8 edges in LoCoMo's observations and in sets of our own; ActMem has 5."""
MAX_EDGES = 8
"""Semantic edges that a new record gets at most; own figure."""
CAUSAL_THRESHOLDS = {"verifier": 0.5, "pmi": 0.8, "contrast": 0.01, "contrast+later": 0.19}
"""What a score must exceed: a half verdict, ActMem's 0.8, and the 95th percentile of random pairs
for the others (docs/causal.md). Calibrate on your own: `Settings.extraction.causal_floor`."""


class _Thresholds(NamedTuple):
    """Cosines from which a record joins a cluster, and from which two records get an edge."""

    join: float
    edge: float


DEFAULT_THRESHOLDS = _Thresholds(0.55, 0.5)
"""For MiniLM; used in a memory with few records."""


async def link(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Cluster the new records; at a session's end, look for causal edges in their clusters."""
    settings, batch = deps.services.settings, state.get("batch")
    clusters = await deps.services.in_room(run.user, lambda room: _cluster(room, settings))
    if batch is None or not batch.ends_session or deps.causal is None or not state.get("changed"):
        return {}
    usage, causes = usage_of(state), 0
    for records in clusters[:CAUSAL_CLUSTERS]:
        causes += await _link_causally(deps, run.user, records[-CAUSAL_RECORDS:], usage)
    return {"usage": usage, "counts": counts_of(state).plus(causes=causes)}


def _cluster(room: Room, settings: Settings) -> list[list[int]]:
    """Put each record without a cluster into one; returns these clusters, the largest first."""
    with room.database.write_transaction() as connection:
        new = record_queries.all_numbers(connection, cluster=None)
        thresholds = _thresholds(connection, settings) if new else DEFAULT_THRESHOLDS
        clusters = clusters_and_edges.all_clusters(connection)
        places = [_join(connection, clusters, n, thresholds) for n in new]
        joined = {cluster for cluster in places if cluster is not None}
        members = [record_queries.all_numbers(connection, cluster=cluster) for cluster in joined]
    return sorted((records for records in members if len(records) > 1), key=len, reverse=True)


def _thresholds(connection: Connection, settings: Settings) -> _Thresholds:
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


def _join(
    connection: Connection, clusters: clusters_and_edges.Clusters, n: int, thresholds: _Thresholds
) -> int | None:
    """Let a record join the nearest cluster, or start one, and link it there; returns the cluster.

    None for a record that is not embedded yet: it is clustered with a later batch.
    """
    rows = vector_rows.vectors_of(connection, [n], RECORDS)
    if not len(rows):
        return None
    vector = np.asarray(rows.matrix[0], dtype=np.float32)
    place, cosine = clusters.nearest(vector)
    near = place if cosine >= thresholds.join else -1
    cluster = clusters_and_edges.join(connection, clusters, near, n, vector)
    members = record_queries.all_numbers(connection, cluster=cluster)
    others = [member for member in members if member != n]
    _link_semantically(connection, n, vector, others, thresholds.edge)
    return cluster


def _link_semantically(
    connection: Connection,
    n: int,
    vector: clusters_and_edges.Vector,
    others: Sequence[int],
    floor: float,
) -> None:
    """Link a record with the members of its cluster that are most similar to it."""
    rows = vector_rows.vectors_of(connection, others, RECORDS)
    if not len(rows):
        return
    cosines = dict(zip(rows.items.tolist(), (rows.matrix @ vector).tolist(), strict=True))
    nearest = sorted(cosines.items(), key=lambda pair: -pair[1])[:MAX_EDGES]
    near = [(other, cosine) for other, cosine in nearest if cosine > floor]
    clusters_and_edges.link_semantically(connection, n, near, "cluster")


async def _link_causally(
    deps: ExtractionDependencies, user_id: str, items: list[int], usage: Usage
) -> int:
    """Ask for pairs in one cluster, score them, and link those that pass; returns their number."""
    known = await deps.services.in_room(
        user_id,
        lambda room: room.database.read(lambda c: record_queries.records_by_number(c, items)),
    )
    aliases = {f"r{place}": n for place, n in enumerate(items, 1) if n in known}
    lines = [
        f"{alias}: {known[n].said_at:%Y-%m-%d} {as_data(known[n].text)}"
        for alias, n in aliases.items()
    ]
    answer = await deps.runner.ask(CausalPairs, load_prompt("causal"), "\n".join(lines), usage)
    pairs = {
        _in_time(aliases[pair.cause], aliases[pair.effect], known)
        for pair in (answer.pairs if answer else [])
        if pair.cause in aliases and pair.effect in aliases and pair.cause != pair.effect
    }
    if not pairs:
        return 0
    ordered = sorted(pairs)
    texts = [(known[cause].text, known[effect].text) for cause, effect in ordered]
    scorer = deps.causal or NoScorer()
    if isinstance(scorer, VerifierScorer):  # naming a pair is the model's verdict
        scorer = scorer.given(dict.fromkeys(texts, "yes"))
    scores, name = await scorer.ascore(texts), scorer.name
    floor = deps.services.settings.extraction.causal_floor
    if floor is None:
        floor = CAUSAL_THRESHOLDS.get(name, 0.0)
    kept = [(pair, score) for pair, score in zip(ordered, scores, strict=True) if score > floor]
    await deps.services.in_room(user_id, lambda room: _write(room, kept, name))
    return len(kept)


def _in_time(cause: int, effect: int, known: dict[int, Record]) -> tuple[int, int]:
    """The pair with the earlier record as the cause, whatever the model says."""
    if _start_of(known[cause]) <= _start_of(known[effect]):
        return cause, effect
    return effect, cause


def _start_of(record: Record) -> datetime:
    event = event_in(record.event_time)
    return event.start if event else record.said_at


def _write(room: Room, kept: list[tuple[tuple[int, int], float]], scorer: str) -> None:
    with room.database.write_transaction() as connection:
        active = record_queries.active(connection, {n for pair, _ in kept for n in pair})
        for (cause, effect), score in kept:
            if {cause, effect} <= active:
                add_link(
                    connection, cause, effect, CAUSAL, weight=score, scorer=scorer, origin="cluster"
                )
