"""What the grounding graph hands from step to step, and what its steps work with."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langmem_graph.grounding.slots import Slot, slots_of
from langmem_graph.grounding.sources import Candidate, Evidence, Source
from langmem_graph.grounding.tool_spec import ToolSpec
from langmem_graph.llm.structured import Asker
from langmem_graph.recall.goals.state import Search
from langmem_graph.services import Services


def _collected(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *new]


class Filled(BaseModel):
    """What is proposed for one slot, and what the checks made of it."""

    slot: str
    how: str
    """`explicit`, `inferred`, `default`, `conflict` or `missing`."""
    value: Any = None
    text: str = ""
    """The words it was copied from, or that it follows from."""
    sources: list[str] = Field(default_factory=list)
    follows: bool | None = None
    """An inferred value's verdict."""
    reason: str = ""
    """Why it was not taken."""


class GroundingState(TypedDict, total=False):
    """JSON-shaped."""

    request: str
    policy: str
    """What becomes of an inferred value that does not surely follow: `flag`, `drop` or `ask`."""
    tools: list[dict[str, Any]]
    """Tools to choose from, as `name`, `description` and `schema`."""
    tool: dict[str, Any]
    """The chosen one."""
    sources: list[dict[str, Any]]
    candidates: list[dict[str, Any]]
    filled: list[dict[str, Any]]
    call: dict[str, Any]
    """The outcome, a `GroundedCall`."""
    usage: dict[str, Any]
    warnings: list[str]
    trace: Annotated[list[dict[str, Any]], _collected]
    now: str


@dataclass(frozen=True)
class GroundingDependencies:
    """What the steps work with."""

    services: Services
    asker: Asker
    search: Search


def spec_in(state: GroundingState) -> ToolSpec:
    """The chosen tool."""
    return ToolSpec(**state["tool"])


def slots_in(state: GroundingState) -> list[Slot]:
    """Its slots."""
    return slots_of(spec_in(state))


def evidence_in(state: GroundingState) -> Evidence:
    """What was found for them."""
    return Evidence(
        [Source.model_validate(one) for one in state.get("sources") or []],
        [Candidate.model_validate(one) for one in state.get("candidates") or []],
    )
