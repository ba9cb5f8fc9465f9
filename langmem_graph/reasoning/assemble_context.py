"""The step `context`: compose the context, the most urgent part first (ActMem 1.3, step
4).

Reasons against the request come first, then the facts that answer it, the variables
without a value, and the profile; where the facts are not sure to suffice, also the best
others. No model is called.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import time

from langmem_graph.reasoning.proof import Proof, once
from langmem_graph.reasoning.state import ReasoningDependencies, ReasoningState
from langmem_graph.results import Fact, Reasoning, Recall, RecallReport
from langmem_graph.retrieval.facts import (
    Placed,
    evidence,
    fact_id,
    first_chains,
    hits_by_id,
    still_says,
)
from langmem_graph.retrieval.joined_search import each_room
from langmem_graph.retrieval.quoted_context import (
    AGAINST,
    ALSO,
    ROOMS,
    URGENT,
    ContextBuilder,
    as_data,
    framed,
    not_in_view,
)
from langmem_graph.retrieval.schedule_lookup import Overlap
from langmem_graph.retrieval.search_common import RoomSearch, SearchNotes, UserSearch
from langmem_graph.retrieval.vague_turns import (
    VagueTurnContext,
    read_profile,
    read_vague_turn_context,
)
from langmem_graph.rooms import shared_name
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.model_written_times import read_day
from langmem_graph.schedule.times import between
from langmem_graph.schemas import Label, MessageHit, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.superseded_labels import labelled_records
from langmem_graph.storage.user_room import Room
from langmem_graph.threads import in_thread
from langmem_graph.tokens import TokenCounter, token_counter
from langmem_graph.trust import Allowance, bounded
from langmem_graph.view import View

UNUSABLE = "Not found, as an answer of the model could not be used:"
_WITH_VALUES = frozenset(
    "memory_binding memory_conflict memory_overlap memory_proof memory_subgoal "
    "memory_risk "
    "memory_refinement memory_list".split()
)
"""Events that contain values of facts, which may have been forgotten; the others name
ids.
"""


async def context(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Compose the context and the outcome of the recall."""
    settings = deps.services.settings
    facts = _quotable(state)
    warnings = [*state["warnings"]]
    empty = list[str]()
    stored = await _stored(deps, state, run, facts, warnings, empty)
    found = _Found.of(state, facts, stored)
    counter = await in_thread(token_counter, settings.encoding)  # loads a table
    budget = state["max_tokens"] or settings.context.max_tokens
    allowance = Allowance.of(settings.context, budget)
    order = URGENT + (ROOMS if any(fact.room for fact in found.facts.values()) else "")
    builder = ContextBuilder(
        counter, budget - counter.count(framed([], order)), allowance
    )
    _write(builder, found, state, settings)
    text = framed(builder.lines, order) if builder.lines else ""
    quoted = list(builder.quoted.values())
    kept = [
        e for e in state["trace"] if not stored.gone or e["event"] not in _WITH_VALUES
    ]
    outcome = Recall(
        context=text,
        evidence=evidence(quoted, stored.messages),
        report=_report(
            {**state, "warnings": warnings}, empty, found, len(quoted), text, counter
        ),
        facts=quoted,
        reasoning=found.reasoning,
        trace=kept,
    )
    return {"recall": outcome}


async def _stored(
    deps: ReasoningDependencies,
    state: ReasoningState,
    run: StepRun,
    facts: Sequence[Fact],
    warnings: list[str],
    empty: list[str],
) -> "_Stored":
    """What is stored of the facts; where that cannot be read, nothing, with a warning.

    What is said of shared rooms that hold nothing is added to `empty`.
    """
    is_vague = (state["proof"].intent or state["intent"]) == "vague"
    at = datetime.fromisoformat(state["now"]) if is_vague else None

    notes = SearchNotes(warnings=warnings)

    def work(rooms: list[Room]) -> _Stored:
        return _read(deps.services, run.view, rooms, facts, at, notes)

    try:
        return await deps.services.in_rooms(run.view, work, warnings, empty)
    except Exception as error:
        if deps.fail_closed:
            raise
        warnings.append(
            run.problem("the context is made without what is stored", error)
        )
        return _Stored()


def _quotable(state: ReasoningState) -> list[Fact]:
    """All facts that the earlier steps found, without what the model sees anyway."""
    overlapping = [overlap.fact for overlap in state["overlaps"]]
    further = state["consequences"].facts
    every = (*state["proof"].facts, *state["recalled"], *further, *overlapping)
    return not_in_view({fact.id: fact for fact in every}.values(), state["in_view"])


