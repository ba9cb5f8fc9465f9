"""Retrieval by attribute: records whose attribute resembles a parameter ("shop", "bike shop").

A record's text may share neither a word nor a meaning with the parameter's name; its subject and
attribute were named when it was written. Rare words among the user's attributes count more.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Sequence

from langmem_graph.errors import for_log
from langmem_graph.grounding.sources import candidates_in, read_sources
from langmem_graph.grounding.state import GroundingDependencies, GroundingState, slots_in
from langmem_graph.grounding.tool_schema import Slot, ToolSpec, in_words
from langmem_graph.retrieval.facts import facts_by_number
from langmem_graph.runtime import Event, StepRun
from langmem_graph.schemas import Fact
from langmem_graph.storage import record_queries
from langmem_graph.storage.room import Room
from langmem_graph.values.attributes import content

AROUND = 0.5
"""Weight of a word of the request or tool relative to one of the parameter; ours."""

_log = logging.getLogger(__name__)
FOR_REQUEST = 20
"""Facts retrieved for the request; ours."""
PER_SLOT = 5
"""Facts retrieved for one slot (Mem2ActBench)."""
BY_ATTRIBUTE = 3
"""Records whose attribute resembles one slot; ours."""
MOST_SLOTS = 24
"""Slots that are searched for; the first ones of a larger tool."""
MOST_FACTS = 40
"""Facts shown in one call; ours."""


def by_attribute(
    room: Room, slots: Sequence[Slot], tool: ToolSpec, request: str, k: int
) -> list[list[Fact]]:
    """For each slot, the `k` current records whose subject and attribute resemble it most."""
    with room.database.read_transaction() as connection:
        named = record_queries.with_attributes(connection)
    attributes = [(n, content(in_words(name)), content(subject)) for n, subject, name in named]
    seen = Counter(word for _, name, subject in attributes for word in name | subject)
    weight = {word: math.log(1 + len(attributes) / count) for word, count in seen.items()}
    about = content(f"{in_words(tool.name)} {tool.description} {request}")
    found = []
    for slot in slots:
        own = content(f"{' '.join(map(in_words, slot.path))} {slot.description}")
        scores = {
            n: _total(name & own, weight)
            + AROUND * _total((name | subject) & (about - own), weight)
            for n, name, subject in attributes
        }
        best = sorted((n for n in scores if scores[n]), key=lambda n: (-scores[n], -n))
        found.append(facts_by_number(room, best[:k]))
    return found


def _total(words: frozenset[str], weight: dict[str, float]) -> float:
    return sum(weight[word] for word in words)


async def retrieve_slots(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Find sources and candidate values for all slots."""
    tool, slots, request = state["tool"], slots_in(state), state["request"]
    warnings = list(state["warnings"])
    try:
        facts = _interleaved(await _searched(deps, run, tool, slots[:MOST_SLOTS], request))
        sources = await read_sources(deps.services, run, request, facts, MOST_FACTS)
    except Exception as error:  # noqa: BLE001  # without memory the request alone fills slots
        warnings.append(f"memory could not be searched: {type(error).__name__}: {error}")
        _log.warning("memory could not be searched: %s", for_log(error))
        sources = await read_sources(deps.services, run, request, [], MOST_FACTS)
    shown = [source.fact for source in sources if source.fact]
    event: Event = {"event": "memory_slots", "slots": len(slots), "facts": shown}
    run.emit(event)
    return {
        "sources": sources,
        "candidates": candidates_in(sources, slots),
        "warnings": warnings,
        "trace": [event],
    }


async def _searched(
    deps: GroundingDependencies, run: StepRun, tool: ToolSpec, slots: Sequence[Slot], request: str
) -> list[list[Fact]]:
    named: list[list[Fact]] = await deps.services.in_known_room(
        run.user, lambda room: by_attribute(room, slots, tool, request, BY_ATTRIBUTE), []
    )
    searches = [(request, FOR_REQUEST), *((slot.query(), PER_SLOT) for slot in slots)]
    found = await asyncio.gather(*(deps.search(query, k, "semantic", run) for query, k in searches))
    return [*found, *named]


def _interleaved(found: Sequence[Sequence[Fact]]) -> list[Fact]:
    """The best facts of all queries, then the second best, each fact once."""
    longest = max(map(len, found), default=0)
    ranks = (own[rank] for rank in range(longest) for own in found if rank < len(own))
    return list({fact.id: fact for fact in ranks}.values())
