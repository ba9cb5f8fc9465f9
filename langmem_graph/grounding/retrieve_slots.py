"""The step `retrieve_slots`: find sources and candidate values for every slot (Mem2ActBench 3.3).

The request and every slot are searched for. Records are also retrieved by attribute: the text of a
record may share neither a word nor a meaning with a parameter's name, while its attribute resembles
it ("shop", "bike shop"). Rare words among the user's attributes count more.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence

from langmem_graph.grounding.evidence_sources import Evidence, candidates_in, read_sources
from langmem_graph.grounding.state import GroundingDependencies, GroundingState
from langmem_graph.grounding.tool_schema import Slot, ToolSpec, in_words, slots_of
from langmem_graph.retrieval.facts import facts_by_number, interleaved
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Fact
from langmem_graph.storage import record_queries
from langmem_graph.storage.user_room import Room
from langmem_graph.values.attributes import content

FOR_REQUEST = 20
"""Facts retrieved for the request; ours."""
PER_SLOT = 5
"""Facts retrieved for one slot (Mem2ActBench)."""
BY_ATTRIBUTE = 3
"""Records retrieved for one slot by attribute; ours."""
MOST_SLOTS = 24
"""Slots that are searched for; the first ones of a larger tool."""
MOST_FACTS = 40
"""Facts in one prompt; ours."""
AROUND = 0.5
"""Weight of a word of the request or tool relative to one of the parameter; ours."""


async def retrieve_slots(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Find sources and candidate values for all slots."""
    tool, slots, query = state["tool"], slots_of(state["tool"]), state["query"]
    warnings = list(state["warnings"])
    try:
        facts = interleaved(await _searched(deps, run, tool, slots[:MOST_SLOTS], query))
        sources = await read_sources(deps.services, run, query, facts, MOST_FACTS)
    except Exception as error:  # noqa: BLE001  # the slots are then filled from the request alone
        failed = "memory could not be searched"
        warnings.append(f"{failed}: {run.problem(failed, error)}")
        sources = await read_sources(deps.services, run, query, [], MOST_FACTS)
    facts_shown = [source.fact for source in sources if source.fact]
    run.emit({"event": "memory_slots", "slots": len(slots), "facts": facts_shown})
    return {"evidence": Evidence(sources, candidates_in(sources, slots)), "warnings": warnings}


async def _searched(
    deps: GroundingDependencies, run: StepRun, tool: ToolSpec, slots: Sequence[Slot], request: str
) -> list[list[Fact]]:
    """The facts found by each search: for the request, for each slot, and by attribute."""
    resembling: list[list[Fact]] = await deps.services.in_known_room(
        run.user, lambda room: by_attribute(room, slots, tool, request, BY_ATTRIBUTE), []
    )
    searches = [(request, FOR_REQUEST), *((slot.query(), PER_SLOT) for slot in slots)]
    found = await asyncio.gather(*(deps.search(query, k, "semantic", run) for query, k in searches))
    return [*found, *resembling]


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
        words = content(f"{' '.join(map(in_words, slot.path))} {slot.description}")
        scores = {
            n: _total(name & words, weight)
            + AROUND * _total((name | subject) & (about - words), weight)
            for n, name, subject in attributes
        }
        best = sorted((n for n in scores if scores[n]), key=lambda n: (-scores[n], -n))
        found.append(facts_by_number(room, best[:k]))
    return found


def _total(words: frozenset[str], weight: dict[str, float]) -> float:
    return sum(weight[word] for word in words)
