"""Search in a user's memory, for the goal loop and for grounding."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from rapidfuzz import fuzz

from langmem_graph.errors import EmbeddingError
from langmem_graph.llm.contracts import Relation
from langmem_graph.models import Fact
from langmem_graph.recall.facts import find_facts
from langmem_graph.services import Services
from langmem_graph.steps import StepRun

Search = Callable[[str, int, Relation, StepRun], Awaitable[list[Fact]]]
"""Searches a memory: query, number of facts, relation, run."""


class MemorySearch:
    """Searches the memory of the run's user."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def search(self, query: str, k: int, relation: Relation, run: StepRun) -> list[Fact]:
        """The best facts; none where the user has no memory yet."""
        services = self._services
        return await services.in_known_room(
            run.user,
            lambda room: find_facts(room, services.embedder, services.settings, query, k, relation),
            [],
        )

    async def likeness(self, text: str, others: Sequence[str], run: StepRun) -> float:
        """The greatest cosine; by spelling where the embedder fails."""
        if not others:
            return 0.0
        try:
            vectors = await asyncio.to_thread(self._services.embedder.embed, [text, *others])
        except EmbeddingError:
            return spelling(text, others)
        return float((vectors[1:] @ vectors[0]).max())


def spelling(text: str, others: Sequence[str]) -> float:
    """Greatest similarity by spelling, whatever the order of the words."""
    return max((fuzz.token_sort_ratio(text, one) / 100 for one in others), default=0.0)
