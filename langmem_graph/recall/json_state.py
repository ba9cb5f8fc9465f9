"""The state of a graph as objects or as JSON.

Steps work with typed objects. Where the state leaves the library, because a checkpointer may save
it or because it is the graph's output, it is kept as JSON between the steps: a saved state can then
be read without this package's classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from pydantic import TypeAdapter

from langmem_graph.llm.structured import Usage
from langmem_graph.models import Fact, Recall
from langmem_graph.recall.collisions import ScheduleConflict
from langmem_graph.recall.goals.state import Proof, Retrieved, Subgoal
from langmem_graph.recall.state import FoundRisks, ProposedTime
from langmem_graph.steps import Step, StepRun

T = TypeVar("T")
_TYPES: dict[str, TypeAdapter[Any]] = {
    "recalled": TypeAdapter(list[Fact]),
    "proof": TypeAdapter(Proof),
    "subgoal": TypeAdapter(Subgoal),
    "found": TypeAdapter(list[Retrieved]),
    "consequences": TypeAdapter(FoundRisks),
    "proposed": TypeAdapter(ProposedTime),
    "conflicts": TypeAdapter(list[ScheduleConflict]),
    "usage": TypeAdapter(Usage),
    "recall": TypeAdapter(Recall),
}
"""Types of the state's keys; values of all other keys are JSON already."""


def from_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with objects in place of their JSON."""
    return _converted(state, lambda adapter, value: adapter.validate_python(value))


def to_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state, or an update of it, with JSON in place of objects."""
    return _converted(state, lambda adapter, value: adapter.dump_python(value, mode="json"))


def _converted(
    state: Mapping[str, Any], convert: Callable[[TypeAdapter[Any], Any], Any]
) -> dict[str, Any]:
    return {
        name: value if value is None or name not in _TYPES else convert(_TYPES[name], value)
        for name, value in state.items()
    }


def _unchanged(state: Any) -> Any:
    return state


@dataclass(frozen=True)
class StateForm:
    """How a graph keeps its state between steps: `OBJECTS` or `JSON`."""

    load: Callable[[Any], Any]
    """Makes the typed state that a step takes."""
    dump: Callable[[Any], Any]
    """Makes what the graph keeps of a step's update."""

    def step(self, step: Step) -> Step:
        """The step, over state in this form."""

        @wraps(step)
        async def converted(deps: Any, state: Any, run: StepRun) -> Any:
            return self.dump(await step(deps, self.load(state), run))

        return converted

    def route(self, choose: Callable[[Any], T]) -> Callable[[Any], T]:
        """The function of a conditional edge, over state in this form."""

        @wraps(choose)
        def converted(state: Any) -> T:
            return choose(self.load(state))

        return converted


OBJECTS = StateForm(_unchanged, _unchanged)
JSON = StateForm(from_json, to_json)
