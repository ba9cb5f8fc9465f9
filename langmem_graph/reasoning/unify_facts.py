"""The step `unify`: bind variables and prove atoms by the retrieved facts (Goal-Mem
2.2, step 4).

One model call a round proposes bindings by the nine conditions of Goal-Mem 2.1, and
says what else to look for (step 6). Code checks every proposal again and decides how
the loop continues. A variable may have several values, in rows; where the model says
that facts disagree, code decides by what holds, or notes a conflict.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

from rapidfuzz import fuzz

from langmem_graph.llm.answer_schemas import Unification
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.reasoning.nl_logic import (
    as_query,
    in_line_form,
    plain_entity,
    same_entity,
)
from langmem_graph.reasoning.proof import Bound, Proof, Subgoal, once
from langmem_graph.reasoning.state import (
    MOST_PAGES,
    GoalDependencies,
    GoalState,
    GoalStep,
)
from langmem_graph.results import Conflict, Fact
from langmem_graph.retrieval.facts import decide, first_chains, interleaved
from langmem_graph.retrieval.quoted_context import FactAliases, now_line, request_line
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.worded_days import worded_days

SAME_NAME = 85.0  # percent of similarity from which a text counts as containing a word
MOST_ROWS = 12
# a letter of a script that puts spaces between words
_SPACED = re.compile("[^\u2e80-\uffff]")


async def unify(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Add the retrieved facts, ask what they prove, and keep the bindings that pass the
    checks.
    """
    step = GoalStep(deps, state, run)
    proof = step.proof
    fresh = _take_in(step)
    before = _progress(proof)
    proof.wanted = []
    proof.more = []
    if fresh or (proof.facts and _has_new_statements(proof)):
        await _ask(step, fresh)
    nothing_new = not fresh and before == _progress(proof)
    settle(step, hopeless=nothing_new and proof.depth > 0)
    return step.update()


async def _ask(step: GoalStep, fresh: list[Fact]) -> None:
    proof = step.proof
    aliases = FactAliases.of(_to_show(proof, fresh, step.options.round_facts))
    answer = await step.deps.runner.ask(
        Unification,
        load_prompt("unify"),
        _question(step.state, proof, aliases),
        step.usage,
        lambda given: given.loss_in("look_for"),  # together they are one rule's body
        left=step.left,
    )
    proof.dropped = []
    proof.unusable = answer is None
    if answer is None:
        return
    for verdict in bind(proof, answer, aliases):
        step.recorder.record("memory_binding", **verdict)
    for conflict in proof.conflicts:
        step.recorder.record("memory_conflict", **conflict.model_dump())
    proof.kept = once(
        [*proof.kept, *(fact.id for fact in aliases.resolve(answer.keep))]
    )
    proof.wanted = _wanted(answer, proof.types())


def _wanted(answer: Unification, types: dict[str, str]) -> list[Subgoal]:
    """The refinements that the model asks for, which `refine` checks."""
    return [
        Subgoal(
            id="",
            parent=wanted.for_subgoal,
            atom=in_line_form(wanted.atom, types),
            query=as_query(wanted.query.strip() or wanted.atom, types),
            relation=wanted.relation,
        )
        for wanted in answer.look_for
    ]


def _has_new_statements(proof: Proof) -> bool:
    """Whether a statement of this round is new or changed: the facts
    in view may prove it.
    """
    due = [goal for goal in proof.subgoals if goal.id in proof.due]
    return any(goal.queries or goal.page == 1 for goal in due)


def _progress(proof: Proof) -> tuple[int, int, int]:
    """What has to change for a round to have brought something."""
    return len(proof.bindings), sum(map(len, proof.rows)), len(proof.open())


