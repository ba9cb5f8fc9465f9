"""State of the recall graph, and the dependencies of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from langmem_graph.llm.structured import Asker, Usage
from langmem_graph.models import Fact, Recall, RecallMode, Risk
from langmem_graph.recall.collisions import ScheduleConflict
from langmem_graph.recall.goals.state import GoalDependencies, Intent, Proof
from langmem_graph.services import Services
from langmem_graph.steps import Event


@dataclass(frozen=True)
class FoundRisks:
    """Outcome of the counterfactual step."""

    risks: list[Risk] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    """Facts found for the risks, beyond those of the first look-up."""


@dataclass(frozen=True)
class ProposedTime:
    """When the request would take place, as the model read it; all three are texts."""

    start: str = ""
    end: str = ""
    recurrence: str = ""


class ReasoningState(TypedDict, total=False):
    """State between the steps. The first step sets every key but `recall`."""

    query: str
    mode: RecallMode
    k: int | None
    max_tokens: int | None
    in_view: Sequence[str]
    """Ids and texts of messages that the model sees anyway."""
    now: str
    """ISO time of the request, on the user's clock."""
    started: float
    """When the recall began, in seconds since 1970."""
    intent: Intent | None
    """Intent of the request by rules; None where they do not decide."""
    recalled: list[Fact]
    """Facts of the first look-up."""
    proof: Proof
    """Outcome of the goal loop."""
    consequences: FoundRisks
    proposed: ProposedTime
    conflicts: list[ScheduleConflict]
    """Scheduled items at the time of the request."""
    usage: Usage
    trace: list[Event]
    warnings: list[str]
    milliseconds: dict[str, float]
    """Duration of each step."""
    recall: Recall
    """Outcome of the graph."""


@dataclass(frozen=True)
class ReasoningDependencies:
    """Dependencies of the steps.

    Attributes:
        fail_closed: raise when the first look-up fails; else the recall is empty and says so.
    """

    services: Services
    asker: Asker
    goals: GoalDependencies
    fail_closed: bool = True
