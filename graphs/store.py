"""LangGraph's long-term store for served graphs: name it as `store.path` in
langgraph.json.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langmem_graph import ChromaStore


@asynccontextmanager
async def store() -> AsyncIterator[ChromaStore]:
    """The store that the environment names, open for as long as the server runs."""
    async with await asyncio.to_thread(ChromaStore.from_environment) as opened:
        yield opened
