"""The private state of the extraction graph, and what its steps work with.

All types here are frozen: a step returns new copies. What leaves the graph, leaves it
as JSON.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from pydantic import BaseModel, Field

from langmem_graph.causal.scorers import CausalScorer
from langmem_graph.llm.answer_schemas import NewMemory
from langmem_graph.llm.structured_calls import ModelRunner, RunUsage
from langmem_graph.reports import ExtractionCounts
from langmem_graph.schemas import ChangeRelation, Confirmation, Message, Record
from langmem_graph.storage.memory_services import Services


class Batch(BaseModel, frozen=True, extra="forbid"):
    """Pending messages that are extracted together: of one session, or of several ended
    ones.
    """

    items: tuple[int, ...]  # numbers of the messages, session by session; never empty
    # completed turns in it: messages of the user with the assistant's answer
    turns: int


@dataclass(frozen=True)
class ShownMessage:
    """A message as the model sees it, under an alias."""

    n: int
    message: Message
    # False for what was said before the batch, which only helps to understand
    is_new: bool


@dataclass(frozen=True)
class BatchView:
    """What one call shows to the model; only what was shown can be cited or changed."""

    messages: dict[str, ShownMessage]
    # that the messages may change, with their numbers
    records: dict[str, tuple[int, Record]]
    zone: str | None  # the time zone of the dates shown: that of the user's "tomorrow"


class Candidate(BaseModel, frozen=True, extra="forbid"):
    """A statement that the model proposes to remember, on its way to becoming a
    record.
    """

    memory: NewMemory  # as the model wrote it
    source_ns: list[int]  # numbers of the messages that it cites; never empty
    source_ids: list[str]  # ids of the same messages, in the same order
    said_at: datetime  # when the last of these messages was sent
    # as JSON; None without a usable day or time
    event_time: dict[str, Any] | None = None
    confirmation: Confirmation = "confirmed"
    # the application's form that it fills, by its name
    data: dict[str, Any] | None = None
    values: list[dict[str, Any]] = Field(default_factory=list)
    """Each value of the text with the words of the message it comes from; set by
    `verify`.
    """

    def as_record(self) -> Record:
        """The record that it would become, without an id, for the checks of changes."""
        at = dict.fromkeys(
            ("said_at", "valid_from", "created_at", "updated_at"), self.said_at
        )
        return Record(
            record_id="",
            text=self.memory.text,
            kind=self.memory.kind,
            subject=self.memory.subject,
            confirmation=self.confirmation,
            event_time=self.event_time,
            message_ids=self.source_ids,
            **at,
        )


class Proposal(BaseModel, frozen=True, extra="forbid"):
    """A change of an older record that the model proposes, with aliases resolved."""

    record: int | None  # number of the older record
    former: int | None = None  # without a number: the place of the candidate that it is
    relation: ChangeRelation
    by: int | None = None  # place of the candidate that holds instead
    since: datetime | None = None
    message: int  # number of the message that makes the change
    quote: str
    agreed_message: int | None = None
    agreed_quote: str | None = None


class ToForget(BaseModel, frozen=True, extra="forbid"):
    """What the user asks to be forgotten."""

    message: int  # number of the message that asks
    quotes: tuple[str, ...]
    told_by: tuple[int, ...] = ()  # numbers of records that say it, of those shown
    everything: bool = False
    # the exact words to be removed, by the number of the text; set by `forget`
    messages: dict[int, list[str]] = Field(default_factory=dict)
    records: dict[int, list[str]] = Field(default_factory=dict)


class Counts(ExtractionCounts):
    """The counts of one batch, or of several together."""

    def __add__(self, other: "Counts") -> "Counts":
        """The sums of both, and the reasons of both."""
        names = type(self).model_fields.keys() - {"ended_by"}
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Counts(ended_by=_sums(self.ended_by, other.ended_by), **sums)

    def plus(self, *reasons: str, **more: int) -> "Counts":
        """A copy with these reasons and, by name, these counts added."""
        sums = {name: getattr(self, name) + count for name, count in more.items()}
        return self.model_copy(update={**sums, "reasons": [*self.reasons, *reasons]})

    def ended(self, by: Mapping[str, int]) -> "Counts":
        """A copy with the records that these messages, named by id, let end."""
        updated = self.updated + sum(by.values())
        return self.model_copy(
            update={"updated": updated, "ended_by": _sums(self.ended_by, by)}
        )


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(one) + Counter(other))


class ExtractionState(TypedDict, total=False):
    """The state of the extraction graph."""

    force: bool  # extract all pending messages, without waiting for a full batch
    # the name under which this run claims messages; no other run has it
    claimed_by: str
    batch: Batch | None  # None where nothing is due
    view: BatchView  # what the model was shown, in all calls of the batch together
    # by place in the answer; None for one that is no use
    candidates: list[Candidate | None]
    # changes as proposed by the model; after `verify`, as carried out
    proposals: list[Proposal]
    requests: list[ToForget]  # what the user asks to be forgotten
    # what the messages change and no record tells that the first call showed
    look_for: list[str]
    # records near a candidate or `look_for` that the first call did not show
    unseen: list[int]
    changed: list[int]  # records that are new or have changed
    usage: RunUsage
    counts: Counts
    # of the ledger at the claim: forgetting changes it, and then nothing is stored
    generation: str
    round_due: bool
    """Without a due batch: causes, topics and the profile are to be made now. The step
    that cannot reach the model sets it to False.
    """
    profile_owed: bool  # without a due batch: a track was written after the profile
    again: bool  # another run has more of the round to do
    failed: str | None  # the step that got no usable answer; the batch stays pending


@dataclass(frozen=True)
class Dependencies:
    """What the steps of the graph work with."""

    services: Services
    runner: ModelRunner
    causal: CausalScorer | None = None  # with None, causal edges are not looked for
    first_alias: int | None = None  # of each call; None draws one at random


def usage_of(state: ExtractionState) -> RunUsage:
    """A copy of the run's model usage so far, to be added to and returned."""
    return state.get("usage", RunUsage()).copy()


def counts_of(state: ExtractionState) -> Counts:
    """The run's counts so far."""
    return state.get("counts", Counts())
