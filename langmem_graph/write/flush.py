"""flush: the write graph, run until nothing is due.

All of it happens on the memory's own loop; one flush of a user at a time.
"""

import asyncio
import logging
from collections import defaultdict
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from langmem_graph.link.causal import CausalScorer
from langmem_graph.llm.structured import Asker, Limits, Usage
from langmem_graph.models import FlushReport
from langmem_graph.services import Services
from langmem_graph.store import reading
from langmem_graph.store.room import Room
from langmem_graph.tracing import labelled
from langmem_graph.write.state import ExtractionDependencies, WriteState

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

_log = logging.getLogger(__name__)
_SUMMED = (
    *("read", "stored", "known", "updated", "merged", "refused", "given_up"),
    *("causes", "topics"),
)
MOST_BATCHES = 10_000  # of one flush; a loop without an end is a fault


class Reader:
    """Reads what is due with the model; made when first needed."""

    def __init__(
        self, services: Services, model: "BaseChatModel", causal: CausalScorer | None
    ) -> None:
        self._services = services
        settings = services.settings
        limits = Limits(settings.max_calls, settings.max_call_tokens, settings.call_seconds)
        asker = Asker(model, settings.structured_method, limits, settings.encoding)
        self.tools = ExtractionDependencies(services, asker, by=uuid4().hex, causal=causal)
        self._graph: CompiledStateGraph[Any, Any, Any, Any] | None = None
        self._busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def flush(self, user_id: str, *, force: bool) -> FlushReport:
        """Read every batch that is due (with `force`, all there is)."""
        start, totals = perf_counter(), _Totals()
        async with self._busy[user_id]:
            for _ in range(MOST_BATCHES):
                state = await self._one_batch(user_id, force)
                totals.add(state)
                if not state.get("batch") or state.get("failed"):
                    break  # what follows a failure may fail the same way: another time
        pending = await self._services.in_room(user_id, _pending)
        return totals.report(pending, force, (perf_counter() - start) * 1_000)

    async def _one_batch(self, user_id: str, force: bool) -> WriteState:
        if self._graph is None:
            from langmem_graph.write.graph import build

            self._graph = build(self.tools).compile(checkpointer=False, name="write")
        begun: WriteState = {"user_id": user_id, "force": force, "failed": None}
        try:
            return cast(WriteState, await self._graph.ainvoke(begun, labelled("write", user_id)))
        except BaseException:  # also when cancelled: nobody reads this batch any more
            await self._services.in_room(user_id, self._give_back)
            raise

    def _give_back(self, room: Room) -> None:
        with room.database.writing() as connection:
            reading.free_claims_of(connection, self.tools.by)


def _pending(room: Room) -> int:
    with room.database.reading() as connection:
        return reading.count_unread(connection)


class _Totals:
    """Adds up the batches of one flush."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(_SUMMED, 0)
        self.reasons: list[str] = []
        self.usage = Usage()
        self.failed = False

    def add(self, state: WriteState) -> None:
        done = state.get("done") or {}
        for name in _SUMMED:
            self.counts[name] += int(done.get(name, 0))
        self.reasons += done.get("reasons", [])
        spent = Usage.of(state.get("usage"))
        for name in ("calls", "repairs", "input_tokens", "output_tokens", "milliseconds"):
            setattr(self.usage, name, getattr(self.usage, name) + getattr(spent, name))
        self.usage.problems += spent.problems
        self.usage.tokens_exact &= spent.tokens_exact
        self.failed |= bool(state.get("failed"))

    def report(self, pending: int, force: bool, milliseconds: float) -> FlushReport:
        for problem in self.usage.problems:
            step = problem.split(":")[0]  # the rest may quote what was said
            _log.warning("%s: a model's answer could not be used; see the report", step)
        return FlushReport(
            status="partial" if self.failed or (force and pending) else "ok",
            pending=pending,
            reasons=self.reasons,
            problems=self.usage.problems,
            llm_calls=self.usage.calls,
            repairs=self.usage.repairs,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            tokens_exact=self.usage.tokens_exact,
            milliseconds=milliseconds,
            **self.counts,
        )
