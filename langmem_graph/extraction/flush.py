"""Runs the extraction graph for one user until nothing is due (NapMem 5.2); also in the
background.

All who run it, `create_write_graph` too, add up their batches in `Totals`, from which
the `FlushReport` is made.
"""

import asyncio
import logging
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field

from langmem_graph.causal.scorers import CausalScorer
from langmem_graph.errors import (
    InvalidInputError,
    LangMemGraphError,
    NothingStoredError,
    for_log,
    quoted,
)
from langmem_graph.extraction import claim_due_batch
from langmem_graph.extraction.state import (
    Counts,
    Dependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.ids_and_times import folder_name
from langmem_graph.llm.structured_calls import RunUsage, model_runner
from langmem_graph.reports import FlushProgress, FlushReport, OnProgress
from langmem_graph.runtime import LoopThread, configured_view, own_config
from langmem_graph.server_urls import as_shown
from langmem_graph.storage import expiry, pending_messages
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread
from langmem_graph.view import own_view

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

_log = logging.getLogger(__name__)
_NOT_READ = (
    "not everything of user %s (hash of the id) could be read: %s. What was wrong "
    "with each call "
    "is in user.calls() and on the inspector's page of calls"
)
SECONDS_OF_DAY = 86_400
MAX_BATCHES = 10_000  # of one flush: a fault must not loop for ever
BATCHES_AT_ONCE = 32  # of all users: each takes threads; the others wait


class Totals(BaseModel, frozen=True):
    """The sums over the batches of one flush; they dump to JSON."""

    batches: int = 0
    counts: Counts = Field(default_factory=Counts)
    usage: RunUsage = Field(default_factory=RunUsage)
    milliseconds: float = 0.0
    failed: bool = False  # a batch could not be extracted and stays pending
    # another batch may be due, or a round of causes, topics and the profile
    more: bool = True

    def plus(self, state: ExtractionState, milliseconds: float) -> "Totals":
        """The totals with one more run of the extraction graph.

        After a failed batch there is no more to do: the next one may fail in the same
        way.
        """
        failed = bool(state.get("failed"))
        batches = self.batches + 1
        goes_on = bool(state.get("batch") or state.get("again"))
        return Totals(
            batches=batches,
            counts=self.counts + counts_of(state),
            usage=self.usage + replace(usage_of(state), calls_made=[]),
            milliseconds=self.milliseconds + milliseconds,
            failed=self.failed or failed,
            more=goes_on and not failed and batches < MAX_BATCHES,
        )

    def report(
        self, user_id: str, pending: int, *, force: bool, stopped: bool = False
    ) -> FlushReport:
        """The totals as a report, and a warning in the log for each unusable answer.

        `pending` messages still wait; with `stopped` the run had to end while more was
        due.
        """
        for problem in self.usage.problems:
            kind = ": ".join(problem.split(": ")[:2])  # the rest may quote a message
            _log.warning(_NOT_READ, folder_name(user_id), kind)
        return FlushReport(
            status="partial" if self.failed or stopped or (force and pending) else "ok",
            pending=pending,
            problems=self.usage.problems,
            dropped=self.usage.dropped,
            llm_calls=self.usage.calls,
            repairs=self.usage.repairs,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            tokens_exact=self.usage.tokens_exact,
            milliseconds=self.milliseconds,
            **self.counts.model_dump(),
        )


class ProgressReporter:
    """Calls `on_progress` after each batch of one flush, and after each round at its
    end.

    It returns False to stop the flush after the current batch.
    """

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        if on_progress is not None and not callable(on_progress):
            raise InvalidInputError(
                f"on_progress must be a function, not {quoted(on_progress)}."
            )
        self._on_progress = on_progress
        self._start = perf_counter()
        self._batches = 0
        self.stopped = False
        self.problem: str | None = None  # the error that `on_progress` raised

    def tell(self, totals: Totals, pending: int, *, is_batch: bool) -> None:
        """Tell how far the flush has come; `is_batch` is False after a round at its
        end.
        """
        if self._on_progress is None:
            return
        self._batches += is_batch
        progress = FlushProgress(
            read=totals.counts.read,
            pending=pending,
            batches_done=self._batches,
            calls=totals.usage.calls,
            input_tokens=totals.usage.input_tokens,
            output_tokens=totals.usage.output_tokens,
            stored=totals.counts.stored,
            updated=totals.counts.updated,
            seconds=perf_counter() - self._start,
        )
        try:
            self.stopped = self._on_progress(progress) is False
        except BaseException as error:  # noqa: BLE001  # an exit would end the memory's own thread
            self.stopped = True
            text, _ = as_shown(error)
            self.problem = f"on_progress: {text}"


class ExtractionRunner:
    """Runs the extraction graph for one user after another, one flush of a user at a
    time.
    """

    def __init__(
        self, services: Services, model: "BaseChatModel", causal: CausalScorer | None
    ) -> None:
        self._services = services
        runner = model_runner(model, services.settings, "extraction")
        self.deps = Dependencies(services, runner, causal)
        self._graph: CompiledStateGraph[Any, Any, Any, Any] | None = None
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._free = asyncio.Semaphore(BATCHES_AT_ONCE)

    async def flush(
        self, user_id: str, *, force: bool, reporter: ProgressReporter | None = None
    ) -> FlushReport:
        """Extract every batch that is due, or with `force` all pending messages.

        The reporter is told after each batch how far the flush has come, and may stop
        it.
        """
        start = perf_counter()
        totals = Totals()
        reporter = reporter or ProgressReporter()
        async with self._locks[user_id]:
            while totals.more and not reporter.stopped:
                async with self._free:
                    done = await self._extract_batch(user_id, force)
                    await in_thread(log_calls, self._services, user_id, done)
                totals = totals.plus(done, 0.0)
                if usage_of(done).calls and not totals.failed:
                    pending = await self._pending(user_id)
                    reporter.tell(totals, pending, is_batch=bool(done.get("batch")))
            pending = await self._pending(user_id)
        elapsed = (perf_counter() - start) * 1_000
        timed = totals.model_copy(update={"milliseconds": elapsed})
        report = timed.report(user_id, pending, force=force, stopped=reporter.stopped)
        problems = [reporter.problem] if reporter.problem else []
        return report.model_copy(update={"problems": [*report.problems, *problems]})

    async def _pending(self, user_id: str) -> int:
        return await in_thread(
            self._services.read, own_view(user_id), pending_messages.count_unread, 0
        )

    async def _extract_batch(self, user_id: str, force: bool) -> ExtractionState:
        from langmem_graph.extraction.graph import build, new_run, private

        if self._graph is None:
            self._graph = private(build(self.deps, configured_view))
        begun = new_run(force=force)
        try:
            done = await self._graph.ainvoke(
                begun, own_config("write", own_view(user_id))
            )
            return cast(ExtractionState, done)
        except NothingStoredError:  # the user was erased meanwhile
            return begun
        except BaseException:  # also when cancelled: the batch must not stay claimed
            await in_thread(give_back_claim, self._services, user_id, begun)
            raise


def log_calls(services: Services, user_id: str, done: ExtractionState) -> None:
    """Log the model calls of one run of the extraction graph, with the messages that
    they read.
    """
    batch = done.get("batch")
    services.log_calls(user_id, usage_of(done).calls_made, batch.items if batch else ())


def give_back_claim(services: Services, user_id: str, begun: ExtractionState) -> None:
    """Free the messages claimed by a run that has ended; where that fails, the lease
    runs out.
    """
    # its claim may be under way in a thread
    services.ended_runs.append(begun["claimed_by"])
    try:
        with (
            services.room(user_id) as room,
            room.database.write_transaction() as connection,
        ):
            pending_messages.free_claims_of(connection, begun["claimed_by"])
    except LangMemGraphError as error:
        _log.warning("a claim could not be given back: %s", for_log(error))


class BackgroundWorker:
    """Flushes a user's due batches soon after new messages, in at most one task per
    user.

    All its state belongs to the memory's event loop: only `notify` may be called from
    outside. It waits `debounce` seconds for more turns.
    """

    def __init__(
        self,
        loop: LoopThread,
        services: Services,
        runner: ExtractionRunner,
        debounce: float,
    ) -> None:
        self._loop = loop
        self._services = services
        self._runner = runner
        self._debounce = debounce
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # with new messages since their task began its flush
        self._notified: set[str] = set()
        # set where the debounce is cut short
        self._urgent: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._is_stopped = False
        # when limits were last applied to a user's memory
        self._expired: dict[str, date] = {}
        # of users with pending messages
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def notify(self, user_id: str) -> None:
        """Tell the worker that the ledger holds new messages of this user."""
        self._loop.submit(self._schedule(user_id))

    async def drained(self, user_id: str, seconds: float | None) -> bool:
        """Flush what is due now; False when the time (seconds) was not enough."""
        self._urgent[user_id].set()
        self._begin(user_id)
        _, unfinished = await asyncio.wait([self._tasks[user_id]], timeout=seconds)
        return not unfinished

    def leave(self, user_id: str) -> None:
        """Drop what is scheduled for this user; new messages schedule it again."""
        self._look_again(user_id, 0)
        task = self._tasks.pop(user_id, None)
        if task is not None:
            task.cancel()
        self._notified.discard(user_id)
        self._urgent.pop(user_id, None)

    def stop(self) -> None:
        """Begin no more flushes: whoever closes the memory does what is due."""
        self._is_stopped = True
        for urgent in self._urgent.values():
            urgent.set()

    async def _schedule(self, user_id: str) -> None:
        self._begin(user_id)

    def _begin(self, user_id: str) -> None:
        running = self._tasks.get(user_id)
        if running is None or running.done():
            self._tasks[user_id] = asyncio.create_task(self._work(user_id))
        else:
            self._notified.add(user_id)

    async def _work(self, user_id: str) -> None:
        """Wait for more turns, then flush; again as long as turns have come in
        meanwhile.
        """
        while True:
            await self._pause(user_id)
            if self._is_stopped:
                return
            self._notified.discard(user_id)
            await self._expire(user_id)
            pending = 1
            try:
                pending = (await self._runner.flush(user_id, force=False)).pending
            except Exception as error:  # noqa: BLE001  # nobody awaits the task; the batch stays due
                _log.warning("background writing failed: %s", for_log(error))
            self._look_again(user_id, pending)
            if user_id not in self._notified:
                self._urgent.pop(user_id, None)
                return

    def _look_again(self, user_id: str, pending: int) -> None:
        """Flush again when a session that goes on has been idle for so long that it has
        ended.
        """
        if (earlier := self._timers.pop(user_id, None)) is not None:
            earlier.cancel()
        if pending:
            later = claim_due_batch.IDLE.total_seconds() + 1
            loop = asyncio.get_running_loop()
            self._timers[user_id] = loop.call_later(later, self._begin, user_id)

    async def _expire(self, user_id: str) -> None:
        """Delete what is older than it is to be kept, unless that was done today."""
        today = datetime.now(UTC).date()
        if self._expired.get(user_id) == today:
            return
        self._expired[user_id] = today
        try:
            await in_thread(expiry.expire, self._services, user_id)
        except Exception as error:  # noqa: BLE001  # it must not keep messages from being read
            _log.warning("what is too old could not be deleted: %s", for_log(error))

    async def expire_daily(self) -> None:
        """Do so for all users and shared rooms, and again every day."""
        while True:
            self._expired.clear()
            try:
                keys = await in_thread(expiry.every_room, self._services)
            except Exception as error:  # noqa: BLE001  # tomorrow it is tried again
                _log.warning(
                    "the users with limits could not be listed: %s", for_log(error)
                )
                keys = []
            for key in keys:
                await self._expire(key)
            await asyncio.sleep(SECONDS_OF_DAY)

    async def _pause(self, user_id: str) -> None:
        """Wait for the debounce, unless it is cut short."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._urgent[user_id].wait(), self._debounce)

    def users(self) -> list[str]:
        """The users whose messages this process has extracted, or is about to."""
        return list(self._tasks)
