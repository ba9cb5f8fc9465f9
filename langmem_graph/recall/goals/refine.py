"""refine: find new subgoals from which the open statements would follow (Goal-Mem 2.2, step 6).

Statements in which a variable has been bound meanwhile are searched for again, with the entity in
its place. For the others one model call a round asks for antecedents; code accepts only those that
are new and contain no invented names, see `refinements.py`.
"""

from langmem_graph.llm.contracts import Refinement
from langmem_graph.llm.structured import Usage, load_prompt
from langmem_graph.logic import Rule, Variable
from langmem_graph.recall.goals.refinements import objection
from langmem_graph.recall.goals.state import (
    GoalDependencies,
    GoalState,
    Proof,
    Subgoal,
    updated,
    working_copies,
)
from langmem_graph.recall.goals.unify import settle
from langmem_graph.recall.shown import FactAliases, request_line
from langmem_graph.steps import StepRun, TraceRecorder


async def refine(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Begin the next round, or end the loop where there is nothing left to search for."""
    proof, usage, trace = working_copies(state)
    recorder = TraceRecorder(run.emit, trace)
    proof.depth += 1
    again = _look_again(proof, recorder)
    fresh: list[Subgoal] = []
    if len(again) < len(proof.open()):
        fresh = await _ask(deps, state, run, proof, usage, recorder)
    proof.subgoals += fresh
    settings = deps.settings
    most = settings.goal_subgoals * settings.goal_refinements
    due = [goal.id for goal in (*again, *fresh)][:most]
    if not due or deps.is_over(state, usage):
        settle(deps, state, usage, proof, recorder, hopeless=True)
    if not proof.ended:
        proof.due = due
        proof.round += 1
    return updated(proof, usage, trace)


def _look_again(proof: Proof, recorder: TraceRecorder) -> list[Subgoal]:
    """Open statements that read differently since variables were bound."""
    entities = proof.theta().entities
    changed = []
    for goal in proof.open():
        atom = goal.parsed().apply(entities)
        if str(atom) != goal.searched:
            goal.query = "".join(p.type if isinstance(p, Variable) else p for p in atom.parts)
            changed.append(goal)
            recorder.record(
                "memory_subgoal", id=goal.id, atom=str(atom), query=goal.query, again=True
            )
    return changed


async def _ask(
    deps: GoalDependencies,
    state: GoalState,
    run: StepRun,
    proof: Proof,
    usage: Usage,
    recorder: TraceRecorder,
) -> list[Subgoal]:
    aliases = FactAliases.of(proof.facts[-deps.settings.goal_facts :])
    question = _question(state, proof, aliases)
    answer = await deps.asker.ask(Refinement, load_prompt("refine"), question, usage)
    if answer is None or answer.stop:
        recorder.record("memory_refinement", accepted=False, reason="nothing would help")
        return []
    allowed = " ".join([state["query"], *(fact.text for fact in proof.facts)])
    taken: list[Subgoal] = []
    for proposed in answer.subgoals:
        known = [*proof.subgoals, *taken]
        goal = Subgoal(
            id=f"s{proof.counted + len(known) + 1}",
            parent=proposed.for_subgoal,
            depth=proof.depth,
            **proposed.model_dump(include={"atom", "query", "relation"}),
        )
        goal.query = goal.query.strip() or goal.atom
        reason = await objection(goal, known, proof, deps, run, allowed)
        if reason:
            recorder.record("memory_refinement", atom=goal.atom, accepted=False, reason=reason)
            continue
        taken.append(goal)
        recorder.record(
            "memory_refinement",
            rule=_rule(goal, proof),
            accepted=True,
            **goal.model_dump(include={"id", "atom", "query", "relation", "parent", "depth"}),
        )
    return taken


def _rule(goal: Subgoal, proof: Proof) -> str:
    parent = next(one for one in proof.subgoals if one.id == goal.parent)
    return str(Rule(parent.parsed(), (goal.parsed(),), "common sense"))


def _question(state: GoalState, proof: Proof, aliases: FactAliases) -> str:
    theta = proof.theta().entities
    known = [f"{name} = {bound.entity}" for name, bound in proof.bindings.items()]
    goals = [f"{goal.id}: {goal.parsed().apply(theta)}" for goal in proof.open()]
    tried = [f"- {goal.query}" for goal in proof.subgoals]
    return "\n".join(
        [
            f"Now: {state.get('now', '')}",
            request_line(state["query"]),
            f"Known: {'; '.join(known) or 'nothing yet'}",
            "Open statements:",
            *goals,
            "Looked for already:",
            *tried,
            "Facts:",
            *aliases.lines(),
        ]
    )
