"""link: records join clusters and get edges (ActMem 1.2, steps 3 to 6).

Clusters and semantic edges need no model and are made at every flush. Possible causes are asked
for when a session has ended, and each is scored; which way it goes is told by time alone.
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
from langmem_graph.retrieval.formatting import as_data
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import event_in
from langmem_graph.schemas import Record
from langmem_graph.settings import Settings
from langmem_graph.storage import graph_edges, record_queries, stored_vectors
from langmem_graph.storage.graph_edges import CAUSAL
from langmem_graph.storage.record_writes import add_link
from langmem_graph.storage.room import Room
from langmem_graph.storage.tables import RECORDS

GROUPS = 2
"""Causal calls of one session's end."""
SHOWN = 30
"""Records of one causal call (ActMem 1.4)."""
SAMPLE, ENOUGH = 200, 20
"""Records whose pairs calibrate the floors, and how few are too few for it; ours."""
PERCENTILES = (97.0, 95.0)
"""Of random pairs' cosines: to join a cluster, to get an edge. With them a cluster has 2 to 6
records and a record 6 to 8 edges in LoCoMo's observations and in sets of our own; ActMem has 5."""
EDGES = 8
"""Semantic edges that a new record gets at most; ours."""
FLOORS = {"verifier": 0.5, "pmi": 0.8, "contrast": 0.01, "contrast+later": 0.19}
"""What a score must exceed: a half verdict, ActMem's 0.8, and the 95th percentile of random pairs
for the others (docs/causal.md). Calibrate on your own: `Settings.extraction.causal_floor`."""


class _Floors(NamedTuple):
    """Cosines from which a record joins a cluster, and from which two records get an edge."""

    join: float
    edge: float


FEW = _Floors(0.55, 0.5)
"""Of a memory with fewer records; for MiniLM."""


async def link(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Cluster what is new; at a session's end look for causes."""
    settings, batch = deps.services.settings, state.get("batch")
    touched = await deps.services.in_room(run.user, lambda room: cluster(room, settings))
    if batch is None or not batch.ends_session or deps.causal is None or not state.get("changed"):
        return {}
    usage, found = usage_of(state), 0
    for group in touched[:GROUPS]:
        found += await _causes(deps, run.user, group, usage)
    return {"usage": usage, "counts": counts_of(state).plus(causes=found)}


def cluster(room: Room, settings: Settings) -> list[list[int]]:
    """Put records without a cluster into one; returns the clusters they went to, largest first."""
    with room.database.write_transaction() as connection:
        new = graph_edges.unclustered(connection)
        floors = _floors(connection, settings) if new else _Floors(1.0, 1.0)
        held = graph_edges.all_clusters(connection)
        touched = {one for n in new if (one := _place(connection, held, n, floors)) is not None}
        groups = [graph_edges.members(connection, one) for one in touched]
    return sorted((group for group in groups if len(group) > 1), key=len, reverse=True)


def _floors(connection: Connection, settings: Settings) -> _Floors:
    """As set, else what few of the user's own random pairs reach (methods 1.6, A1)."""
    numbers = record_queries.all_numbers(connection)
    sample = numbers[:: max(1, len(numbers) // SAMPLE)]
    floors = FEW
    if len(numbers) >= ENOUGH:
        matrix = stored_vectors.vectors_of(connection, sample, RECORDS).matrix
        cosines = (matrix @ matrix.T)[np.triu_indices(len(matrix), 1)]
        if len(cosines):
            floors = _Floors(*np.percentile(cosines, PERCENTILES).tolist())
    distance = settings.extraction.cluster_max_distance
    edge = settings.extraction.semantic_floor
    return _Floors(
        floors.join if distance is None else 1 - distance, floors.edge if edge is None else edge
    )


def _place(
    connection: Connection, held: graph_edges.Clusters, n: int, floors: _Floors
) -> int | None:
    rows = stored_vectors.vectors_of(connection, [n], RECORDS)
    if not len(rows):
        return None  # not embedded yet: next time
    vector = np.asarray(rows.matrix[0], dtype=np.float32)
    place, cosine = held.nearest(vector)
    near = place if cosine >= floors.join else -1
    own = graph_edges.join(connection, held, near, n, vector)
    others = [one for one in graph_edges.members(connection, own) if one != n]
    _link(connection, n, vector, others, floors.edge)
    return own


def _link(
    connection: Connection, n: int, vector: graph_edges.Vector, others: Sequence[int], floor: float
) -> None:
    rows = stored_vectors.vectors_of(connection, others, RECORDS)
    if not len(rows):
        return
    cosines = dict(zip(rows.items.tolist(), (rows.matrix @ vector).tolist(), strict=True))
    likest = sorted(cosines.items(), key=lambda pair: -pair[1])[:EDGES]
    near = [(other, cosine) for other, cosine in likest if cosine > floor]
    graph_edges.link_semantically(connection, n, near, "cluster")


async def _causes(
    deps: ExtractionDependencies, user_id: str, group: list[int], usage: Usage
) -> int:
    """Ask for pairs in one group, score them, and keep those that pass."""
    latest = group[-SHOWN:]
    known = await deps.services.in_room(user_id, lambda room: _records(room, latest))
    aliases = {f"r{place}": n for place, n in enumerate(latest, 1) if n in known}
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
    own = deps.services.settings.extraction.causal_floor
    floor = FLOORS.get(name, 0.0) if own is None else own
    kept = [(pair, score) for pair, score in zip(ordered, scores, strict=True) if score > floor]
    await deps.services.in_room(user_id, lambda room: _write(room, kept, name))
    return len(kept)


def _records(room: Room, items: list[int]) -> dict[int, Record]:
    with room.database.read_transaction() as connection:
        return record_queries.records_by_number(connection, items)


def _in_time(one: int, other: int, known: dict[int, Record]) -> tuple[int, int]:
    """A cause does not come after its effect, whatever the model says."""
    if _when(known[one]) <= _when(known[other]):
        return one, other
    return other, one


def _when(record: Record) -> datetime:
    event = event_in(record.event_time)
    return event.start if event else record.said_at


def _write(room: Room, kept: list[tuple[tuple[int, int], float]], scorer: str) -> None:
    with room.database.write_transaction() as connection:
        there = record_queries.active(connection, {n for pair, _ in kept for n in pair})
        for (cause, effect), score in kept:
            if {cause, effect} <= there:
                add_link(
                    connection, cause, effect, CAUSAL, weight=score, scorer=scorer, origin="cluster"
                )
