"""context: the text a model is shown after reasoning, the most urgent first, within its budget.

What speaks against the request comes first, then what is proved, what stayed open, what else was
remembered, risks that only general knowledge knows of, and the profile. No model is called.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import Any

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.models import (
    Fact,
    MessageHit,
    Reasoning,
    Recall,
    RecallReport,
    Risk,
)
from langmem_graph.pyramid.files import PROFILE, ProfileFile, parse
from langmem_graph.recall.goals.state import Proof
from langmem_graph.recall.quotes import LONGEST_NAME, as_data, framed, plain_id
from langmem_graph.recall.state import RecallState, RecallTools
from langmem_graph.steps import Call
from langmem_graph.store import files, lookups, record_lookups
from langmem_graph.store.room import Room
from langmem_graph.tokens import TokenCounter, token_counter

_log = logging.getLogger(__name__)
FACTS_OF_A_RISK = 3
"""Facts shown beside one risk; its others follow among the rest."""


@dataclass
class _Page:
    """Lines as far as the budget goes; a fact is quoted once."""

    counter: TokenCounter
    left: int
    lines: list[str] = field(default_factory=list)
    quoted: dict[str, Fact] = field(default_factory=dict)

    def add(self, title: str, items: Sequence[tuple[str, Sequence[Fact]]]) -> None:
        """A section: each item is a sentence, if any, and the facts quoted below it."""
        begun = len(self.lines)
        for sentence, facts in items:
            fresh = [fact for fact in facts if fact.id not in self.quoted]
            if not sentence and not fresh:
                continue
            lines = [f"- {sentence}"] if sentence else []
            lines += [("  " if sentence else "") + fact_line(fact) for fact in fresh]
            if len(self.lines) == begun:
                lines = [title, *lines]
            cost = sum(self.counter.count(line) + 1 for line in lines)
            if cost <= self.left:
                self.left -= cost
                self.lines += lines
                self.quoted |= {fact.id: fact for fact in fresh}


def fact_line(fact: Fact) -> str:
    """Date, speaker, ids and words, which are quoted as data."""
    when = f"{fact.at:%Y-%m-%d %H:%M} " if fact.at else ""
    who = f"{plain_id(fact.speaker[:LONGEST_NAME])} " if fact.speaker else ""
    ids = ", ".join(map(plain_id, fact.message_ids or [fact.id]))
    note = " (no longer true)" if fact.outdated else ""
    note += f" ({fact.confirmation})" if fact.confirmation in ("draft", "inferred") else ""
    return f"- {when}{who}[{ids}]{note}: {as_data(fact.text)}"


async def context(tools: RecallTools, state: RecallState, call: Call) -> RecallState:
    """Put everything together."""
    services = tools.services
    found = _Found.of(state)
    stored, warnings = _Stored(), list(state.get("warnings") or [])
    try:
        stored = await services.in_known_room(
            call.user, lambda room: _read(room, list(found.facts.values())), _Stored()
        )
    except Exception as error:
        if tools.fail_closed:
            raise
        warnings.append(f"{type(error).__name__}: {error}")
        _log.warning("the context is made without what is stored: %s", for_log(error))
    found = found.without(stored.gone)
    state = {**state, "warnings": warnings}
    counter = await asyncio.to_thread(token_counter, services.settings.encoding)  # loads a table
    budget = state.get("max_tokens") or services.settings.context_tokens
    page = _written(found, stored.profile, counter, budget)
    text = framed(page.lines, "most urgent first") if page.lines else ""
    outcome = Recall(
        context=text,
        evidence=_evidence(page.quoted.values(), stored.messages),
        report=_report(state, found, page, text, counter),
        facts=list(page.quoted.values()),
        reasoning=found.reasoning,
        trace=state.get("trace") or [],
    )
    return {"recall": outcome.model_dump(mode="json")}


@dataclass(frozen=True)
class _Found:
    """What the earlier steps have found."""

    facts: dict[str, Fact]
    recalled: list[Fact]
    further: list[Fact]
    """For the risks: by the second search and along edges."""
    proof: Proof
    reasoning: Reasoning
    overlaps: list[dict[str, Any]]

    @classmethod
    def of(cls, state: RecallState) -> "_Found":
        proof = Proof.model_validate(state.get("proof") or {})
        after = state.get("consequences") or {}
        recalled = [Fact.model_validate(one) for one in state.get("recalled") or []]
        further = [Fact.model_validate(one) for one in after.get("facts", [])]
        overlaps = after.get("overlaps", [])
        colliding = [Fact.model_validate(one["fact"]) for one in overlaps]
        every = (*proof.facts, *recalled, *further, *colliding)
        seen = set(state.get("in_view") or [])
        shown = {f.id: f for f in every if not {f.text, *f.message_ids} & seen}
        reasoning = Reasoning(
            status=proof.status,
            bindings={name: bound.entity for name, bound in proof.bindings.items()},
            unresolved=proof.unresolved(),
            conflicts=proof.conflicts,
            risks=[Risk.model_validate(one) for one in after.get("risks", [])],
            overlaps=[one["text"] for one in overlaps],
        )
        return cls(shown, recalled, further, proof, reasoning, overlaps)

    def without(self, gone: set[str]) -> "_Found":
        """Without facts that were forgotten or are no longer true since they were found."""
        return replace(self, facts={n: f for n, f in self.facts.items() if n not in gone})

    def named(self, ids: Sequence[str]) -> list[Fact]:
        """The facts with these ids that may be shown."""
        return [self.facts[one] for one in ids if one in self.facts]


def _written(found: _Found, profile: str, counter: TokenCounter, budget: int) -> _Page:
    page = _Page(counter, budget - counter.count(framed([])))
    page.add("Check this before acting on the request:", _against(found))
    page.add(_proved_title(found), [("", [fact]) for fact in found.named(found.proof.cited())])
    page.add("Not found in memory:", [(as_data(one), []) for one in found.reasoning.unresolved])
    rest = [*found.recalled, *found.further, *found.proof.facts]
    page.add("Also remembered:", [("", [fact]) for fact in found.named([f.id for f in rest])])
    general = [risk.claim for risk in found.reasoning.risks if not found.named(risk.facts)]
    page.add(
        "Possible risks (general knowledge, nothing of it is in memory):",
        [(as_data(claim), []) for claim in general],
    )
    if profile:
        page.add("Profile:", [(as_data(profile), [])])
    return page


def _against(found: _Found) -> list[tuple[str, list[Fact]]]:
    """Contradictions, appointments at the same time, and risks that memory speaks for."""
    items: list[tuple[str, list[Fact]]] = []
    for conflict in found.reasoning.conflicts:
        values = ", ".join(as_data(value) for value in conflict.values)
        ids = [one for facts in conflict.values.values() for one in facts]
        sentence = f"Facts disagree about {as_data(conflict.variable)}: {values}"
        items.append((sentence, found.named(ids)))
    for overlap in found.overlaps:
        facts = found.named(overlap["facts"])
        items.append(("The schedule has something at that time", facts))
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
    """What is in the ledger now."""

    profile: str = ""
    messages: dict[str, MessageHit] = field(default_factory=dict)
    """The messages behind the facts."""
    gone: set[str] = field(default_factory=set)
    """Facts whose message or record was forgotten, or superseded, meanwhile."""


def _read(room: Room, facts: Sequence[Fact]) -> _Stored:
    ids = {one for fact in facts for one in fact.message_ids}
    with room.database.reading() as connection:
        held = files.all_files(connection).get(PROFILE)
        messages = lookups.messages_by_id(connection, ids)
        numbers = record_lookups.message_numbers(connection, ids)
        records = record_lookups.numbers_of(connection, (f.record_id for f in facts if f.record_id))
        active = record_lookups.active(connection, records.values())
    true_now = {record for record, n in records.items() if n in active}
    evidence = {
        one: MessageHit(
            message_id=one,
            score=0.0,
            position=numbers[one][0],
            excerpt=message.text,
            **message.model_dump(include={"session_id", "role", "name", "at", "text"}),
        )
        for one, message in messages.items()
    }
    gone = {fact.id for fact in facts if not _is_there(fact, evidence, true_now)}
    return _Stored(_profile(held.body if held else ""), evidence, gone)


def _is_there(fact: Fact, messages: dict[str, MessageHit], records: set[str]) -> bool:
    if fact.record_id:
        return fact.record_id in records
    return all(one in messages for one in fact.message_ids)


def _profile(body: str) -> str:
    try:
        file = parse(body) if body else None
    except InvalidInputError:  # it was written by hand; without it the context is still good
        return ""
    return file.text if isinstance(file, ProfileFile) else ""


def _evidence(quoted: Any, messages: dict[str, MessageHit]) -> list[MessageHit]:
    ids = dict.fromkeys(one for fact in quoted for one in fact.message_ids)
    found = [messages[one] for one in ids if one in messages]
    return [hit.model_copy(update={"score": 1 / place}) for place, hit in enumerate(found, 1)]


def _report(
    state: RecallState, found: _Found, page: _Page, text: str, counter: TokenCounter
) -> RecallReport:
    usage = state.get("usage") or {}
    warnings = state.get("warnings") or []
    spent = dict(state.get("milliseconds") or {})
    spent["model"] = usage.get("milliseconds", 0.0)
    spent["total"] = (time() - state["started"]) * 1_000
    counted = ("repairs", "input_tokens", "output_tokens", "problems")
    return RecallReport(
        mode=state["mode"],
        status="degraded" if warnings or usage.get("problems") else "ok",
        warnings=warnings,
        considered=len(found.facts),
        quoted=len(page.quoted),
        llm_calls=usage.get("calls", 0),
        context_tokens=counter.count(text),
        tokens_exact=counter.exact,
        milliseconds=spent,
        **{name: usage[name] for name in counted if name in usage},
    )
