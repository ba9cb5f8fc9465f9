"""`create_grounding_graph`: fill the arguments of a tool call from memory, as a
graph.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langmem_graph.filters import Where
from langmem_graph.graphs.conversation_messages import messages_in, query_of
from langmem_graph.graphs.nodes import UserContext
from langmem_graph.graphs.turn_memory import pipelines_of, view_of
from langmem_graph.graphs.user_identity import UserId
from langmem_graph.grounding import graph
from langmem_graph.grounding.graph import (
    checked_options,
    grounding_dependencies,
    grounding_request,
)
from langmem_graph.grounding.state import JSON, GroundingState, Policy, ReadMode
from langmem_graph.memory import Memory
from langmem_graph.schemas import Origin


class GroundingInput(TypedDict, total=False):
    """A request and the tools, as JSON: OpenAI functions, or JSON schemas with
    a title.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    """The conversation, whose last human message is the request; or:"""
    request: str
    tools: list[dict[str, Any]]
    """Needed unless the graph was made with tools."""


class GroundingOutput(TypedDict, total=False):
    """The result, a `GroundedCall` as JSON."""

    call: dict[str, Any]


class _State(GroundingState, GroundingInput, total=False):
    pass


def create_grounding_graph(
    memory: Memory,
    *,
    tools: Any = None,
    policy: Policy = "flag",
    trust: Sequence[Origin] = ("user",),
    model_may_choose: Sequence[str] = (),
    read: ReadMode | Mapping[str, ReadMode] = "send",
    user_id: UserId = None,
    where: Where | None = None,
    shared: Sequence[str | int] = (),
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that fills a tool call: `select_tool, retrieve_slots, fill, verify,
    decide`.

    Its output `call` has the tool's name, schema-valid arguments, for each its
    grounding (copied, read, chosen or default; record and message ids; the
    quoted words), what is only offered, what is missing and warnings. One or two model
    calls.

    Args:
        memory: where to look; opened with a model.
        tools: a tool or several to choose from; None takes them from the input.
        policy: as for `UserMemory.ground`, like `trust`, `model_may_choose` and
            `read`.
        user_id: as for `create_recall_node`, like `where`.
        shared: fill it from these shared rooms too; as for `create_recall_graph`.

    Raises:
        InvalidInputError: the memory has no model, or a tool or the policy cannot be
            used.
    """
    pipelines = pipelines_of(memory, "create_grounding_graph")
    options: dict[str, Any] = {
        "policy": policy,
        "trust": trust,
        "model_may_choose": model_may_choose,
        "read": read,
    }
    checked_options(**options)
    if tools is not None:
        grounding_request(tools, "check")

    def read_input(state: Any) -> GroundingState:
        request = state.get("request") or query_of(messages_in(state))
        offered = tools if tools is not None else state.get("tools") or []
        now = datetime.now(UTC).isoformat(timespec="minutes")
        return grounding_request(offered, request, now=now, **options)

    return graph.build(
        grounding_dependencies(memory._services, pipelines.model),
        view_of(memory, user_id, where, shared),
        (_State, GroundingInput, GroundingOutput),
        read_input,
        form=JSON,
        context_schema=UserContext,
    )
