"""The step `verify`: values must fit the schema, and inferred values must follow from sources.

Each argument is judged on its own: one grounded value does not vouch for the others (methods 3.3).
All inferred values share one model call; without a usable verdict none of them follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langmem_graph.grounding.state import (
    FilledSlot,
    GroundingDependencies,
    GroundingState,
    slots_in,
    usage_in,
)
from langmem_graph.grounding.tool_schema import Slot
from langmem_graph.grounding.type_conversion import problem_with
from langmem_graph.llm.answer_schemas import Verdicts
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.retrieval.formatting import as_data
from langmem_graph.runtime import StepRun

_VALUED = ("explicit", "inferred", "default")


async def verify(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Check every filled slot."""
    slots, usage = {slot.name: slot for slot in slots_in(state)}, usage_in(state)
    fitting = [_fitting(one, slots) for one in state["filled"]]
    return {"filled": await _judged(deps, fitting, usage), "usage": usage}


def _fitting(filled: FilledSlot, slots: Mapping[str, Slot]) -> FilledSlot:
    """The same, or missing where the value does not fit the slot's schema."""
    problem = problem_with(filled.value, slots[filled.slot]) if filled.how in _VALUED else None
    if problem is None:
        return filled
    return replace(filled, how="missing", reason=f"does not fit the schema: {problem}")


async def _judged(
    deps: GroundingDependencies, filled: Sequence[FilledSlot], usage: Usage
) -> list[FilledSlot]:
    """The same with a verdict on every inferred value."""
    inferred = [one for one in filled if one.how == "inferred"]
    if not inferred:
        return list(filled)
    lines = [
        f"{place}. {one.slot} = {as_data(str(one.value))}, from {as_data(one.text)}"
        for place, one in enumerate(inferred, 1)
    ]
    answer = await deps.runner.ask(Verdicts, load_prompt("verify"), "\n".join(lines), usage)
    verdicts = {one.number: one.follows for one in answer.verdicts} if answer else {}
    follows = {one.slot: verdicts.get(place, False) for place, one in enumerate(inferred, 1)}
    return [replace(one, follows=follows.get(one.slot)) for one in filled]
