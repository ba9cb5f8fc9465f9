"""The reasoning graph, and the runner with which the library runs it.

route → first_lookup → goals → <counterfactual?> → conflicts → context → (answer)

`goals` is a subgraph with a loop of its own (`goal_loop`).
"""

import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from itertools import pairwise
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langmem_graph.errors import for_log
from langmem_graph.ids_and_times import in_zone
from langmem_graph.llm.structured_calls import RunUsage, model_runner
from langmem_graph.reasoning import goal_loop
from langmem_graph.reasoning.assemble_context import context
from langmem_graph.reasoning.counterfactual import counterfactual
from langmem_graph.reasoning.grounded_answer import answer
from langmem_graph.reasoning.lookups import asks_model, conflicts, first_lookup
from langmem_graph.reasoning.proof import Proof
from langmem_graph.reasoning.state import (
    FoundRisks,
    GoalDependencies,
    ReasoningDependencies,
    ReasoningState,
)
from langmem_graph.results import Recall
from langmem_graph.retrieval.example_search import MemorySearch
from langmem_graph.retrieval.search_common import RecallRequest
from langmem_graph.retrieval.vague_turns import intent_of
from langmem_graph.runtime import (
    OBJECTS,
    Event,
    StateForm,
    Step,
    StepRun,
    as_node,
    configured_view,
    own_config,
)
from langmem_graph.schedule.times import zone_of
from langmem_graph.settings import ReasoningSettings
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread
from langmem_graph.view import View

OnEvent = Callable[[Event], Any]
Finish = Callable[[Any, StepRun], dict[str, Any]]
_log = logging.getLogger(__name__)


