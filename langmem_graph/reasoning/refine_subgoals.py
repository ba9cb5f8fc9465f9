"""The step `refine`: what is searched for in the next round (Goal-Mem 2.2, step 6).

Atoms in which a variable has been bound since are searched for again, with the entity
before their words; those of which more values were found, for further facts. For the
others the last answer of `unify` has named antecedents; code accepts those that serve
an open statement and are new.
"""

import re
from collections.abc import Sequence

from langmem_graph.reasoning.nl_logic import Atom
from langmem_graph.reasoning.proof import Subgoal
from langmem_graph.reasoning.state import GoalDependencies, GoalState, GoalStep
from langmem_graph.reasoning.unify_facts import settle
from langmem_graph.runtime import StepRun


async def refine(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Begin the next round, or end the loop where there is nothing left to
    search for.
    """
    step = GoalStep(deps, state, run)
    proof = step.proof
    options = step.options
    proof.depth += not proof.more
    again = _changed_goals(step)
    again += [
        goal for goal in proof.subgoals if goal.id in proof.more and goal not in again
    ]
    fresh = await _accepted(step)
    proof.subgoals += fresh
    due = [goal.id for goal in (*again, *fresh)][
        : options.subgoals * options.refinements
    ]
    if not due or step.is_over():
        settle(step, hopeless=True)
    if not proof.ended:
        proof.due = due
        proof.round += 1
    return step.update()


def _changed_goals(step: GoalStep) -> list[Subgoal]:
    """Open subgoals of which a variable was bound since they were last searched for."""
    proof = step.proof
    changed = []
    for goal in proof.open():
        names = [variable.name for variable in goal.parsed().variables]
        rows = [
            [row[name].entity for name in names if name in row]
            for row in proof.joined()
        ]
        known = dict.fromkeys(" ".join(row) for row in rows if row)
        fresh = [entities for entities in known if entities not in goal.searched]
        fresh = fresh[: step.options.refinements]
        if not fresh:
            continue
        goal.searched += fresh
        goal.queries = [f"{entities} {goal.query}" for entities in fresh]
        changed.append(goal)
        atom = str(proof.resolved(goal))
        for query in goal.queries:
            step.recorder.record(
                "memory_subgoal", id=goal.id, atom=atom, query=query, again=True
            )
    return changed


async def _accepted(step: GoalStep) -> list[Subgoal]:
    proof = step.proof
    accepted = list[Subgoal]()
    for wanted in proof.wanted:
        known = [*proof.subgoals, *accepted]
        own = f"s{proof.counted + len(known) + 1}"
        goal = wanted.model_copy(update={"id": own, "depth": proof.depth})
        if reason := await _objection(goal, known, step):
            proof.dropped.append(f"{goal.atom}: {reason}")
            refused = {"atom": goal.atom, "accepted": False, "reason": reason}
            step.recorder.record("memory_refinement", **refused)
            continue
        accepted.append(goal)
        parent = next(other for other in proof.subgoals if other.id == goal.parent)
        rule = f"{parent.parsed()} ← {goal.parsed()}"
        step.recorder.record(
            "memory_refinement", rule=rule, accepted=True, **goal.shown()
        )
    return accepted


async def _objection(
    goal: Subgoal, known: Sequence[Subgoal], step: GoalStep
) -> str | None:
    """Why a proposed subgoal is rejected, in view of every subgoal so far; None if it
    is not.
    """
    proof = step.proof
    options = step.options
    if goal.parent not in {*(other.id for other in proof.open()), *proof.more}:
        return "is for no open statement"
    siblings = [o for o in known if (o.parent, o.depth) == (goal.parent, goal.depth)]
    if len(siblings) >= options.refinements:
        return "one too many for its statement"
    if not goal.atom.strip() or Atom.parse(goal.atom).is_malformed:
        return "it or a variable in it cannot be read: write (name:type)"
    if proof.resolved(goal).canonical() in {
        proof.resolved(o).canonical() for o in known
    }:
        return "was there before"
    numbers = re.findall(r"\d+", goal.query)  # another date asks for something else
    queries = [
        other.query for other in known if re.findall(r"\d+", other.query) == numbers
    ]
    if (
        await step.deps.lookup.likeness(goal.query, queries, step.run)
        >= options.same_goal
    ):
        return "asks for the same as before"
    return None
