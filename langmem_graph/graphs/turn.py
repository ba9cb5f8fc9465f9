"""One turn's memory: recall before the model speaks, write after. Nodes and middleware use this.

Memory failing does not fail the turn: the recall is then empty, the report says why, and the log
has a warning. A missing user id or messages key is a mistake in the application and is raised.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langmem_graph.graphs.conversation import question_of, texts_in_view, worth_keeping
from langmem_graph.graphs.identity import UserId, current_runtime, session_of, user_of
from langmem_graph.memory import Memory
from langmem_graph.models import AddReport, Recall

_log = logging.getLogger(__name__)

Report = dict[str, Any]
"""JSON-shaped: `status` (ok, degraded, failed or skipped), `error`, and what was done and spent."""


@dataclass(frozen=True)
class TurnMemory:
    """The memory of whoever's turn it is."""

    memory: Memory
    user_id: UserId = None
    k: int | None = None
    max_tokens: int | None = None
    fail_closed: bool = False

    def recall(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> tuple[str, Report]:
        """The context for this turn (empty when there is none) and a report."""
        user, report = user_of(config, self.user_id), _new_report()
        context = ""
        if query := question_of(messages):
            with self._guarded("recall", report):
                found = self.memory.user(user).recall(query, **self._options(messages))
                context = _note_recall(report, found)
        _emit("memory_recall", report)
        return context, report

    async def arecall(
        self, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> tuple[str, Report]:
        """Async twin of `recall`."""
        user, report = user_of(config, self.user_id), _new_report()
        context = ""
        if query := question_of(messages):
            with self._guarded("recall", report):
                found = await self.memory.user(user).arecall(query, **self._options(messages))
                context = _note_recall(report, found)
        _emit("memory_recall", report)
        return context, report

    def write(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> Report:
        """Store what was said and is not known yet."""
        user, report = user_of(config, self.user_id), _new_report()
        if said := worth_keeping(messages):
            session = session_of(config, messages)
            with self._guarded("write", report):
                store = self.memory.user(user).add
                _note_write(report, store(said, session_id=session, whole_conversation=True))
        _emit("memory_write", report)
        return report

    async def awrite(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> Report:
        """Async twin of `write`."""
        user, report = user_of(config, self.user_id), _new_report()
        if said := worth_keeping(messages):
            session = session_of(config, messages)
            with self._guarded("write", report):
                store = self.memory.user(user).aadd
                _note_write(report, await store(said, session_id=session, whole_conversation=True))
        _emit("memory_write", report)
        return report

    def _options(self, messages: Sequence[BaseMessage]) -> dict[str, Any]:
        return {"k": self.k, "max_tokens": self.max_tokens, "in_view": texts_in_view(messages)}

    @contextmanager
    def _guarded(self, step: str, report: Report) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.fail_closed:
                raise
            report |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
            _log.warning("memory %s failed, the turn goes on without: %s", step, report["error"])


def _new_report() -> Report:
    return {"status": "skipped", "error": None}


def _note_recall(report: Report, found: Recall) -> str:
    report |= found.report.model_dump(mode="json")
    report["message_ids"] = [hit.message_id for hit in found.evidence]
    return found.context


def _note_write(report: Report, done: AddReport) -> None:
    report |= {
        "status": "degraded" if done.warnings or done.not_yet_embedded else "ok",
        "stored": len(done.stored) + len(done.renamed),
        "already_known": len(done.already_known),
        "rejected": [rejected.reason for rejected in done.rejected],
        "not_yet_embedded": len(done.not_yet_embedded),
        "warnings": done.warnings,
        "llm_calls": 0,
        "milliseconds": {"total": done.milliseconds},
    }


def combined(first: Report | None, second: Report) -> Report:
    """Two writes of one turn as one report; the second says how it ended."""
    if not first or "stored" not in first or "stored" not in second:
        return second
    spent = first["milliseconds"]["total"] + second["milliseconds"]["total"]
    stored = first["stored"] + second["stored"]
    return {**second, "stored": stored, "milliseconds": {"total": spent}}


def _emit(event: str, report: Report) -> None:
    """Send a custom stream event (`stream_mode="custom"`): ids and figures, no text."""
    if runtime := current_runtime():
        runtime.stream_writer({"event": event, **report})