def build(
    deps: ReasoningDependencies,
    view_of: Callable[[RunnableConfig], View],
    request_of: Callable[[Any], RecallRequest],
    schemas: tuple[type, type, type],
    finish: Finish | None = None,
    *,
    form: StateForm = OBJECTS,
    with_answer: bool = False,
    show_loop: bool = False,
    context_schema: type | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph, without a store and without checkpoints of its own.

    Args:
        request_of: reads the request from the graph's input.
        schemas: schemas of the state, the input and the output.
        finish: makes the output's other keys from the final state.
        form: form of the state between steps; `JSON` where a checkpointer may save it.
        with_answer: add the step `answer`.
        show_loop: pictures of the graph, and of one that it is a node of, show its
            steps and those of the loop; a checkpointer then saves them.
    """
    settings, (state, given, out) = deps.services.settings, schemas
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        state, context_schema, input_schema=given, output_schema=out
    )

    async def route(
        deps: ReasoningDependencies, state: Any, run: StepRun
    ) -> ReasoningState:
        return _fresh(request_of(state), settings.time_zone)

    answering: list[Step] = [answer] if with_answer else []
    steps: list[Step] = [first_lookup, counterfactual, conflicts, context, *answering]
    *timed, last = map(_timed, steps)
    for step in (route, *timed, _ending(last, finish)):
        builder.add_node(step.__name__, as_node(form.step(step), deps, view_of))
    builder.add_node(
        "goals", goal_loop.build(deps.goals, view_of, form=form, shown=show_loop)
    )

    builder.add_edge(START, "route")
    routes = _Routes(settings.reasoning)
    for node, choose, following in (
        ("route", routes.after_route, ["first_lookup", "context"]),
        ("first_lookup", routes.after_lookup, ["goals", "conflicts"]),
        ("goals", routes.after_goals, ["counterfactual", "conflicts"]),
    ):
        builder.add_conditional_edges(node, form.route(choose), following)
    for earlier, later in pairwise(["counterfactual", "conflicts", "context"]):
        builder.add_edge(earlier, later)
    if with_answer:
        builder.add_edge("context", "answer")
    builder.add_edge(last.__name__, END)
    # Else not None: an application's checkpointer would save what was recalled, and
    # keep it.
    return builder.compile(checkpointer=None if show_loop else False, name="recall")


@dataclass(frozen=True)
class _Routes:
    """The conditional edges, by the state and by what is switched on."""

    use: ReasoningSettings

    def after_route(self, state: Any) -> str:
        return "first_lookup" if state["query"].strip() else "context"

    def after_lookup(self, state: Any) -> str:
        plans = self.use.use_goals or self.use.use_counterfactual
        return "goals" if plans and asks_model(state) else "conflicts"

    def after_goals(self, state: Any) -> str:
        """Search with the risks and the day that the plan named; not for a question
        answered. Without a usable plan, judge the facts of the first look-up.
        """
        proof = state["proof"]
        named = proof.risks or proof.proposed.start
        may_matter = named and (proof.intent == "act" or not proof.sure)
        return (
            "counterfactual"
            if self.use.use_counterfactual and (may_matter or proof.unplanned)
            else "conflicts"
        )


def _fresh(asked: RecallRequest, zone: str | None) -> ReasoningState:
    """The state of a new request, which replaces that of an earlier one on the same
    thread.

    Its time is that of the user's clock, so that "tomorrow" is the user's.
    """
    query = asked.query.encode("utf-8", "replace").decode()
    now = asked.at or datetime.now(UTC)
    nothing: ReasoningState = {
        "recalled": [],
        "overlaps": [],
        "trace": [],
        "warnings": [],
    }
    return {
        "query": query,
        "mode": asked.mode,
        "k": asked.k,
        "max_tokens": asked.max_tokens,
        "in_view": list(asked.in_view),
        "now": in_zone(now, zone_of(zone)).isoformat(timespec="minutes"),
        "started": time.time(),
        "intent": intent_of(asked.query) if asked.query.strip() else "chat",
        "proof": Proof(),
        "consequences": FoundRisks(),
        "usage": RunUsage(),
        "milliseconds": {},
        **nothing,
    }


def _timed(step: Any) -> Step:
    @wraps(step)
    async def timed(deps: ReasoningDependencies, state: Any, run: StepRun) -> Any:
        begun = time.perf_counter()
        update = await step(deps, state, run)
        passed = (time.perf_counter() - begun) * 1_000
        return {
            **update,
            "milliseconds": {**state["milliseconds"], step.__name__: passed},
        }

    return timed


def _ending(step: Step, finish: Finish | None) -> Step:
    """The last step, which also logs the run's model calls and makes the output's other
    keys.
    """

    @wraps(step)
    async def ending(deps: ReasoningDependencies, state: Any, run: StepRun) -> Any:
        update = await step(deps, state, run)
        whole: Any = {**state, **update}
        await in_thread(deps.services.log_calls, run.user, whole["usage"].calls_made)
        return {**update, **finish(whole, run)} if finish else update

    return ending


class _Input(TypedDict):
    request: RecallRequest


class _State(ReasoningState, _Input, total=False):
    """The request as it was given, and the state made of it."""


class _Output(TypedDict):
    recall: Recall


def reasoning_dependencies(
    services: Services, model: BaseChatModel, *, fail_closed: bool = True
) -> ReasoningDependencies:
    """Dependencies of the recall graph's steps."""
    runner = model_runner(model, services.settings, "recall")
    goals = GoalDependencies(runner, services.settings, MemorySearch(services))
    return ReasoningDependencies(services, runner, goals, fail_closed)


class ReasoningRunner:
    """Recalls with the memory's model; its coroutine runs on the memory's loop."""

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph: CompiledStateGraph[Any, Any, Any, Any] = build(
            reasoning_dependencies(services, model),
            configured_view,
            lambda state: state["request"],
            (_State, _Input, _Output),
        )

    async def recall(
        self, view: View, request: RecallRequest, on_event: OnEvent | None = None
    ) -> Recall:
        """Run the graph once; `on_event` is called with every stream event as it
        happens.
        """
        outcome: Any = None
        stream: AsyncIterator[Any] = self._graph.astream(
            {"request": request},
            own_config("recall", view),
            stream_mode=["custom", "values"],
            subgraphs=True,
        )
        async for _, kind, part in stream:
            if kind == "custom" and on_event:
                _notify(on_event, part)
            elif kind == "values" and "recall" in part:
                outcome = part["recall"]
        return cast(Recall, outcome)


def _notify(on_event: OnEvent, event: Event) -> None:
    try:
        on_event(event)
    except BaseException as error:  # noqa: BLE001  # an exit would end the memory's own thread
        _log.warning("on_event failed: %s", for_log(error))
