"""The grounding graph: select_tool → retrieve_slots → fill → verify → decide.

Each node is one file of this package. A run costs one model call, one more where there are several
tools, and one more where a value was inferred.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.decide import decide
from langmem_graph.grounding.fill import fill
from langmem_graph.grounding.retrieve_slots import retrieve_slots
from langmem_graph.grounding.select_tool import select_tool
from langmem_graph.grounding.state import GroundingDependencies, GroundingState, Policy
from langmem_graph.grounding.tool_schema import tool_spec
from langmem_graph.grounding.verify import verify
from langmem_graph.llm.structured_calls import Usage, model_runner
from langmem_graph.retrieval.facts import MemorySearch
from langmem_graph.runtime import Step, StepRun, as_node, configured_user
from langmem_graph.schemas import GroundedCall
from langmem_graph.storage.services import Services
from langmem_graph.tracing import labelled

_STEPS = (select_tool, retrieve_slots, fill, verify, decide)


def build(
    deps: GroundingDependencies,
    user_of: Callable[[RunnableConfig], str],
    schemas: tuple[type, type, type] = (GroundingState, GroundingState, GroundingState),
    read_input: Callable[[Any], GroundingState] | None = None,
    write_output: Callable[[GroundingState], Any] | None = None,
    context_schema: type | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph, without a store and without checkpoints of its own.

    Args:
        deps: what the steps work with.
        user_of: the user of a run.
        schemas: of the state, the input and the output.
        read_input: converts another form of input into the state that the graph starts from.
        write_output: converts the state's update with the call into another form of output.
        context_schema: of the runtime context.
    """
    state, given, out = schemas
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        state, context_schema, input_schema=given, output_schema=out
    )
    steps: dict[str, Step] = {step.__name__: step for step in _STEPS}
    if read_input:
        steps["select_tool"] = _with_input(select_tool, read_input)
    if write_output:
        steps["decide"] = _with_output(decide, write_output)
    builder.add_sequence([(name, as_node(step, deps, user_of)) for name, step in steps.items()])
    builder.set_entry_point("select_tool")
    # Not None: an application's checkpointer would save what was found permanently.
    return builder.compile(checkpointer=False, name="grounding")


def _with_input(step: Step, read_input: Callable[[Any], GroundingState]) -> Step:
    @wraps(step)
    async def reading(deps: GroundingDependencies, state: Any, run: StepRun) -> Any:
        request = read_input(state)
        return {**request, **await step(deps, {**state, **request}, run)}

    return reading


def _with_output(step: Step, write_output: Callable[[GroundingState], Any]) -> Step:
    @wraps(step)
    async def writing(deps: GroundingDependencies, state: Any, run: StepRun) -> Any:
        return write_output(await step(deps, state, run))

    return writing


def grounding_dependencies(services: Services, model: BaseChatModel) -> GroundingDependencies:
    """What the steps of a grounding work with."""
    runner = model_runner(model, services.settings, "recall")
    return GroundingDependencies(services, runner, MemorySearch(services).search)


def grounding_request(
    tools: Any, request: object, policy: object = "flag", now: str = ""
) -> GroundingState:
    """The state that the graph starts from.

    Raises:
        InvalidInputError: an empty request, no tool, or an unknown policy.
    """
    if not isinstance(request, str) or not request.strip():
        raise InvalidInputError(f"The request must be a text with words in it, not {request!r}.")
    checked = _checked_policy(policy)
    several = tools if isinstance(tools, Sequence) and not isinstance(tools, str) else [tools]
    if not several:
        raise InvalidInputError("There is no tool to choose from.")
    return {
        "request": request,
        "policy": checked,
        "now": now,
        "tools": [tool_spec(tool) for tool in several],
        "usage": Usage(),
        "warnings": [],
    }


def _checked_policy(policy: object) -> Policy:
    known: Policy
    for known in get_args(Policy):
        if policy == known:
            return known
    raise InvalidInputError(f"policy must be one of {', '.join(get_args(Policy))}, not {policy!r}.")


class GroundingRunner:
    """Fills tool calls with the memory's model; its coroutine runs on the memory's loop."""

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph = build(grounding_dependencies(services, model), configured_user)

    async def ground(self, user_id: str, asked: GroundingState) -> GroundedCall:
        """Run the graph once."""
        config = labelled("ground", user_id)
        config["configurable"] = {"user_id": user_id}
        call: GroundedCall = (await self._graph.ainvoke(asked, config))["call"]
        return call
