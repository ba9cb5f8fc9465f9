"""context: compose the text for the model, the most urgent first, within its budget.

What speaks against the request comes first, then what is proved, what stayed open, what else was
remembered, risks known from general knowledge alone, and the profile. No model is called.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import time

from langmem_graph.errors import for_log
from langmem_graph.reasoning.state import Proof, ReasoningDependencies, ReasoningState
from langmem_graph.retrieval.facts import evidence, hits_by_id
from langmem_graph.retrieval.formatting import (
    AGAINST,
    ALSO,
    URGENT,
    ContextBuilder,
    as_data,
    framed,
)
from langmem_graph.retrieval.schedule_conflicts import ScheduleConflict
from langmem_graph.retrieval.vague_turns import (
    VagueTurnContext,
    read_profile,
    read_vague_turn_context,
)
from langmem_graph.runtime import Event, StepRun
from langmem_graph.schemas import Fact, MessageHit, Reasoning, Recall, RecallReport, Risk
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries
from langmem_graph.storage.room import Room
from langmem_graph.tokens import TokenCounter, token_counter

_log = logging.getLogger(__name__)
_WITH_VALUES = frozenset(
    "memory_binding memory_conflict memory_overlap memory_proof memory_subgoal "
    "memory_refinement".split()
)
"""Events that contain values of facts; the others name facts by their ids."""
FACTS_OF_A_RISK = 3
"""Facts shown beside one risk; its others follow among the rest."""


async def context(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Compose the context and the outcome of the recall."""
    services = deps.services
    found = _Found.of(state)
    at = datetime.fromisoformat(state["now"]) if is_vague(state) else None
    stored, warnings = _Stored(), list(state["warnings"])
    try:
        stored = await services.in_known_room(
            run.user,
            lambda room: _read(room, list(found.facts.values()), at, services.settings),
            _Stored(),
        )
    except Exception as error:
        if deps.fail_closed:
            raise
        warnings.append(f"{type(error).__name__}: {error}")
        _log.warning("the context is made without what is stored: %s", for_log(error))
    found = found.without(stored.gone)
    state = {**state, "warnings": warnings}
    counter = await asyncio.to_thread(token_counter, services.settings.encoding)  # loads a table
    budget = state["max_tokens"] or services.settings.context.max_tokens
    builder = _written(found, stored.vague, counter, budget, seen=state["in_view"])
    text = framed(builder.lines, URGENT) if builder.lines else ""
    outcome = Recall(
        context=text,
        evidence=evidence(builder.quoted.values(), stored.messages),
        report=_report(state, found, builder, text, counter),
        facts=list(builder.quoted.values()),
        reasoning=found.reasoning,
        trace=[one for one in state["trace"] if _may_be_told(one, stored.gone)],
    )
    return {"recall": outcome}


@dataclass(frozen=True)
class _Found:
    """What the earlier steps have found."""

    facts: dict[str, Fact]
    recalled: list[Fact]
    further: list[Fact]
    """For the risks: by the second search and along edges."""
    proof: Proof
    reasoning: Reasoning
    conflicts: list[ScheduleConflict]

    @classmethod
    def of(cls, state: ReasoningState) -> "_Found":
        proof, recalled, conflicts = state["proof"], state["recalled"], state["conflicts"]
        further = state["consequences"].facts
        every = (*proof.facts, *recalled, *further, *(one.fact for one in conflicts))
        seen = set(state["in_view"])
        shown = {f.id: f for f in every if not {f.text, *f.message_ids} & seen}
        reasoning = _reasoning(proof, state["consequences"].risks, conflicts)
        return cls(shown, recalled, further, proof, reasoning, conflicts)

    def without(self, gone: set[str]) -> "_Found":
        """Without facts that were forgotten or superseded since they were found."""
        facts = {n: f for n, f in self.facts.items() if n not in gone}
        still = [one for one in self.conflicts if one.fact.id not in gone]
        proof = self.proof.without(gone)
        reasoning = _reasoning(proof, self.reasoning.risks, still)
        return replace(self, facts=facts, proof=proof, conflicts=still, reasoning=reasoning)

    def named(self, ids: Sequence[str]) -> list[Fact]:
        """The facts with these ids that may be shown."""
        return [self.facts[one] for one in ids if one in self.facts]


def _reasoning(
    proof: Proof, risks: Sequence[Risk], conflicts: Sequence[ScheduleConflict]
) -> Reasoning:
    return Reasoning(
        status=proof.status,
        bindings={name: bound.entity for name, bound in proof.bindings.items()},
        unresolved=proof.unresolved(),
        conflicts=proof.conflicts,
        risks=list(risks),
        overlaps=[one.text for one in conflicts],
    )


