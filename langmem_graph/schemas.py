"""The public data models: messages, records, hits, recalls and grounded calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["user", "assistant", "tool", "system"]
IndexStatus = Literal["ok", "degraded"]


class FrozenModel(BaseModel):
    """Base of the public data models."""

    model_config = ConfigDict(frozen=True)


class Message(FrozenModel):
    """One stored message, exactly as it was said."""

    id: str
    session_id: str
    role: Role
    name: str | None = None
    """The speaker, where the caller named one."""
    at: datetime
    """When it was said, in UTC."""
    text: str
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    tool_call_id: str | None = None


class MessageHit(FrozenModel):
    """One message found by a search, best first; `score` compares hits of one search only."""

    message_id: str
    session_id: str
    role: Role
    name: str | None = None
    at: datetime
    text: str
    score: float
    position: int = 0
    """The order of arrival: a later message of a user has a higher number."""
    excerpt: str = ""
    """The part of the text that matched best; the whole text where it is short."""
    signals: dict[str, float] | None = None
    """Each signal's value before weighting, with `explain=True`."""


SearchBy = Literal["message", "session"]
"""What a search ranks: messages, or sessions, each represented by its best message."""
RecallMode = Literal["fast", "auto", "reason"]
"""`fast`: one search, no model. `auto`: reasoning where the words ask for something. `reason`:
reasoning always."""
GoalStatus = Literal["grounded", "partial", "conflict", "exhausted", "budget"]
"""How reasoning ended: all found; some found; facts that contradict each other; nothing found;
or calls, tokens or time were used up."""


class RecallReport(FrozenModel):
    """What a recall cost and how far its answer can be trusted."""

    mode: RecallMode = "fast"
    status: IndexStatus = "ok"
    warnings: list[str] = Field(default_factory=list)
    considered: int = 0
    """How many of the first `k` there were: messages, or with reasoning messages and records."""
    quoted: int = 0
    """How many of them the context quotes within the token budget."""
    llm_calls: int = 0
    repairs: int = 0
    """Calls that had to be made again; they are part of `llm_calls`."""
    input_tokens: int = 0
    output_tokens: int = 0
    problems: list[str] = Field(default_factory=list)
    """Model answers that could not be used."""
    context_tokens: int = 0
    tokens_exact: bool = False
    """False where the count is a (safe, high) estimate."""
    milliseconds: dict[str, float] = Field(default_factory=dict)
    """Per stage, and `total`."""


class Fact(FrozenModel):
    """The unit of reasoning: a record, a message, or the text of another store."""

    id: str
    text: str
    at: datetime | None = None
    speaker: str = ""
    record_id: str | None = None
    message_ids: list[str] = Field(default_factory=list)
    """The messages it rests on."""
    kind: str = ""
    subject: str | None = None
    attribute: str | None = None
    confirmation: str = ""
    likeness: float = 0.0
    """Cosine similarity to the query that found it, or 0."""
    outdated: bool = False
    """True for a message whose records are all superseded."""


class Grounding(FrozenModel):
    """Where one argument of a tool call comes from."""

    type: Literal["explicit", "inferred", "default"]
    """`explicit`: copied byte for byte from a source. `default`: from the tool's schema."""
    record_ids: list[str] = Field(default_factory=list)
    message_ids: list[str] = Field(default_factory=list)
    """Both empty where the request itself states the value."""
    text: str = ""
    """The words it was copied from, or that it follows from."""


class MissingSlot(FrozenModel):
    """An argument that memory does not support and the user has to be asked for."""

    name: str
    reason: str
    values: list[str] = Field(default_factory=list)
    """The value of each source, where sources disagree."""


class GroundedCall(FrozenModel):
    """A tool call filled from memory."""

    name: str
    arguments: dict[str, Any]
    """Valid by the tool's schema, except for what is missing or has a warning."""
    grounding: dict[str, Grounding] = Field(default_factory=dict)
    """By argument; `guest.email` names a part of a nested object."""
    missing: list[MissingSlot] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Conflict(FrozenModel):
    """Facts that give one variable different values, none of which is preferred."""

    variable: str
    values: dict[str, list[str]]
    """Each value with the ids of the facts that state it."""


class Risk(FrozenModel):
    """What could go wrong if the request is carried out."""

    claim: str
    basis: Literal["memory", "world"]
    """`world`: general knowledge, without evidence in memory."""
    facts: list[str] = Field(default_factory=list)
    """Ids of the facts found for it, best first."""


