"""The recall graph: route → recall → goals → <counterfactual?> → conflicts → context → (answer).

Each node is one file of this package; `goals` is a subgraph with a loop of its own.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.llm.structured import Usage
from langmem_graph.recall.answer import answer
from langmem_graph.recall.context import context
from langmem_graph.recall.counterfactual import counterfactual
from langmem_graph.recall.goals import graph as goals
from langmem_graph.recall.goals.state import Proof
from langmem_graph.recall.json_state import OBJECTS, StateForm
from langmem_graph.recall.overlaps import conflicts
from langmem_graph.recall.recall import recall
from langmem_graph.recall.route import intent_of
from langmem_graph.recall.state import (
    FoundRisks,
    ProposedTime,
    ReasoningDependencies,
    ReasoningState,
)
from langmem_graph.requests import RecallRequest
from langmem_graph.schedule.times import zone_of
from langmem_graph.steps import Step, StepRun, as_node

UserOf = Callable[[RunnableConfig], str]


def build(
    deps: ReasoningDependencies,
    user_of: UserOf,
    request_of: Callable[[Any], RecallRequest],
    schemas: tuple[type, type, type],
    finish: Callable[[Any], dict[str, Any]] | None = None,
    *,
    form: StateForm = OBJECTS,
    with_answer: bool = False,
    show_loop: bool = False,
    context_schema: type | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph, without a store and without checkpoints of its own.

    Args:
        deps: dependencies of the steps.
        user_of: the user of a run.
        request_of: reads the request out of the graph's input.
        schemas: of the state, the input and the output.
        finish: adds what the output has beside `recall`, to the last step's update.
        form: of the state between steps; `JSON` where a checkpointer may save it.
        with_answer: also answer.
        show_loop: pictures of the graph show the loop's steps; a checkpointer then saves them.
        context_schema: of the runtime context.
    """
    settings = deps.services.settings
    state, given, out = schemas
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        state, context_schema, input_schema=given, output_schema=out
    )
    last = "answer" if with_answer else "context"

    async def route(deps: ReasoningDependencies, state: Any, run: StepRun) -> ReasoningState:
        return _fresh(request_of(state), settings.time_zone)

    answering: list[Step] = [answer] if with_answer else []
    later: list[Step] = [recall, counterfactual, conflicts, context, *answering]
    for step in (route, *map(_timed, later)):
        ending = finish if step.__name__ == last else None
        builder.add_node(step.__name__, as_node(form.step(_finished(step, ending)), deps, user_of))
    checkpointer: Literal[False] | None = None if show_loop else False
    loop = goals.build(deps.goals, user_of, form=form, checkpointer=checkpointer)
    builder.add_node("goals", loop)

    def after_route(state: Any) -> str:
        return "recall" if state["query"].strip() else "context"

    def after_recall(state: Any) -> str:
        if not _reasons(state):
            return "conflicts"
        return "goals" if settings.use_goals else after_goals(state)

    def after_goals(state: Any) -> str:
        return "counterfactual" if settings.use_counterfactual and is_act(state) else "conflicts"

    builder.add_edge(START, "route")
    builder.add_conditional_edges("route", after_route, ["recall", "context"])
    builder.add_conditional_edges(
        "recall", form.route(after_recall), ["goals", "counterfactual", "conflicts"]
    )
    builder.add_conditional_edges("goals", form.route(after_goals), ["counterfactual", "conflicts"])
    builder.add_edge("counterfactual", "conflicts")
    builder.add_edge("conflicts", "context")
    if with_answer:
        builder.add_edge("context", "answer")
    builder.add_edge(last, END)
    # Not None: an application's checkpointer would save what was recalled for good.
    return builder.compile(checkpointer=False, name="recall")


def _fresh(asked: RecallRequest, zone: str | None) -> ReasoningState:
    """The state of a new request; nothing of an earlier one on the same thread stays."""
    query = asked.query.encode("utf-8", "replace").decode()
    return {
        "query": query,
        "mode": asked.mode,
        "k": asked.k,
        "max_tokens": asked.max_tokens,
        "in_view": list(asked.in_view),
        "now": _now(asked.now, zone),
        "started": time.time(),
        "intent": intent_of(asked.query) if asked.query.strip() else "chat",
        "recalled": [],
        "proof": Proof(),
        "consequences": FoundRisks(),
        "proposed": ProposedTime(),
        "conflicts": [],
        "usage": Usage(),
        "trace": [],
        "warnings": [],
        "milliseconds": {},
    }


def _now(given: str | None, zone: str | None) -> str:
    """On the user's clock, so that "tomorrow" is the user's."""
    now = datetime.fromisoformat(given) if given else datetime.now(UTC)
    return now.astimezone(zone_of(zone)).isoformat(timespec="minutes")


def _reasons(state: ReasoningState) -> bool:
    """`auto` calls no model where the words ask for nothing, or for nothing provable."""
    plain = state["intent"] in ("chat", "vague")
    return state["mode"] == "reason" or (state["mode"] == "auto" and not plain)


def is_act(state: ReasoningState) -> bool:
    """True for an act, by the rules or by the goal loop, and where the loop saw a risk."""
    proof = state["proof"]
    return state["intent"] == "act" or proof.intent == "act" or proof.risky


# The nodes of a graph take and give its own state, which is wider than the steps' part of it.
def _timed(step: Any) -> Step:
    @wraps(step)
    async def timed(deps: ReasoningDependencies, state: Any, run: StepRun) -> Any:
        begun = time.perf_counter()
        update = await step(deps, state, run)
        passed = (time.perf_counter() - begun) * 1_000
        return {**update, "milliseconds": {**state["milliseconds"], step.__name__: passed}}

    return timed


def _finished(step: Step, finish: Callable[[ReasoningState], Any] | None) -> Step:
    if finish is None:
        return step

    @wraps(step)
    async def finished(deps: ReasoningDependencies, state: Any, run: StepRun) -> Any:
        update = await step(deps, state, run)
        whole: Any = {**state, **update}
        return {**update, **finish(whole)}

    return finished
