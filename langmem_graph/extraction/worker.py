"""flush: the extraction graph, run until nothing is due, and the report of it.

`Reader` runs it on the memory's own loop; `create_write_graph` runs it as a subgraph. Both add up
their batches in `Totals`.
"""

import asyncio
import logging
from collections import defaultdict
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, ConfigDict, Field

from langmem_graph.causal.scorers import CausalScorer
from langmem_graph.errors import LangMemGraphError, for_log
from langmem_graph.extraction.state import (
    Counts,
    ExtractionDependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.llm.structured_calls import Usage, model_runner
from langmem_graph.reports import FlushReport
from langmem_graph.runtime import LoopThread
from langmem_graph.storage import extraction_queue
from langmem_graph.storage.room import Room
from langmem_graph.storage.services import Services
from langmem_graph.tracing import labelled

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

_log = logging.getLogger(__name__)
MOST_BATCHES = 10_000  # of one flush; a loop without an end is a fault


class Totals(BaseModel):
    """What the batches of one flush came to together; it dumps to JSON."""

    model_config = ConfigDict(frozen=True)

    batches: int = 0
    counts: Counts = Field(default_factory=Counts)
    usage: Usage = Field(default_factory=Usage)
    milliseconds: float = 0.0
    failed: bool = False
    """A batch could not be read and stays due."""
    more: bool = True
    """Something may still be due that could be read now."""

    def plus(self, state: ExtractionState, milliseconds: float) -> "Totals":
        """With one more run of the extraction graph.

        What follows a failure may fail the same way, and is left for another time.
        """
        failed, batches = bool(state.get("failed")), self.batches + 1
        return Totals(
            batches=batches,
            counts=self.counts + counts_of(state),
            usage=self.usage + usage_of(state),
            milliseconds=self.milliseconds + milliseconds,
            failed=self.failed or failed,
            more=bool(state.get("batch")) and not failed and batches < MOST_BATCHES,
        )

    def report(self, pending: int, *, force: bool, stopped: bool = False) -> FlushReport:
        """The totals as a report, and a warning in the log for each unusable answer.

        Args:
            pending: messages that wait to be read.
            force: everything was to be read.
            stopped: the run had to end while more was due.
        """
        for problem in self.usage.problems:
            step = problem.split(":")[0]  # the rest may quote what was said
            _log.warning("%s: a model's answer could not be used; see the report", step)
        return FlushReport(
            status="partial" if self.failed or stopped or (force and pending) else "ok",
            pending=pending,
            problems=self.usage.problems,
            llm_calls=self.usage.calls,
            repairs=self.usage.repairs,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            tokens_exact=self.usage.tokens_exact,
            milliseconds=self.milliseconds,
            **self.counts.model_dump(),
        )


class ExtractionRunner:
    """Reads what is due with the model; one flush of a user at a time."""

    def __init__(
        self, services: Services, model: "BaseChatModel", causal: CausalScorer | None
    ) -> None:
        self._services = services
        runner = model_runner(model, services.settings, "extraction")
        self.tools = ExtractionDependencies(services, runner, causal)
        self._graph: CompiledStateGraph[Any, Any, Any, Any] | None = None
        self._busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def flush(self, user_id: str, *, force: bool) -> FlushReport:
        """Read every batch that is due (with `force`, all there is)."""
        start, totals = perf_counter(), Totals()
        async with self._busy[user_id]:
            while totals.more:
                totals = totals.plus(await self._one_batch(user_id, force), 0.0)
        pending = await self._services.in_room(user_id, count_pending)
        spent = (perf_counter() - start) * 1_000
        return totals.model_copy(update={"milliseconds": spent}).report(pending, force=force)

    async def _one_batch(self, user_id: str, force: bool) -> ExtractionState:
        from langmem_graph.extraction.graph import build, new_run, private

        if self._graph is None:
            self._graph = private(build(self.tools, _user_in))
        begun = new_run(force=force)
        config = labelled("write", user_id)
        config["configurable"] = {"user_id": user_id}
        try:
            return cast(ExtractionState, await self._graph.ainvoke(begun, config))
        except BaseException:  # also when cancelled: nobody reads this batch any more
            await asyncio.to_thread(give_back_claim, self._services, user_id, begun)
            raise


def give_back_claim(services: Services, user_id: str, begun: ExtractionState) -> None:
    """Free what a run has claimed that cannot go on; where that fails, the lease runs out."""
    try:
        with services.room(user_id) as room, room.database.write_transaction() as connection:
            extraction_queue.free_claims_of(connection, begun["claimed_by"])
    except LangMemGraphError as error:
        _log.warning("a claim could not be given back: %s", for_log(error))


def count_pending(room: Room) -> int:
    """Messages that wait to be read."""
    with room.database.read_transaction() as connection:
        return extraction_queue.count_unread(connection)


def _user_in(config: RunnableConfig) -> str:
    """This graph is run by the library alone, with the user whose messages are read."""
    user_id: str = config["configurable"]["user_id"]
    return user_id


class BackgroundWorker:
    """One task per user at most; everything here happens on the memory's loop.

    Args:
        loop: the memory's loop.
        reader: does the work.
        debounce: seconds to wait for more turns.
    """

    def __init__(self, loop: LoopThread, reader: ExtractionRunner, debounce: float) -> None:
        self._loop = loop
        self._reader = reader
        self._debounce = debounce
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._hurry: set[str] = set()

    def notify(self, user_id: str) -> None:
        """New messages of this user are in the ledger."""
        self._loop.submit(self._begin(user_id))

    async def drained(self, user_id: str, seconds: float | None) -> bool:
        """Read what is due now; False when the time (seconds) was not enough."""
        self._hurry.add(user_id)
        await self._begin(user_id)
        _, unfinished = await asyncio.wait([self._tasks[user_id]], timeout=seconds)
        return not unfinished

    async def _begin(self, user_id: str) -> None:
        running = self._tasks.get(user_id)
        if running is None or running.done():
            self._tasks[user_id] = asyncio.create_task(self._work(user_id))
        else:
            self._again.add(user_id)

    async def _work(self, user_id: str) -> None:
        """Wait a moment, read what is due; once more if turns came in meanwhile."""
        while True:
            await self._pause(user_id)
            self._again.discard(user_id)
            try:
                await self._reader.flush(user_id, force=False)
            except Exception as error:  # noqa: BLE001  # it stays due; the log is all that hears
                _log.warning("background writing failed: %s", for_log(error))
            if user_id not in self._again:
                self._hurry.discard(user_id)
                return

    async def _pause(self, user_id: str) -> None:
        """Up to the debounce, in small steps, so that draining need not wait for all of it."""
        step = 0.02
        for _ in range(int(self._debounce / step)):
            if user_id in self._hurry:
                return
            await asyncio.sleep(step)

    def users(self) -> list[str]:
        """Whose messages were read or waited for in this process."""
        return list(self._tasks)
