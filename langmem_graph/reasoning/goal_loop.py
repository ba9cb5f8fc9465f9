"""The goal loop as a LangGraph subgraph: plan → (further) → retrieve → unify → (refine
→ …).

This is Goal-Mem's backward chaining (2.2). Its state is private, and it has limits of
its own: depth, breadth, subgoals, calls, tokens and seconds.

The step `plan` is one model call that sees the best facts of a wide look-up (steps 1
and 2). It names all that the answer needs, one row for each of several things, and what
speaks against an act. Where it is sure, the loop ends here, or for a list after
`further`; else the call also decomposes the request into atoms with typed variables,
and a query for each.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.llm.answer_schemas import FactAgainst, GoalPlan
from langmem_graph.llm.structured_calls import RunUsage, load_prompt
from langmem_graph.reasoning.further_items import further
from langmem_graph.reasoning.lookups import RetrieveInput, retrieve
from langmem_graph.reasoning.nl_logic import Atom, as_query, in_line_form
from langmem_graph.reasoning.proof import (
    ITEM,
    Bound,
    PossibleRisk,
    Proof,
    ProposedTime,
    Subgoal,
    once,
)
from langmem_graph.reasoning.refine_subgoals import refine
from langmem_graph.reasoning.state import (
    LEAST_SECONDS,
    GoalDependencies,
    GoalInput,
    GoalOutput,
    GoalState,
    GoalStep,
    LoopOutput,
)
from langmem_graph.reasoning.unify_facts import unify
from langmem_graph.results import Risk
from langmem_graph.retrieval.quoted_context import (
    LONGEST_REQUEST,
    FactAliases,
    best_in_order,
    now_line,
    request_line,
)
from langmem_graph.runtime import OBJECTS, StateForm, StepRun, as_node
from langmem_graph.threads import in_thread
from langmem_graph.tokens import token_counter
from langmem_graph.view import View

_NOTHING_TO_PROVE = ("act", "chat", "vague")  # intents that need no subgoal


async def plan(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Ask for the facts that answer the request, or for the goal, and keep what is
    usable.
    """
    state = _begun(state, alone=deps.alone)
    step = GoalStep(deps, state, run)
    proof = step.proof
    options = step.options
    counter = await in_thread(token_counter, deps.settings.encoding)  # loads a table
    recalled = (state.get("recalled") or [])[: options.plan_facts]
    aliases = FactAliases.of(best_in_order(recalled, counter, options.plan_tokens))
    proof.facts = proof.facts or list(aliases.facts.values())
    unreachable = step.usage.unreachable
    answer = await _ask(step, aliases)
    proof.unusable = answer is None
    is_unreachable = step.usage.unreachable > unreachable
    proof.unplanned = answer is None and not is_unreachable
    if answer is None and is_unreachable:
        # the model does not answer at all
        proof.status = "budget" if step.is_over() else "exhausted"
        proof.ended = True
    elif answer is not None:
        _take(answer, aliases, step)
    if not proof.ended and not proof.sure:
        _take_subgoals(answer or GoalPlan(), step)
    if not proof.ended and not proof.sure and step.is_over():
        proof.status = "budget"
        proof.ended = True
    if proof.ended and not proof.sure:
        proof.take_best()
    _record(step)
    begun: GoalState = {
        "started": state["started"],
        "query": state["query"],
        "found": None,
    }
    return {**begun, **step.update()}


async def _ask(step: GoalStep, aliases: FactAliases) -> GoalPlan | None:
    """The plan; after a repair in vain, what can be used of it."""
    tried = [f"Split before, in vain: {'; '.join(atoms)}" for atoms in step.proof.tried]
    lines = [
        now_line(step.state.get("now", "")),
        "Remembered:",
        *aliases.lines(),
        *tried,
    ]
    question = "\n".join([*lines, request_line(step.state["query"])])
    usable: list[GoalPlan] = []

    def check(answer: GoalPlan) -> str | None:
        # what is left would prove less than was asked
        if lost := answer.loss_in("subgoals"):
            return lost
        usable.append(answer)
        return _malformed(answer)

    answer = await step.deps.runner.ask(
        GoalPlan, load_prompt("plan"), question, step.usage, check, left=step.left
    )
    return answer or next(reversed(usable), None)


