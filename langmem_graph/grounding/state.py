"""The state of the grounding graph, and the dependencies of its steps."""

from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from langmem_graph.grounding.evidence_sources import Evidence
from langmem_graph.grounding.tool_schema import ToolSpec
from langmem_graph.llm.structured_calls import ModelRunner, Usage
from langmem_graph.retrieval.facts import Search
from langmem_graph.runtime import StateForm
from langmem_graph.schemas import GroundedCall
from langmem_graph.storage.memory_services import Services

Policy = Literal["flag", "drop", "ask"]
"""What happens to an inferred value that does not certainly follow: it is kept with a warning, left
out, or reported as missing."""
How = Literal["explicit", "inferred", "default", "conflict", "missing"]
"""How a slot was filled, or why it was not."""


@dataclass(frozen=True)
class FilledSlot:
    """The value proposed for one slot, as the checks left it."""

    slot: str
    how: How
    value: Any = None
    text: str = ""
    """The words that the value was copied from or follows from."""
    sources: tuple[str, ...] = ()
    """Aliases of the cited sources."""
    follows: bool | None = None
    """The verdict on an inferred value."""
    reason: str = ""
    """Why the value was refused."""


class GroundingState(TypedDict, total=False):
    """State between the steps."""

    query: str
    """The request."""
    policy: Policy
    now: str
    specs: list[ToolSpec]
    """Specifications of the tools to choose from."""
    tool: ToolSpec
    """The chosen tool."""
    evidence: Evidence
    filled: list[FilledSlot]
    call: GroundedCall
    """The result."""
    usage: Usage
    warnings: list[str]


@dataclass(frozen=True)
class GroundingDependencies:
    """Dependencies of the steps."""

    services: Services
    runner: ModelRunner
    search: Search


JSON = StateForm.json(
    specs=list[ToolSpec],
    tool=ToolSpec,
    evidence=Evidence,
    filled=list[FilledSlot],
    call=GroundedCall,
    usage=Usage,
)
"""The state as JSON, for a graph that a checkpointer may save."""
