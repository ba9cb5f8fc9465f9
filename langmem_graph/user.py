"""One user's memory: everything that is read or written goes through here."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from langmem_graph.care import erase, health
from langmem_graph.config import RankingMethod
from langmem_graph.errors import ReadOnlyError
from langmem_graph.intake import message_ids
from langmem_graph.models import (
    AddReport,
    EraseReport,
    Health,
    Message,
    MessageHit,
    Recall,
    Record,
    RecordHit,
    RecordsReport,
)
from langmem_graph.recall import fast
from langmem_graph.recall import records as recall_records
from langmem_graph.services import Services
from langmem_graph.store import lookups
from langmem_graph.write import add_records, append

if TYPE_CHECKING:
    from langmem_graph.recall.retriever import MemoryRetriever

By = Literal["message", "session"]


class UserMemory:
    """The memory of one user; get it from `memory.user(id)`.

    Every method has an asynchronous twin with an `a` before its name, which does the same in a
    worker thread. All methods raise `ClosedMemoryError` after `memory.close()`.
    """

    def __init__(self, services: Services, user_id: str) -> None:
        self._services = services
        self.id = user_id

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

    def recall(
        self,
        query: str,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        in_view: Sequence[str] = (),
    ) -> Recall:
        """What a model should see before it answers `query`: a quoted context and its evidence.

        Args:
            query: usually the user's last message.
            k: messages to consider; default `Settings.recall_k`.
            max_tokens: budget of the context; default `Settings.context_tokens`.
            in_view: ids or texts of messages that the model sees anyway; they are not quoted.

        Returns:
            `context` (empty when nothing was found), `evidence` best first, and a `report` with
            the status, the cost (0 model calls) and the milliseconds of each stage.
        """
        return fast.recall(self._services, self.id, query, k, max_tokens, in_view)

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
            return [_exported(message) for message in lookups.all_messages(connection)]

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

    def rebuild(self, *, reembed: bool = False) -> Health:
        """Make the index anew from the ledger's vectors.

        Args:
            reembed: also embed every message anew, after a change of embedder.
        """
        self._writable("rebuild")
        return health.rebuild(self._services, self.id, reembed)

    def _writable(self, what: str) -> None:
        if self._services.read_only:
            raise ReadOnlyError(f"{what} needs a memory opened for writing, not read_only=True.")

    # --- the same, for async code ----------------------------------------------------------------

    async def aadd(
        self,
        messages: Any,
        *,
        session_id: str | int,
        at: object = None,
        whole_conversation: bool = False,
    ) -> AddReport:
        """Async twin of `add`."""
        return await asyncio.to_thread(
            self.add,
            messages,
            session_id=session_id,
            at=at,
            whole_conversation=whole_conversation,
        )

    async def asearch_conversation(
        self,
        query: str,
        k: int = 5,
        by: By = "message",
        *,
        explain: bool = False,
        ranking: RankingMethod | None = None,
    ) -> list[MessageHit]:
        """Async twin of `search_conversation`."""
        return await asyncio.to_thread(
            self.search_conversation, query, k, by, explain=explain, ranking=ranking
        )

    async def arecall(
        self,
        query: str,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        in_view: Sequence[str] = (),
    ) -> Recall:
        """Async twin of `recall`."""
        return await asyncio.to_thread(
            self.recall, query, k=k, max_tokens=max_tokens, in_view=in_view
        )

    async def aadd_records(self, records: Any) -> RecordsReport:
        """Async twin of `add_records`."""
        return await asyncio.to_thread(self.add_records, records)

    async def asearch_records(
        self, query: str, k: int = 5, *, as_of: object = None, explain: bool = False
    ) -> list[RecordHit]:
        """Async twin of `search_records`."""
        return await asyncio.to_thread(self.search_records, query, k, as_of=as_of, explain=explain)

    async def aget_records(self, ids: str | Sequence[str]) -> list[Record]:
        """Async twin of `get_records`."""
        return await asyncio.to_thread(self.get_records, ids)

    async def aget_conversation(self, ids: str | Sequence[str]) -> list[Message]:
        """Async twin of `get_conversation`."""
        return await asyncio.to_thread(self.get_conversation, ids)

    async def asessions(self) -> list[lookups.SessionSummary]:
        """Async twin of `sessions`."""
        return await asyncio.to_thread(self.sessions)

    async def aexport(self) -> list[dict[str, Any]]:
        """Async twin of `export`."""
        return await asyncio.to_thread(self.export)

    async def aerase(self) -> EraseReport:
        """Async twin of `erase`."""
        return await asyncio.to_thread(self.erase)

    async def adoctor(self, *, sample: int = 200) -> Health:
        """Async twin of `doctor`."""
        return await asyncio.to_thread(self.doctor, sample=sample)

    async def arebuild(self, *, reembed: bool = False) -> Health:
        """Async twin of `rebuild`."""
        return await asyncio.to_thread(self.rebuild, reembed=reembed)


def _exported(message: Message) -> dict[str, Any]:
    fields = message.model_dump(mode="json", exclude_defaults=True)
    return {"id": fields.pop("id"), "content": fields.pop("text"), **fields}
