"""verify: every value fits its slot's schema, and what was inferred follows from what it cites.

Each argument is judged on its own: one grounded value does not vouch for the others (methods 3.3).
All inferred values share one model call; without a usable verdict none of them follows.
"""

from collections.abc import Sequence

from langmem_graph.grounding.sources import as_json
from langmem_graph.grounding.state import Filled, GroundingDependencies, GroundingState, slots_in
from langmem_graph.grounding.values import problem_with
from langmem_graph.llm.contracts import Verdicts
from langmem_graph.llm.structured import Usage, load_prompt
from langmem_graph.recall.quotes import as_data
from langmem_graph.steps import StepRun

_VALUED = ("explicit", "inferred", "default")


async def verify(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Check what was filled."""
    slots = {slot.name: slot for slot in slots_in(state)}
    filled = [Filled.model_validate(one) for one in state["filled"]]
    for one in filled:
        problem = problem_with(one.value, slots[one.slot]) if one.how in _VALUED else None
        if problem:
            one.how, one.reason = "missing", f"does not fit the schema: {problem}"
    usage = Usage.of(state.get("usage"))
    await _judge(deps, [one for one in filled if one.how == "inferred"], usage)
    return {"filled": as_json(filled), "usage": usage.as_dict()}


async def _judge(deps: GroundingDependencies, inferred: Sequence[Filled], usage: Usage) -> None:
    if not inferred:
        return
    lines = [
        f"{place}. {one.slot} = {as_data(str(one.value))}, from {as_data(one.text)}"
        for place, one in enumerate(inferred, 1)
    ]
    answer = await deps.asker.ask(Verdicts, load_prompt("verify"), "\n".join(lines), usage)
    verdicts = {one.number: one.follows for one in answer.verdicts} if answer else {}
    for place, one in enumerate(inferred, 1):
        one.follows = verdicts.get(place, False)
