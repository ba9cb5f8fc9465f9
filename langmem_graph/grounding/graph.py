"""The grounding graph, and the runner with which the library runs it (Mem2ActBench).

select_tool → retrieve_slots → fill → verify → decide
                                ↑        ↓
                                └─ look_again

A run costs one model call, one more where there are several tools, and one more where
what is missing is looked for a second time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, cast, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.grounding.decide_call import decide
from langmem_graph.grounding.fill_arguments import fill
from langmem_graph.grounding.second_look import look_again
from langmem_graph.grounding.select_tool_and_sources import retrieve_slots, select_tool
from langmem_graph.grounding.state import Dependencies, GroundingState, Policy, ReadMode
from langmem_graph.grounding.verify_values import verify
from langmem_graph.llm.structured_calls import RunUsage, model_runner
from langmem_graph.llm.tool_specs import tool_spec
from langmem_graph.results import GroundedCall
from langmem_graph.retrieval.example_search import MemorySearch
from langmem_graph.retrieval.search_common import check_choice
from langmem_graph.runtime import (
    OBJECTS,
    StateForm,
    Step,
    StepRun,
    as_node,
    configured_view,
    own_config,
)
from langmem_graph.schemas import Origin
from langmem_graph.storage.memory_services import Services
from langmem_graph.view import View

STEPS: tuple[Step, ...] = (
    select_tool,
    retrieve_slots,
    fill,
    verify,
    look_again,
    decide,
)


def build(
    deps: Dependencies,
    view_of: Callable[[RunnableConfig], View],
    schemas: tuple[type, type, type] = (GroundingState, GroundingState, GroundingState),
    read_input: Callable[[Any], GroundingState] | None = None,
    *,
    form: StateForm = OBJECTS,
    context_schema: type | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph, without a store and without checkpoints of its own.

    `schemas` are those of state, input and output; `read_input` converts another form
    of input; `form` is `JSON` where a checkpointer may save the state.
    """
    state, given, out = schemas
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        state, context_schema, input_schema=given, output_schema=out
    )
    first = _with_input(STEPS[0], read_input) if read_input else STEPS[0]
    steps = (first, *STEPS[1:])
    for step in steps:
        builder.add_node(step.__name__, as_node(form.step(step), deps, view_of))
    builder.add_edge(START, "select_tool")
    builder.add_edge("select_tool", "retrieve_slots")
    builder.add_edge("retrieve_slots", "fill")
    builder.add_edge("fill", "verify")
    builder.add_conditional_edges("verify", _next_step, ["look_again", "decide"])
    builder.add_conditional_edges("look_again", _next_step, ["fill", "decide"])
    # Not None: an application's checkpointer would save what was found, and keep it.
    return builder.compile(checkpointer=False, name="grounding")


def _next_step(state: GroundingState) -> str:
    return state["next_step"]


def _with_input(step: Step, read_input: Callable[[Any], GroundingState]) -> Step:
    @wraps(step)
    async def reading(deps: Dependencies, state: Any, run: StepRun) -> Any:
        request = read_input(state)
        return {**request, **await step(deps, {**state, **request}, run)}

    return reading


def grounding_dependencies(services: Services, model: BaseChatModel) -> Dependencies:
    """Dependencies of the grounding graph's steps."""
    runner = model_runner(model, services.settings, "recall")
    return Dependencies(services, runner, MemorySearch(services).search)


def grounding_request(
    tools: Any,
    request: object,
    policy: object = "flag",
    now: str = "",
    trust: Collection[Any] = ("user",),
    model_may_choose: Collection[str] = (),
    read: object = "send",
) -> GroundingState:
    """The state that the graph starts from; InvalidInputError for what it cannot start
    from.
    """
    if not isinstance(request, str) or not request.strip():
        raise InvalidInputError(
            f"The request must be a text with words in it, not {quoted(request)}."
        )
    checked_options(policy, trust, model_may_choose, read)
    several = (
        tools if isinstance(tools, Sequence) and not isinstance(tools, str) else [tools]
    )
    if not several:
        raise InvalidInputError("There is no tool to choose from.")
    return {
        "query": request,
        "policy": cast(Policy, policy),
        "trust": tuple(trust),
        "model_may_choose": tuple(model_may_choose),
        "read": read_modes(read),
        "now": now,
        "specs": [tool_spec(tool) for tool in several],
        "usage": RunUsage(),
        "warnings": [],
    }


def read_modes(read: object) -> dict[str, ReadMode]:
    """What becomes of read values, by tool or slot; under the empty name, of all
    others.

    Raises:
        InvalidInputError: it is neither a mode nor a mapping of names to modes.
    """
    modes = read if isinstance(read, Mapping) else {"": read}
    for mode in modes.values():
        check_choice("read", mode, get_args(ReadMode))
    if not all(isinstance(name, str) for name in modes):
        raise InvalidInputError(f"read names tools or arguments, not {quoted(read)}.")
    return dict(modes)


def checked_options(
    policy: object, trust: object, model_may_choose: object, read: object
) -> None:
    """Raise InvalidInputError for an unknown policy, origin or mode, or a text where a
    list belongs.
    """
    check_choice("policy", policy, get_args(Policy))
    read_modes(read)
    origins = get_args(Origin)
    if not _is_list(trust) or any(one not in origins for one in cast(Any, trust)):
        raise InvalidInputError(
            f"trust must be a list of {', '.join(origins)}, not {quoted(trust)}."
        )
    may_choose = cast(Any, model_may_choose)
    if not _is_list(may_choose) or not all(isinstance(n, str) for n in may_choose):
        raise InvalidInputError(
            "model_may_choose must be a list of arguments' names, not "
            f"{quoted(model_may_choose)}."
        )


def _is_list(given: object) -> bool:
    is_other = isinstance(given, str | bytes | Mapping)
    return isinstance(given, Collection) and not is_other


class GroundingRunner:
    """Fills tool calls with the memory's model; its coroutine runs on the memory's
    loop.
    """

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph = build(grounding_dependencies(services, model), configured_view)

    async def ground(self, view: View, asked: GroundingState) -> GroundedCall:
        """Run the graph once, from a state that `grounding_request` made."""
        done = await self._graph.ainvoke(asked, own_config("ground", view))
        call: GroundedCall = done["call"]
        return call
