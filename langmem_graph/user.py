"""One user's memory: everything that is read or written goes through here."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langmem_graph import requests
from langmem_graph.config import RankingMethod
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
from langmem_graph.requests import RecallRequest
from langmem_graph.store import lookups
from langmem_graph.tracing import span
from langmem_graph.user_sync import By, SyncUserMemory
from langmem_graph.write.unread_report import unread_report

if TYPE_CHECKING:
    from langmem_graph.grounding.state import Policy
    from langmem_graph.recall.reasoner import OnEvent

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
        if self._mind:
            with span("flush", self.id) as noting:
                report = await self._mind.aflush(self.id)
                noting.note_sizes(report)
                return report
        return await asyncio.to_thread(unread_report, self._services, self.id)

    async def adrain(self, timeout: float | None = None) -> bool:
        """Async twin of `drain`."""
        self._writable("drain")
        if self._mind is None:
            return True
        return await self._mind.loop.arun(self._mind.background.drained(self.id, timeout))

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
        request = RecallRequest(query, mode, k, max_tokens, in_view, requests.iso(at))
        mind = requests.to_reason(self._mind, self.settings, request)
        with span("recall", self.id) as noting:
            found = await mind.loop.arun(mind.reasoner.recall(self.id, request, on_event))
            noting.note_sizes(found)
            return found

    async def aground(
        self, tool: Any, request: str, *, policy: "Policy" = "flag", at: object = None
    ) -> GroundedCall:
        """Async twin of `ground`."""
        mind, asked = await asyncio.to_thread(
            requests.to_ground, self._mind, tool, request, policy, at
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
