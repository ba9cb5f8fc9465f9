"""`recall(mode="auto" | "reason")`: runs the recall graph."""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langmem_graph.errors import for_log
from langmem_graph.llm.structured import asker_for
from langmem_graph.models import Recall
from langmem_graph.recall import graph
from langmem_graph.recall.goals.state import GoalDependencies
from langmem_graph.recall.memory_search import MemorySearch
from langmem_graph.recall.state import ReasoningDependencies, ReasoningState
from langmem_graph.requests import RecallRequest
from langmem_graph.services import Services
from langmem_graph.steps import Event, configured_user
from langmem_graph.tracing import labelled

_log = logging.getLogger(__name__)
OnEvent = Callable[[Event], Any]


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
    asker = asker_for(model, services.settings, "recall")
    memory = MemorySearch(services)
    goals = GoalDependencies(asker, services.settings, memory.search, memory.likeness)
    return ReasoningDependencies(services, asker, goals, fail_closed)


class Reasoner:
    """Recalls with the memory's model; its coroutine runs on the memory's loop."""

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph: CompiledStateGraph[Any, Any, Any, Any] = graph.build(
            reasoning_dependencies(services, model),
            configured_user,
            lambda state: state["request"],
            (_State, _Input, _Output),
        )

    async def recall(
        self, user_id: str, request: RecallRequest, on_event: OnEvent | None = None
    ) -> Recall:
        """Run the graph once.

        Args:
            user_id: whose memory is asked.
            request: the request.
            on_event: is given every stream event as it happens.
        """
        outcome: Any = None
        stream: AsyncIterator[Any] = self._graph.astream(
            {"request": request},
            {**labelled("recall", user_id), "configurable": {"user_id": user_id}},
            stream_mode=["custom", "values"],
            subgraphs=True,
        )
        async for _, kind, part in stream:
            if kind == "custom" and on_event:
                _tell(on_event, part)
            elif kind == "values" and "recall" in part:
                outcome = part["recall"]
        return cast(Recall, outcome)


def _tell(on_event: OnEvent, event: Event) -> None:
    try:
        on_event(event)
    except Exception as error:  # noqa: BLE001  # who listens must not end what they listen to
        _log.warning("on_event failed: %s", for_log(error))
