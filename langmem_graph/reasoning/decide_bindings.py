"""Checks of the bindings that a model proposes, in code (Goal-Mem 2.1, used by the step `unify`).

A binding is accepted when its variable exists, it cites facts of the prompt, one of these facts
contains its entity, the entity does not contradict the variable's type, and it agrees with earlier
bindings. All proposals of a round are decided together, so that their order does not matter.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rapidfuzz import fuzz
from typing_extensions import TypedDict

from langmem_graph.llm.answer_schemas import Unification
from langmem_graph.reasoning.nl_logic import contradicts, plain_entity, same_entity
from langmem_graph.reasoning.state import Bound, Proof, Subgoal
from langmem_graph.retrieval.quoted_context import FactAliases
from langmem_graph.schemas import Conflict, Fact

SAME_NAME = 85.0
"""Similarity in percent from which a text counts as containing a name (methods 2.3)."""
SHORT_NAME = 4
"""Letters below which a name must be a word of its own in the text."""
_SPACED = re.compile("[^\u2e80-\uffff]")
"""A letter of a script that puts spaces between words."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_DOUBTFUL = ("draft", "inferred")


class Verdict(TypedDict):
    """A proposed binding and whether it was accepted, for the trace."""

    variable: str
    entity: str
    facts: list[str]
    accepted: bool
    reason: str | None
    """Why it was rejected."""


@dataclass
class _Proposal:
    variable: str
    entity: str
    facts: list[Fact]
    reason: str | None = None


def bind(proof: Proof, answer: Unification, aliases: FactAliases) -> list[Verdict]:
    """Add the bindings that pass the checks to the proof; returns a verdict on every proposal."""
    proposals = [
        _Proposal(
            binding.variable, " ".join(binding.entity.split()), aliases.resolve(binding.facts)
        )
        for binding in answer.bindings
    ]
    types = proof.types()
    for proposal in proposals:
        proposal.reason = _objection(proposal, types, proof)
    _decide_together(proof, [proposal for proposal in proposals if proposal.reason is None])
    _ground(proof, answer, aliases)
    return [_verdict(proposal) for proposal in proposals]


def _objection(proposal: _Proposal, types: dict[str, str], proof: Proof) -> str | None:
    if proposal.variable not in types:
        return "no such variable"
    if not proposal.facts:
        return "cites no fact that was shown"
    if not any(stands_in(proposal.entity, fact) for fact in proposal.facts):
        return "does not stand in the facts it cites"
    if contradicts(proposal.entity, types[proposal.variable]):
        return f"is no {types[proposal.variable]}"
    earlier = proof.bindings.get(proposal.variable)
    if earlier and not same_entity(earlier.entity, proposal.entity):
        return f"is already {earlier.entity}"
    return None


def stands_in(entity: str, fact: Fact) -> bool:
    """True when a fact's text contains the entity, allowing for a slightly different spelling."""
    name, text = plain_entity(entity), plain_entity(fact.text)
    if not name:
        return False
    if f" {name} " in f" {' '.join(_words(text))} ":
        return True
    if len(name) < SHORT_NAME:
        return name in text and not _SPACED.search(name)
    return name in text or fuzz.partial_ratio(name, text) >= SAME_NAME


def _words(text: str) -> Iterator[str]:
    for word in text.split():
        yield word.strip(".,;:!?\"'()[]")


def _decide_together(proof: Proof, proposals: list[_Proposal]) -> None:
    """Bind each variable to one entity, or note a conflict where nothing decides among several."""
    by_variable: dict[str, list[_Proposal]] = defaultdict(list)
    for proposal in proposals:
        others = by_variable[proposal.variable]
        known = next((o for o in others if same_entity(o.entity, proposal.entity)), None)
        if known is None:
            others.append(proposal)
        else:
            known.facts += proposal.facts
    for variable, rivals in by_variable.items():
        winner = rivals[0] if len(rivals) == 1 else decide({r.entity: r.facts for r in rivals})
        if isinstance(winner, str):
            _reject_losers(rivals, winner)
            winner = next(rival for rival in rivals if rival.entity == winner)
        if winner is None:
            values = {rival.entity: [fact.id for fact in rival.facts] for rival in rivals}
            proof.conflicts.append(Conflict(variable=variable, values=values))
            for rival in rivals:
                rival.reason = "facts disagree"
            continue
        earlier = proof.bindings.get(variable)
        facts = [*(earlier.facts if earlier else []), *(fact.id for fact in winner.facts)]
        entity = earlier.entity if earlier else winner.entity
        proof.bindings[variable] = Bound(entity=entity, facts=list(dict.fromkeys(facts)))


def _reject_losers(rivals: list[_Proposal], winner: str) -> None:
    for rival in rivals:
        if rival.entity != winner:
            rival.reason = f"newer or confirmed facts say {winner}"


def _ground(proof: Proof, answer: Unification, aliases: FactAliases) -> None:
    """Mark subgoals as proved that have no open variable and cite facts or follow from others."""
    goals = {goal.id: goal for goal in proof.subgoals}
    for proposed in answer.grounded:
        goal, facts = goals.get(proposed.subgoal), aliases.resolve(proposed.facts)
        if goal and facts and proof.resolved(goal).is_ground:
            goal.grounded = True
            goal.facts = list(dict.fromkeys([*goal.facts, *(fact.id for fact in facts)]))
    for goal in reversed(proof.subgoals):  # children come after their parents
        if not goal.grounded and proof.resolved(goal).is_ground and _follows(goal, proof):
            goal.grounded = True


def _follows(goal: Subgoal, proof: Proof) -> bool:
    """True when all refinements of one round are proved: together they are one rule's body."""
    rounds: dict[int, list[Subgoal]] = defaultdict(list)
    for child in proof.subgoals:
        if child.parent == goal.id:
            rounds[child.depth].append(child)
    return any(all(child.grounded for child in body) for body in rounds.values())


def _verdict(proposal: _Proposal) -> Verdict:
    return {
        "variable": proposal.variable,
        "entity": proposal.entity,
        "facts": [fact.id for fact in proposal.facts],
        "accepted": proposal.reason is None,
        "reason": proposal.reason,
    }


def decide(values: Mapping[str, Sequence[Fact]]) -> str | None:
    """The value that current, confirmed or newer facts support; None when nothing decides.

    Args:
        values: each value with the facts that state it.
    """
    left = dict(values)
    tests: list[Callable[[Fact], bool]] = [
        lambda fact: not fact.outdated,
        lambda fact: fact.confirmation not in _DOUBTFUL,
    ]
    for test in tests:
        left = _passing(left, test)
        if len(left) == 1:
            return next(iter(left))
    return _newest(left)


def _passing(
    values: dict[str, Sequence[Fact]], test: Callable[[Fact], bool]
) -> dict[str, Sequence[Fact]]:
    """The values with a fact that passes the test; all of them when none has one."""
    better = {value: facts for value, facts in values.items() if any(map(test, facts))}
    return better or values


def _newest(values: Mapping[str, Sequence[Fact]]) -> str | None:
    """The newest, where all are about one attribute and the dates differ."""
    about = {(f.subject, f.attribute) for facts in values.values() for f in facts}
    if len(about) != 1 or None in next(iter(about)) or "" in next(iter(about)):
        return None
    latest = {value: max(fact.at or _NEVER for fact in facts) for value, facts in values.items()}
    last = max(latest.values())
    newest = [value for value, at in latest.items() if at == last]
    return newest[0] if len(newest) == 1 else None
