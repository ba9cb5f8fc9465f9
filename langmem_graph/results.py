"""What recall, reasoning and grounding give back: facts, reasons, filled calls, what
they cost.
"""

from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field, computed_field

from langmem_graph.schemas import FrozenModel, Labelled, MessageHit, Origin

Relation = Literal["semantic", "temporal", "causal", "entity"]
"""How to search (Goal-Mem 2.2): by similarity, date, causal edges, or exact words."""
SearchBy = Literal["message", "session"]
"""What a search ranks: messages, or sessions, each represented by its best message."""
RecallMode = Literal["fast", "auto", "reason"]
"""`fast` calls no model; `auto` reasons where the words ask for something, `reason`
always.
"""
GoalStatus = Literal["grounded", "partial", "conflict", "exhausted", "budget"]
"""How reasoning ended: all found; some found; facts that contradict each other; nothing
found; or calls, tokens or time were used up.
"""


class ModelUsage(FrozenModel):
    """What calls of the model cost, and which of their answers could not be used."""

    llm_calls: int = 0
    repairs: int = 0
    """Calls that had to be made again; they are part of `llm_calls`."""
    input_tokens: int = 0
    output_tokens: int = 0
    problems: list[str] = Field(default_factory=list)
    """Model answers that could not be used, and what failed."""
    dropped: list[str] = Field(default_factory=list)
    """Parts of usable model answers that were left out or cut; the first 50."""


class RecallReport(ModelUsage):
    """What a recall cost and how far its answer can be trusted."""

    mode: RecallMode = "fast"
    status: Literal["ok", "degraded"] = "ok"
    warnings: list[str] = Field(default_factory=list)
    considered: int = 0
    """How many of the first `k` there were: messages, or with reasoning messages and
    records.
    """
    quoted: int = 0
    """How many of them the context quotes within the token budget."""
    near_misses: dict[str, str] = Field(default_factory=dict)
    """Without reasoning: ids of messages that are nearly quoted, with the reason and
    signals.
    """
    context_tokens: int = 0
    tokens_exact: bool = False
    """False where the count is a (safe, high) estimate."""
    milliseconds: dict[str, float] = Field(default_factory=dict)
    """Per stage, and `total`."""


class Fact(Labelled):
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
    origin: Origin = "user"
    """Whose words it is; of a record, the weakest origin of the messages that
    carry it.
    """
    day: date | None = None
    """The day on which what it states takes place, where that is known."""
    likeness: float = 0.0
    """Cosine similarity to the query that found it, or 0."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outdated(self) -> bool:
        """True where nothing of it holds now."""
        return super().outdated


class Grounding(FrozenModel):
    """Where one argument of a tool call comes from."""

    type: Literal["copied", "read", "chosen", "default"]
    """`copied`: it stands in the quoted words. `read`: the model's reading of them.
    `chosen`: the model's own choice, where the application lets it. `default`: from the
    tool's schema.
    """
    record_ids: list[str] = Field(default_factory=list)
    message_ids: list[str] = Field(default_factory=list)
    """Both empty where the request itself states the value."""
    text: str = ""
    """The words that it was taken from."""
    rooms: dict[str, str] = Field(
        default_factory=dict, exclude_if=lambda rooms: not rooms
    )
    """Of what stands in shared rooms: their names, each with who wrote it there."""


class Offered(Grounding):
    """A value that somebody other than the user said: it is not sent before a human has
    agreed.
    """

    value: Any
    origin: Origin
    """Whose words they are; `user` for a record that is a draft or was inferred."""


class MissingSlot(FrozenModel):
    """An argument that memory does not support and the user has to be asked for."""

    name: str
    reason: str
    values: list[str] = Field(default_factory=list)
    """What each source says, where sources disagree; or what is offered."""


class GroundedCall(FrozenModel):
    """A tool call filled from memory."""

    name: str
    arguments: dict[str, Any]
    """Valid by the tool's schema, except for what is missing or has a warning."""
    grounding: dict[str, Grounding] = Field(default_factory=dict)
    """By single value; `guest.email` is a part of an object, `lines.0.amount` one of a
    list.
    """
    offered: dict[str, Offered] = Field(default_factory=dict)
    """Values that are not in `arguments`, since the user did not say them."""
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
    """`memory`: facts bear it out. `world`: general knowledge alone; the context leaves
    it out.
    """
    facts: list[str] = Field(default_factory=list)
    """Ids of the facts that speak against the request."""


class Row(FrozenModel):
    """One of the answers to a question for several, or one set of values that fit
    together.
    """

    values: dict[str, str]
    """By variable, or by `item`."""
    facts: list[str]
    """Ids of the facts that state them."""


class Reasoning(FrozenModel):
    """The outcome of the goal loop and of the search for risks."""

    status: GoalStatus | None = None
    """None where nothing had to be proved."""
    bindings: dict[str, str] = Field(default_factory=dict)
    """Variables and the entities found for them; of several rows, those of the
    first.
    """
    rows: list[Row] = Field(default_factory=list)
    """All that was found, where several things were asked for; at most 12 from the goal
    loop.
    """
    complete: Literal[True, "unknown"] = "unknown"
    """True where nothing that the request asks for was seen to be missing."""
    spans: list[str] = Field(default_factory=list)
    """How long it is between two days that were asked for, computed by code."""
    unusable: bool = False
    """True where the model's last answer could not be used: what is open may stand in
    memory.
    """
    unresolved: list[str] = Field(default_factory=list)
    """Variables without a value, as `(name:type)`."""
    conflicts: list[Conflict] = Field(default_factory=list)
    risks: list[Risk] = Field(default_factory=list)
    overlaps: list[str] = Field(default_factory=list)
    """Appointments that the request's time collides with."""


class Recall(FrozenModel):
    """The answer of `recall`: a text to show a model, the evidence behind it, and a
    report.
    """

    context: str
    """Empty when nothing was found."""
    evidence: list[MessageHit]
    """The messages that the context quotes or rests on, best first."""
    report: RecallReport
    facts: list[Fact] = Field(default_factory=list)
    """The facts that the context quotes, best first. Without reasoning these are the
    schedule's entries at the time of the request, and for "what's next?" profile,
    projects and schedule.
    """
    reasoning: Reasoning | None = None
    """The outcome of reasoning; without reasoning `overlaps`, where there are any."""
    answer: str | None = None
    """The answer from the quoted facts alone, where one was asked for."""
    answer_facts: list[str] = Field(default_factory=list)
    """Ids of the facts that the answer uses."""
    trace: list[dict[str, Any]] = Field(default_factory=list)
    """With reasoning, every step in order, in the form of the stream events."""
