"""The state of the grounding graph, and the dependencies of its steps."""

from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from langmem_graph.grounding.evidence_sources import Evidence
from langmem_graph.grounding.tool_schema import slot_name
from langmem_graph.llm.answer_schemas import ToolFill
from langmem_graph.llm.structured_calls import ModelRunner, RunUsage
from langmem_graph.llm.tool_specs import ToolSpec
from langmem_graph.results import GroundedCall
from langmem_graph.retrieval.example_search import Search
from langmem_graph.runtime import StateForm
from langmem_graph.schemas import Origin
from langmem_graph.storage.memory_services import Services

Policy = Literal["flag", "drop", "ask"]
"""What is told of a value that is not sent, and whether the model's own choices are."""
ReadMode = Literal["send", "ask", "omit"]
"""What becomes of a value that the model has read: it is sent, offered or left out."""
Kind = Literal["copied", "read"]
"""Whether a value stands in its quotes, or is the model's reading of them."""
How = Literal["copied", "read", "chosen", "default", "offered", "conflict", "refused"]
"""How a value was found, or why it is not sent."""
SENT: tuple[How, ...] = ("copied", "read", "chosen", "default")


@dataclass(frozen=True)
class FilledValue:
    """A single value that the model proposed, as the check left it."""

    path: tuple[str, ...]
    how: How
    value: Any = None
    kind: Kind = "copied"  # of an offered value, too
    text: str = ""  # the words that it was taken from
    sources: tuple[str, ...] = ()  # aliases of the cited sources
    reason: str = ""  # why it is not sent
    origin: Origin = "user"  # whose words an offered value stands in

    @property
    def name(self) -> str:
        """The path as one name."""
        return slot_name(self.path)


class GroundingState(TypedDict, total=False):
    """State between the steps."""

    query: str  # the request
    policy: Policy
    trust: tuple[Origin, ...]  # origins of messages from which values are taken unasked
    model_may_choose: tuple[str, ...]  # slots whose value may be the model's own choice
    read: dict[str, ReadMode]  # by tool or slot; the empty name is for all others
    now: str
    specs: list[ToolSpec]  # specifications of the tools to choose from
    tool: ToolSpec  # the chosen tool
    evidence: Evidence
    proposal: ToolFill | None  # the model's answer; None where it could not be used
    filled: list[FilledValue]
    asked_again: tuple[str, ...]  # slots of the second look; it is made once at most
    shown: tuple[str, ...]  # aliases of the facts that the second look found
    next_step: str  # which step follows
    call: GroundedCall  # the result
    usage: RunUsage
    warnings: list[str]


@dataclass(frozen=True)
class Dependencies:
    """Dependencies of the steps."""

    services: Services
    runner: ModelRunner
    search: Search


JSON = StateForm.json(
    specs=list[ToolSpec],
    tool=ToolSpec,
    evidence=Evidence,
    proposal=ToolFill | None,
    filled=list[FilledValue],
    call=GroundedCall,
    usage=RunUsage,
)
"""The state as JSON, for a graph that a checkpointer may save."""
