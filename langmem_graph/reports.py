"""The reports of adding, extracting, forgetting, erasing and checking."""

from typing import Literal

from pydantic import Field

from langmem_graph.schemas import FrozenModel


class RenamedMessage(FrozenModel):
    """An id was taken by another text: the message is stored under `stored_as`."""

    id: str
    stored_as: str


class RejectedMessage(FrozenModel):
    """A message that was not stored; `position` counts from 0 in the call's list."""

    position: int
    reason: str
    id: str | None = None


class AddReport(FrozenModel):
    """What happened to each message of one `add` call; every message is in exactly one list.

    `stored`, `already_known` and `renamed` together are acknowledged: they are on disk.
    """

    stored: list[str] = Field(default_factory=list)
    already_known: list[str] = Field(default_factory=list)
    renamed: list[RenamedMessage] = Field(default_factory=list)
    rejected: list[RejectedMessage] = Field(default_factory=list)
    not_yet_embedded: list[str] = Field(default_factory=list)
    """Ids of stored messages that are found by their words only, until they are embedded."""
    warnings: list[str] = Field(default_factory=list)
    mode: Literal["retrieval"] = "retrieval"
    """`retrieval`: the messages were stored; no record was extracted from them yet."""
    milliseconds: float = 0.0


class RejectedRecord(FrozenModel):
    """A record that was not stored; `position` counts from 0 in the call's list."""

    position: int
    reason: str
    record_id: str | None = None


class RecordsReport(FrozenModel):
    """What happened to each record of one `add_records` call; each is in exactly one list."""

    stored: list[str] = Field(default_factory=list)
    already_known: list[str] = Field(default_factory=list)
    """Ids of records that state the same already, to which the new sources were added."""
    rejected: list[RejectedRecord] = Field(default_factory=list)
    not_yet_embedded: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    milliseconds: float = 0.0


class ExtractionCounts(FrozenModel):
    """What extraction did with messages and with the records that the model proposed."""

    read: int = 0
    """Messages whose extraction is done."""
    stored: int = 0
    """New records that are stored beside the older ones."""
    known: int = 0
    """Proposals that a record states already; their sources were added to it."""
    updated: int = 0
    """Records that superseded an older one, which is kept with its dates."""
    merged: int = 0
    """New records that join an older one with what adds to it."""
    refused: int = 0
    """Proposals that cannot be stored as records."""
    given_up: int = 0
    """Messages for which the model never gave a usable answer; they remain stored."""
    causes: int = 0
    """New causal edges between records."""
    topics: int = 0
    """Topic tracks that changed."""
    reasons: list[str] = Field(default_factory=list)
    """Why proposals of the model were refused or changed."""


class FlushReport(ExtractionCounts):
    """The result of extraction and its cost."""

    status: Literal["ok", "partial", "no_model"] = "ok"
    """`partial`: some messages could not be extracted and stay pending. `no_model`: no model."""
    pending: int = 0
    """Messages whose extraction is not done."""
    problems: list[str] = Field(default_factory=list)
    """Model answers that could not be used, and what failed."""
    llm_calls: int = 0
    repairs: int = 0
    """Calls that had to be made again; they are part of `llm_calls`."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True
    milliseconds: float = 0.0


class ForgetReport(FrozenModel):
    """What was deleted for good."""

    messages: int = 0
    records: int = 0
    restored: int = 0
    """Records that hold again, because what had superseded them was deleted."""
    files: int = 0
    """Topic tracks and profile that cited deleted records; they are written anew."""
    read_again: int = 0
    """Remaining messages that are pending again, because a record made of them was deleted."""


class Health(FrozenModel):
    """The state of one user's room: the ledger compared with the index."""

    messages: int
    sessions: int
    records: int
    vectors: int
    indexed: int
    """Vectors Chroma holds; -1 when it could not be asked."""
    waiting_to_embed: int
    waiting_to_index: int
    reachable: int
    """How many of the `sampled` vectors Chroma finds by search."""
    sampled: int
    embedder: str | None
    problems: list[str] = Field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when nothing needs doing."""
        return not self.problems


class EraseReport(FrozenModel):
    """What an erasure removed from the disk."""

    messages: int
    files: int
    bytes: int
