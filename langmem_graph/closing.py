"""Objects that are closed after use, in `with` and `async with` blocks."""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Base of what is closed when its block ends."""

    @abstractmethod
    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call twice."""

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
