"""The background worker: flushes what is due soon after new messages, and expires once a day."""

import asyncio
import logging
from datetime import UTC, date, datetime

from langmem_graph.errors import for_log
from langmem_graph.extraction.flush import ExtractionRunner
from langmem_graph.runtime import LoopThread
from langmem_graph.storage import expiry
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread

_log = logging.getLogger(__name__)
SECONDS_OF_DAY = 86_400


class BackgroundWorker:
    """Flushes a user's due batches soon after new messages, in at most one task per user.

    All its state belongs to the memory's event loop: only `notify` may be called from outside.
    It waits `debounce` seconds for more turns.
    """

    def __init__(
        self, loop: LoopThread, services: Services, runner: ExtractionRunner, debounce: float
    ) -> None:
        self._loop = loop
        self._services = services
        self._runner = runner
        self._debounce = debounce
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._notified: set[str] = set()  # with new messages since their task began its flush
        self._urgent: set[str] = set()  # for whom the debounce is cut short
        self._expired: dict[str, date] = {}  # when limits were last applied to a user's memory

    def notify(self, user_id: str) -> None:
        """Tell the worker that the ledger holds new messages of this user."""
        self._loop.submit(self._schedule(user_id))

    async def drained(self, user_id: str, seconds: float | None) -> bool:
        """Flush what is due now; False when the time (seconds) was not enough."""
        self._urgent.add(user_id)
        await self._schedule(user_id)
        _, unfinished = await asyncio.wait([self._tasks[user_id]], timeout=seconds)
        return not unfinished

    def leave(self, user_id: str) -> None:
        """Drop what is scheduled for this user; new messages schedule it again."""
        task = self._tasks.pop(user_id, None)
        if task is not None:
            task.cancel()
        self._notified.discard(user_id)
        self._urgent.discard(user_id)

    async def _schedule(self, user_id: str) -> None:
        running = self._tasks.get(user_id)
        if running is None or running.done():
            self._tasks[user_id] = asyncio.create_task(self._work(user_id))
        else:
            self._notified.add(user_id)

    async def _work(self, user_id: str) -> None:
        """Wait for more turns, then flush; again as long as turns have come in meanwhile."""
        while True:
            await self._pause(user_id)
            self._notified.discard(user_id)
            await self._expire(user_id)
            try:
                await self._runner.flush(user_id, force=False)
            except Exception as error:  # noqa: BLE001  # nobody awaits the task; the batch stays due
                _log.warning("background writing failed: %s", for_log(error))
            if user_id not in self._notified:
                self._urgent.discard(user_id)
                return

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
                _log.warning("whose memory is too old could not be read: %s", for_log(error))
                keys = []
            for key in keys:
                await self._expire(key)
            await asyncio.sleep(SECONDS_OF_DAY)

    async def _pause(self, user_id: str) -> None:
        """Wait for the debounce, in small steps, so that `drained` need not wait for all of it."""
        step = 0.02
        for _ in range(int(self._debounce / step)):
            if user_id in self._urgent:
                return
            await asyncio.sleep(step)

    def users(self) -> list[str]:
        """The users whose messages this process has extracted, or is about to."""
        return list(self._tasks)
