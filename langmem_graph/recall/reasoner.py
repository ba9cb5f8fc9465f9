"""`recall(mode="auto" | "reason")`: runs the recall graph and gives its outcome."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.errors import for_log
from langmem_graph.llm.structured import Asker, Limits
from langmem_graph.models import Recall
from langmem_graph.recall import graph
from langmem_graph.recall.goals.state import GoalDependencies
from langmem_graph.recall.memory_search import MemorySearch
from langmem_graph.recall.state import ReasoningDependencies, RecallState
from langmem_graph.services import Services
from langmem_graph.steps import Event
from langmem_graph.tracing import labelled

_log = logging.getLogger(__name__)
OnEvent = Callable[[Event], Any]


def recall_tools(
    services: Services, model: BaseChatModel, *, fail_closed: bool = True
) -> ReasoningDependencies:
    """What the steps of a recall with a model work with."""
    settings = services.settings
    limits = Limits(settings.recall_calls, settings.recall_tokens, settings.recall_call_seconds)
    asker = Asker(model, settings.structured_method, limits, settings.encoding)
    memory = MemorySearch(services)
    goals = GoalDependencies(asker, settings, memory.search, memory.likeness)
    return ReasoningDependencies(services, asker, goals, fail_closed)


class Reasoner:
    """Recalls with the memory's model; its coroutine runs on the memory's loop."""

    def __init__(self, services: Services, model: BaseChatModel) -> None:
        self._graph: CompiledStateGraph[Any, Any, Any, Any] = graph.build(
            recall_tools(services, model),
            _user_in,
            lambda state: state,
            (RecallState, RecallState, RecallState),
        )

    async def recall(
        self,
        user_id: str,
        query: str,
        mode: str,
        k: int | None,
        max_tokens: int | None,
        in_view: Sequence[str],
        now: str | None,
        on_event: OnEvent | None,
    ) -> Recall:
        """Run the graph once.

        Args:
            on_event: is given every stream event as it happens.
        """
        request = {
            "query": query,
            "mode": mode,
            "k": k,
            "max_tokens": max_tokens,
            "in_view": list(in_view),
            "now": now,
        }
        outcome: Any = None
        stream: AsyncIterator[Any] = self._graph.astream(
            request,
            {**labelled("recall", user_id), "configurable": {"user_id": user_id}},
            stream_mode=["custom", "values"],
            subgraphs=True,
        )
        async for _, kind, part in stream:
            if kind == "custom" and on_event:
                _tell(on_event, part)
            elif kind == "values" and "recall" in part:
                outcome = part["recall"]
        return Recall.model_validate(outcome)


def _tell(on_event: OnEvent, event: Event) -> None:
    try:
        on_event(event)
    except Exception as error:  # noqa: BLE001  # who listens must not end what they listen to
        _log.warning("on_event failed: %s", for_log(error))


def _user_in(config: RunnableConfig) -> str:
    """This graph is run by the library alone, with the user whose memory was asked for."""
    user_id: str = config["configurable"]["user_id"]
    return user_id
