"""The private state of the extraction graph for one batch, and what its steps work with.

All types here are frozen: a step returns new copies. The graph has no checkpoints; what leaves it,
leaves it as JSON (`model_dump(mode="json")`, `Usage.as_dict()`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, Field

from langmem_graph.causal.scorers import CausalScorer
from langmem_graph.llm.structured_calls import ModelRunner, Usage
from langmem_graph.reports import ExtractionCounts
from langmem_graph.schemas import Confirmation, Facet, Kind
from langmem_graph.storage.memory_services import Services
from langmem_graph.values.verbatim import Value

Action = Literal["store", "known", "skip", "update", "merge"]
"""`known` adds the candidate's sources to an older record. `skip` is the model's proposal to do so,
which `settle` turns into `known` or `store`."""


class Batch(BaseModel, frozen=True, extra="forbid"):
    """Pending messages of one session that are extracted together."""

    items: tuple[int, ...]
    """Numbers of the messages, in order; never empty."""
    session: int
    turns: int
    """Completed turns in it: messages of the user with the assistant's answer."""
    ends_session: bool
    """The session has ended, and this is its last batch."""


class Candidate(BaseModel, frozen=True, extra="forbid"):
    """A statement that the model proposes to remember, on its way to becoming a record."""

    text: str
    """One standalone sentence."""
    kind: Kind
    facet: Facet
    project: str
    """Empty where it belongs to none; so may be `subject` and `attribute`."""
    subject: str
    attribute: str
    """What of the subject it states; `settle` may replace it by an older record's name for it."""
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
    """The texts of these messages, one after another; set by `verify`, as is what follows."""
    speakers: list[str] = Field(default_factory=list)
    """Names of the users who wrote them."""
    values: list[Value] = Field(default_factory=list)
    """Numbers, dates, codes and the like of `text` that occur in these messages word for word."""


class Decision(BaseModel, frozen=True, extra="forbid"):
    """What becomes of one candidate: proposed by the model in `reconcile`, checked by `settle`."""

    action: Action
    targets: list[int] = Field(default_factory=list)
    """Numbers of the older records concerned."""
    attribute: str = ""
    """The attribute's name among older records; empty leaves the candidate's."""
    text: str = ""
    """The joined sentence that the model proposes with `merge`."""
    likeness: dict[int, float] = Field(default_factory=dict)
    """The cosine of the candidate and each target."""
    reason: str | None = None
    """Why it was decided this way, for the records' history."""
    refines: list[int] = Field(default_factory=list)
    """Older records that still hold and that the new record makes more precise."""
    replaces: list[int] = Field(default_factory=list)
    """Places of candidates of the same batch whose records this one supersedes."""


class Counts(ExtractionCounts):
    """The counts of one batch, or of several together."""

    def __add__(self, other: "Counts") -> "Counts":
        """The sums of both, and the reasons of both."""
        both = {
            name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields
        }
        return Counts(**both)

    def plus(self, *reasons: str, **more: int) -> "Counts":
        """A copy with these reasons and, by name, these counts added."""
        sums = {name: getattr(self, name) + count for name, count in more.items()}
        return self.model_copy(update={**sums, "reasons": [*self.reasons, *reasons]})


class ExtractionState(TypedDict, total=False):
    """The state of the extraction graph."""

    force: bool
    """Extract all pending messages, without waiting for a full batch."""
    claimed_by: str
    """The name under which this run claims messages; no other run has it."""
    batch: Batch | None
    """None where nothing is due."""
    candidates: list[Candidate]
    decisions: list[Decision]
    """One for each candidate."""
    scene: str
    """What the conversation is about, as background of the next batch."""
    changed: list[int]
    """Records that are new or have changed."""
    usage: Usage
    counts: Counts
    generation: str
    """The ledger's generation when the batch was claimed. Forgetting changes it, and then the run
    stores nothing."""
    failed: str | None
    """The step that got no usable answer; the batch stays pending."""


@dataclass(frozen=True)
class ExtractionDependencies:
    """What the steps of the graph work with."""

    services: Services
    runner: ModelRunner
    causal: CausalScorer | None = None
    """Scores possible causes; with None, causal edges are not looked for."""


def usage_of(state: ExtractionState) -> Usage:
    """A copy of the run's model usage so far, to be added to and returned."""
    return state.get("usage", Usage()).copy()


def counts_of(state: ExtractionState) -> Counts:
    """The run's counts so far."""
    return state.get("counts", Counts())
