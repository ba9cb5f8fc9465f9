"""causal: look for records that brought others about (ActMem 1.2, steps 5 and 6; 1.4).

The model names pairs among the changed records and others of their clusters, a scorer
rates them, and time alone decides which is the cause. A flush makes one such call,
however long its backlog.
"""

from datetime import datetime
from typing import NamedTuple

from langmem_graph.causal.scorers import NoScorer, Verdict, VerifierScorer
from langmem_graph.extraction.plan_round import MIN_CHANGED
from langmem_graph.extraction.state import (
    Dependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.llm.answer_schemas import CausalPairs
from langmem_graph.llm.structured_calls import RunUsage, load_prompt
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import event_in
from langmem_graph.schemas import Record
from langmem_graph.storage import (
    graph_neighbours,
    pending_messages,
    record_queries,
    rounds,
)
from langmem_graph.storage.graph_neighbours import CAUSAL
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.record_writes import add_link
from langmem_graph.storage.user_room import Room

CHANGED_RECORDS, CLUSTER_RECORDS = 120, 30
"""Changed records of the call, and others of their clusters, about 6,000 tokens; own
figures. Of a longer backlog, causes are looked for among the newest records.
"""
THRESHOLDS = {"verifier": 0.5, "pmi": 0.8, "contrast": 0.01, "contrast+later": 0.19}
"""What a score must exceed: a half verdict, ActMem's 0.8, and the 95th percentile of
random pairs for the others (docs/causal.md). Calibrate on your own:
`Settings.extraction.causal_floor`.
"""


class _Candidates(NamedTuple):
    """The records that are asked about, and the checkpoint after them."""

    records: list[Record]  # in order of time
    numbers: dict[str, int]  # of these records, by id
    last: int


class _Pair(NamedTuple):
    """Records of which one brought the other about, by their numbers."""

    cause: int
    effect: int
    score: float
    scorer: str


async def causal(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Look for causal edges, where enough records have changed since the last time."""
    if deps.causal is None:
        return {}
    candidates = await deps.services.in_room(run.user, _candidates)
    if candidates is None:
        return {}
    usage = usage_of(state)
    pairs = list[_Pair]()
    if len(candidates.records) > 1:
        verdicts = await _ask(deps, candidates, usage)
        if verdicts is None and usage.unreachable:
            return {"usage": usage, "round_due": False}
        pairs = await _pairs(deps, candidates, verdicts or {})
    causes = await deps.services.in_room(
        run.user, lambda room: _finish(room, candidates, pairs, state)
    )
    return {"usage": usage, "counts": counts_of(state).plus(causes=causes)}


def _candidates(room: Room) -> _Candidates | None:
    """The records to ask about; None where too few have changed."""
    with room.database.read_transaction(EVERYTHING) as connection:
        seen = rounds.causes_seen(connection)
        changed = [one.n for one in rounds.changed_since(connection, seen)]
        if len(changed) < MIN_CHANGED:
            return None
        holding = sorted(record_queries.current(connection, changed))
        newest = holding[-CHANGED_RECORDS:]
        others = graph_neighbours.cluster_members(connection, newest, CLUSTER_RECORDS)
        found = record_queries.records_by_number(connection, [*newest, *others])
        last = rounds.last_entry(connection)
    numbers = {record.record_id: n for n, record in found.items()}
    shown = [found[n] for n in [*newest, *others] if n in found]
    return _Candidates(sorted(shown, key=_start_of), numbers, last)


async def _ask(
    deps: Dependencies, candidates: _Candidates, usage: RunUsage
) -> dict[tuple[str, str], Verdict] | None:
    """The model's verdicts on pairs of record ids; None without an answer."""
    aliases = {
        f"r{place}": record for place, record in enumerate(candidates.records, 1)
    }
    lines = [f"{a}: {r.said_at:%Y-%m-%d} {as_data(r.text)}" for a, r in aliases.items()]
    answer = await deps.runner.ask(
        CausalPairs, load_prompt("causal"), "\n".join(lines), usage
    )
    return None if answer is None else _verdicts(answer, aliases)


async def _pairs(
    deps: Dependencies,
    candidates: _Candidates,
    verdicts: dict[tuple[str, str], Verdict],
) -> list[_Pair]:
    """The pairs whose score passes."""
    if not verdicts:
        return []
    numbers = candidates.numbers
    texts = {record.record_id: record.text for record in candidates.records}
    scorer = deps.causal or NoScorer()
    if isinstance(scorer, VerifierScorer):
        scorer = scorer.given(
            {(texts[a], texts[b]): sure for (a, b), sure in verdicts.items()}
        )
    scores = await scorer.ascore([(texts[a], texts[b]) for a, b in verdicts])
    floor = deps.services.settings.extraction.causal_floor
    if floor is None:
        floor = THRESHOLDS.get(scorer.name, 0.0)
    scored = zip(verdicts, scores, strict=True)
    return [
        _Pair(numbers[a], numbers[b], score, scorer.name)
        for (a, b), score in scored
        if score > floor
    ]


def _verdicts(
    answer: CausalPairs, aliases: dict[str, Record]
) -> dict[tuple[str, str], Verdict]:
    """The model's verdicts on pairs of record ids, the earlier record first; none that
    says no.
    """
    verdicts: dict[tuple[str, str], Verdict] = {}
    for pair in answer.pairs:
        cause = aliases.get(pair.cause)
        effect = aliases.get(pair.effect)
        if cause is None or effect is None or cause is effect or pair.sure == "no":
            continue
        # whatever the model says
        first, second = sorted((cause, effect), key=_start_of)
        if verdicts.get((first.record_id, second.record_id)) != "yes":
            verdicts[first.record_id, second.record_id] = pair.sure
    return verdicts


def _start_of(record: Record) -> datetime:
    event = event_in(record.event_time)
    return event.start if event else record.said_at


def _finish(
    room: Room, candidates: _Candidates, pairs: list[_Pair], state: ExtractionState
) -> int:
    """Link the pairs and note what was asked about, unless something was forgotten
    meanwhile; returns how many pairs passed.
    """
    with room.database.write_transaction() as connection:
        if pending_messages.generation(connection) != state["generation"]:
            return 0
        _write(connection, pairs)
        rounds.note_causes(connection, candidates.last)
    return len(pairs)


def _write(connection: Reading, pairs: list[_Pair]) -> None:
    active = record_queries.active(
        connection, {n for pair in pairs for n in (pair.cause, pair.effect)}
    )
    for pair in pairs:
        if {pair.cause, pair.effect} <= active:
            add_link(
                connection,
                pair.cause,
                pair.effect,
                CAUSAL,
                weight=pair.score,
                scorer=pair.scorer,
                origin="round",
            )
