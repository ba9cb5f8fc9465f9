"""The step `unify`: bind variables and prove atoms by the retrieved facts (Goal-Mem 2.2, step 4).

One model call a round proposes bindings by the nine conditions of Goal-Mem 2.1. Code checks every
proposal again (`decide_bindings.py`) and decides how the loop continues.
"""

from langmem_graph.llm.answer_schemas import Unification
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.reasoning.decide_bindings import bind
from langmem_graph.reasoning.state import (
    GoalDependencies,
    GoalState,
    Proof,
    Retrieved,
    working_copies,
)
from langmem_graph.retrieval.facts import interleaved
from langmem_graph.retrieval.quoted_context import FactAliases, request_line
from langmem_graph.runtime import StepRun, TraceRecorder
from langmem_graph.schemas import Fact, GoalStatus


async def unify(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Add the retrieved facts, ask what they prove, and keep the bindings that pass the checks."""
    proof, usage = working_copies(state)
    recorder = run.recorder(state.get("trace") or [])
    fresh = _take_in(proof, state.get("found") or [], recorder)
    before = len(proof.bindings), len(proof.open())
    aliases = FactAliases.of(_to_show(proof, fresh, deps.settings.reasoning.round_facts))
    question = _question(state, proof, aliases)
    answer = await deps.runner.ask(Unification, load_prompt("unify"), question, usage)
    for goal in proof.subgoals:
        goal.searched = str(proof.resolved(goal))
    if answer is not None:
        _bind(proof, answer, aliases, recorder)
    nothing_new = not fresh and before == (len(proof.bindings), len(proof.open()))
    settle(deps, state, usage, proof, recorder, hopeless=nothing_new and proof.depth > 0)
    return {"proof": proof, "usage": usage, "trace": recorder.trace}


def _take_in(proof: Proof, found: list[Retrieved], recorder: TraceRecorder) -> list[Fact]:
    """Add this round's facts to the proof; returns the new ones, each subgoal's best first."""
    retrieved = [result for result in found if result.round == proof.round]
    recorder.trace += [result.event for result in retrieved]  # each was emitted when it happened
    seen = {fact.id for fact in proof.facts}
    facts = interleaved([result.facts for result in retrieved])
    fresh = [fact for fact in facts if fact.id not in seen]
    proof.facts += fresh
    return fresh


def _to_show(proof: Proof, fresh: list[Fact], most: int) -> list[Fact]:
    """The facts for the prompt: those that prove something, then the new ones, then the rest."""
    cited = set(proof.cited())
    first = [fact for fact in proof.facts if fact.id in cited]
    ordered = {fact.id: fact for fact in (*first, *fresh, *proof.facts)}
    return list(ordered.values())[:most]


def _question(state: GoalState, proof: Proof, aliases: FactAliases) -> str:
    return "\n".join(
        [
            f"Now: {state.get('now', '')}",
            request_line(state["query"]),
            f"It is about: {', '.join(proof.central) or 'not said'}",
            proof.known_line(),
            "Statements:",
            *proof.open_lines(),
            "Facts:",
            *aliases.lines(),
        ]
    )


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
    """Decide whether the loop ends, and with which status.

    Args:
        deps: dependencies of the step.
        state: state of the loop.
        usage: what the model calls have cost so far.
        proof: is changed.
        recorder: takes the event of an ended proof.
        hopeless: nothing new can be found; another decomposition of the request may still help.
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
        bindings=proof.entities(),
        unresolved=proof.unresolved(),
        subgoals=[g.model_dump(include={"id", "grounded", "facts"}) for g in proof.subgoals],
    )


def _begin_again(proof: Proof) -> None:
    """Drop the decomposition of the request, and keep the retrieved facts."""
    proof.tried.append([goal.atom for goal in proof.initial()])
    if proof.best is None or len(proof.cited()) > len(proof.best.cited()):
        status: GoalStatus = "partial" if proof.cited() else "exhausted"
        proof.best = proof.model_copy(update={"best": None, "status": status}, deep=True)
    proof.counted += len(proof.subgoals)
    proof.subgoals, proof.bindings, proof.answer = [], {}, []
    proof.depth = 0
