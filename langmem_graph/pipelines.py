"""`Pipelines`: extraction, reasoning and grounding with a memory's model, on one event loop.

A `Memory` without a model has no pipelines.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, cast

from langmem_graph.causal.scorers import CausalScorer, create_causal_scorer
from langmem_graph.errors import LangMemGraphError, for_log
from langmem_graph.extraction.background_worker import BackgroundWorker, ExtractionRunner
from langmem_graph.grounding.graph import GroundingRunner, grounding_request
from langmem_graph.llm.chat_models import as_chat_model
from langmem_graph.messages import to_utc
from langmem_graph.reasoning.graph import OnEvent, ReasoningRunner
from langmem_graph.reports import FlushReport
from langmem_graph.runtime import LoopThread
from langmem_graph.schemas import GroundedCall, Recall, RecallRequest
from langmem_graph.storage.memory_services import Services

if TYPE_CHECKING:
    from langmem_graph.grounding.state import GroundingState

_log = logging.getLogger(__name__)


class Pipelines:
    """The runners of the extraction, reasoning and grounding graphs, and the background worker.

    Each method has an asynchronous twin, which waits without blocking the caller's event loop and
    ends the work when the caller is cancelled.

    Args:
        services: the memory's directory, embedder and settings.
        model: a name that `init_chat_model` takes, or a chat model.
        causal: scores possible causes; None looks for none.
    """

    def __init__(self, services: Services, model: Any, causal: CausalScorer | None) -> None:
        self.loop = LoopThread("langmem-graph")
        self.model = as_chat_model(model)
        self.extraction = ExtractionRunner(services, self.model, causal)
        self.reasoning = ReasoningRunner(services, self.model)
        self.grounding = GroundingRunner(services, self.model)
        settings = services.settings
        self.worker = BackgroundWorker(
            self.loop, self.extraction, settings.extraction.debounce_seconds
        )
        if not services.read_only:
            services.on_opened = self.worker.notify  # an earlier process may have left work due
        self._closing_seconds = settings.storage.closing_seconds

    @classmethod
    def open(cls, services: Services, model: Any, causal: CausalScorer | str) -> Self:
        """Make the pipelines, with a scorer or its name; on failure close the services."""
        try:
            if isinstance(causal, str):
                scorer = None if causal == "none" else create_causal_scorer(cast(Any, causal))
            else:
                scorer = causal
            return cls(services, model, scorer)
        except BaseException:
            services.close()
            raise

    def flush(self, user_id: str) -> FlushReport:
        """Run extraction on all pending messages of a user."""
        return self.loop.run(self.extraction.flush(user_id, force=True))

    async def aflush(self, user_id: str) -> FlushReport:
        """Async twin of `flush`."""
        return await self.loop.arun(self.extraction.flush(user_id, force=True))

    def drain(self, user_id: str, seconds: float | None) -> bool:
        """Wait for the background worker; False when the time was not enough."""
        return self.loop.run(self.worker.drained(user_id, seconds))

    async def adrain(self, user_id: str, seconds: float | None) -> bool:
        """Async twin of `drain`."""
        return await self.loop.arun(self.worker.drained(user_id, seconds))

    def recall(self, user_id: str, request: RecallRequest, on_event: OnEvent | None) -> Recall:
        """Run the read graph."""
        return self.loop.run(self.reasoning.recall(user_id, request, on_event))

    async def arecall(
        self, user_id: str, request: RecallRequest, on_event: OnEvent | None
    ) -> Recall:
        """Async twin of `recall`."""
        return await self.loop.arun(self.reasoning.recall(user_id, request, on_event))

    def ground(
        self, user_id: str, tool: Any, request: str, policy: object, at: object
    ) -> GroundedCall:
        """Run the grounding graph.

        Raises:
            InvalidInputError: an unusable tool, request or option.
        """
        state = _grounding_state(tool, request, policy, at)
        return self.loop.run(self.grounding.ground(user_id, state))

    async def aground(
        self, user_id: str, tool: Any, request: str, policy: object, at: object
    ) -> GroundedCall:
        """Async twin of `ground`."""
        state = await asyncio.to_thread(_grounding_state, tool, request, policy, at)
        return await self.loop.arun(self.grounding.ground(user_id, state))

    def close(self) -> None:
        """Extract the pending messages of this process within the time limit; others stay due."""
        users = self.worker.users()
        if users and not self.loop.is_foreign:
            self.loop.run(self._finish(users))
        self.loop.close()

    async def _finish(self, users: list[str]) -> None:
        flushes = [self.extraction.flush(user_id, force=True) for user_id in users]
        try:
            await asyncio.wait_for(asyncio.gather(*flushes), self._closing_seconds)
        except TimeoutError:
            _log.warning("closing did not wait for all background extraction; it stays due")
        except LangMemGraphError as error:
            _log.warning("background extraction did not finish and stays due: %s", for_log(error))


def _grounding_state(tool: Any, request: str, policy: object, at: object) -> "GroundingState":
    now = datetime.now(UTC) if at is None else to_utc(at)
    return grounding_request(tool, request, policy, now.isoformat(timespec="minutes"))