def _may_be_told(event: Event, gone: set[str]) -> bool:
    return not gone or event["event"] not in _WITH_VALUES


def is_vague(state: ReasoningState) -> bool:
    """True for a turn that goes on without saying what about."""
    return (state["intent"] or state["proof"].intent) == "vague"


def _written(
    found: _Found, vague: VagueTurnContext, counter: TokenCounter, budget: int, seen: Sequence[str]
) -> ContextBuilder:
    builder = ContextBuilder(counter, budget - counter.count(framed([])))
    builder.add(AGAINST, _against(found))
    builder.add(_proved_title(found), [("", [fact]) for fact in found.named(found.proof.cited())])
    builder.add("Not found in memory:", [(as_data(one), []) for one in found.reasoning.unresolved])
    first = bool(vague.projects or vague.upcoming)
    if first:
        vague.write(builder, seen)
    rest = [*found.recalled, *found.further, *found.proof.facts]
    builder.add(ALSO, [("", [fact]) for fact in found.named([f.id for f in rest])])
    general = [risk.claim for risk in found.reasoning.risks if not found.named(risk.facts)]
    builder.add(
        "Possible risks (general knowledge, nothing of it is in memory):",
        [(as_data(claim), []) for claim in general],
    )
    if not first:
        vague.write(builder, seen)
    return builder


def _against(found: _Found) -> list[tuple[str, list[Fact]]]:
    """Contradictions, appointments at the same time, and risks that remembered facts support."""
    items: list[tuple[str, list[Fact]]] = []
    for conflict in found.reasoning.conflicts:
        values = ", ".join(as_data(value) for value in conflict.values)
        ids = [one for facts in conflict.values.values() for one in facts]
        sentence = f"Facts disagree about {as_data(conflict.variable)}: {values}"
        items.append((sentence, found.named(ids)))
    items += [(one.line, found.named([one.fact.id])) for one in found.conflicts]
    backed = [(risk, found.named(risk.facts)) for risk in found.reasoning.risks]
    likely = sorted(backed, key=lambda pair: -max((f.likeness for f in pair[1]), default=0.0))
    for risk, facts in likely:
        if facts:
            basis = "" if risk.basis == "memory" else " (general knowledge; remembered with it:)"
            items.append((f"{as_data(risk.claim)}{basis}", facts[:FACTS_OF_A_RISK]))
    return items


def _proved_title(found: _Found) -> str:
    bound = [f"{n} = {as_data(e)}" for n, e in found.reasoning.bindings.items()]
    what = f" ({', '.join(bound)})" if bound else ""
    return f"Facts for the request{what}:"


@dataclass(frozen=True)
class _Stored:
    """What the ledger holds now."""

    vague: VagueTurnContext = field(default_factory=VagueTurnContext)
    """The profile; for a vague turn also projects and schedule."""
    messages: dict[str, MessageHit] = field(default_factory=dict)
    """The messages behind the facts."""
    gone: set[str] = field(default_factory=set)
    """Facts whose message or record was forgotten, or superseded, meanwhile."""


def _read(room: Room, facts: Sequence[Fact], at: datetime | None, settings: Settings) -> _Stored:
    with room.database.read_transaction() as connection:
        vague = (
            read_vague_turn_context(connection, at, settings)
            if at
            else VagueTurnContext(read_profile(connection, settings))
        )
        ids = {one for fact in (*facts, *vague.facts()) for one in fact.message_ids}
        messages = hits_by_id(connection, ids)
        records = record_queries.numbers_of(connection, (f.record_id for f in facts if f.record_id))
        active = record_queries.current(connection, records.values())
    true_now = {record for record, n in records.items() if n in active}
    gone = {fact.id for fact in facts if not _is_there(fact, messages, true_now)}
    return _Stored(vague, messages, gone)


def _is_there(fact: Fact, messages: dict[str, MessageHit], records: set[str]) -> bool:
    if fact.record_id:
        return fact.record_id in records
    return all(one in messages for one in fact.message_ids)


def _report(
    state: ReasoningState, found: _Found, builder: ContextBuilder, text: str, counter: TokenCounter
) -> RecallReport:
    usage, warnings = state["usage"], state["warnings"]
    spent = {**state["milliseconds"], "model": usage.milliseconds}
    spent["total"] = (time() - state["started"]) * 1_000
    return RecallReport(
        mode=state["mode"],
        status="degraded" if warnings or usage.problems else "ok",
        warnings=warnings,
        considered=len(found.facts),
        quoted=len(builder.quoted),
        llm_calls=usage.calls,
        repairs=usage.repairs,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        problems=usage.problems,
        context_tokens=counter.count(text),
        tokens_exact=counter.exact,
        milliseconds=spent,
    )
