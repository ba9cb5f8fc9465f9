"""What goes in and comes out: the public, frozen pydantic models."""

from typing import Literal

from pydantic import Field

from langmem_graph.schemas import _Model


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


class RejectedRecord(_Model):
    """A record that was not stored; `position` counts from 0 in the call's list."""

    position: int
    reason: str
    record_id: str | None = None


class RecordsReport(_Model):
    """What happened to each record of one `add_records` call; each is in exactly one list."""

    stored: list[str] = Field(default_factory=list)
    already_known: list[str] = Field(default_factory=list)
    """Their new sources were added to the record that says the same."""
    rejected: list[RejectedRecord] = Field(default_factory=list)
    not_yet_embedded: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    milliseconds: float = 0.0


class ExtractionCounts(_Model):
    """What extraction did with messages and with the records that the model proposed."""

    read: int = 0
    """Messages that were extracted."""
    stored: int = 0
    """New records that are stored beside the older ones."""
    known: int = 0
    """Proposals that an older record states already; their sources were added to it."""
    updated: int = 0
    """New records that supersede an older one, which is kept with its dates."""
    merged: int = 0
    """New records that join an older one with what adds to it."""
    refused: int = 0
    """Proposals that cannot be stored as records."""
    given_up: int = 0
    """Messages for which the model never gave a usable answer; they stay in the raw layer."""
    causes: int = 0
    """New causal edges between records."""
    topics: int = 0
    """Topic tracks that changed."""
    reasons: list[str] = Field(default_factory=list)
    """Why something was not done as the model proposed."""


class FlushReport(ExtractionCounts):
    """What one flush did, and what its model calls cost."""

    status: Literal["ok", "partial", "no_model"] = "ok"
    """`partial`: some messages could not be extracted and stay pending. `no_model`: the memory has
    no model, so that nothing was extracted."""
    pending: int = 0
    """Messages that still wait for extraction."""
    problems: list[str] = Field(default_factory=list)
    """Model answers that could not be used, and what failed."""
    llm_calls: int = 0
    repairs: int = 0
    """Calls that had to be made again; they are part of `llm_calls`."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True
    milliseconds: float = 0.0


class ForgetReport(_Model):
    """What went for good."""

    messages: int = 0
    records: int = 0
    restored: int = 0
    """Records that are true again, because what took their place was forgotten."""
    files: int = 0
    """Topic tracks and profile that cited them; they are written anew."""
    read_again: int = 0
    """Messages that stay and are read once more, because a record made of them went."""


class Health(_Model):
    """What `doctor` found in one user's room: the ledger against the index."""

    messages: int
    sessions: int
    records: int
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
