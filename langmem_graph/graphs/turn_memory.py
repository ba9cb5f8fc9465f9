"""`TurnMemory`: recall before a model call and storage after it, for nodes and
middleware.

When memory fails, the turn goes on: the context is empty, the report names the error,
and the log has a warning. A missing user id or messages key is a mistake of the
application and is raised.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langmem_graph.errors import InvalidInputError, LangMemGraphError, for_log, quoted
from langmem_graph.filters import Where, parsed
from langmem_graph.graphs.conversation_messages import (
    in_view,
    messages_in,
    query_of,
    value_in,
    worth_keeping,
)
from langmem_graph.graphs.user_identity import (
    THREAD_OWNERS,
    Owners,
    UserId,
    newest_owners,
    owned,
    owners_in,
    session_of,
    stored_before,
    stored_now,
    user_of,
)
from langmem_graph.ids_and_times import agent_key, folder_name
from langmem_graph.memory import Memory
from langmem_graph.metadata import Value, checked_metadata
from langmem_graph.pipelines import Pipelines
from langmem_graph.reports import AddReport, FlushReport
from langmem_graph.results import GroundedCall, Recall, RecallMode
from langmem_graph.retrieval.search_common import check_choice
from langmem_graph.rooms import room_names, shared_key
from langmem_graph.runtime import either, emitter
from langmem_graph.server_urls import as_shown
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import RECORDS_CHANGED, VECTORS_DELETED, get_meta
from langmem_graph.user_memory import UserMemory
from langmem_graph.view import View

_log = logging.getLogger(__name__)
NOT_A_LOSS = "no text in the message"  # pictures and empty answers
ExtractionMode = Literal["background", "inline", "manual"]
"""When new messages are extracted: in the background, before the node ends, or at
`flush`.
"""
Messages = Sequence[BaseMessage]
# JSON: `status` (ok, degraded, failed, skipped), `error`, results, cost
Report = dict[str, Any]


def check_memory(given: object) -> None:
    """Raise unless it is a `Memory`; a turn would take anything else for a memory that
    fails.
    """
    if not isinstance(given, Memory):
        what = (
            given
            if isinstance(given, str)
            else getattr(given, "__name__", type(given).__name__)
        )
        way = "Open one and give it: memory = Memory(path)."
        if isinstance(given, UserMemory):
            way = "Give the Memory itself, not memory.user(…): each run names its user."
        raise InvalidInputError(f"{quoted(what)} is not a Memory. {way}")


def pipelines_of(memory: Memory, what: str, otherwise: str = "") -> Pipelines:
    """The pipelines of a memory with a model, which `what` needs."""
    check_memory(memory)
    if memory._pipelines is None:  # same package
        text = (
            f"{what} needs a memory with a model: Memory(path, model='openai:…'). "
            f"{otherwise}"
        )
        raise InvalidInputError(text.strip())
    return memory._pipelines


def view_of(
    memory: Memory, user_id: UserId, where: Where | None, shared: Sequence[str | int]
) -> Callable[[RunnableConfig], View]:
    """What the runs of a graph read: through the filter, in the shared rooms that their
    user may read at each reading too.
    """
    condition = parsed(where)
    rooms = room_names(shared)

    def of_run(config: RunnableConfig) -> View:
        user = user_of(config, user_id)
        if not rooms:
            return View((user,), condition)
        # same package
        ask = partial(memory.user(user, shared=rooms)._view, where)
        return View((user, *map(shared_key, rooms)), condition, ask=ask)

    return of_run


@dataclass(frozen=True)
class TurnMemory:
    """Recall, storage and grounding for one turn; the options are those of the nodes.

    With `blocking`, for a run under `invoke`, its methods wait for nothing; see
    `runtime.either`.
    """

    memory: Memory
    user_id: UserId = None
    k: int | None = None
    max_tokens: int | None = None
    fail_closed: bool = False
    extraction: ExtractionMode = "background"
    read_your_writes: bool = False
    mode: RecallMode = "fast"
    where: Where | None = None
    metadata: Mapping[str, Value] | None = None
    agent_id: str | int | None = None
    show_context: bool = False
    shared: Sequence[str | int] = ()
    surface: str = ""
    """The name of a middleware; empty for nodes."""

    def __post_init__(self) -> None:
        check_memory(self.memory)
        parsed(self.where)
        room_names(self.shared)
        checked_metadata(self.metadata)
        agent_key(self.agent_id)
        for name, allowed in (("extraction", ExtractionMode), ("mode", RecallMode)):
            check_choice(name, getattr(self, name), get_args(allowed))
        if self.mode != "fast":
            pipelines_of(self.memory, f"mode={self.mode!r}")
        for name in ("k", "max_tokens"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InvalidInputError(
                    f"{name} must be a whole number above 0, not {quoted(value)}."
                )

    def user(self, config: RunnableConfig) -> str:
        """The id of the user whose turn it is."""
        return user_of(config, self.user_id)

    def thread(
        self, state: Any, config: RunnableConfig, key: str = "messages"
    ) -> tuple[list[BaseMessage], Owners, Sequence[BaseMessage]]:
        """The conversation, whose it is now, and their part of it."""
        messages = messages_in(state, key)
        before = value_in(state, "memory_owner")
        seen = THREAD_OWNERS.of(self._thread_name(config), messages)
        known = newest_owners(messages, seen, owners_in(before))
        owners, own = owned(messages, self.user(config), known, self._surface)
        self._note(owners, config)
        return messages, owners, own

    def _note(self, owners: Owners, config: RunnableConfig) -> None:
        if (config.get("configurable") or {}).get("thread_id"):
            THREAD_OWNERS.note(self._thread_name(config), owners)

    def _thread_name(self, config: RunnableConfig) -> str:
        return (
            f"{self._memory_name} {(config.get('configurable') or {}).get('thread_id')}"
        )

    @property
    def _surface(self) -> str:
        """Nodes of the run's user are told apart from those of each fixed or computed
        user.
        """
        given = self.user_id
        if self.surface or given is None:
            return self.surface or "nodes"
        if not callable(given):
            return f"nodes of {given}"
        # of lambdas
        line = getattr(getattr(given, "__code__", None), "co_firstlineno", "")
        return f"nodes of {getattr(given, '__qualname__', type(given).__name__)} {line}"

    @property
    def _memory_name(self) -> str:
        return folder_name(self.memory._services.directory.place)[:16]  # same package

    async def recall(
        self, messages: Messages, config: RunnableConfig, blocking: bool
    ) -> tuple[str, Report]:
        """The context for this turn (empty when there is none) and a report."""
        user = self.user(config)
        query = query_of(messages)
        context = ""
        with self._guarded("memory_recall") as report:
            if query:
                memory = self.memory.user(user, shared=self.shared)
                if self.read_your_writes:
                    await either(blocking, memory.flush, memory.aflush)()
                recall = either(blocking, memory.recall, memory.arecall)
                context = _note_recall(
                    report, await recall(query, **self._options(messages))
                )
            if self.show_context:
                report["context"] = context
        return context, report

    async def deletions(self, config: RunnableConfig, blocking: bool) -> object:
        """What differs after a deletion in a room that is recalled from, or once one is
        refused.

        It differs, too, once a record was ended, hidden or taken back.

        None where they cannot be read: recall then reports why.
        """
        # same package
        read = self.memory.user(self.user(config), shared=self.shared)._read_along
        try:
            return await either(blocking, read)(None, _deletions)
        except LangMemGraphError:
            return None

    async def write(
        self, messages: Messages, owners: Owners, config: RunnableConfig, blocking: bool
    ) -> tuple[Owners, Report]:
        """Store the messages that memory does not have yet, but none that it has
        forgotten since.

        Returns:
            The thread's owners, with the newest messages that are stored, and a report.
        """
        user = self.user(config)
        new = worth_keeping(messages)
        with self._guarded("memory_write") as report:
            if new:
                session = session_of(config, messages)
                memory = self.memory.user(user)
                add = either(blocking, memory.add, memory.aadd)
                about: dict[str, Any] = {
                    "metadata": self.metadata,
                    "agent_id": self.agent_id,
                }
                owner = owners[self._surface]
                about |= {
                    "given_before": stored_before(messages, owner, self._memory_name)
                }
                added = await add(
                    new, session_id=session, whole_conversation=True, **about
                )
                refused = _note_write(report, added)
                owner = stored_now(messages, owner, self._memory_name, refused)
                owners = {**owners, self._surface: owner}
                self._note(owners, config)
                if self.extraction == "inline":
                    _note_flush(
                        report, await either(blocking, memory.flush, memory.aflush)()
                    )
                elif self.extraction == "background":
                    memory.flush_soon()
        return owners, report

    async def ground(
        self,
        tool: Any,
        messages: Messages,
        config: RunnableConfig,
        options: Mapping[str, Any],
        blocking: bool,
    ) -> GroundedCall | None:
        """The tool call filled from memory; None without a request or when memory
        fails.
        """
        user = self.user(config)
        request = query_of(messages)
        call = None
        with self._guarded("memory_grounding") as report:
            if request:
                memory = self.memory.user(user, shared=self.shared)
                ground = either(blocking, memory.ground, memory.aground)
                call = await ground(tool, request, where=self.where, **options)
                _note_grounding(report, call)
        return call

    def _options(self, messages: Messages) -> dict[str, Any]:
        options: dict[str, Any] = {
            "k": self.k,
            "max_tokens": self.max_tokens,
            "mode": self.mode,
        }
        options |= {"where": self.where}
        return {**options, "in_view": in_view(messages), "on_event": emitter()}

    @contextmanager
    def _guarded(self, event: str) -> Iterator[Report]:
        """Report an error of the block instead of raising it, then send the stream
        event.
        """
        report: Report = {"status": "skipped", "error": None}
        try:
            yield report
        except Exception as error:
            if self.fail_closed:
                raise
            text, _ = as_shown(error)
            report |= {"status": "failed", "error": text}
            _log.warning(
                "%s failed, the turn goes on without: %s", event, for_log(error)
            )
        # ids and figures, no text but with show_context
        emitter()({"event": event, **report})


def _deletions(connection: Reading) -> list[str | None]:
    return [
        get_meta(connection, k) for k in ("ledger_id", VECTORS_DELETED, RECORDS_CHANGED)
    ]


def _note_recall(report: Report, recalled: Recall) -> str:
    report |= recalled.report.model_dump(mode="json")
    if recalled.reasoning is not None:
        report["reasoning"] = recalled.reasoning.model_dump(mode="json")
    report["message_ids"] = [hit.message_id for hit in recalled.evidence]
    return recalled.context


def _note_grounding(report: Report, call: GroundedCall) -> None:
    report |= {
        "status": "ok",
        "tool": call.name,
        "filled": list(call.grounding),
        "missing": [slot.name for slot in call.missing],
        "offered": list(call.offered),
        "llm_calls": call.llm_calls,
    }


def _note_write(report: Report, added: AddReport) -> list[str]:
    """Complete the report; the ids of messages that were not stored and should have
    been.
    """
    lost = [one.id or "" for one in added.rejected if one.reason != NOT_A_LOSS]
    if lost:
        _log.warning(
            "%d messages of this turn were not stored; see the report", len(lost)
        )
    report |= {
        "status": "degraded"
        if lost or added.warnings or added.not_yet_embedded
        else "ok",
        "stored": len(added.stored) + len(added.renamed),
        "already_known": len(added.already_known),
        "forgotten": len(added.forgotten),
        "rejected": [message.reason for message in added.rejected],
        "dropped": added.dropped,
        "not_yet_embedded": len(added.not_yet_embedded),
        "warnings": added.warnings,
        "llm_calls": 0,
        "milliseconds": {"total": added.milliseconds},
    }
    return lost


def _note_flush(report: Report, extracted: FlushReport) -> None:
    if extracted.status == "no_model":
        return
    report["llm_calls"] = extracted.llm_calls
    report["extraction"] = extracted.model_dump(mode="json", exclude={"reasons"})
    if extracted.status == "partial":
        report["status"] = "degraded"


def combined(first: Report | None, second: Report) -> Report:
    """Two writes of one turn as one report, with the status of the second.

    The second write stores what the first could not.
    """
    if not first or "stored" not in first or "stored" not in second:
        return second
    spent = first["milliseconds"]["total"] + second["milliseconds"]["total"]
    stored = first["stored"] + second["stored"]
    return {**second, "stored": stored, "milliseconds": {"total": spent}}
