"""What the recall graph hands from step to step, and what its steps work with."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from langmem_graph.llm.structured import Asker
from langmem_graph.recall.goals.state import GoalDependencies
from langmem_graph.services import Services


class RecallState(TypedDict, total=False):
    """JSON-shaped; the goal loop's own state is its own."""

    query: str
    mode: Any
    k: int | None
    max_tokens: int | None
    in_view: list[str]
    """Ids and texts of messages that the model sees anyway."""
    now: str
    started: float
    intent: str | None
    """What the rules made of the request."""
    recalled: list[dict[str, Any]]
    """Facts of the first look-up."""
    proof: dict[str, Any]
    """What the goal loop came to."""
    consequences: dict[str, Any]
    """Risks, and the facts found for them."""
    proposed: dict[str, Any]
    """When it would take place, as the model read it: start, end, recurrence."""
    collisions: list[dict[str, Any]]
    """What the schedule has at that time."""
    usage: dict[str, Any]
    trace: list[dict[str, Any]]
    warnings: list[str]
    milliseconds: dict[str, float]
    recall: dict[str, Any]
    """The outcome, a `Recall`."""


@dataclass(frozen=True)
class ReasoningDependencies:
    """What the steps work with."""

    services: Services
    asker: Asker
    goals: GoalDependencies
    fail_closed: bool = True
    """Raise when the first look-up fails; else the recall is empty and says so."""
