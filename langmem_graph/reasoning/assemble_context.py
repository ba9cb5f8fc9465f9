"""The step `context`: compose the context, the most urgent part first (ActMem 1.3, step 4).

Reasons against the request come first, then the proved facts, the variables without a value, the
other facts, risks from general knowledge alone, and the profile. No model is called.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import time

from langmem_graph.reasoning.state import Proof, ReasoningDependencies, ReasoningState
from langmem_graph.retrieval.facts import evidence, hits_by_id
from langmem_graph.retrieval.quoted_context import (
    AGAINST,
    ALSO,
    URGENT,
    ContextBuilder,
    as_data,
    framed,
    not_in_view,
)
from langmem_graph.retrieval.schedule_lookup import ScheduleConflict
from langmem_graph.retrieval.vague_turns import (
    VagueTurnContext,
    read_profile,
    read_vague_turn_context,
)
from langmem_graph.runtime import Event, StepRun
from langmem_graph.schemas import Fact, MessageHit, Reasoning, Recall, RecallReport, Risk
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries
from langmem_graph.storage.user_room import Room
from langmem_graph.tokens import TokenCounter, token_counter

FACTS_OF_A_RISK = 3
"""Facts quoted below one risk; its others follow among the rest."""

_WITH_VALUES = frozenset(
    "memory_binding memory_conflict memory_overlap memory_proof memory_subgoal "
    "memory_refinement".split()
)
"""Events that contain values of facts; the others name facts by their ids."""


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
        warnings.append(run.problem("the context is made without what is stored", error))
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
        trace=[event for event in state["trace"] if _is_public(event, stored.gone)],
    )
    return {"recall": outcome}


@dataclass(frozen=True)
class _Found:
    """Results of the earlier steps."""

    facts: dict[str, Fact]
    recalled: list[Fact]
    further: list[Fact]
    """Facts for the risks: from the second search and along edges."""
    proof: Proof
    reasoning: Reasoning
    conflicts: list[ScheduleConflict]

    @classmethod
    def of(cls, state: ReasoningState) -> "_Found":
        proof, recalled, conflicts = state["proof"], state["recalled"], state["conflicts"]
        further = state["consequences"].facts
        every = (*proof.facts, *recalled, *further, *(conflict.fact for conflict in conflicts))
        facts = {fact.id: fact for fact in not_in_view(every, state["in_view"])}
        reasoning = _reasoning(proof, state["consequences"].risks, conflicts)
        return cls(facts, recalled, further, proof, reasoning, conflicts)

    def without(self, gone: set[str]) -> "_Found":
        """Without facts that were forgotten or superseded since they were found."""
        facts = {n: f for n, f in self.facts.items() if n not in gone}
        conflicts = [conflict for conflict in self.conflicts if conflict.fact.id not in gone]
        proof = self.proof.without(gone)
        reasoning = _reasoning(proof, self.reasoning.risks, conflicts)
        return replace(self, facts=facts, proof=proof, conflicts=conflicts, reasoning=reasoning)

    def named(self, ids: Sequence[str]) -> list[Fact]:
        """The facts with these ids that may be quoted."""
        return [self.facts[fact_id] for fact_id in ids if fact_id in self.facts]


def _reasoning(
    proof: Proof, risks: Sequence[Risk], conflicts: Sequence[ScheduleConflict]
) -> Reasoning:
    return Reasoning(
        status=proof.status,
        bindings={name: bound.entity for name, bound in proof.bindings.items()},
        unresolved=proof.unresolved(),
        conflicts=proof.conflicts,
        risks=list(risks),
        overlaps=[conflict.text for conflict in conflicts],
    )


def _is_public(event: Event, gone: set[str]) -> bool:
    """False for an event that may contain the value of a forgotten fact."""
    return not gone or event["event"] not in _WITH_VALUES


def is_vague(state: ReasoningState) -> bool:
    """True for a turn that continues without naming a subject."""
    return (state["intent"] or state["proof"].intent) == "vague"


def _written(
    found: _Found, vague: VagueTurnContext, counter: TokenCounter, budget: int, seen: Sequence[str]
) -> ContextBuilder:
    builder = ContextBuilder(counter, budget - counter.count(framed([])))
    builder.add(AGAINST, _against(found))
    builder.add(_proved_title(found), [("", [fact]) for fact in found.named(found.proof.cited())])
    unresolved = map(as_data, found.reasoning.unresolved)
    builder.add("Not found in memory:", [(variable, []) for variable in unresolved])
    vague_first = bool(vague.projects or vague.upcoming)
    if vague_first:
        vague.write(builder, seen)
    rest = [*found.recalled, *found.further, *found.proof.facts]
    builder.add(ALSO, [("", [fact]) for fact in found.named([f.id for f in rest])])
    general = [risk.claim for risk in found.reasoning.risks if not found.named(risk.facts)]
    builder.add(
        "Possible risks (general knowledge, nothing of it is in memory):",
        [(as_data(claim), []) for claim in general],
    )
    if not vague_first:
        vague.write(builder, seen)
    return builder


def _against(found: _Found) -> list[tuple[str, list[Fact]]]:
    """Contradictions, schedule conflicts, and risks that facts support."""
    items: list[tuple[str, list[Fact]]] = []
    for conflict in found.reasoning.conflicts:
        values = ", ".join(as_data(value) for value in conflict.values)
        ids = [fact_id for facts in conflict.values.values() for fact_id in facts]
        sentence = f"Facts disagree about {as_data(conflict.variable)}: {values}"
        items.append((sentence, found.named(ids)))
    items += [(overlap.line, found.named([overlap.fact.id])) for overlap in found.conflicts]
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
    """The content of the ledger at the time of this step."""

    vague: VagueTurnContext = field(default_factory=VagueTurnContext)
    """The profile; for a vague turn also projects and schedule."""
    messages: dict[str, MessageHit] = field(default_factory=dict)
    """The messages behind the facts."""
    gone: set[str] = field(default_factory=set)
    """Facts whose message or record was forgotten or superseded since it was found."""


def _read(room: Room, facts: Sequence[Fact], at: datetime | None, settings: Settings) -> _Stored:
    with room.database.read_transaction() as connection:
        vague = (
            read_vague_turn_context(connection, at, settings)
            if at
            else VagueTurnContext(read_profile(connection, settings))
        )
        quotable = (*facts, *vague.facts())
        messages = hits_by_id(connection, {i for fact in quotable for i in fact.message_ids})
        records = record_queries.numbers_of(connection, (f.record_id for f in facts if f.record_id))
        active = record_queries.current(connection, records.values())
    current = {record for record, n in records.items() if n in active}
    gone = {fact.id for fact in facts if not _is_stored(fact, messages, current)}
    return _Stored(vague, messages, gone)


def _is_stored(fact: Fact, messages: dict[str, MessageHit], records: set[str]) -> bool:
    if fact.record_id:
        return fact.record_id in records
    return all(message_id in messages for message_id in fact.message_ids)


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
