"""The one event loop on which a `Memory` calls its model, in a thread of its own.

Model clients belong to the loop they were first used on. Callers may be synchronous or on any
loop; their steps run here, so that a client never sees two.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Starts with the first call and ends with `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run it on the loop; the future is the caller's."""
        with self._lock:
            if self._loop is None:
                self._start()
            assert self._loop is not None
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop and wait."""
        return self.submit(work).result()

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop and wait without blocking the caller's loop."""
        return await asyncio.wrap_future(self.submit(work))

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel what still runs, then end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
