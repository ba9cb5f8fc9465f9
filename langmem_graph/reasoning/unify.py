"""unify: bind variables and prove statements by the facts, taken together (Goal-Mem 2.1).

Conditions 1 to 9 of the paper. One model call a round. Code checks every proposal again, see
`bindings.py`, and decides how the loop goes on.
"""

from langmem_graph.llm.answer_schemas import Unification
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.reasoning.bindings import bind
from langmem_graph.reasoning.nl_logic import Atom
from langmem_graph.reasoning.state import (
    GoalDependencies,
    GoalState,
    Proof,
    Retrieved,
    Subgoal,
    updated,
    working_copies,
)
from langmem_graph.retrieval.formatting import FactAliases, request_line
from langmem_graph.runtime import StepRun, TraceRecorder
from langmem_graph.schemas import Fact, GoalStatus


async def unify(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Add the retrieved facts, ask what they prove, and keep the bindings that pass the checks."""
    proof, usage, trace = working_copies(state)
    recorder = TraceRecorder(run.emit, trace)
    fresh = _take_in(proof, state.get("found") or [], recorder)
    before = len(proof.bindings), len(proof.open())
    aliases = FactAliases.of(_to_show(proof, fresh, deps.settings.reasoning.round_facts))
    question = _question(state, proof, aliases)
    answer = await deps.runner.ask(Unification, load_prompt("unify"), question, usage)
    for goal in proof.subgoals:
        goal.searched = str(goal.parsed().apply(proof.theta().entities))
    if answer is not None:
        _bind(proof, answer, aliases, recorder)
    nothing_new = not fresh and before == (len(proof.bindings), len(proof.open()))
    settle(deps, state, usage, proof, recorder, hopeless=nothing_new and proof.depth > 0)
    return updated(proof, usage, trace)


def _take_in(proof: Proof, found: list[Retrieved], recorder: TraceRecorder) -> list[Fact]:
    """Add this round's facts to those seen; returns the new ones, subgoals in turn."""
    own = [one for one in found if one.round == proof.round]
    recorder.trace += [one.event for one in own]  # they were sent when they happened
    columns = [one.facts for one in own]
    longest = max(map(len, columns), default=0)
    seen = {fact.id for fact in proof.facts}
    fresh: dict[str, Fact] = {}
    for rank in range(longest):
        for column in columns:
            if rank < len(column) and column[rank].id not in seen:
                fresh.setdefault(column[rank].id, column[rank])
    proof.facts += fresh.values()
    return list(fresh.values())


def _to_show(proof: Proof, fresh: list[Fact], most: int) -> list[Fact]:
    """What proves something already, then what is new, then the rest."""
    cited = set(proof.cited())
    first = [fact for fact in proof.facts if fact.id in cited]
    ordered = {fact.id: fact for fact in (*first, *fresh, *proof.facts)}
    return list(ordered.values())[:most]


def _question(state: GoalState, proof: Proof, aliases: FactAliases) -> str:
    theta = proof.theta()
    known = [f"{name} = {bound.entity}" for name, bound in proof.bindings.items()]
    goals = [f"{goal.id}: {_applied(goal, theta.entities)}" for goal in proof.open()]
    return "\n".join(
        [
            f"Now: {state.get('now', '')}",
            request_line(state["query"]),
            f"It is about: {', '.join(proof.central) or 'not said'}",
            f"Known: {'; '.join(known) or 'nothing yet'}",
            "Statements:",
            *goals,
            "Facts:",
            *aliases.lines(),
        ]
    )


def _applied(goal: Subgoal, entities: dict[str, str]) -> Atom:
    return goal.parsed().apply(entities)


def _bind(proof: Proof, answer: Unification, aliases: FactAliases, recorder: TraceRecorder) -> None:
    for verdict in bind(proof, answer, aliases):
        recorder.record("memory_binding", **verdict)
    for conflict in proof.conflicts:
        recorder.record("memory_conflict", **conflict.model_dump())


def settle(
    deps: GoalDependencies,
    state: GoalState,
    usage: Usage,
    proof: Proof,
    recorder: TraceRecorder,
    *,
    hopeless: bool = False,
) -> None:
    """Decide whether the loop ends, and how.

    Args:
        hopeless: nothing new can be found; another way to split the request may still help.
    """
    settings = deps.settings
    proof.due = []
    answered = all(name in proof.bindings for name in proof.answer)
    if proof.conflicts:
        proof.status = "conflict"
    elif answered and all(goal.grounded for goal in proof.initial()):
        proof.status = "grounded"
    elif deps.is_over(state, usage):
        proof.status = "budget"
    elif not hopeless and proof.depth < settings.reasoning.depth:
        return
    elif len(proof.tried) + 1 < settings.reasoning.breadth:
        _begin_again(proof)
        return
    else:
        proof.status = "partial" if proof.cited() else "exhausted"
    proof.ended = True
    if proof.status not in ("grounded", "conflict"):
        proof.take_best()
    recorder.record(
        "memory_proof",
        status=proof.status,
        bindings=proof.theta().entities,
        unresolved=proof.unresolved(),
        subgoals=[g.model_dump(include={"id", "grounded", "facts"}) for g in proof.subgoals],
    )


def _begin_again(proof: Proof) -> None:
    """Forget how the request was split, keep what was seen."""
    proof.tried.append([goal.atom for goal in proof.initial()])
    if proof.best is None or len(proof.cited()) > len(proof.best.cited()):
        status: GoalStatus = "partial" if proof.cited() else "exhausted"
        proof.best = proof.model_copy(update={"best": None, "status": status}, deep=True)
    proof.counted += len(proof.subgoals)
    proof.subgoals, proof.bindings, proof.answer = [], {}, []
    proof.depth = 0
