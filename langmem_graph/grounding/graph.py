"""The grounding graph: select_tool → retrieve_slots → fill → verify → decide.

Each node is one file of this package. A run costs one model call, one more where there are several
tools, and one more where a value was inferred.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.grounding.decide import decide
from langmem_graph.grounding.fill import fill
from langmem_graph.grounding.retrieve_slots import retrieve_slots
from langmem_graph.grounding.select_tool import select_tool
from langmem_graph.grounding.state import GroundingDependencies, GroundingState
from langmem_graph.grounding.verify import verify
from langmem_graph.steps import Step, StepRun, as_node

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
