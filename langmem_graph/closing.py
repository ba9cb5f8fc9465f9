"""`Closing`: what `Memory` and `ChromaStore` have in common."""

from abc import ABC, abstractmethod
from typing import Self

from langmem_graph.errors import NotCopied
from langmem_graph.threads import in_thread


class Closing(NotCopied, ABC):
    """Base of `Memory` and `ChromaStore`: closed at the end of a `with` or `async with`
    block.
    """

    @abstractmethod
    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call
        twice.
        """

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
