"""Writing in the background: a turn is acknowledged at once and read a moment later.

Turns that come in meanwhile join the work that waits; nothing is replaced. What is not done when
the memory is closed stays due in the ledger and is read after the next opening.
"""

import asyncio
import logging

from langmem_graph.errors import for_log
from langmem_graph.loop import LoopThread
from langmem_graph.write.flush import Reader

_log = logging.getLogger(__name__)


class BackgroundWriter:
    """One task per user at most; everything here happens on the memory's loop.

    Args:
        loop: the memory's loop.
        reader: does the work.
        debounce: seconds to wait for more turns.
    """

    def __init__(self, loop: LoopThread, reader: Reader, debounce: float) -> None:
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
