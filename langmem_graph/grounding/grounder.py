"""`user.ground`: runs the grounding graph and gives the call."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding import graph
from langmem_graph.grounding.state import GroundingDependencies, GroundingState
from langmem_graph.grounding.tool_spec import tool_spec
from langmem_graph.llm.structured import Asker, Limits
from langmem_graph.models import GroundedCall
from langmem_graph.recall.memory_search import MemorySearch
from langmem_graph.services import Services
from langmem_graph.tracing import labelled

Policy = Literal["flag", "drop", "ask"]
"""What becomes of an inferred value that does not surely follow: kept with a warning, left out, or
named as missing."""


def grounding_tools(services: Services, model: BaseChatModel) -> GroundingDependencies:
    """What the steps of a grounding work with."""
    settings = services.settings
    limits = Limits(settings.recall_calls, settings.recall_tokens, settings.recall_call_seconds)
    asker = Asker(model, settings.structured_method, limits, settings.encoding)
    return GroundingDependencies(services, asker, MemorySearch(services).search)


def grounding_request(
    tools: Any, request: object, policy: object = "flag", now: str = ""
) -> GroundingState:
    """What the graph starts from.

    Raises:
        InvalidInputError: no words, no tool, or an unknown policy.
    """
    if not isinstance(request, str) or not request.strip():
        raise InvalidInputError(f"The request must be a text with words in it, not {request!r}.")
    if policy not in get_args(Policy):
        raise InvalidInputError(
            f"policy must be one of {', '.join(get_args(Policy))}, not {policy!r}."
        )
    several = tools if isinstance(tools, Sequence) and not isinstance(tools, str) else [tools]
    if not several:
        raise InvalidInputError("There is no tool to choose from.")
    specs = [vars(tool_spec(tool)) for tool in several]
    fresh: GroundingState = {"usage": {}, "warnings": []}
    return {**fresh, "tools": specs, "request": request, "policy": str(policy), "now": now}


class Grounder:
    """Fills tool calls with the memory's model; its coroutine runs on the memory's loop."""

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph = graph.build(grounding_tools(services, model), _user_in)

    async def ground(self, user_id: str, asked: GroundingState) -> GroundedCall:
        """Run the graph once."""
        config = labelled("ground", user_id)
        config["configurable"] = {"user_id": user_id}
        done = await self._graph.ainvoke(asked, config)
        return GroundedCall.model_validate(done["call"])


def _user_in(config: RunnableConfig) -> str:
    """This graph is run by the library alone, with the user whose memory was asked for."""
    user_id: str = config["configurable"]["user_id"]
    return user_id
