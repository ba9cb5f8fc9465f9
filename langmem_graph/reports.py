"""The reports of changes, of adding, extracting, model calls, forgetting, erasing and
checking.
"""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field

from langmem_graph.results import ModelUsage
from langmem_graph.schemas import ChangeRelation, FrozenModel, Record, RecordChange


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
    """What happened to each message of one `add` call; every message is in exactly one
    list.

    `stored`, `already_known` and `renamed` together are acknowledged: they are on disk.
    """

    stored: list[str] = Field(default_factory=list)
    already_known: list[str] = Field(default_factory=list)
    renamed: list[RenamedMessage] = Field(default_factory=list)
    rejected: list[RejectedMessage] = Field(default_factory=list)
    forgotten: list[str] = Field(default_factory=list)
    """Ids of messages that were forgotten or have expired, or, of `given_before`, were
    erased: a conversation that is sent again (`whole_conversation`) does not undo that.
    """
    not_yet_embedded: list[str] = Field(default_factory=list)
    """Ids of stored messages that are found by their words only, until they are
    embedded.
    """
    dropped: dict[str, int] = Field(default_factory=dict)
    """How many content blocks of each type were not stored, because they hold no text.
    Of messages that are sent again they are not counted again; of one that has nothing
    else, and is therefore not known again, as far as it has an id or a later one is
    known.
    """
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
    """What happened to each record of one `add_records` call; each is in exactly one
    list.
    """

    stored: list[str] = Field(default_factory=list)
    already_known: list[str] = Field(default_factory=list)
    """Ids of records that state the same already, to which the new sources were
    added.
    """
    rejected: list[RejectedRecord] = Field(default_factory=list)
    not_yet_embedded: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    milliseconds: float = 0.0


class ForgetRequest(FrozenModel):
    """What a message asked to be forgotten; `undo(message=…)` takes it back."""

    message_id: str
    quote: str
    everything: bool = False
    """All that is known was meant: nothing is removed, and `erase` is the way."""
    messages: list[str] = Field(default_factory=list)
    """Messages of which words were removed."""
    records: list[str] = Field(default_factory=list)
    """Records of which words were removed."""


class ExtractionCounts(FrozenModel):
    """What extraction did with messages and with the records that the model
    proposed.
    """

    read: int = 0
    """Messages whose extraction is done."""
    stored: int = 0
    """New records that are stored beside the older ones."""
    known: int = 0
    """Proposals that a record states already; their sources were added to it."""
    updated: int = 0
    """Older records that hold no longer; they are kept with their dates."""
    ended_by: dict[str, int] = Field(default_factory=dict)
    """By message id, how many records the message let end; `undo(message=…)` takes them
    back. Where the user agreed to words of the assistant's, it is the message that
    agrees.
    """
    refused: int = 0
    """Proposals that cannot be stored as records."""
    refused_changes: int = 0
    """Proposed changes of older records whose evidence failed a check; see
    `reasons`.
    """
    to_forget: list[ForgetRequest] = Field(default_factory=list)
    """What the user asked to be forgotten, and what was done about it."""
    given_up: int = 0
    """Messages for which the model never gave a usable answer; they remain stored."""
    causes: int = 0
    """New causal edges between records."""
    topics: int = 0
    """Topic tracks that changed."""
    reasons: list[str] = Field(default_factory=list)
    """Why proposals of the model were refused or changed."""


class FlushReport(ExtractionCounts, ModelUsage):
    """The result of extraction and its cost."""

    status: Literal["ok", "partial", "no_model"] = "ok"
    """`partial`: some messages could not be extracted and stay pending, or the flush
    was stopped. `no_model`: the memory has no model.
    """
    pending: int = 0
    """Messages whose extraction is not done."""
    tokens_exact: bool = True
    milliseconds: float = 0.0


class FlushForecast(FrozenModel):
    """What a flush of all pending messages would read, and about what it would cost.

    The tokens are estimates, rather too high: of as many calls as `calls_high`.
    """

    messages: int = 0
    """Messages that the flush would read; without those that a running extraction reads
    now.
    """
    turns: int = 0
    """Completed turns among them: a user's message with the assistant's answer."""
    sessions: int = 0
    batches: int = 0
    calls_low: int = 0
    """One call for each batch."""
    calls_high: int = 0
    """Also second calls for some batches, the halving of batches with too much to tell,
    and the calls for causes, topics and profile. Repetitions after unusable answers are
    not foreseen.
    """
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True
    """False where the tokens of the messages themselves are estimated too: there is no
    table.
    """
    milliseconds: float = 0.0


class FlushProgress(FrozenModel):
    """How far a flush has come, after a batch or a round at its end; counts are of this
    flush.
    """

    read: int
    """Messages whose extraction is done."""
    pending: int
    """Messages whose extraction is not done."""
    batches_done: int
    calls: int
    input_tokens: int
    output_tokens: int
    stored: int
    """New records."""
    updated: int
    """Older records that hold no longer."""
    seconds: float


OnProgress = Callable[[FlushProgress], object]


class ForgetReport(FrozenModel):
    """What was deleted for good."""

    messages: int = 0
    records: int = 0
    restored: int = 0
    """Records that hold again, because what had superseded them was deleted."""
    shortened: list[str] = Field(default_factory=list)
    """Messages out of which sentences that say a deleted record were taken."""
    still_in: list[str] = Field(default_factory=list)
    """Messages that still hold a value of a deleted record, or of which it cannot be
    told which sentence says it; forget them by their ids.
    """
    files: int = 0
    """Topic tracks and profile that cited deleted records; they are written anew."""
    read_again: int = 0
    """Remaining messages that are pending again, because a record made of them was
    deleted.
    """
    traces_left: bool = False
    """Deleted words may still be in files: of a log or of tables that others use, or
    large ones.
    """


