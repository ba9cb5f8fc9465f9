"""`Pipelines`: extraction, reasoning and grounding with a memory's model, on one event
loop.
"""

import asyncio
import logging
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Self, cast

from langmem_graph.causal.scorers import CausalScorer, create_causal_scorer
from langmem_graph.errors import LangMemGraphError, for_log
from langmem_graph.extraction.flush import (
    BackgroundWorker,
    ExtractionRunner,
    ProgressReporter,
)
from langmem_graph.grounding.graph import GroundingRunner, grounding_request
from langmem_graph.ids_and_times import to_utc
from langmem_graph.llm.chat_models import as_chat_model
from langmem_graph.reasoning.graph import ReasoningRunner
from langmem_graph.reports import FlushReport, OnProgress
from langmem_graph.results import GroundedCall
from langmem_graph.runtime import LoopThread
from langmem_graph.settings import KeepDays
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import MOMENT, in_thread
from langmem_graph.view import View

_log = logging.getLogger(__name__)
USERS_AT_ONCE = 16  # of a closing, which has time for some of many


class Pipelines:
    """The runners of the extraction, reasoning and grounding graphs, and the background
    worker.

    Their coroutines run on `loop`, with its `run` or `arun`: a caller who is cancelled
    ends them. `model` is a chat model or its name; without a `causal` scorer no causes
    are looked for.
    """

    def __init__(
        self, services: Services, model: Any, causal: CausalScorer | None
    ) -> None:
        self.loop = LoopThread("langmem-graph")
        self.model = as_chat_model(model)
        self.extraction = ExtractionRunner(services, self.model, causal)
        self.reasoning = ReasoningRunner(services, self.model)
        self.grounding = GroundingRunner(services, self.model)
        debounce = services.settings.extraction.debounce_seconds
        self.worker = BackgroundWorker(self.loop, services, self.extraction, debounce)
        self._expiring: Future[None] | None = None
        if services.read_only:
            return
        # an earlier process may have left work due
        services.on_opened = self.worker.notify
        if services.keep_days != KeepDays():
            self.expire_daily()

    @classmethod
    def open(cls, services: Services, model: Any, causal: CausalScorer | str) -> Self:
        """Make the pipelines, with a scorer or its name."""
        if isinstance(causal, str):
            is_named = causal != "none"
            made = create_causal_scorer(cast(Any, causal)) if is_named else None
            return cls(services, model, made)
        return cls(services, model, causal)

    def expire_daily(self) -> None:
        """Delete what is older than it is to be kept, of all users: now, and once a
        day.
        """
        if self._expiring is not None:
            self._expiring.cancel()
        self._expiring = self.loop.submit(self.worker.expire_daily())

    def flush(self, user_id: str, on_progress: OnProgress | None = None) -> FlushReport:
        """Run extraction on all pending messages of a user."""
        reporter = ProgressReporter(on_progress)
        try:
            return self.loop.run(self._flush(user_id, reporter))
        except LangMemGraphError:
            raise
        except BaseException:  # an interrupt, or what a signal's handler raises
            self._leave(user_id)
            raise

    async def aflush(
        self, user_id: str, on_progress: OnProgress | None = None
    ) -> FlushReport:
        """Async twin of `flush`."""
        reporter = ProgressReporter(on_progress)
        try:
            return await self.loop.arun(self._flush(user_id, reporter))
        except LangMemGraphError:
            raise
        except BaseException:  # cancelled, or thrown away with its loop
            self._leave(user_id)
            raise

    async def _flush(self, user_id: str, reporter: ProgressReporter) -> FlushReport:
        report = await self.extraction.flush(user_id, force=True, reporter=reporter)
        if reporter.stopped:  # no other task has run since the flush let go of its lock
            self.worker.leave(user_id)
        return report

    def _leave(self, user_id: str) -> None:
        """Let the background not go on with what a caller has left."""

        async def leave() -> None:
            self.worker.leave(user_id)

        with suppress(LangMemGraphError):  # it is closed, and goes on with nothing
            self.loop.submit(leave())

    async def ground(
        self, view: View, tool: Any, request: str, at: object, options: dict[str, Any]
    ) -> GroundedCall:
        """Run the grounding graph once."""
        now = (datetime.now(UTC) if at is None else to_utc(at)).isoformat(
            timespec="minutes"
        )
        state = await in_thread(grounding_request, tool, request, now=now, **options)
        return await self.grounding.ground(view, state)

    def close(self, until: float) -> None:
        """Extract the pending messages of this process until then; others stay due."""
        try:
            if self.loop.has_begun and not self.loop.is_foreign:
                seconds = until - monotonic()
                self.loop.run(self._finish(seconds), seconds + MOMENT)
        except (TimeoutError, LangMemGraphError) as error:
            _log.warning("what is due is read later: %s", for_log(error))
        finally:
            self.loop.close(until - monotonic())

    async def _finish(self, seconds: float) -> None:
        """Extract what is due of this process's users; a line in the log tells what is
        not.
        """
        self.worker.stop()
        users = self.worker.users()
        if not users:
            return
        free = asyncio.Semaphore(USERS_AT_ONCE)

        async def flush(user: str) -> None:
            async with free:
                await self.extraction.flush(user, force=True)

        flushes = [asyncio.create_task(flush(user)) for user in users]
        done, waiting = await asyncio.wait(flushes, timeout=max(seconds, 0.0))
        errors = [error for ended in done if (error := ended.exception())]
        if errors or waiting:
            left = len(errors) + len(waiting)
            cause = for_log(errors[0]) if errors else "the time to close is over"
            text = "what is due of %d of %d users is done after the next opening: %s"
            _log.warning(text, left, len(users), cause)
