"""The step `plan`: decompose the request into atoms (Goal-Mem 2.2, steps 1 and 2).

One model call names the atoms, with typed variables, and a query for each. The model is shown
the facts of the first look-up and may name those that suffice to answer the request; the loop then
ends here.
"""

import time

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.answer_schemas import GoalPlan
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.reasoning.state import (
    GoalDependencies,
    GoalState,
    Proof,
    Subgoal,
    working_copies,
)
from langmem_graph.retrieval.quoted_context import LONGEST_REQUEST, FactAliases, request_line
from langmem_graph.runtime import StepRun, TraceRecorder

_NOTHING_TO_PROVE = ("act", "chat", "vague")
"""Intents that need no subgoal."""


async def plan(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Ask for the goal and keep the usable part of the answer."""
    state = _begun(state, alone=deps.alone)
    proof, usage = working_copies(state)
    recorder = run.recorder(state.get("trace") or [])
    recalled = state.get("recalled") or []
    if not proof.facts:
        proof.facts = list(recalled)
    aliases = FactAliases.of(recalled)
    unreachable = usage.unreachable
    question = _question(state, proof, aliases)
    goal_plan = await deps.runner.ask(GoalPlan, load_prompt("plan"), question, usage)
    if goal_plan is None and usage.unreachable > unreachable:
        proof.status, proof.ended = "exhausted", True  # the model does not answer at all
        proof.take_best()
        recorder.record("memory_goal", intent=proof.intent, status=proof.status, subgoals=0)
        return _update(state, proof, usage, recorder)
    _take(goal_plan or GoalPlan(), state["query"], aliases, deps.settings.reasoning.subgoals, proof)
    recorder.record(
        "memory_goal",
        intent=proof.intent,
        risky=proof.risky,
        answer=proof.answer,
        central=proof.central,
        sufficient=proof.sufficient,
        status=proof.status,
        subgoals=len(proof.subgoals),
    )
    for goal in proof.initial():
        fields = goal.model_dump(include={"id", "atom", "query", "relation", "parent", "depth"})
        recorder.record("memory_subgoal", **fields)
    if not proof.ended and deps.is_over(state, usage):
        proof.status, proof.ended = "budget", True
    if proof.ended and not proof.sufficient:
        proof.take_best()
    return _update(state, proof, usage, recorder)


def _begun(state: GoalState, *, alone: bool) -> GoalState:
    """A fresh state for a new request; the same state for another decomposition of one."""
    earlier = state.get("proof", Proof())
    if earlier.tried and not earlier.ended:
        return state
    query = state.get("query")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(f"'query' must be a text with words in it, not {query!r}.")
    query = query.encode("utf-8", "replace").decode()
    fresh: GoalState = {**state, "query": query, "proof": Proof()}
    if alone:
        fresh |= {"usage": Usage(), "trace": [], "started": time.time()}
    return {**fresh, "started": fresh.get("started") or time.time()}


def _update(state: GoalState, proof: Proof, usage: Usage, recorder: TraceRecorder) -> GoalState:
    return {
        "started": state["started"],
        "query": state["query"],
        "found": None,
        "proof": proof,
        "usage": usage,
        "trace": recorder.trace,
    }


def _question(state: GoalState, proof: Proof, aliases: FactAliases) -> str:
    tried = [f"Split before, in vain: {'; '.join(atoms)}" for atoms in proof.tried]
    lines = [f"Now: {state.get('now', '')}", "Remembered:", *aliases.lines(), *tried]
    return "\n".join([*lines, request_line(state["query"])])


def _take(plan: GoalPlan, query: str, aliases: FactAliases, most: int, proof: Proof) -> None:
    proof.intent, proof.risky, proof.central = plan.intent, plan.risky, plan.central
    proof.sufficient = [fact.id for fact in aliases.resolve(plan.sufficient)]
    if proof.sufficient:
        proof.status, proof.ended = "grounded", True
        return
    proof.subgoals = [
        Subgoal(id=f"s{number}", **planned.model_dump())
        for number, planned in enumerate(plan.subgoals, proof.counted + 1)
    ][:most]
    for goal in proof.subgoals:
        goal.query = goal.query.strip() or goal.atom
    proof.subgoals = [goal for goal in proof.subgoals if goal.query.strip()]
    if not proof.subgoals:
        if plan.intent in _NOTHING_TO_PROVE:
            proof.ended = True
            return
        plain = " ".join(query.split())[:LONGEST_REQUEST]
        proof.subgoals = [Subgoal(id=f"s{proof.counted + 1}", atom=plain, query=plain, plain=True)]
    types = proof.types()
    proof.answer = [name for name in dict.fromkeys(plan.answer) if name in types] or list(types)
    proof.due = [goal.id for goal in proof.subgoals]
    proof.round += 1