class ExpiryReport(FrozenModel):
    """What of one user was deleted for good, since it is older than it is to be
    kept.
    """

    user_id: str
    is_shared: bool = False
    """True for a shared room, whose name then stands in `user_id`."""
    messages: int = 0
    records: int = 0
    kept: int = 0
    """Records that lost a message and stay, since a younger one says them, too."""
    files: int = 0
    """Topic tracks and profile; they are written anew."""
    traces_left: bool = False
    """As in `ForgetReport`."""


class ForgetPreview(FrozenModel):
    """What `forget` would do; nothing was changed."""

    report: ForgetReport
    records: list[Record] = Field(default_factory=list)
    """The records that would be deleted."""
    restored: list[Record] = Field(default_factory=list)
    """The records that would hold again."""


class MessageUse(FrozenModel):
    """What was made of one message."""

    message_id: str
    records: list[Record] = Field(default_factory=list)
    """The records that cite it, whatever their status."""
    changes: list[RecordChange] = Field(default_factory=list)
    """What it did to older records."""
    pending: bool = False
    """Extraction has yet to read it."""


class Edge(FrozenModel):
    """A link between two records: `semantic` (no direction), or `causal` (source to
    target).
    """

    source: str
    target: str
    kind: str
    weight: float


class Neighbourhood(FrozenModel):
    """A record, those around it, and the edges between them; the record itself comes
    first.
    """

    records: list[Record] = Field(default_factory=list)
    edges: list[Edge] = Field(default_factory=list)


class Comparison(FrozenModel):
    """What held at one of two times only; of each list the first 500 records, the
    oldest first.
    """

    added: list[Record] = Field(default_factory=list)
    ended: list[Record] = Field(default_factory=list)
    added_count: int = 0
    ended_count: int = 0
    kept_count: int = 0
    """Records that held at both times."""
    forgotten_messages: int = 0
    """Messages that were stored between the two times and forgotten since; only a
    number is left, and the newest count once something is stored after them.
    """
    forgotten_records: int = 0


class Occurrence(FrozenModel):
    """Something that takes place at a time; one of many, where it recurs."""

    begin: datetime
    end: datetime
    timed: bool
    """False where it takes whole days."""
    time_zone: str
    recurs: bool
    record: Record
    clashes: list[str] = Field(default_factory=list)
    """Ids of the records of others that take place at the same time."""


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
    traces_left: bool = False
    """Deleted words may still be in the pages of a database."""
    shared_rooms: dict[str, int] = Field(default_factory=dict)
    """Shared rooms that still hold messages of the user's, and how many;
    `memory.shared(room, as_user=…).forget(author=…)` deletes them."""
    warnings: list[str] = Field(default_factory=list)


class CallNote(FrozenModel):
    """One model call: what it was for, what it cost and what became of its answer."""

    at: datetime
    """When it was made, in UTC."""
    purpose: str
    """The step that made it."""
    model: str
    input_tokens: int
    output_tokens: int
    tokens_exact: bool
    """False where the counts are estimates."""
    milliseconds: float
    repair: bool = False
    """It was made because the answer before could not be used."""
    problem: str | None = None
    """Why its answer could not be used; None where it was used."""
    refused: list[str] = Field(default_factory=list)
    """Parts of its answer that were not taken, each with the reason."""


class ModelCall(CallNote):
    """A model call as the ledger keeps it."""

    message_ids: list[str] = Field(default_factory=list)
    """The messages that extraction read in it; none for other calls."""


class UsageLine(FrozenModel):
    """What the model calls for one purpose cost on one day (UTC)."""

    day: date
    purpose: str
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float

    def __add__(self, other: "UsageLine") -> "UsageLine":
        """The costs of both, for the same day and purpose."""
        names = ("calls", "input_tokens", "output_tokens", "seconds")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return self.model_copy(update=sums)


class Usage(FrozenModel):
    """What model calls cost, by day and purpose.

    It is counted from the log of calls, which keeps the latest 10,000 of a user. The
    calls that read a message are forgotten with it.
    """

    lines: list[UsageLine] = Field(default_factory=list)

    @property
    def calls(self) -> int:
        """All calls together."""
        return sum(line.calls for line in self.lines)

    @property
    def tokens(self) -> int:
        """The tokens of all calls together, in and out."""
        return sum(line.input_tokens + line.output_tokens for line in self.lines)

    @property
    def seconds(self) -> float:
        """The time of all calls together."""
        return sum(line.seconds for line in self.lines)


class UserSummary(FrozenModel):
    """How much the memory of one user, or a shared room, holds, and what of it
    is due.
    """

    user_id: str
    """Of a shared room its name."""
    is_shared: bool = False
    """Whether it is a shared room; a user of the same name is another one."""
    messages: int
    sessions: int
    records: int
    """Records that hold now."""
    vectors: int
    to_embed: int
    """Texts that have no vector yet."""
    to_read: int
    """Messages that no model has read yet. In a memory without a model these are all,
    and none of them waits for anything.
    """
    oldest_due: datetime | None
    """When the oldest message was stored that has to be embedded or read; without a
    model, the oldest of all.
    """


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
    relation: ChangeRelation | None = None
    """What a message did to the record; None where no message is known to have changed
    it.
    """
    message_id: str | None = None
    quote: str | None = None
    """Its words that made the change; empty for a change made by hand."""
