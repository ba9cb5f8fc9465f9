"""The grounding graph: select_tool → retrieve_slots → fill → verify → decide.

Each node is one file of this package. It costs one model call, one more where there are several
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
    first: Callable[[Any], GroundingState] | None = None,
    context_schema: type | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph, without a store and without checkpoints of its own.

    Args:
        deps: what the steps work with.
        user_of: whose run it is.
        schemas: of the state, the input and the output.
        first: reads the request and the tools out of another input.
        context_schema: of the runtime context.
    """
    state, given, out = schemas
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        state, context_schema, input_schema=given, output_schema=out
    )
    nodes = []
    for step in _STEPS:
        own = _with_request(step, first) if first and step is select_tool else step
        nodes.append((step.__name__, as_node(own, deps, user_of)))
    builder.add_sequence(nodes)
    builder.set_entry_point("select_tool")
    # Not None: an application's checkpointer would save what was found for good.
    return builder.compile(checkpointer=False, name="grounding")


def _with_request(step: Step, first: Callable[[Any], GroundingState]) -> Step:
    @wraps(step)
    async def bound(deps: GroundingDependencies, state: Any, run: StepRun) -> Any:
        asked = first(state)
        return {**asked, **await step(deps, {**state, **asked}, run)}

    return bound
