"""The asynchronous methods of `UserMemory`, and the base of everything that has to be closed.

Methods that call a model await the memory's own event loop; the others run in a worker thread.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from langmem_graph.errors import InvalidInputError, ReadOnlyError
from langmem_graph.reports import AddReport, EraseReport, FlushReport, ForgetReport, Health
from langmem_graph.retrieval.search_common import recall_request
from langmem_graph.schemas import (
    MessageHit,
    Recall,
    RecallMode,
    RecallRequest,
    Record,
    RecordHit,
    SearchBy,
)
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.message_queries import SessionSummary
from langmem_graph.tracing import span

if TYPE_CHECKING:
    from langmem_graph.causal import CausalScorer
    from langmem_graph.grounding.state import Policy
    from langmem_graph.pipelines import Pipelines
    from langmem_graph.reasoning.graph import OnEvent
    from langmem_graph.reports import RecordsReport
    from langmem_graph.schemas import GroundedCall, HistoryEntry, Message


class Closing(ABC):
    """Base of `Memory` and `ChromaStore`: closed at the end of a `with` or `async with` block."""

    @abstractmethod
    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call twice."""

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class _Sync(Protocol):
    """The synchronous methods that the asynchronous ones call; `UserMemory` defines them."""

    id: str
    settings: Settings
    _pipelines: "Pipelines | None"

    def _check_writable(self, what: str) -> None: ...
    def _with_model(self, what: str, otherwise: str = "") -> "Pipelines": ...
    def _reasoning(
        self,
        query: str,
        mode: RecallMode,
        k: int | None,
        max_tokens: int | None,
        in_view: Sequence[str],
        at: object,
    ) -> "tuple[Pipelines, RecallRequest]": ...
    def add(self, *args: Any, **options: Any) -> AddReport: ...
    def flush(self, *args: Any, **options: Any) -> FlushReport: ...
    def search_conversation(self, *args: Any, **options: Any) -> list[MessageHit]: ...
    def recall(self, *args: Any, **options: Any) -> Recall: ...
    def add_records(self, *args: Any, **options: Any) -> "RecordsReport": ...
    def search_records(self, *args: Any, **options: Any) -> list[RecordHit]: ...
    def get_records(self, *args: Any, **options: Any) -> list[Record]: ...
    def files(self, *args: Any, **options: Any) -> list[str]: ...
    def read_file(self, *args: Any, **options: Any) -> str: ...
    def export_records(self, *args: Any, **options: Any) -> list[dict[str, Any]]: ...
    def remember(self, *args: Any, **options: Any) -> Record: ...
    def forget(self, *args: Any, **options: Any) -> ForgetReport: ...
    def history(self, *args: Any, **options: Any) -> "list[HistoryEntry]": ...
    def undo(self, *args: Any, **options: Any) -> list[Record]: ...
    def get_conversation(self, *args: Any, **options: Any) -> "list[Message]": ...
    def sessions(self, *args: Any, **options: Any) -> list[SessionSummary]: ...
    def export(self, *args: Any, **options: Any) -> list[dict[str, Any]]: ...
    def erase(self, *args: Any, **options: Any) -> EraseReport: ...
    def doctor(self, *args: Any, **options: Any) -> Health: ...
    def rebuild(self, *args: Any, **options: Any) -> Health: ...


def open_pipelines(
    services: Services, model: Any, causal_scorer: "CausalScorer | str"
) -> "Pipelines | None":
    """The pipelines of a memory, or None without a model.

    LangChain's models are slow to import, so only a memory with a model imports them.
    """
    if model is None:
        return None
    from langmem_graph.pipelines import Pipelines

    return Pipelines.open(services, model, causal_scorer)


