"""What is stored, and hits of a search: messages, records, their labels and changes."""

from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator


class FrozenModel(BaseModel):
    """Base of the public data models."""

    model_config = ConfigDict(frozen=True)


Role = Literal["user", "assistant", "tool", "system"]
Origin = Literal["user", "assistant", "tool", "import", "plumbing"]
"""Whose words a message holds. `import`: text from elsewhere, such as a document.
`plumbing`: what a framework writes between agents; it is stored, but never found,
quoted or extracted.
"""
ORIGIN_OF_ROLE: dict[Role, Origin] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "import",
}
"""The origin of a message that is stored without one."""

_Ending = Literal[
    "replaces", "ended", "corrects", "reschedules", "cancels", "completes"
]
ChangeRelation = Literal[_Ending, "skips_once", "adopts", "confirms", "details"]
"""What a message does to an older record. `corrects`: it never held. `skips_once`: a
routine is left out one time. `adopts`: a draft is settled. `confirms` and `details`: it
holds on.
"""
NO_LONGER: frozenset[ChangeRelation] = frozenset(get_args(_Ending))
"""The relations after which the older record no longer holds."""


class Label(FrozenModel):
    """Says that a statement does not hold now: since when, what holds instead, in whose
    words.
    """

    relation: ChangeRelation | None
    """What happened to it, as `RecordChange` has it; None where it does not
    hold yet.
    """
    statement: str
    """The text of the record that does not hold."""
    record_id: str
    since: datetime | None = None
    """When it ended or was corrected; of what does not hold yet, from when on
    it will.
    """
    replaced_by: str | None = None
    """The text of what holds instead now, whatever lies between the two."""
    between: list[str] = Field(default_factory=list)
    """What took its place and no longer holds either, oldest first."""
    newest_id: str
    """The newest record of its chain; its own id where none took its place."""
    quote: str = ""
    """The words that changed it, as they stand in their message; empty for a change by
    hand.
    """
    message_id: str | None = None
    """The message of the quote."""
    partial: bool = False
    """True beside a text that also states other things, which may hold."""


class Labelled(FrozenModel):
    """Base of what is shown together with labels."""

    labels: list[Label] = Field(default_factory=list)
    """One for each of its statements that does not hold now, as known when it
    was read.
    """
    room: str | None = Field(None, exclude_if=lambda own: own is None)
    """The shared room it is from; None for what is the user's own."""
    author: str | None = Field(None, exclude_if=lambda own: own is None)
    """In a shared room, the user who wrote it there; of several, all of them."""

    @property
    def outdated(self) -> bool:
        """True where nothing of it holds now."""
        return bool(self.labels) and not any(label.partial for label in self.labels)


class OriginatedModel(Labelled):
    """Base of the models of messages: without an origin they get that of their role."""

    role: Role
    origin: Origin = "user"
    """Whose words it holds; where it is not given, that of the role."""
    session_id: str
    name: str | None = None
    """The speaker, where the caller named one."""
    at: datetime
    """When it was said, in UTC."""
    text: str
    agent_id: str | None = None
    """The agent it is of, where the caller named one."""
    metadata: dict[str, str | bool | int | float] = Field(default_factory=dict)
    """What the application says about it, by which it can be filtered."""

    @model_validator(mode="before")
    @classmethod
    def _origin_by_role(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("origin") is None:
            return {
                **fields,
                "origin": ORIGIN_OF_ROLE.get(fields.get("role", "user"), "user"),
            }
        return fields


class Message(OriginatedModel):
    """One stored message, exactly as it was said."""

    id: str
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    tool_call_id: str | None = None


class MessageHit(OriginatedModel):
    """One message found by a search, best first; `score` compares hits of one search
    only.
    """

    message_id: str
    score: float
    position: int = 0
    """The order of arrival: a later message of a user has a higher number."""
    excerpt: str = ""
    """The part of the text that matched best; the whole text where it is short."""
    signals: dict[str, float] | None = None
    """Each signal's value before weighting, with `explain=True`."""
    missed: str = ""
    """Why it is just no hit: of the three candidates behind the hits, with
    `explain=True`.
    """


Kind = Literal["fact", "event", "instruction", "preference"]
Facet = Literal["none", "persona", "project_state", "schedule"]
Confirmation = Literal["confirmed", "draft", "inferred"]
Status = Literal["active", "superseded", "discarded", "expired", "hidden"]


class RecordChange(FrozenModel):
    """A change that a message made to an older record, with the words that made it."""

    record_id: str
    relation: ChangeRelation
    by_record_id: str | None = None
    """The record that holds instead, or that the older one is kept beside
    (`details`).
    """
    by_text: str | None = None
    since: datetime | None = None
    """From when on it no longer holds; of `skips_once`, the occurrence that is left
    out.
    """
    message_id: str
    quote: str
    """Words of that message, exactly as they stand in it; empty for a change made by
    hand.
    """
    agreed_message_id: str | None = None
    """Where the quote is a proposal of the assistant's: the user's message that accepts
    it.
    """
    agreed_quote: str | None = None
    made_by: str
    """The model, or `user` for a change made by hand."""
    at: datetime
    change: str
    """The history entries of the same change are undone with it."""


class RecordStatement(Labelled):
    """Base of the models of records: what a record states."""

    record_id: str
    text: str
    """One standalone sentence."""
    kind: Kind = "fact"
    facet: Facet = "none"
    subject: str | None = None
    """Whom or what it is about."""
    attribute: str | None = None
    """What it states of the subject, in a few words, such as `home`."""
    confirmation: Confirmation = "confirmed"
    """`draft`: proposed, not agreed; `inferred`: not said in these words."""
    status: Status = "active"
    origin: Origin = "user"
    """Whose words it rests on: the least trusted origin of the messages that
    carry it.
    """


class Record(RecordStatement):
    """A statement extracted from messages, with its sources; a change never
    deletes it.
    """

    project: str | None = None
    priority: int = Field(default=50, ge=0, le=100)
    said_at: datetime
    event_time: dict[str, Any] | None = None
    """When it takes place, for events and schedule items: start, end, granularity,
    recurrence.
    """
    valid_from: datetime
    valid_to: datetime | None = None
    scene: str | None = None
    entities: list[str] = Field(default_factory=list)
    values: list[dict[str, Any]] = Field(default_factory=list)
    """Numbers, dates, codes and the like: `value` as in the text, `raw` as in a
    message, and of those that a model read, a grade: `verbatim`, `resolved` or
    `unsupported`.
    """
    data: dict[str, dict[str, Any]] | None = None
    """The application's form that it fills, by its name; see `Reading.schemas`."""
    message_ids: list[str] = Field(min_length=1)
    """The messages it was extracted from; never empty."""
    supporting_ids: list[str] = Field(default_factory=list)
    """Those of them that only say it again: without them the record stays."""
    supersedes: list[str] = Field(default_factory=list)
    superseded_by: list[str] = Field(default_factory=list)
    refines: list[str] = Field(default_factory=list)
    made_by: str = "import"
    metadata: dict[str, str | bool | int | float] = Field(default_factory=dict)
    """What all the messages that carry it share."""
    created_at: datetime
    updated_at: datetime


class RecordHit(RecordStatement):
    """One record found by a search, best first; `score` compares hits of one search
    only.
    """

    at: datetime
    message_ids: list[str]
    metadata: dict[str, str | bool | int | float] = Field(default_factory=dict)
    score: float
    signals: dict[str, float] | None = None