@dataclass(frozen=True)
class _Stored:
    """The content of the ledger at the time of this step."""

    vague: VagueTurnContext = field(default_factory=VagueTurnContext)
    """The profile; for a vague turn also projects and schedule."""
    # those behind the facts
    messages: dict[Placed, MessageHit] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # forgotten or changed since found
    labels: dict[str, list[Label]] = field(default_factory=dict)  # by the facts' ids
    room: str | None = None  # the shared room, where it is of one


@dataclass(frozen=True)
class _Found:
    """Results of the earlier steps, as far as they are still stored."""

    # with the labels as they are now: what one quotes may be forgotten
    facts: dict[str, Fact]
    proof: Proof
    overlaps: list[Overlap]
    reasoning: Reasoning
    vague: VagueTurnContext

    @classmethod
    def of(
        cls, state: ReasoningState, facts: Sequence[Fact], stored: _Stored
    ) -> "_Found":
        gone = stored.gone
        labels = stored.labels
        known = {
            fact.id: fact.model_copy(
                update={"labels": labels.get(fact.id, fact.labels)}
            )
            for fact in facts
            if fact.id not in gone
        }
        proof = state["proof"].without(gone)
        overlaps = [
            overlap for overlap in state["overlaps"] if overlap.fact.id not in gone
        ]
        risks = [r for r in state["consequences"].risks if gone.isdisjoint(r.facts)]
        reasoning = Reasoning(
            status=proof.status,
            bindings=proof.first_row(),
            rows=proof.found_rows(),
            complete=True if proof.complete else "unknown",
            spans=spans(proof),
            unusable=proof.unusable,
            unresolved=proof.unresolved(),
            conflicts=proof.conflicts,
            risks=[*proof.against, *risks],
            overlaps=[overlap.text for overlap in overlaps],
        )
        return cls(known, proof, overlaps, reasoning, stored.vague)

    def named(self, ids: Iterable[str]) -> list[Fact]:
        """The facts with these ids that may be quoted."""
        return [self.facts[fact_id] for fact_id in ids if fact_id in self.facts]


def spans(proof: Proof) -> list[str]:
    """How long it is between the two days of a question for it, in days and in longer
    units.
    """
    days = [read_day(text) for text in (proof.proposed.start, proof.proposed.end)]
    if proof.intent == "act" or not (days[0] and days[1]):
        row = proof.first_row()
        bound = [row[name] for name in proof.answer if name in row]
        days = [read_day(text) for text in bound] if len(bound) == 2 else []
    if len(days) != 2 or not (days[0] and days[1]):
        return []
    return [between(*sorted(day for day in days if day))]


def _write(
    builder: ContextBuilder, found: _Found, state: ReasoningState, settings: Settings
) -> None:
    """Write the sections; of the first look-up's facts the best `k`, not all of them
    foreign.
    """
    k = state["k"] or settings.context.k
    share = settings.context.foreign_share
    builder.add(AGAINST, _against(found))
    builder.add(_proved_title(found), _proved(found))
    unresolved = map(as_data, found.reasoning.unresolved)
    missing = UNUSABLE if found.reasoning.unusable else "Not found in memory:"
    builder.add(missing, [(variable, []) for variable in unresolved])
    vague_first = bool(found.vague.projects or found.vague.upcoming)
    if vague_first:
        found.vague.write(builder, state["in_view"])
    if not found.proof.sufficient:
        recalled = [fact.id for fact in state["recalled"]]
        retrieved = (fact.id for fact in found.proof.facts if fact.id not in recalled)
        named = found.named(recalled)
        dropped = {one.id for one in named} - {
            one.id for one in bounded(named, k, share)
        }
        first = [fact_id for fact_id in recalled if fact_id not in dropped][:k]
        looked = found.named([*first, *retrieved])
        builder.add(ALSO, [("", [fact]) for fact in first_chains(looked, len(looked))])
    if not vague_first:
        found.vague.write(builder, state["in_view"])


def _against(found: _Found) -> list[tuple[str, list[Fact]]]:
    """Contradictions, clashes of dates, and facts that were named as speaking against
    it.
    """
    items: list[tuple[str, list[Fact]]] = []
    for conflict in found.reasoning.conflicts:
        values = ", ".join(as_data(value) for value in conflict.values)
        ids = [fact_id for facts in conflict.values.values() for fact_id in facts]
        sentence = f"Facts disagree about {as_data(conflict.variable)}: {values}"
        items.append((sentence, found.named(ids)))
    items += [
        (overlap.line, found.named([overlap.fact.id])) for overlap in found.overlaps
    ]
    backed = [(risk, found.named(risk.facts)) for risk in found.reasoning.risks]
    return [*items, *((as_data(risk.claim), facts) for risk, facts in backed if facts)]