class AsyncMethods:
    """Base of `UserMemory`: `aadd`, `arecall` and so on, each with the arguments of its twin."""

    def __init__(self, services: Services, user_id: str, pipelines: "Pipelines | None") -> None:
        self._services = services
        self._pipelines = pipelines
        self.id = user_id
        self.settings = services.settings

    def _check_writable(self, what: str) -> None:
        if self._services.read_only:
            raise ReadOnlyError(f"{what} needs a memory opened for writing, not read_only=True.")

    def _with_model(self, what: str, otherwise: str = "") -> "Pipelines":
        if self._pipelines is None:
            raise InvalidInputError(
                f"{what} needs a model: Memory(path, model='openai:…'). {otherwise}".strip()
            )
        return self._pipelines

    def _reasoning(
        self,
        query: str,
        mode: RecallMode,
        k: int | None,
        max_tokens: int | None,
        in_view: Sequence[str],
        at: object,
    ) -> "tuple[Pipelines, RecallRequest]":
        request = recall_request(self.settings, query, mode, k, max_tokens, in_view, at)
        otherwise = "Without one there is mode='fast'."
        return self._with_model(f"recall(mode={mode!r})", otherwise), request

    async def aadd(
        self: _Sync,
        messages: Any,
        *,
        session_id: str | int,
        at: object = None,
        whole_conversation: bool = False,
    ) -> AddReport:
        """Async twin of `add`."""
        return await asyncio.to_thread(
            self.add, messages, session_id=session_id, at=at, whole_conversation=whole_conversation
        )

    async def aflush(self: _Sync) -> FlushReport:
        """Async twin of `flush`."""
        self._check_writable("flush")
        if self._pipelines is None:
            return await asyncio.to_thread(self.flush)
        with span("flush", self.id) as noting:
            report = await self._pipelines.aflush(self.id)
            noting.note_sizes(report)
            return report

    async def adrain(self: _Sync, timeout: float | None = None) -> bool:
        """Async twin of `drain`."""
        self._check_writable("drain")
        return self._pipelines is None or await self._pipelines.adrain(self.id, timeout)

    async def asearch_conversation(
        self: _Sync,
        query: str,
        k: int = 5,
        by: SearchBy = "message",
        *,
        explain: bool = False,
        ranking: RankingMethod | None = None,
    ) -> list[MessageHit]:
        """Async twin of `search_conversation`."""
        return await asyncio.to_thread(
            self.search_conversation, query, k, by, explain=explain, ranking=ranking
        )

    async def arecall(
        self: _Sync,
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
        pipelines, request = self._reasoning(query, mode, k, max_tokens, in_view, at)
        with span("recall", self.id) as noting:
            recalled = await pipelines.arecall(self.id, request, on_event)
            noting.note_sizes(recalled)
            return recalled

    async def aground(
        self: _Sync, tool: Any, request: str, *, policy: "Policy" = "flag", at: object = None
    ) -> "GroundedCall":
        """Async twin of `ground`."""
        pipelines = self._with_model("ground")
        with span("ground", self.id) as noting:
            call = await pipelines.aground(self.id, tool, request, policy, at)
            noting.note_sizes(call)
            return call

    async def aadd_records(self: _Sync, records: Any) -> "RecordsReport":
        """Async twin of `add_records`."""
        return await asyncio.to_thread(self.add_records, records)

    async def asearch_records(
        self: _Sync, query: str, k: int = 5, *, as_of: object = None, explain: bool = False
    ) -> list[RecordHit]:
        """Async twin of `search_records`."""
        return await asyncio.to_thread(self.search_records, query, k, as_of=as_of, explain=explain)

    async def aget_records(self: _Sync, ids: str | Sequence[str]) -> list[Record]:
        """Async twin of `get_records`."""
        return await asyncio.to_thread(self.get_records, ids)

    async def afiles(self: _Sync) -> list[str]:
        """Async twin of `files`."""
        return await asyncio.to_thread(self.files)

    async def aread_file(self: _Sync, name: str) -> str:
        """Async twin of `read_file`."""
        return await asyncio.to_thread(self.read_file, name)

    async def aexport_records(
        self: _Sync, *, as_of: object = None, history: bool = False
    ) -> list[dict[str, Any]]:
        """Async twin of `export_records`."""
        return await asyncio.to_thread(self.export_records, as_of=as_of, history=history)

    async def aremember(self: _Sync, text: str) -> Record:
        """Async twin of `remember`."""
        return await asyncio.to_thread(self.remember, text)

    async def aforget(
        self: _Sync,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
    ) -> ForgetReport:
        """Async twin of `forget`."""
        return await asyncio.to_thread(self.forget, record=record, message=message, session=session)

    async def ahistory(self: _Sync, record_id: str) -> "list[HistoryEntry]":
        """Async twin of `history`."""
        return await asyncio.to_thread(self.history, record_id)

    async def aundo(self: _Sync, record_id: str) -> list[Record]:
        """Async twin of `undo`."""
        return await asyncio.to_thread(self.undo, record_id)

    async def aget_conversation(self: _Sync, ids: str | Sequence[str]) -> "list[Message]":
        """Async twin of `get_conversation`."""
        return await asyncio.to_thread(self.get_conversation, ids)

    async def asessions(self: _Sync) -> list[SessionSummary]:
        """Async twin of `sessions`."""
        return await asyncio.to_thread(self.sessions)

    async def aexport(self: _Sync) -> list[dict[str, Any]]:
        """Async twin of `export`."""
        return await asyncio.to_thread(self.export)

    async def aerase(self: _Sync) -> EraseReport:
        """Async twin of `erase`."""
        return await asyncio.to_thread(self.erase)

    async def adoctor(self: _Sync, *, sample: int = 200) -> Health:
        """Async twin of `doctor`."""
        return await asyncio.to_thread(self.doctor, sample=sample)

    async def arebuild(self: _Sync, *, reembed: bool = False) -> Health:
        """Async twin of `rebuild`."""
        return await asyncio.to_thread(self.rebuild, reembed=reembed)
