"""The step `retrieve_slots`: searches for each slot and collects candidate values.

One query for the whole request finds what is most talked about; a query for each parameter finds
what that parameter needs (methods 3.5), and so does the attribute that a record is about.
"""

import asyncio
import logging
from collections.abc import Sequence

from langmem_graph.errors import for_log
from langmem_graph.grounding.by_attribute import by_attribute
from langmem_graph.grounding.slots import Slot
from langmem_graph.grounding.sources import candidates_in, read_sources
from langmem_graph.grounding.state import GroundingDependencies, GroundingState, slots_in
from langmem_graph.grounding.tool_spec import ToolSpec
from langmem_graph.models import Fact
from langmem_graph.steps import Event, StepRun

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
