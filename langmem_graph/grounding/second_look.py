"""The step `look_again`: a second search for the arguments that are missing.

The words that say a value often lack the words of its slot. So the model, which knows
the names by now, gives sentences in which the user may have said it. They are searched
for once, and a call for these arguments alone is shown what was not shown before.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from langmem_graph.grounding.evidence_sources import Evidence, Source, read_sources
from langmem_graph.grounding.select_tool_and_sources import PER_SLOT, followed
from langmem_graph.grounding.state import Dependencies, GroundingState
from langmem_graph.grounding.verify_values import wanted_gaps
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import interleaved
from langmem_graph.runtime import StepRun

MOST_SENTENCES = 12  # of all missing arguments; ours
MOST_SHOWN = 30  # facts that the second call is shown; ours


async def look_again(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Search for the sentences; without anything new the call is decided as it is."""
    proposal = state["proposal"]
    gaps = wanted_gaps(proposal, state["filled"]) if proposal else []
    sentences = [sentence for gap in gaps for sentence in gap.said][:MOST_SENTENCES]
    warnings = list(state["warnings"])
    new = list[Source]()
    try:
        facts = await _searched(deps, run, sentences)
        found = await read_sources(deps.services, run, facts, state["trust"])
        new = _not_shown(found, state["evidence"])
    except Exception as error:  # noqa: BLE001  # the call is then decided without them
        warnings.append(run.warning("memory could not be searched again", error))
    run.emit(
        {"event": "memory_slots", "slots": len(gaps), "facts": [s.fact for s in new]}
    )
    return {
        "asked_again": tuple(gap.path for gap in gaps),
        "shown": tuple(source.alias for source in new),
        "evidence": Evidence([*state["evidence"].sources, *new]),
        "warnings": warnings,
        "next_step": "fill" if new else "decide",
    }


async def _searched(
    deps: Dependencies, run: StepRun, sentences: Sequence[str]
) -> list[Fact]:
    searches = (deps.search(text, PER_SLOT, "semantic", run) for text in sentences)
    found = await asyncio.gather(*searches)
    best = {facts[0].id: facts[0] for facts in found if facts}
    return interleaved([*found, *await followed(deps, run, best)])


def _not_shown(found: Sequence[Source], evidence: Evidence) -> list[Source]:
    """Those that were not shown before, under aliases of their own."""
    known = {source.text for source in evidence.sources}
    new = [source for source in found if source.text not in known][:MOST_SHOWN]
    first = len(evidence.sources)
    return [replace(source, alias=f"f{n}") for n, source in enumerate(new, first)]
