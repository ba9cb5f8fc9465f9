"""retrieve_slots: look for each slot on its own, then see which values the finds hold.

One query for the whole request finds what is most talked about; a query for each parameter finds
what that parameter needs (methods 3.5), and so does the name of what a record says.
"""

import asyncio
import logging
from collections.abc import Sequence

from langmem_graph.errors import for_log
from langmem_graph.grounding.by_attribute import by_attribute
from langmem_graph.grounding.slots import Slot
from langmem_graph.grounding.sources import as_json, candidates_in, read_sources
from langmem_graph.grounding.state import GroundingDependencies, GroundingState, slots_in, spec_in
from langmem_graph.grounding.tool_spec import ToolSpec
from langmem_graph.models import Fact
from langmem_graph.steps import StepRun

_log = logging.getLogger(__name__)
FOR_REQUEST = 20
"""Facts looked up for the request; ours."""
PER_SLOT = 5
"""Facts looked up for one slot (Mem2ActBench)."""
BY_ATTRIBUTE = 3
"""Records that are called like one slot; ours."""
MOST_SLOTS = 24
"""Slots that are looked for; of a larger tool the first."""
MOST_FACTS = 40
"""Facts shown in one call; ours."""


async def retrieve_slots(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Sources and candidate values for all slots together."""
    spec, slots, request = spec_in(state), slots_in(state), state["request"]
    warnings = list(state.get("warnings") or [])
    try:
        facts = _in_turn(await _searched(deps, run, spec, slots[:MOST_SLOTS], request))
        sources = await read_sources(deps.services, run, request, facts, MOST_FACTS)
    except Exception as error:  # noqa: BLE001  # without memory the request alone fills slots
        warnings.append(f"memory could not be searched: {type(error).__name__}: {error}")
        _log.warning("memory could not be searched: %s", for_log(error))
        sources = await read_sources(deps.services, run, request, [], MOST_FACTS)
    shown = [source.fact for source in sources if source.fact]
    event = {"event": "memory_slots", "slots": len(slots), "facts": shown}
    run.emit(event)
    return {
        "sources": as_json(sources),
        "candidates": as_json(candidates_in(sources, slots)),
        "warnings": warnings,
        "trace": [event],
    }


async def _searched(
    deps: GroundingDependencies, run: StepRun, spec: ToolSpec, slots: Sequence[Slot], request: str
) -> list[list[Fact]]:
    named: list[list[Fact]] = await deps.services.in_known_room(
        run.user, lambda room: by_attribute(room, slots, spec, request, BY_ATTRIBUTE), []
    )
    searches = [(request, FOR_REQUEST), *((slot.query(), PER_SLOT) for slot in slots)]
    found = await asyncio.gather(*(deps.search(query, k, "semantic", run) for query, k in searches))
    return [*found, *named]


def _in_turn(found: Sequence[Sequence[Fact]]) -> list[Fact]:
    """The best of every query, then the second best, each fact once."""
    longest = max(map(len, found), default=0)
    ranks = (own[rank] for rank in range(longest) for own in found if rank < len(own))
    return list({fact.id: fact for fact in ranks}.values())