def _take_in(step: GoalStep) -> list[Fact]:
    """Add this round's facts to the proof; returns the new ones, each subgoal's best
    first.
    """
    proof = step.proof
    retrieved = [
        one for one in step.state.get("found") or [] if one.round == proof.round
    ]
    # each was emitted when it happened
    step.recorder.trace += [one.event for one in retrieved]
    seen = {fact.id for fact in proof.facts}
    facts = [*proof.facts, *interleaved([one.facts for one in retrieved])]
    fresh = [fact for fact in first_chains(facts, len(facts)) if fact.id not in seen]
    proof.facts += fresh
    return fresh


def _to_show(proof: Proof, fresh: list[Fact], most: int) -> list[Fact]:
    """The facts for the prompt: those that prove something or may, the new ones, then
    the rest.
    """
    own = {*proof.cited(), *proof.kept}
    first = [fact for fact in proof.facts if fact.id in own]
    ordered = {fact.id: fact for fact in (*first, *fresh, *proof.facts)}
    return list(ordered.values())[: max(most, len(first))]


def _question(state: GoalState, proof: Proof, aliases: FactAliases) -> str:
    known, *rows = (
        "; ".join(f"{name} = {bound.entity}" for name, bound in row.items())
        for row in (proof.bindings, *proof.rows)
    )
    shown = [
        goal for goal in proof.subgoals if not goal.grounded or goal.id in proof.due
    ]
    return "\n".join(
        [
            now_line(state.get("now", "")),
            request_line(state["query"]),
            f"It is about: {', '.join(proof.central) or 'not said'}",
            f"Known: {known or 'nothing yet'}",
            *(f"Row {n}: {row}" for n, row in enumerate(rows, 1)),
            "Statements:",
            *(f"{goal.id}: {proof.resolved(goal)}" for goal in shown),
            "Looked for already:",
            *(
                f"- {query}"
                for goal in proof.subgoals
                for query in goal.queries or [goal.query]
            ),
            *(f"Not taken: {line}" for line in proof.dropped),
            "Facts:",
            *aliases.lines(),
        ]
    )


def settle(step: GoalStep, *, hopeless: bool = False) -> None:
    """Decide whether the loop ends, and with which status; the proof is changed.

    Where nothing new can be found (`hopeless`), another decomposition may still help.
    """
    proof = step.proof
    options = step.options
    is_over = step.is_over()
    proof.due = []
    proved = set(proof.answer) <= proof.bound() and all(
        goal.grounded for goal in proof.initial()
    )
    if proof.conflicts:
        proof.status = "conflict"
    elif proved and (not proof.more or hopeless or is_over):
        proof.status = "grounded"
        proof.complete = not proof.more
    elif is_over:
        proof.status = "budget"
    elif not hopeless and (proof.more or proof.depth < options.depth):
        return
    elif len(proof.tried) + 1 < options.breadth:
        _begin_again(proof)
        return
    else:
        proof.status = proof.outcome()
    proof.ended = True
    if proof.status not in ("grounded", "conflict"):
        proof.take_best()
    step.recorder.record("memory_proof", **_shown(proof))


def _shown(proof: Proof) -> dict[str, Any]:
    """A proof at its end as the trace shows it."""
    return {
        "status": proof.status,
        "bindings": proof.entities(),
        "rows": [row.values for row in proof.found_rows()],
        "complete": proof.complete,
        "unresolved": proof.unresolved(),
        "subgoals": [
            g.model_dump(include={"id", "grounded", "facts"}) for g in proof.subgoals
        ],
    }


def _begin_again(proof: Proof) -> None:
    """Drop the decomposition of the request, and keep the retrieved facts."""
    proof.tried.append([goal.atom for goal in proof.initial()])
    if proof.best is None or len(proof.cited()) > len(proof.best.cited()):
        earlier = {"best": None, "status": proof.outcome()}
        proof.best = proof.model_copy(update=earlier, deep=True)
    proof.counted += len(proof.subgoals)
    proof.subgoals = []
    proof.bindings = {}
    proof.rows = []
    proof.answer = []
    proof.depth = 0


@dataclass
class _Proposal:
    variable: str
    entity: str
    facts: list[Fact]
    row: int = 0
    reason: str | None = None

    def ids(self) -> list[str]:
        return [fact.id for fact in self.facts]


