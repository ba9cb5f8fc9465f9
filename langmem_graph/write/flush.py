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

from langmem_graph.errors import LangMemGraphError, for_log
from langmem_graph.link.causal import CausalScorer
from langmem_graph.llm.structured import Usage, asker_for
from langmem_graph.models import FlushReport
from langmem_graph.services import Services
from langmem_graph.store import reading
from langmem_graph.store.room import Room
from langmem_graph.tracing import labelled
from langmem_graph.write.state import (
    Counts,
    ExtractionDependencies,
    ExtractionState,
    counts_of,
    usage_of,
)

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


class Reader:
    """Reads what is due with the model; one flush of a user at a time."""

    def __init__(
        self, services: Services, model: "BaseChatModel", causal: CausalScorer | None
    ) -> None:
        self._services = services
        asker = asker_for(model, services.settings, "extraction")
        self.tools = ExtractionDependencies(services, asker, causal)
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
        from langmem_graph.write.graph import build, new_run, private

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
        with services.room(user_id) as room, room.database.writing() as connection:
            reading.free_claims_of(connection, begun["claimed_by"])
    except LangMemGraphError as error:
        _log.warning("a claim could not be given back: %s", for_log(error))


def count_pending(room: Room) -> int:
    """Messages that wait to be read."""
    with room.database.reading() as connection:
        return reading.count_unread(connection)


def _user_in(config: RunnableConfig) -> str:
    """This graph is run by the library alone, with the user whose messages are read."""
    user_id: str = config["configurable"]["user_id"]
    return user_id
