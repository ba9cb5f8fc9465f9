"""`MemorySearch`: the searches of retrieval in the memory of a run's user, for steps of graphs."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rapidfuzz import fuzz

from langmem_graph.errors import EmbeddingError
from langmem_graph.results import Fact, Relation
from langmem_graph.retrieval.example_search import nearest_to_examples
from langmem_graph.retrieval.facts import find_facts
from langmem_graph.retrieval.search_common import SearchNotes, UserSearch
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.user_room import Room
from langmem_graph.threads import in_thread

if TYPE_CHECKING:
    from langmem_graph.runtime import StepRun

Search = Callable[[str, int, Relation, "StepRun"], Awaitable[list[Fact]]]
"""Searches a memory: query, number of facts, relation, run."""


class MemorySearch:
    """Finds facts in the memory of a run's user; none where the user has no memory yet."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def search(self, query: str, k: int, relation: Relation, run: "StepRun") -> list[Fact]:
        """The best facts for a query; of what fails the run is told."""
        services, notes = self._services, SearchNotes(warnings=run.warnings)

        def find(rooms: list[Room]) -> list[Fact]:
            search = UserSearch.over(services, rooms, notes) if rooms else None
            return find_facts(search, query, k, relation) if search else []

        return await services.in_rooms(run.user, find, notes.warnings)

    async def near(self, sentences: Sequence[str], k: int, run: "StepRun") -> list[list[Fact]]:
        """For each sentence the `k` nearest facts; none where the embedder fails."""
        services, notes = self._services, SearchNotes(warnings=run.warnings)

        def find(rooms: list[Room]) -> list[list[Fact]]:
            with suppress(EmbeddingError):  # words still find
                search = UserSearch.over(services, rooms, notes) if rooms else None
                return list(nearest_to_examples(search, sentences, k).values()) if search else []
            return []

        return await services.in_rooms(run.user, find, notes.warnings) if sentences else []

    async def likeness(self, text: str, others: Sequence[str], run: "StepRun") -> float:
        """The greatest cosine of a text with the others; by spelling where the embedder fails."""
        if not others:
            return 0.0
        try:
            vectors = await in_thread(self._services.embedder.embed, [text, *others])
        except EmbeddingError:
            return spelling(text, others)
        return float((vectors[1:] @ vectors[0]).max())


def spelling(text: str, others: Sequence[str]) -> float:
    """The greatest similarity of a text with the others by spelling, whatever the word order."""
    return max((fuzz.token_sort_ratio(text, other) / 100 for other in others), default=0.0)
