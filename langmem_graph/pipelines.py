"""The model's part of a memory: its loop, what reads, what reasons; absent without a model."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from langmem_graph.causal.scorers import CausalScorer
from langmem_graph.errors import InvalidInputError, LangMemGraphError, for_log
from langmem_graph.extraction.worker import BackgroundWorker, ExtractionRunner
from langmem_graph.grounding.graph import GroundingRunner
from langmem_graph.llm.chat_models import as_chat_model
from langmem_graph.messages import to_utc
from langmem_graph.reasoning.graph import ReasoningRunner
from langmem_graph.reports import FlushReport
from langmem_graph.retrieval.search_common import check_request
from langmem_graph.runtime import LoopThread
from langmem_graph.schemas import RecallMode, RecallRequest
from langmem_graph.settings import Settings
from langmem_graph.storage import extraction_queue
from langmem_graph.storage.services import Services

if TYPE_CHECKING:
    from langmem_graph.grounding.state import GroundingState

_log = logging.getLogger(__name__)


class Pipelines:
    """Made by `Memory` when it is given a model.

    Args:
        services: the memory's parts.
        model: a name that `init_chat_model` takes, or a chat model.
        causal: scores possible causes; None looks for none.
    """

    def __init__(self, services: Services, model: Any, causal: CausalScorer | None) -> None:
        self.loop = LoopThread("langmem-graph")
        self.model = as_chat_model(model)
        self.reader = ExtractionRunner(services, self.model, causal)
        self.reasoner = ReasoningRunner(services, self.model)
        self.grounder = GroundingRunner(services, self.model)
        settings = services.settings
        self.background = BackgroundWorker(self.loop, self.reader, settings.debounce_seconds)
        if not services.read_only:
            services.on_opened = self.background.notify  # what an earlier process has left due
        self._closing_seconds = settings.closing_seconds

    def flush(self, user_id: str) -> FlushReport:
        """Read everything of a user now."""
        return self.loop.run(self.reader.flush(user_id, force=True))

    async def aflush(self, user_id: str) -> FlushReport:
        """Async twin of `flush`."""
        return await self.loop.arun(self.reader.flush(user_id, force=True))

    def close(self) -> None:
        """Read what this process has taken in, as far as the time allows; the rest stays due."""
        users = self.background.users()
        if users and not self.loop.is_foreign:
            self.loop.run(self._finish(users))
        self.loop.close()

    async def _finish(self, users: list[str]) -> None:
        flushes = [self.reader.flush(user_id, force=True) for user_id in users]
        try:
            await asyncio.wait_for(asyncio.gather(*flushes), self._closing_seconds)
        except TimeoutError:
            _log.warning("closing did not wait for all background writing; it stays due")
        except LangMemGraphError as error:
            _log.warning("background writing was not finished and stays due: %s", for_log(error))


def checked_recall(
    mind: "Pipelines | None", settings: Settings, request: RecallRequest
) -> "Pipelines":
    """What reasons, once the request is in order.

    Raises:
        InvalidInputError: an unusable query or option, or no model.
    """
    check_request(settings, request.query, request.k, request.max_tokens)
    mode = request.mode
    if mode not in get_args(RecallMode):
        raise InvalidInputError(
            f"mode must be one of {', '.join(get_args(RecallMode))}, not {mode!r}."
        )
    if mind is None:
        raise InvalidInputError(
            f"recall(mode={mode!r}) needs a model: Memory(path, model='openai:…'). "
            "Without one there is mode='fast'."
        )
    return mind


def checked_grounding(
    mind: "Pipelines | None", tool: Any, request: str, policy: object, at: object
) -> "tuple[Pipelines, GroundingState]":
    """What fills tool calls, and the request as it takes it.

    Raises:
        InvalidInputError: an unusable tool, request or option, or no model.
    """
    from langmem_graph.grounding.graph import grounding_request  # slow to import

    if mind is None:
        raise InvalidInputError("ground needs a model: Memory(path, model='openai:…').")
    now = iso(at) or datetime.now(UTC).isoformat(timespec="minutes")
    return mind, grounding_request(tool, request, policy, now)


def iso(at: object) -> str | None:
    """A time as ISO text; None stays None."""
    return None if at is None else to_utc(at).isoformat(timespec="minutes")


def no_model_report(services: Services, user_id: str) -> FlushReport:
    """How many messages wait for a model."""
    if not services.has(user_id):
        return FlushReport(status="no_model")
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        return FlushReport(status="no_model", pending=extraction_queue.count_unread(connection))