def _malformed(plan: GoalPlan) -> str | None:
    """What of the statements cannot be read; None where the plan needs none, or all can
    be.
    """
    atoms = [] if plan.sure else _atoms(plan)
    names = {variable.name for atom in atoms for variable in atom.variables}
    if bad := next((atom for atom in atoms if atom.is_malformed), None):
        form = 'write (name:type), as "(w:person) lives here"'
        return f'a variable cannot be read in "{bad}": {form}'
    if atoms and plan.answer and not names & set(plan.answer):
        return (
            f"no subgoal has a variable {plan.answer[0]}: write "
            f"({plan.answer[0]}:type) in one"
        )
    return None


def _atoms(plan: GoalPlan) -> list[Atom]:
    """The statements, with their variables in the usual form."""
    texts = [in_line_form(planned.atom, plan.answer) for planned in plan.subgoals]
    names = {v.name for text in texts for v in Atom.parse(text).variables}
    return [Atom.parse(in_line_form(text, names)) for text in texts]


def _begun(state: GoalState, *, alone: bool) -> GoalState:
    """A fresh state for a new request; the same state for another decomposition
    of one.
    """
    earlier = state.get("proof", Proof())
    if earlier.tried and not earlier.ended:
        return state
    query = state.get("query")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(
            f"'query' must be a text with words in it, not {quoted(query)}."
        )
    query = query.encode("utf-8", "replace").decode()
    fresh: GoalState = {**state, "query": query, "proof": Proof()}
    if alone:
        fresh |= {"usage": RunUsage(), "trace": [], "started": time.time()}
    return {**fresh, "started": fresh.get("started") or time.time()}


def _take(plan: GoalPlan, aliases: FactAliases, step: GoalStep) -> None:
    """What the plan says of the request and of the facts in view."""
    proof = step.proof
    proof.intent = plan.intent
    proof.central = plan.central
    rows = [
        (row.item, [fact.id for fact in aliases.resolve(row.facts)])
        for row in plan.rows
    ]
    rows = [(item, facts) for item, facts in rows if item.strip() and facts]
    named = [fact.id for fact in aliases.resolve(plan.facts)]
    proof.named = proof.kept = once(
        [*named, *(fact for _, own in rows for fact in own)]
    )
    name = plan.answer[0] if len(plan.answer) == 1 else ITEM
    proof.rows = [{name: Bound(entity=item, facts=facts)} for item, facts in rows]
    proof.proposed = ProposedTime(plan.start, plan.end, plan.recurrence)
    proof.against = risks_of(plan.against, aliases)
    possible = [PossibleRisk(**risk.model_dump()) for risk in plan.risks]
    proof.risks = [risk for risk in possible if risk.claim.strip()]
    is_list = plan.intent == "lookup" and bool(proof.rows)
    proof.listing = is_list and step.options.use_goals
    proof.look_for = plan.look_for
    proof.sure = plan.sure and (bool(proof.named) or plan.intent in _NOTHING_TO_PROVE)
    if proof.sure:
        proof.sufficient, proof.complete = (
            proof.named,
            bool(proof.named) and not proof.listing,
        )
        proof.status = "grounded" if proof.named else None
        proof.ended = not proof.listing


def risks_of(against: Sequence[FactAgainst], aliases: FactAliases) -> list[Risk]:
    """What speaks against the request, of the facts that were shown; each fact once."""
    reasons = {one.fact: " ".join(one.why.split()) for one in reversed(against)}
    return [
        Risk(claim=why or fact.text, basis="memory", facts=[fact.id])
        for alias, why in reversed(reasons.items())
        for fact in aliases.resolve([alias])
    ]