def bind(
    proof: Proof, answer: Unification, aliases: FactAliases
) -> list[dict[str, Any]]:
    """Add the bindings that pass the checks; returns every proposal and its fate, for
    the trace.
    """
    proposals = _proposals(answer, aliases, proof.types())
    before = len(proof.rows)
    taken = [proposal for proposal in proposals if proposal.reason is None]
    disputed = {
        name for name in answer.disagree if sum(p.variable == name for p in taken) > 1
    }
    for name in sorted(disputed):
        taken = _decided(proof, name, taken)
    _number_apart(proof, taken)
    _find_rows(proof, taken)
    for proposal in taken:
        proposal.reason = _place(proof, proposal)
    _ground(proof, answer, aliases)
    gone = proof.drop({one.row: one.why for one in answer.drop if one.row <= before})
    proof.dropped += gone
    _ask_for_pages(
        proof, before - len(gone), {wanted.for_subgoal for wanted in answer.look_for}
    )
    proof.dropped += [
        f"{p.variable} = {p.entity}: {p.reason}" for p in proposals if p.reason
    ]
    return [
        {"variable": p.variable, "entity": p.entity, "facts": p.ids()}
        | {"accepted": p.reason is None, "reason": p.reason}
        for p in proposals
    ]


def _proposals(
    answer: Unification, aliases: FactAliases, types: dict[str, str]
) -> list[_Proposal]:
    """The model's bindings; those that cannot be taken have a reason."""
    proposals = [
        _Proposal(
            one.variable.strip("?(){} "),
            " ".join(one.entity.split()),
            aliases.resolve(one.facts),
            max(0, one.row),
        )
        for one in answer.bindings
    ]
    for proposal in proposals:
        proposal.reason = _objection(proposal, types)
    return proposals


def _objection(proposal: _Proposal, types: dict[str, str]) -> str | None:
    if proposal.variable not in types:
        return "no such variable"
    if not proposal.facts:
        return "cites no fact that was shown"
    if not stands_in(proposal.entity, proposal.facts):
        return "does not stand in the facts it cites"
    return None


def stands_in(entity: str, facts: Sequence[Fact]) -> bool:
    """True when the facts contain the entity's words, a short form of them, or the day
    it is.

    Every word with a digit must stand there, and half of the others.
    """
    name = plain_entity(entity)
    text = plain_entity(" ".join(fact.text for fact in facts))
    if not name:
        return False
    with suppress(ValueError):
        return date.fromisoformat(name[:10]) in _days_of(facts) or name in text
    if not _SPACED.search(name):
        return name in text
    words = re.findall(r"\w+", name)
    said = set(re.findall(r"\w+", text))
    found = [word for word in words if word in said or _is_like_one(word, said)]
    exact = all(word in said for word in words if re.search(r"\d", word))
    return exact and bool(found) and 2 * len(found) >= len(words)


def _is_like_one(word: str, said: set[str]) -> bool:
    """True for another spelling or form of a word; short words have none."""
    return len(word) > 3 and any(
        other.startswith(word) or fuzz.ratio(word, other) >= SAME_NAME for other in said
    )


def _days_of(facts: Sequence[Fact]) -> set[date]:
    """The days that the facts are about, or on which they were said."""
    said = {fact.at.date() for fact in facts if fact.at}
    worded = [worded_days(fact.text, fact.at.date()) for fact in facts if fact.at]
    return said.union(*worded, (fact.day for fact in facts if fact.day))


