"""What goes in and comes out: the public, frozen pydantic models."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["user", "assistant", "tool", "system"]
IndexStatus = Literal["ok", "degraded"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Message(_Model):
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


class MessageHit(_Model):
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


class RenamedMessage(_Model):
    """An id was taken by another text: the message is stored under `stored_as`."""

    id: str
    stored_as: str


class RejectedMessage(_Model):
    """A message that was not stored; `position` counts from 0 in the call's list."""

    position: int
    reason: str
    id: str | None = None


class AddReport(_Model):
    """What happened to each message of one `add` call; every message is in exactly one list.

    `stored`, `already_known` and `renamed` together are acknowledged: they are on disk.
    """

    stored: list[str] = Field(default_factory=list)
    already_known: list[str] = Field(default_factory=list)
    renamed: list[RenamedMessage] = Field(default_factory=list)
    rejected: list[RejectedMessage] = Field(default_factory=list)
    not_yet_embedded: list[str] = Field(default_factory=list)
    """Ids stored and findable by their words, whose vectors are still to come."""
    warnings: list[str] = Field(default_factory=list)
    mode: Literal["retrieval"] = "retrieval"
    """`retrieval`: the raw layer alone, no model has read the messages."""
    milliseconds: float = 0.0


class RecallReport(_Model):
    """What a recall cost and how far its answer can be trusted."""

    mode: Literal["fast"] = "fast"
    status: IndexStatus = "ok"
    warnings: list[str] = Field(default_factory=list)
    considered: int = 0
    """Messages ranked into the first `k`."""
    quoted: int = 0
    """Messages quoted in the context, after the token budget."""
    llm_calls: int = 0
    context_tokens: int = 0
    tokens_exact: bool = False
    """False where the count is a (safe, high) estimate."""
    milliseconds: dict[str, float] = Field(default_factory=dict)
    """Per stage, and `total`."""


class Recall(_Model):
    """The answer of `recall`: a text to show a model, the evidence behind it, and a report."""

    context: str
    """Empty when nothing was found."""
    evidence: list[MessageHit]
    """The quoted messages, best first."""
    report: RecallReport


class Health(_Model):
    """What `doctor` found in one user's room: the ledger against the index."""

    messages: int
    sessions: int
    vectors: int
    indexed: int
    """Vectors Chroma holds; -1 when it could not be asked."""
    waiting_to_embed: int
    waiting_to_index: int
    reachable: int
    """Of `sampled` vectors, how many Chroma finds when asked for them."""
    sampled: int
    embedder: str | None
    problems: list[str] = Field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when nothing needs doing."""
        return not self.problems


class EraseReport(_Model):
    """Proof of an erasure: what was removed from disk."""

    messages: int
    files: int
    bytes: int
