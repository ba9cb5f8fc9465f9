"""What the write graph hands from step to step: JSON-shaped, and one batch at a time."""

from dataclasses import dataclass
from typing import Any, TypedDict

from langmem_graph.link.causal import CausalScorer
from langmem_graph.llm.structured import Asker
from langmem_graph.services import Services


class WriteState(TypedDict, total=False):
    """The state of the write graph."""

    user_id: str
    force: bool
    """Read what there is, without waiting for a full batch."""
    batch: dict[str, Any] | None
    """Numbers of the messages, session, turns, and whether the session has ended."""
    candidates: list[dict[str, Any]]
    """What the model proposes to remember, each with the numbers of its source messages."""
    decisions: list[dict[str, Any]]
    """What becomes of each candidate: `action`, `targets`, `reason`."""
    changed: list[int]
    """Records that are new or have changed."""
    usage: dict[str, Any]
    done: dict[str, Any]
    """What this batch came to, for the report."""
    generation: str
    """Of the ledger when the batch was taken; a forgetting in between ends the work."""
    failed: str | None
    """The step that could not go on; the batch stays due."""


@dataclass(frozen=True)
class ExtractionDependencies:
    """What the steps work with."""

    services: Services
    asker: Asker
    by: str
    """Who claims messages: this memory, in this process."""
    causal: CausalScorer | None = None
    """Scores possible causes; None does not look for any."""