def _decided(proof: Proof, name: str, taken: list[_Proposal]) -> list[_Proposal]:
    """The proposals without those that lose against others for the same variable.

    Where nothing decides, it is a conflict, and all of them are left out.
    """
    values: dict[str, list[Fact]] = defaultdict(list)
    rivals = [proposal for proposal in taken if proposal.variable == name]
    for rival in rivals:
        known = next(
            (value for value in values if same_entity(value, rival.entity)),
            rival.entity,
        )
        values[known] += rival.facts
    winner = next(iter(values)) if len(values) == 1 else decide(values)
    if winner is None:
        ids = {value: [fact.id for fact in facts] for value, facts in values.items()}
        proof.conflicts.append(Conflict(variable=name, values=ids))
    for rival in rivals:
        if winner is None or not same_entity(rival.entity, winner):
            said = f"newer or confirmed facts say {winner}"
            rival.reason = said if winner else "facts disagree"
    return [proposal for proposal in taken if proposal.reason is None]


def _number_apart(proof: Proof, taken: Sequence[_Proposal]) -> None:
    """Give several values of one variable, for which no row was named, a row each."""
    alone = {
        (p.variable, plain_entity(p.entity)): p.variable for p in taken if p.row == 0
    }
    several = Counter(alone.values())
    first = max([len(proof.rows), *(p.row for p in taken)]) + 1
    numbers = {key: number for number, key in enumerate(alone, first)}
    for proposal in taken:
        name = proposal.variable
        is_one = several[name] == 1 and name not in proof.bound()
        if proposal.row == 0 and name not in proof.bindings and not is_one:
            proposal.row = numbers[name, plain_entity(proposal.entity)]


def _find_rows(proof: Proof, taken: Sequence[_Proposal]) -> None:
    """Find the place of each row: a model may count the rows of an answer anew."""
    last = len(proof.rows)
    places = {0: 0}
    for number in sorted({proposal.row for proposal in taken} - {0}):
        own = {p.variable: p.entity for p in taken if p.row == number}
        same = [
            [same_entity(row[n].entity, own[n]) for n in own if n in row]
            for row in proof.rows
        ]
        is_there = number <= len(same) and (
            any(same[number - 1]) or not same[number - 1]
        )
        known = next((n for n, one in enumerate(same, 1) if one and all(one)), 0)
        last += not is_there and not known
        places[number] = number if is_there else known or last
    for proposal in taken:
        proposal.row = places[proposal.row]


def _place(proof: Proof, proposal: _Proposal) -> str | None:
    """Add a value to its row, or to all rows; returns why it cannot be, else None."""
    shared = proof.bindings.get(proposal.variable)
    if proposal.row > MOST_ROWS:
        return f"only {MOST_ROWS} rows are kept"
    while len(proof.rows) < proposal.row:
        proof.rows.append({})
    own = (
        proof.rows[proposal.row - 1] if proposal.row and not shared else proof.bindings
    )
    earlier = own.setdefault(proposal.variable, Bound(entity=proposal.entity))
    if not same_entity(earlier.entity, proposal.entity):
        return f"is already {earlier.entity}"
    earlier.add(proposal.ids())
    return None


def _ask_for_pages(proof: Proof, before: int, wanted: set[str]) -> None:
    """Look further for statements of which a round found more values, or the model
    wants more.
    """
    proof.rows = [row for row in proof.rows if row]
    several = {name for row in proof.rows for name in row}
    fresh = {name for row in proof.rows[before:] for name in row}
    for goal in proof.subgoals:
        names = {variable.name for variable in goal.parsed().variables}
        is_asked = goal.grounded and goal.id in wanted and names & several
        if goal.page < MOST_PAGES and (
            is_asked or (names & fresh and goal.id in proof.due)
        ):
            goal.page += 1
            proof.more.append(goal.id)


def _ground(proof: Proof, answer: Unification, aliases: FactAliases) -> None:
    """Mark subgoals as proved that have no open variable and cite facts."""
    goals = {goal.id: goal for goal in proof.subgoals}
    bound = proof.bound()
    for proposed in answer.grounded:
        goal = goals.get(proposed.subgoal)
        facts = aliases.resolve(proposed.facts)
        if goal and facts and bound.issuperset(v.name for v in goal.parsed().variables):
            goal.grounded = True
            goal.facts = once([*goal.facts, *(fact.id for fact in facts)])
