"""One user's memory, the synchronous side: every method does its work through one step's module."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from langmem_graph import requests
from langmem_graph.care import erase, forget, health
from langmem_graph.config import RankingMethod, Settings
from langmem_graph.errors import ReadOnlyError
from langmem_graph.intake import message_ids, to_utc
from langmem_graph.models import (
    AddReport,
    EraseReport,
    FlushReport,
    ForgetReport,
    GroundedCall,
    Health,
    HistoryEntry,
    Message,
    MessageHit,
    Recall,
    RecallMode,
    Record,
    RecordHit,
    RecordsReport,
)
from langmem_graph.recall import exporting, fast
from langmem_graph.recall import files as memory_files
from langmem_graph.recall import records as recall_records
from langmem_graph.requests import RecallRequest
from langmem_graph.services import Services
from langmem_graph.store import lookups
from langmem_graph.tracing import traced
from langmem_graph.write import add_records, append
from langmem_graph.write import remember as remembering
from langmem_graph.write.unread_report import unread_report

if TYPE_CHECKING:
    from langmem_graph.grounding.state import Policy
    from langmem_graph.recall.reasoner import OnEvent
    from langmem_graph.recall.retriever import MemoryRetriever
    from langmem_graph.write.mind import Mind

By = Literal["message", "session"]


class SyncUserMemory:
    """What `UserMemory` does; its asynchronous twins are in `user.py`."""

    def __init__(self, services: Services, user_id: str, mind: "Mind | None" = None) -> None:
        self._services = services
        self._mind = mind
        self.id = user_id

    @property
    def settings(self) -> Settings:
        """The settings of the memory."""
        return self._services.settings

    @traced
    def add(
        self,
        messages: Any,
        *,
        session_id: str | int,
        at: object = None,
        whole_conversation: bool = False,
    ) -> AddReport:
        """Store messages of one session. What the report acknowledges is on disk.

        Args:
            messages: a LangChain message, a dict with `role`, `content` and optional `id`, `name`
                (the speaker) and `at`, or a list of them.
            session_id: the conversation they belong to.
            at: when they were said, for messages that carry no time; default now. A datetime, ISO
                text or epoch seconds; naive times are UTC.
            whole_conversation: the list is the conversation so far, as a stateless client sends it
                with every turn: what it repeats of the session is known, even under new ids.

        Returns:
            What happened to each message. A message that cannot be stored is rejected with its
            reason and does not keep the others out.

        Raises:
            InvalidInputError: no usable session id, time or list.
            StorageError: the ledger cannot be written; nothing was acknowledged.
            EmbedderMismatchError: the user's vectors were made by another embedder.
        """
        return append.append(
            self._services,
            self.id,
            messages,
            session_id=session_id,
            at=at,
            whole_conversation=whole_conversation,
        )

    @traced
    def flush(self) -> FlushReport:
        """Let the model read everything that waits, and come back when it has.

        Returns:
            What became of it and what it cost; `status="no_model"` where the memory has no model.
            What could not be read stays due.
        """
        self._writable("flush")
        return self._mind.flush(self.id) if self._mind else unread_report(self._services, self.id)

    def read_soon(self) -> None:
        """Let the model read what is due, in the background; at once back. Nothing without a model.

        `add` does not do this by itself; nodes and middleware do.
        """
        if self._mind is not None and not self._services.read_only:
            self._mind.background.notify(self.id)

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until what is due for reading has been read in the background.

        Turns that are too few for a batch are not due; `flush` reads them too.

        Args:
            timeout: seconds; None waits for as long as it takes.

        Returns:
            False when the time was not enough.
        """
        self._writable("drain")
        if self._mind is None:
            return True
        return self._mind.loop.run(self._mind.background.drained(self.id, timeout))

    @traced
    def search_conversation(
        self,
        query: str,
        k: int = 5,
        by: By = "message",
        *,
        explain: bool = False,
        ranking: RankingMethod | None = None,
    ) -> list[MessageHit]:
        """Find messages without calling a model, best first.

        Args:
            query: what to look for, in plain words.
            k: how many hits at most.
            by: `message`, or `session` to rank sessions, each represented by its best message.
            explain: put each signal's value into the hits' `signals`.
            ranking: instead of `Settings.ranking`, for this call.

        Raises:
            InvalidInputError: an empty query, `k` below 1 or an unknown `by`.
        """
        return fast.search(self._services, self.id, query, k, by, explain, ranking)

    @traced
    def recall(
        self,
        query: str,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        in_view: Sequence[str] = (),
        mode: RecallMode = "fast",
        at: object = None,
        on_event: "OnEvent | None" = None,
    ) -> Recall:
        """What a model should see before it answers `query`: a quoted context and its evidence.

        Args:
            query: usually the user's last message.
            k: messages to consider; default `Settings.recall_k`.
            max_tokens: budget of the context; default `Settings.context_tokens`.
            in_view: ids or texts of messages that the model sees anyway; they are not quoted.
            mode: `fast` looks once and calls no model. `auto` and `reason` chain backwards over
                memory, and ask what could go wrong where the request is an act: 1 to 7 model
                calls, within `Settings.recall_calls`. `auto` calls none for mere small talk.
                In every mode a time that the words name is compared with the schedule.
            at: when it is asked, for what "tomorrow" and "next" are; default now.
            on_event: with a model, is called with each step as it happens, in the memory's own
                thread: be quick, and do not call this memory from it.

        Returns:
            `context` (empty when nothing was found), `evidence` best first, and a `report` with
            the status, the cost and the milliseconds of each stage. With reasoning also what it
            came to, the facts, and the `trace`.

        Raises:
            InvalidInputError: an empty query, an unusable option, or a mode that needs a model
                where the memory has none.
        """
        if mode == "fast":
            return fast.recall(self._services, self.id, query, k, max_tokens, in_view, at)
        request = RecallRequest(query, mode, k, max_tokens, in_view, requests.iso(at))
        mind = requests.to_reason(self._mind, self.settings, request)
        return mind.loop.run(mind.reasoner.recall(self.id, request, on_event))

    @traced
    def add_records(self, records: Any) -> RecordsReport:
        """Store records made elsewhere, without a model.

        Args:
            records: dicts with `text` and `source_message_ids` (stored messages), and optionally
                any other field of `Record`; or `Record`s.

        Returns:
            What happened to each. What says exactly the same as a record that is true now is known,
            and adds its sources to that one.

        Raises:
            InvalidInputError: no list of records.
            StorageError: the ledger cannot be written; nothing was acknowledged.
        """
        return add_records.add_records(self._services, self.id, records, "import")

    @traced
    def search_records(
        self, query: str, k: int = 5, *, as_of: object = None, explain: bool = False
    ) -> list[RecordHit]:
        """Find records without calling a model, best first.

        Args:
            query: what to look for, in plain words.
            k: how many hits at most.
            as_of: what was true at this time, instead of what is true now.
            explain: put each signal's value into the hits' `signals`.

        Raises:
            InvalidInputError: an empty query, `k` below 1, or no time.
        """
        return recall_records.search_records(self._services, self.id, query, k, as_of, explain)

    def get_records(self, ids: str | Sequence[str]) -> list[Record]:
        """The records with these ids, whatever their status; unknown ids are left out."""
        return recall_records.get_records(self._services, self.id, message_ids(ids))

    def files(self) -> list[str]:
        """The names of the profile, the index and the topic tracks, as `read_file` takes them."""
        return list(memory_files.stored_files(self._services, self.id))

    def read_file(self, name: str) -> str:
        """The profile (`profile.md`), the index (`index.md`) or a topic track, as Markdown.

        Raises:
            InvalidInputError: a name that `files` does not list.
        """
        return memory_files.read_file(self._services, self.id, name)

    def export_records(
        self, *, as_of: object = None, history: bool = False
    ) -> list[dict[str, Any]]:
        """Every record that is true now, as a dict that `add_records` takes back; oldest first.

        Args:
            as_of: what was true at this time instead.
            history: also what is no longer true.
        """
        then = to_utc(as_of) if as_of is not None else None
        found = recall_records.all_records(self._services, self.id, then, history=history)
        return [exporting.record_row(record) for record in found]

    @traced
    def remember(self, text: str) -> Record:
        """Store a sentence by hand: as a message of its own and as a record that cites it.

        Raises:
            InvalidInputError: no words, or too many (`Settings.max_record_chars`).
        """
        self._writable("remember")
        return remembering.remember(self._services, self.id, text)

    @traced
    def forget(
        self,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
    ) -> ForgetReport:
        """Delete a record, a message or a session for good, with everything made of it.

        Records made of a forgotten message go whole; their other messages are read anew. What a
        forgotten record had superseded is true again. The words leave the disk as well.

        Raises:
            InvalidInputError: not exactly one thing is named.
        """
        self._writable("forget")
        return forget.forget(
            self._services, self.id, record=record, message=message, session=session
        )

    def history(self, record_id: str) -> list[HistoryEntry]:
        """Every change of a record and of those in its line, oldest first."""
        return remembering.history(self._services, self.id, record_id)

    def undo(self, record_id: str) -> list[Record]:
        """Take back the latest change that touched a record, in all records it touched.

        Returns:
            Those records as they are now; empty when there is nothing to take back.

        Raises:
            InvalidInputError: there is no such record, or later changes were made on top of its
                latest one; the error names what to undo first.
        """
        self._writable("undo")
        return remembering.undo(self._services, self.id, record_id)

    def as_retriever(self, *, k: int = 5, by: By = "message") -> "MemoryRetriever":
        """This memory as a LangChain retriever, sync and async.

        Args:
            k: how many documents at most; `retriever.invoke(query, k=…)` overrides it.
            by: as for `search_conversation`.
        """
        from langmem_graph.recall.retriever import MemoryRetriever

        return MemoryRetriever(user=self, k=k, by=by)

    def get_conversation(self, ids: str | Sequence[str]) -> list[Message]:
        """The messages with these ids, in the order asked; unknown ids are left out."""
        wanted = message_ids(ids)
        if not self._services.has(self.id):
            return []
        with self._services.room(self.id) as room, room.database.reading() as connection:
            found = lookups.messages_by_id(connection, wanted)
        return [found[one] for one in dict.fromkeys(wanted) if one in found]

    def sessions(self) -> list[lookups.SessionSummary]:
        """All sessions at a glance, in the order they began."""
        if not self._services.has(self.id):
            return []
        with self._services.room(self.id) as room, room.database.reading() as connection:
            return lookups.session_summaries(connection)

    def export(self) -> list[dict[str, Any]]:
        """Every message as a JSON-shaped dict that `add` and `langmem-graph import` take back."""
        if not self._services.has(self.id):
            return []
        with self._services.room(self.id) as room, room.database.reading() as connection:
            return [exporting.message_row(message) for message in lookups.all_messages(connection)]

    @traced
    def erase(self) -> EraseReport:
        """Delete everything of this user: the ledger, its log, the vectors, the folder."""
        self._writable("erase")
        return erase.erase(self._services, self.id)

    def doctor(self, *, sample: int = 200) -> Health:
        """Compare the ledger with the index: what is missing, and whether Chroma finds vectors.

        Args:
            sample: how many vectors to look up in Chroma; 0 for all.
        """
        return health.examine(self._services, self.id, sample)

    @traced
    def rebuild(self, *, reembed: bool = False) -> Health:
        """Make the index anew from the ledger's vectors.

        Args:
            reembed: also embed every message anew, after a change of embedder.
        """
        self._writable("rebuild")
        return health.rebuild(self._services, self.id, reembed)

    @traced
    def ground(
        self, tool: Any, request: str, *, policy: "Policy" = "flag", at: object = None
    ) -> GroundedCall:
        """Fill a tool call's arguments from memory, each with where it comes from.

        Args:
            tool: a LangChain tool, a pydantic model, an OpenAI function or a JSON schema with a
                title; or a list of these to choose from.
            request: what the user asks for, such as "book that flight with my usual seat".
            policy: what becomes of an inferred value that does not surely follow: `flag` keeps it
                with a warning, `drop` leaves it out, `ask` names it as missing.
            at: when it is asked; default now.

        Returns:
            Schema-valid arguments, their grounding, and what is `missing`, which is never invented.
            One to three model calls.

        Raises:
            InvalidInputError: an unusable tool, request or option, or a memory without a model.
        """
        mind, asked = requests.to_ground(self._mind, tool, request, policy, at)
        return mind.loop.run(mind.grounder.ground(self.id, asked))

    def _writable(self, what: str) -> None:
        if self._services.read_only:
            raise ReadOnlyError(f"{what} needs a memory opened for writing, not read_only=True.")
