"""One turn's memory: recall before the model speaks, write after. Nodes and middleware use this.

Memory failing does not fail the turn: the recall is then empty, the report says why, and the log
has a warning. A missing user id or messages key is a mistake in the application and is raised.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.graphs.conversation import in_view, query_of, worth_keeping
from langmem_graph.graphs.identity import UserId, session_of, user_of
from langmem_graph.memory import Memory, check_memory
from langmem_graph.reports import AddReport, FlushReport
from langmem_graph.runtime import emitter
from langmem_graph.schemas import GroundedCall, Recall, RecallMode

_log = logging.getLogger(__name__)

NOT_A_LOSS = "no text in the message"  # pictures and empty answers
Reading = Literal["background", "inline", "manual"]
"""When the model reads what was written: a moment later, before the node ends, or at `flush`."""
Report = dict[str, Any]
"""JSON-shaped: `status` (ok, degraded, failed or skipped), `error`, and what was done and spent."""


@dataclass(frozen=True)
class TurnMemory:
    """The memory of whoever's turn it is; the options are those of the nodes."""

    memory: Memory
    user_id: UserId = None
    k: int | None = None
    max_tokens: int | None = None
    fail_closed: bool = False
    reading: Reading = "background"
    read_your_writes: bool = False
    mode: RecallMode = "fast"

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.reading not in get_args(Reading):
            raise InvalidInputError(
                f"reading must be one of {', '.join(get_args(Reading))}, not {self.reading!r}."
            )
        if self.mode not in get_args(RecallMode):
            raise InvalidInputError(
                f"mode must be one of {', '.join(get_args(RecallMode))}, not {self.mode!r}."
            )
        if self.mode != "fast" and self.memory._pipelines is None:  # same package
            raise InvalidInputError(
                f"mode={self.mode!r} needs a memory with a model: Memory(path, model='openai:…')."
            )
        for name in ("k", "max_tokens"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InvalidInputError(f"{name} must be a whole number above 0, not {value!r}.")

    def user(self, config: RunnableConfig) -> str:
        """Whose turn it is."""
        return user_of(config, self.user_id)

    def recall(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> tuple[str, Report]:
        """The context for this turn (empty when there is none) and a report."""
        user, query, report = self.user(config), query_of(messages), _new_report()
        context = ""
        with self._guarded("memory_recall", report):
            if query:
                if self.read_your_writes:
                    self.memory.user(user).flush()
                found = self.memory.user(user).recall(query, **self._options(messages))
                context = _note_recall(report, found)
        return context, report

    async def arecall(
        self, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> tuple[str, Report]:
        """Async twin of `recall`."""
        user, query, report = self.user(config), query_of(messages), _new_report()
        context = ""
        with self._guarded("memory_recall", report):
            if query:
                if self.read_your_writes:
                    await self.memory.user(user).aflush()
                found = await self.memory.user(user).arecall(query, **self._options(messages))
                context = _note_recall(report, found)
        return context, report

    def write(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> Report:
        """Store what was said and is not known yet."""
        user, report, said = self.user(config), _new_report(), worth_keeping(messages)
        with self._guarded("memory_write", report):
            if said:
                session = session_of(config, messages)
                own = self.memory.user(user)
                done = own.add(said, session_id=session, whole_conversation=True)
                _note_write(report, done)
                if self.reading == "inline":
                    _note_flush(report, own.flush())
                elif self.reading == "background":
                    own.flush_soon()
        return report

    async def awrite(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> Report:
        """Async twin of `write`."""
        user, report, said = self.user(config), _new_report(), worth_keeping(messages)
        with self._guarded("memory_write", report):
            if said:
                session = session_of(config, messages)
                own = self.memory.user(user)
                done = await own.aadd(said, session_id=session, whole_conversation=True)
                _note_write(report, done)
                if self.reading == "inline":
                    _note_flush(report, await own.aflush())
                elif self.reading == "background":
                    own.flush_soon()
        return report

    def ground(
        self, tool: Any, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> GroundedCall | None:
        """What memory knows for a tool call; None where nothing is asked or memory fails.

        Values that do not surely follow are left out: nobody would read the warning.
        """
        user, request, report = self.user(config), query_of(messages), _new_report()
        found = None
        with self._guarded("memory_grounding", report):
            if request:
                found = self.memory.user(user).ground(tool, request, policy="drop")
                _note_grounding(report, found)
        return found

    async def aground(
        self, tool: Any, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> GroundedCall | None:
        """Async twin of `ground`."""
        user, request, report = self.user(config), query_of(messages), _new_report()
        found = None
        with self._guarded("memory_grounding", report):
            if request:
                found = await self.memory.user(user).aground(tool, request, policy="drop")
                _note_grounding(report, found)
        return found

    def _options(self, messages: Sequence[BaseMessage]) -> dict[str, Any]:
        return {
            "k": self.k,
            "max_tokens": self.max_tokens,
            "in_view": in_view(messages),
            "mode": self.mode,
            "on_event": emitter(),
        }

    @contextmanager
    def _guarded(self, event: str, report: Report) -> Iterator[None]:
        """What fails inside is reported instead of raised; then the event is sent."""
        try:
            yield
        except Exception as error:
            if self.fail_closed:
                raise
            report |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
            _log.warning("%s failed, the turn goes on without: %s", event, for_log(error))
        _emit(event, report)


def _new_report() -> Report:
    return {"status": "skipped", "error": None}


def _note_recall(report: Report, found: Recall) -> str:
    report |= found.report.model_dump(mode="json")
    if found.reasoning is not None:
        report["reasoning"] = found.reasoning.model_dump(mode="json")
    report["message_ids"] = [hit.message_id for hit in found.evidence]
    return found.context


def _note_grounding(report: Report, found: GroundedCall) -> None:
    report |= {
        "status": "ok",
        "tool": found.name,
        "filled": list(found.grounding),
        "missing": [one.name for one in found.missing],
        "llm_calls": found.llm_calls,
    }


def _note_write(report: Report, done: AddReport) -> None:
    refused = [one.reason for one in done.rejected]
    lost = [reason for reason in refused if reason != NOT_A_LOSS]
    if lost:
        _log.warning("%d messages of this turn were not stored; see the report", len(lost))
    report |= {
        "status": "degraded" if lost or done.warnings or done.not_yet_embedded else "ok",
        "stored": len(done.stored) + len(done.renamed),
        "already_known": len(done.already_known),
        "rejected": refused,
        "not_yet_embedded": len(done.not_yet_embedded),
        "warnings": done.warnings,
        "llm_calls": 0,
        "milliseconds": {"total": done.milliseconds},
    }


def _note_flush(report: Report, done: FlushReport) -> None:
    if done.status == "no_model":
        return
    report["llm_calls"] = done.llm_calls
    report["reading"] = done.model_dump(mode="json", exclude={"reasons"})
    if done.status == "partial":
        report["status"] = "degraded"


def combined(first: Report | None, second: Report) -> Report:
    """Two writes of one turn as one report.

    The second says how it ended: it stores what the first could not.
    """
    if not first or "stored" not in first or "stored" not in second:
        return second
    spent = first["milliseconds"]["total"] + second["milliseconds"]["total"]
    stored = first["stored"] + second["stored"]
    return {**second, "stored": stored, "milliseconds": {"total": spent}}


def _emit(event: str, report: Report) -> None:
    """Send a custom stream event (`stream_mode="custom"`): ids and figures, no text."""
    emitter()({"event": event, **report})
