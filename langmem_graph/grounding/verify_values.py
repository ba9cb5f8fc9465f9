"""The step `verify`: check values against the schema, and inferred values against their sources.

Each argument is judged on its own, whatever the grounding of the others (Mem2ActBench 3.3).
All inferred values share one model call; without a usable verdict none of them follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langmem_graph.grounding.state import FilledSlot, GroundingDependencies, GroundingState
from langmem_graph.grounding.tool_schema import Slot, slots_of
from langmem_graph.grounding.type_conversion import problem_with
from langmem_graph.llm.answer_schemas import Verdicts
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.runtime import StepRun

_VALUED = ("explicit", "inferred", "default")


async def verify(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Check every filled slot."""
    slots, usage = {slot.name: slot for slot in slots_of(state["tool"])}, state["usage"].copy()
    fitting = [_fitting(filled, slots) for filled in state["filled"]]
    return {"filled": await _judged(deps, fitting, usage), "usage": usage}


def _fitting(filled: FilledSlot, slots: Mapping[str, Slot]) -> FilledSlot:
    """The filled slot, or a missing one where the value does not fit the slot's schema."""
    problem = problem_with(filled.value, slots[filled.slot]) if filled.how in _VALUED else None
    if problem is None:
        return filled
    return replace(filled, how="missing", reason=f"does not fit the schema: {problem}")


async def _judged(
    deps: GroundingDependencies, filled: Sequence[FilledSlot], usage: Usage
) -> list[FilledSlot]:
    """The filled slots with a verdict on every inferred value."""
    inferred = [slot for slot in filled if slot.how == "inferred"]
    if not inferred:
        return list(filled)
    lines = [
        f"{place}. {slot.slot} = {as_data(str(slot.value))}, from {as_data(slot.text)}"
        for place, slot in enumerate(inferred, 1)
    ]
    answer = await deps.runner.ask(Verdicts, load_prompt("verify"), "\n".join(lines), usage)
    verdicts = {one.number: one.follows for one in answer.verdicts} if answer else {}
    follows = {slot.slot: verdicts.get(place, False) for place, slot in enumerate(inferred, 1)}
    return [replace(slot, follows=follows.get(slot.slot)) for slot in filled]
