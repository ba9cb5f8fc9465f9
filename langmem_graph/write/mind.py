"""The model's part of a memory: its loop, what reads, what reasons; absent without a model."""

import asyncio
import logging
from typing import Any

from langmem_graph.errors import LangMemGraphError, for_log
from langmem_graph.grounding.grounder import Grounder
from langmem_graph.link.causal import CausalScorer
from langmem_graph.llm.chat_model import as_chat_model
from langmem_graph.loop import LoopThread
from langmem_graph.models import FlushReport
from langmem_graph.recall.reasoner import Reasoner
from langmem_graph.services import Services
from langmem_graph.write.background import BackgroundWriter
from langmem_graph.write.flush import Reader

_log = logging.getLogger(__name__)


class Mind:
    """Made by `Memory` when it is given a model.

    Args:
        services: the memory's parts.
        model: a name that `init_chat_model` takes, or a chat model.
        causal: scores possible causes; None looks for none.
    """

    def __init__(self, services: Services, model: Any, causal: CausalScorer | None) -> None:
        self.loop = LoopThread("langmem-graph")
        self.model = as_chat_model(model)
        self.reader = Reader(services, self.model, causal)
        self.reasoner = Reasoner(services, self.model)
        self.grounder = Grounder(services, self.model)
        settings = services.settings
        self.background = BackgroundWriter(self.loop, self.reader, settings.debounce_seconds)
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