def _proved(found: _Found) -> list[tuple[str, list[Fact]]]:
    """How long it was, each row with its facts, then the other facts for the
    request.
    """
    items: list[tuple[str, list[Fact]]] = [(span, []) for span in found.reasoning.spans]
    for row in found.reasoning.rows:
        values = ", ".join(as_data(value) for value in row.values.values())
        items.append((values, found.named(row.facts)))
    proof = found.proof
    return [
        *items,
        *(("", [fact]) for fact in found.named([*proof.cited(), *proof.named])),
    ]


def _proved_title(found: _Found) -> str:
    reasoning = found.reasoning
    bound = [f"{n} = {as_data(e)}" for n, e in reasoning.bindings.items()]
    if reasoning.rows:
        more = "" if reasoning.complete is True else "; there may be more"
        bound = [f"{len(reasoning.rows)} found{more}"]
    what = f" ({', '.join(bound)})" if bound else ""
    return f"Facts for the request{what}:"


def _read(
    services: Services,
    view: View,
    rooms: list[Room],
    facts: Sequence[Fact],
    at: datetime | None,
    notes: SearchNotes,
) -> _Stored:
    """What is stored of the facts, each in its room; profile and schedule are the
    user's own.
    """

    def read(one: RoomSearch, connection: Reading) -> _Stored:
        vague = VagueTurnContext()
        room = shared_name(one.key)
        if one.key == view.user:
            profile = VagueTurnContext(read_profile(connection, one.settings))
            vague = (
                read_vague_turn_context(connection, at, one.settings) if at else profile
            )
        return _read_room(connection, room, [f for f in facts if f.room == room], vague)

    searches = UserSearch.over(services, view, rooms, notes).rooms
    parts = [part for _, part in each_room(searches, read)]
    if len(parts) == 1 and not view.is_shared:
        return parts[0]
    known = {fact.id for fact in facts if any(part.room == fact.room for part in parts)}
    unread = {fact.id for fact in facts} - known
    return _Stored(
        next(
            (part.vague for part in parts if shared_name(view.user) == part.room),
            VagueTurnContext(),
        ),
        {name: hit for part in parts for name, hit in part.messages.items()},
        unread.union(*(part.gone for part in parts)),
        {name: labels for part in parts for name, labels in part.labels.items()},
    )


def _read_room(
    connection: Reading,
    room: str | None,
    facts: Sequence[Fact],
    vague: VagueTurnContext,
) -> _Stored:
    messages = hits_by_id(connection, (*facts, *vague.facts()))
    numbers = record_queries.numbers_of(
        connection, (f.record_id for f in facts if f.record_id)
    )
    active = record_queries.current(connection, numbers.values())
    records = labelled_records(connection, numbers.values())
    stored: dict[str, MessageHit | Record] = {
        fact_id("record", room, record.record_id): record for record in records.values()
    }
    stored |= {fact_id("message", *place): hit for place, hit in messages.items()}
    past = {
        fact_id("record", room, record.record_id)
        for n, record in records.items()
        if n not in active
    }
    labels = {name: item.labels for name, item in stored.items()}
    outdated = {fact.id for fact in facts if fact.outdated and labels.get(fact.id)}
    shown = (stored.keys() - past) | outdated
    kept = {
        fact.id
        for fact in facts
        if fact.id in shown and still_says(fact.text, stored[fact.id].text)
    }
    gone = {fact.id for fact in facts} - kept
    return _Stored(vague, messages, gone, labels, room)


def _report(
    state: ReasoningState,
    empty: list[str],
    found: _Found,
    quoted: int,
    text: str,
    counter: TokenCounter,
) -> RecallReport:
    usage = state["usage"]
    warnings = once(state["warnings"])
    spent = {**state["milliseconds"], "model": usage.milliseconds}
    spent["total"] = (time() - state["started"]) * 1_000
    return RecallReport(
        mode=state["mode"],
        status="degraded" if warnings or usage.problems else "ok",
        warnings=[*warnings, *empty],
        considered=len(found.facts),
        quoted=quoted,
        context_tokens=counter.count(text),
        tokens_exact=counter.exact,
        milliseconds=spent,
        **usage.counts(),
    )
