"""What the extraction graph hands from step to step, one batch of messages at a time.

All types here are frozen: a step returns new copies. They are private to the graph, which has no
checkpoints, and each of them dumps to JSON (`model_dump(mode="json")`, `Usage.as_dict()`), which
is how anything of them leaves the graph.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from langmem_graph.causal.scorers import CausalScorer
from langmem_graph.llm.structured_calls import ModelRunner, Usage
from langmem_graph.schemas import Confirmation, Facet, Kind
from langmem_graph.storage.services import Services
from langmem_graph.values.verbatim import Value

Action = Literal["store", "known", "skip", "update", "merge"]
"""`known` adds sources to an older record. `skip` is the model's proposal of it, which `evolve`
settles as `known` or `store`."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Batch(_Frozen):
    """Messages of one session that are read together."""

    items: tuple[int, ...]
    """Numbers of the messages, in order; never empty."""
    session: int
    turns: int
    """Completed turns in it: something the user said with the assistant's answer."""
    ends_session: bool


class Candidate(_Frozen):
    """What the model proposes to remember, on its way to becoming a record."""

    text: str
    """One standalone sentence."""
    kind: Kind
    facet: Facet
    project: str
    """Empty where it belongs to none; so are `subject` and `attribute`."""
    subject: str
    attribute: str
    """What of the subject it says; `evolve` may give it an older record's name for the same."""
    entities: list[str]
    event_time: dict[str, Any] | None
    """When it takes place, as JSON; None where the model gave no usable day or time."""
    confirmation: Confirmation
    source_ns: list[int]
    """Numbers of the messages that it cites; never empty."""
    source_ids: list[str]
    """Ids of the same messages, sorted."""
    said_at: datetime
    """When the last of these messages was sent."""
    said: str = ""
    """The texts of these messages, one after another; set by `ground_values`, as what follows."""
    speakers: list[str] = Field(default_factory=list)
    """Names of the users who wrote them."""
    values: list[Value] = Field(default_factory=list)
    """Numbers, dates, names and the like that stand in these messages, letter for letter."""


class Decision(_Frozen):
    """What becomes of one candidate: proposed by `reconcile`, settled by `evolve`."""

    action: Action
    targets: list[int] = Field(default_factory=list)
    """Numbers of the older records concerned."""
    attribute: str = ""
    """The attribute's name among older records; empty leaves the candidate's."""
    text: str = ""
    """With `merge` the joined sentence that the model proposes."""
    likeness: dict[int, float] = Field(default_factory=dict)
    """Cosine of the candidate and each target."""
    reason: str | None = None
    """Why it was settled this way, for the records' history."""
    refines: list[int] = Field(default_factory=list)
    """Older records that stay true and that the new record makes more precise."""
    replaces: list[int] = Field(default_factory=list)
    """Places of candidates of the same batch whose records this one supersedes."""


class Counts(_Frozen):
    """What the work came to, of one batch or of several together."""

    read: int = 0
    """Messages."""
    stored: int = 0
    known: int = 0
    """Candidates that an older record says already."""
    updated: int = 0
    """Candidates that took the place of an older record."""
    merged: int = 0
    refused: int = 0
    """Candidates that cannot be stored as records."""
    given_up: int = 0
    """Messages whose reading never gave a usable answer."""
    causes: int = 0
    """Causal edges."""
    topics: int = 0
    """Topic tracks that changed."""
    reasons: list[str] = Field(default_factory=list)
    """Why something was not done as the model proposed."""

    def __add__(self, other: "Counts") -> "Counts":
        """Both together."""
        both = {
            name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields
        }
        return Counts(**both)

    def plus(self, *reasons: str, **more: int) -> "Counts":
        """A copy with these counts added, by name, and these reasons."""
        sums = {name: getattr(self, name) + count for name, count in more.items()}
        return self.model_copy(update={**sums, "reasons": [*self.reasons, *reasons]})


class ExtractionState(TypedDict, total=False):
    """The state of the extraction graph."""

    force: bool
    """Read what there is, without waiting for a full batch."""
    claimed_by: str
    """The name under which this run claims messages; no other run has it."""
    batch: Batch | None
    """None where nothing is due."""
    candidates: list[Candidate]
    decisions: list[Decision]
    """One for each candidate."""
    scene: str
    """What the conversation is about, for the next batch."""
    changed: list[int]
    """Records that are new or have changed."""
    usage: Usage
    counts: Counts
    generation: str
    """Of the ledger when the batch was taken; a forgetting in between ends the work."""
    failed: str | None
    """The step that could not go on; the batch stays due."""


@dataclass(frozen=True)
class ExtractionDependencies:
    """What the steps work with."""

    services: Services
    runner: ModelRunner
    causal: CausalScorer | None = None
    """Scores possible causes; None does not look for any."""


def usage_of(state: ExtractionState) -> Usage:
    """A copy of what was spent so far, to be added to and returned."""
    return state.get("usage", Usage()).copy()


def counts_of(state: ExtractionState) -> Counts:
    """What the work came to so far."""
    return state.get("counts", Counts())