class Reasoning(FrozenModel):
    """The outcome of the goal loop and of the search for risks."""

    status: GoalStatus | None = None
    """None where nothing had to be proved."""
    bindings: dict[str, str] = Field(default_factory=dict)
    """Variables and the entities found for them."""
    unresolved: list[str] = Field(default_factory=list)
    """Variables without a value, as `(name:type)`."""
    conflicts: list[Conflict] = Field(default_factory=list)
    risks: list[Risk] = Field(default_factory=list)
    overlaps: list[str] = Field(default_factory=list)
    """Appointments that the request's time collides with."""


class Recall(FrozenModel):
    """The answer of `recall`: a text to show a model, the evidence behind it, and a report."""

    context: str
    """Empty when nothing was found."""
    evidence: list[MessageHit]
    """The messages that the context quotes or rests on, best first."""
    report: RecallReport
    facts: list[Fact] = Field(default_factory=list)
    """The facts that the context quotes, best first. Without reasoning these are the schedule's
    entries at the time of the request, and for "what's next?" profile, projects and schedule."""
    reasoning: Reasoning | None = None
    """The outcome of reasoning; without reasoning `overlaps`, where there are any."""
    answer: str | None = None
    """The answer from the quoted facts alone, where one was asked for."""
    answer_facts: list[str] = Field(default_factory=list)
    """Ids of the facts that the answer uses."""
    trace: list[dict[str, Any]] = Field(default_factory=list)
    """With reasoning, every step in order, in the form of the stream events."""


Kind = Literal["fact", "event", "instruction", "preference"]
Facet = Literal["none", "persona", "project_state", "schedule"]
Confirmation = Literal["confirmed", "draft", "inferred"]
Status = Literal["active", "superseded", "discarded", "expired"]


class Record(FrozenModel):
    """A statement extracted from messages, with its sources; a change never deletes it."""

    record_id: str
    text: str
    """One standalone sentence."""
    kind: Kind = "fact"
    facet: Facet = "none"
    project: str | None = None
    subject: str | None = None
    """Whom or what it is about."""
    attribute: str | None = None
    """What it states of the subject; only a record of both the same supersedes another."""
    confirmation: Confirmation = "confirmed"
    """`draft`: proposed, not agreed; `inferred`: not said in these words."""
    status: Status = "active"
    priority: int = Field(default=50, ge=0, le=100)
    said_at: datetime
    event_time: dict[str, Any] | None = None
    """When it takes place, for events and schedule items: start, end, granularity, recurrence."""
    valid_from: datetime
    valid_to: datetime | None = None
    scene: str | None = None
    entities: list[str] = Field(default_factory=list)
    values: list[dict[str, Any]] = Field(default_factory=list)
    """Numbers, dates, names and the like; each `raw` is an exact part of a source message."""
    message_ids: list[str] = Field(min_length=1)
    """The messages it was extracted from; never empty."""
    supersedes: list[str] = Field(default_factory=list)
    superseded_by: list[str] = Field(default_factory=list)
    refines: list[str] = Field(default_factory=list)
    made_by: str = "import"
    created_at: datetime
    updated_at: datetime


class RecordHit(FrozenModel):
    """One record found by a search, best first; `score` compares hits of one search only."""

    record_id: str
    kind: Kind
    text: str
    at: datetime
    """When it was said, in UTC."""
    message_ids: list[str]
    score: float
    facet: Facet = "none"
    subject: str | None = None
    attribute: str | None = None
    confirmation: Confirmation = "confirmed"
    status: Status = "active"
    signals: dict[str, float] | None = None


class HistoryEntry(FrozenModel):
    """One change of a record, oldest first."""

    change: str
    """Entries with the same id happened together, and are undone together."""
    record_id: str
    op: str
    at: datetime
    by: str
    reason: str | None = None
    before: dict[str, Any] | None = None
    """The fields that changed, as they were; None when the record was made."""


@dataclass(frozen=True)
class RecallRequest:
    """Request of a recall; None takes the default of the settings."""

    query: str
    mode: RecallMode = "auto"
    k: int | None = None
    """Number of facts of the first look-up."""
    max_tokens: int | None = None
    """Token budget of the context."""
    in_view: Sequence[str] = ()
    """Ids and texts of messages that the model sees anyway; they are not quoted again."""
    now: str | None = None
    """ISO time of the request; None is the present."""


def message_row(message: Message) -> dict[str, Any]:
    """A message as the row that `add` and `langmem-graph import` take."""
    fields = message.model_dump(mode="json", exclude_defaults=True)
    return {"id": fields.pop("id"), "content": fields.pop("text"), **fields}


def record_row(record: Record) -> dict[str, Any]:
    """A record as the row that `add_records` takes."""
    derived = {"superseded_by", "created_at", "updated_at"}
    fields = record.model_dump(mode="json", exclude=derived, exclude_defaults=True)
    return {"text": fields.pop("text"), "source_message_ids": fields.pop("message_ids"), **fields}
