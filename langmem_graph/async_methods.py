"""One user's memory: everything that is read or written goes through here."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langmem_graph import pipelines
from langmem_graph.memory import By, SyncUserMemory
from langmem_graph.pipelines import no_model_report
from langmem_graph.reports import (
    AddReport,
    EraseReport,
    FlushReport,
    ForgetReport,
    Health,
    RecordsReport,
)
from langmem_graph.schemas import (
    GroundedCall,
    HistoryEntry,
    Message,
    MessageHit,
    Recall,
    RecallMode,
    RecallRequest,
    Record,
    RecordHit,
)
from langmem_graph.settings import RankingMethod
from langmem_graph.storage import message_queries
from langmem_graph.tracing import span

if TYPE_CHECKING:
    from langmem_graph.grounding.state import Policy
    from langmem_graph.reasoning.graph import OnEvent

__all__ = ["By", "UserMemory"]


class UserMemory(SyncUserMemory):
    """The memory of one user; get it from `memory.user(id)`.

    Every method has an asynchronous twin with an `a` before its name, which does the same in a
    worker thread, or, where a model is called, on the memory's own loop. All methods raise
    `ClosedMemoryError` after `memory.close()`.
    """

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

    async def aflush(self) -> FlushReport:
        """Async twin of `flush`."""
        self._writable("flush")
        if self._pipelines:
            with span("flush", self.id) as noting:
                report = await self._pipelines.aflush(self.id)
                noting.note_sizes(report)
                return report
        return await asyncio.to_thread(no_model_report, self._services, self.id)

    async def adrain(self, timeout: float | None = None) -> bool:
        """Async twin of `drain`."""
        self._writable("drain")
        if self._pipelines is None:
            return True
        return await self._pipelines.loop.arun(self._pipelines.background.drained(self.id, timeout))

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
        mode: RecallMode = "fast",
        at: object = None,
        on_event: "OnEvent | None" = None,
    ) -> Recall:
        """Async twin of `recall`."""
        if mode == "fast":
            return await asyncio.to_thread(
                self.recall, query, k=k, max_tokens=max_tokens, in_view=in_view, at=at
            )
        request = RecallRequest(query, mode, k, max_tokens, in_view, pipelines.iso(at))
        mind = pipelines.checked_recall(self._pipelines, self.settings, request)
        with span("recall", self.id) as noting:
            found = await mind.loop.arun(mind.reasoner.recall(self.id, request, on_event))
            noting.note_sizes(found)
            return found

    async def aground(
        self, tool: Any, request: str, *, policy: "Policy" = "flag", at: object = None
    ) -> GroundedCall:
        """Async twin of `ground`."""
        mind, asked = await asyncio.to_thread(
            pipelines.checked_grounding, self._pipelines, tool, request, policy, at
        )
        with span("ground", self.id) as noting:
            call = await mind.loop.arun(mind.grounder.ground(self.id, asked))
            noting.note_sizes(call)
            return call

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

    async def afiles(self) -> list[str]:
        """Async twin of `files`."""
        return await asyncio.to_thread(self.files)

    async def aread_file(self, name: str) -> str:
        """Async twin of `read_file`."""
        return await asyncio.to_thread(self.read_file, name)

    async def aexport_records(
        self, *, as_of: object = None, history: bool = False
    ) -> list[dict[str, Any]]:
        """Async twin of `export_records`."""
        return await asyncio.to_thread(self.export_records, as_of=as_of, history=history)

    async def aremember(self, text: str) -> Record:
        """Async twin of `remember`."""
        return await asyncio.to_thread(self.remember, text)

    async def aforget(
        self,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
    ) -> ForgetReport:
        """Async twin of `forget`."""
        return await asyncio.to_thread(self.forget, record=record, message=message, session=session)

    async def ahistory(self, record_id: str) -> list[HistoryEntry]:
        """Async twin of `history`."""
        return await asyncio.to_thread(self.history, record_id)

    async def aundo(self, record_id: str) -> list[Record]:
        """Async twin of `undo`."""
        return await asyncio.to_thread(self.undo, record_id)

    async def aget_conversation(self, ids: str | Sequence[str]) -> list[Message]:
        """Async twin of `get_conversation`."""
        return await asyncio.to_thread(self.get_conversation, ids)

    async def asessions(self) -> list[message_queries.SessionSummary]:
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
