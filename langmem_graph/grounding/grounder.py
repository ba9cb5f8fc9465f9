"""Runs the grounding graph for `user.ground`."""

from collections.abc import Sequence
from typing import Any, get_args

from langchain_core.language_models import BaseChatModel

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding import graph
from langmem_graph.grounding.state import GroundingDependencies, GroundingState, Policy
from langmem_graph.grounding.tool_spec import tool_spec
from langmem_graph.llm.structured import Usage, asker_for
from langmem_graph.models import GroundedCall
from langmem_graph.recall.memory_search import MemorySearch
from langmem_graph.services import Services
from langmem_graph.steps import configured_user
from langmem_graph.tracing import labelled


def grounding_dependencies(services: Services, model: BaseChatModel) -> GroundingDependencies:
    """What the steps of a grounding work with."""
    asker = asker_for(model, services.settings, "recall")
    return GroundingDependencies(services, asker, MemorySearch(services).search)


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


class Grounder:
    """Fills tool calls with the memory's model; its coroutine runs on the memory's loop."""

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph = graph.build(grounding_dependencies(services, model), configured_user)

    async def ground(self, user_id: str, asked: GroundingState) -> GroundedCall:
        """Run the graph once."""
        config = labelled("ground", user_id)
        config["configurable"] = {"user_id": user_id}
        call: GroundedCall = (await self._graph.ainvoke(asked, config))["call"]
        return call