def _take_subgoals(plan: GoalPlan, step: GoalStep) -> None:
    """The statements that can be read; else the request itself, where something is to
    be proved.
    """
    proof = step.proof
    options = step.options
    if not options.use_goals:
        proof.ended = True
        return
    for planned, atom in zip(plan.subgoals, _atoms(plan), strict=True):
        names = [variable.name for variable in atom.variables]
        words = as_query(planned.query.strip() or planned.atom, names)
        if words.strip() and not atom.is_malformed:
            own = f"s{proof.counted + len(proof.subgoals) + 1}"
            goal = Subgoal(
                id=own, atom=str(atom), query=words, relation=planned.relation
            )
            proof.subgoals.append(goal)
    proof.subgoals = proof.subgoals[: options.subgoals]
    if not proof.subgoals:
        if proof.intent in _NOTHING_TO_PROVE:
            proof.ended = True
            return
        plain = " ".join(step.state["query"].split())[:LONGEST_REQUEST]
        proof.subgoals = [
            Subgoal(id=f"s{proof.counted + 1}", atom=plain, query=plain, plain=True)
        ]
    types = proof.types()
    proof.answer = [
        name for name in dict.fromkeys(plan.answer) if name in types
    ] or list(types)
    proof.due = [goal.id for goal in proof.subgoals]
    proof.round += 1


def _record(step: GoalStep) -> None:
    proof = step.proof
    record = step.recorder.record
    told = set("intent sure answer central sufficient named status".split())
    counted = {"rows": len(proof.rows), "subgoals": len(proof.subgoals)}
    record("memory_goal", **counted, **proof.model_dump(include=told))
    for risk in proof.against:
        record("memory_risk", **risk.model_dump())
    for goal in proof.initial():
        record("memory_subgoal", **goal.shown())


def _due(proof: Proof, seconds: float) -> list[RetrieveInput]:
    """The searches of this round: of each subgoal that is due, one for each of its
    queries.
    """
    goals = {goal.id: goal for goal in proof.subgoals}
    left = max(seconds, LEAST_SECONDS)
    return [
        RetrieveInput(subgoal=goal, query=query, round=proof.round, seconds=left)
        for goal in (goals[own] for own in proof.due)
        for query in goal.queries or [goal.query]
    ]


_STEPS = (plan, further, retrieve, unify, refine)


def build(
    deps: GoalDependencies,
    view_of: Callable[[RunnableConfig], View],
    given: type = GoalInput,
    *,
    form: StateForm = OBJECTS,
    shown: bool = False,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled loop.

    Args:
        given: schema of the input.
        form: form of the state between steps; `JSON` where a checkpointer may save it.
        shown: Studio's picture of a parent shows its steps; a checkpointer then saves
            them.
    """
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        GoalState,
        input_schema=given,
        output_schema=GoalOutput if deps.alone else LoopOutput,
    )
    for step in _STEPS:
        builder.add_node(step.__name__, as_node(form.step(step), deps, view_of))
    builder.add_edge(START, "plan")

    def following(state: GoalState) -> list[Send] | str:
        """Look further for items, retrieve what is due, decompose the request anew, or
        end.
        """
        proof = state["proof"]
        if proof.ended:
            return END
        if proof.listing:
            return "further"
        if not proof.subgoals:
            return "plan"
        return [
            Send("retrieve", form.dump(one))
            for one in _due(proof, deps.left(state["started"]))
        ]

    def after_unify(state: GoalState) -> Any:
        proof = state["proof"]
        return "refine" if proof.subgoals and not proof.ended else following(state)

    route = form.route(following)
    builder.add_conditional_edges("plan", route, ["further", "retrieve", END])
    builder.add_conditional_edges("further", route, ["further", "retrieve", END])
    builder.add_edge("retrieve", "unify")
    builder.add_conditional_edges(
        "unify", form.route(after_unify), ["refine", "plan", END]
    )
    builder.add_conditional_edges("refine", route, ["retrieve", "plan", END])
    return builder.compile(checkpointer=None if shown else False, name="goals")
