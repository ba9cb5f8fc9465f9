"""The methods of `UserMemory` that may call a model: recall, grounding, and
extraction.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.filters import Where
from langmem_graph.operation import operation, twin
from langmem_graph.reports import FlushForecast, FlushReport, OnProgress
from langmem_graph.results import Recall, RecallMode
from langmem_graph.retrieval import fast_recall
from langmem_graph.retrieval.search_common import RecallRequest, recall_request
from langmem_graph.storage import pending_messages
from langmem_graph.threads import in_thread, in_thread_of, uninterrupted
from langmem_graph.user_methods import UserMethods

if TYPE_CHECKING:
    from langmem_graph.grounding.state import Policy, ReadMode
    from langmem_graph.pipelines import Pipelines
    from langmem_graph.reasoning.graph import OnEvent
    from langmem_graph.results import GroundedCall
    from langmem_graph.schemas import Origin


_LONGEST_WAIT = 1e9  # seconds: 30 years


class ModelMethods(UserMethods):
    """Base of `UserMemory`: what is recalled, filled in, read, and what reading would
    cost.
    """

    @operation("read", model=True)
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
        where: Where | None = None,
    ) -> Recall:
        """What a model should see before it answers `query`: a quoted context and its
        evidence.

        Args:
            query: usually the user's last message; a time in it is compared with the
                schedule.
            k: messages to consider; default `Settings.context.k`.
            max_tokens: budget of the context; default `Settings.context.max_tokens`.
            in_view: ids or texts of messages that the model sees anyway; they are not
                quoted.
            mode: `fast` searches once and calls no model. `auto` and `reason` chain
                backwards over memory and ask what an act could cause: mostly 1 to 5
                calls, at most `Settings.reasoning.max_calls`; `auto` makes none for
                small talk and vague turns.
            at: when it is asked, which gives "tomorrow" and "next" their meaning;
                default now.
            on_event: called with each step of reasoning as it happens, in the memory's
                own thread: it must return soon, and must not call this memory.
            where: only what passes this filter, such as `{"project": "atlas"}`; see
                docs/scopes.md.

        Shared rooms are left out where they may not be read or fail: `report.warnings`
        says so.

        Returns:
            `context` (empty when nothing was found), `evidence` best first, and a
            `report` of status, cost and milliseconds; with reasoning also its outcome,
            facts and `trace`.

        Raises:
            InvalidInputError: an empty query, an unusable option, or no model for the
                mode.
        """
        request = recall_request(self.settings, query, mode, k, max_tokens, in_view, at)
        if mode == "fast":
            return uninterrupted(self._look_up)(request, where)
        pipelines = self._reasoning(mode)
        work = pipelines.reasoning.recall(self._view(where), request, on_event)
        return pipelines.loop.run(work)

    @operation("read", model=True)
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
        where: Where | None = None,
    ) -> Recall:
        """Async twin of `recall`."""
        request = recall_request(self.settings, query, mode, k, max_tokens, in_view, at)
        if mode == "fast":
            look_up = partial(self._look_up, request, where)
            return await in_thread_of(self.id, look_up)
        pipelines = self._reasoning(mode)
        view = await in_thread(self._view, where)
        work = pipelines.reasoning.recall(view, request, on_event)
        return await pipelines.loop.arun(work)

    def _look_up(self, request: RecallRequest, where: Where | None) -> Recall:
        return fast_recall.fast_recall(self._services, self._view(where), request)

    def _reasoning(self, mode: RecallMode) -> "Pipelines":
        return self._with_model(
            f"recall(mode={mode!r})", "Without one there is mode='fast'."
        )

    @operation("read", model=True, in_rooms=False)
    def ground(
        self,
        tool: Any,
        request: str,
        *,
        policy: "Policy" = "flag",
        trust: "Sequence[Origin]" = ("user",),
        model_may_choose: Sequence[str] = (),
        read: "ReadMode | Mapping[str, ReadMode]" = "send",
        at: object = None,
        where: Where | None = None,
    ) -> "GroundedCall":
        """Fill a tool call's arguments from memory, each with where it comes from.

        A text is sent where it stands in the request or in what the user said
        (`copied`). A number, a yes or no, an allowed value, a date or a time may also
        be the model's reading of these words (`read`). What others said is `offered`.

        Args:
            tool: a LangChain tool, pydantic model, OpenAI function or JSON schema with
                a title; or a list of these to choose from.
            request: what the user asks for, such as "book that flight with my usual
                seat".
            policy: of an optional argument whose value is not sent: `flag` warns,
                `drop` is silent, `ask` names it as missing. What the model chose itself
                is sent under `flag` alone.
            trust: whose messages count like the user's: of `user`, `assistant`, `tool`,
                `import`.
            model_may_choose: arguments whose value the model may choose itself, such as
                `insured`, `guest.vip` or, of one tool of several,
                `book_flight.insured`.
            read: whether a value that the model has read from the user's words is sent
                (`send`), offered for a yes (`ask`) or left out (`omit`); also by tool
                or argument: `{"pay": "ask", "pay.amount": "omit"}`.
            at: when it is asked; default now.
            where: fill it from what passes this filter alone; see docs/scopes.md.

        What others wrote in shared rooms counts as `import`: it is offered, with room
        and author.

        Returns:
            Schema-valid arguments, their grounding, and what is `missing`. 1 to 3 model
            calls, each of which is repeated once where its answer cannot be used.

        Raises:
            InvalidInputError: an unusable tool, request or option, or a memory without
                a model.
        """
        options: dict[str, Any] = {
            "policy": policy,
            "trust": trust,
            "model_may_choose": model_may_choose,
            "read": read,
        }
        pipelines = self._with_model("ground")
        work = pipelines.ground(self._view(where), tool, request, at, options)
        return pipelines.loop.run(work)

    @operation("read", model=True, in_rooms=False)
    async def aground(
        self,
        tool: Any,
        request: str,
        *,
        policy: "Policy" = "flag",
        trust: "Sequence[Origin]" = ("user",),
        model_may_choose: Sequence[str] = (),
        read: "ReadMode | Mapping[str, ReadMode]" = "send",
        at: object = None,
        where: Where | None = None,
    ) -> "GroundedCall":
        """Async twin of `ground`."""
        options: dict[str, Any] = {
            "policy": policy,
            "trust": trust,
            "model_may_choose": model_may_choose,
            "read": read,
        }
        pipelines = self._with_model("ground")
        view = await in_thread(self._view, where)
        work = pipelines.ground(view, tool, request, at, options)
        return await pipelines.loop.arun(work)

    @operation("read")
    def flush_forecast(self) -> FlushForecast:
        """What `flush` would read now, and about how many calls and tokens it would
        take.

        No model is called or needed, and nothing is read in the background because of
        it. 10,000 messages take 1.5 s (`python -m benchmarks.backlog`, on two cores).
        """
        from langmem_graph.extraction.forecast_flush import forecast

        finds_causes = (
            self._pipelines is None
            or self._pipelines.extraction.deps.causal is not None
        )
        return forecast(self._services, self.id, finds_causes=finds_causes)

    aflush_forecast = twin(flush_forecast)

    @operation("write", model=True)
    def flush(self, on_progress: OnProgress | None = None) -> FlushReport:
        """Run extraction on all pending messages and report what became of them and its
        cost.

        Without a model the status is `no_model`. What could not be extracted stays
        pending. An interrupt from the keyboard ends the flush; the batch that was being
        read stays pending.

        Args:
            on_progress: called with a `FlushProgress` after each batch, and after each
                round of causes, topics and profile at the end, in the memory's own
                thread: it must return soon, and must not call this memory. Where it
                returns False or raises an error, the flush stops with the status
                `partial`, and background extraction of this user waits for new
                messages. Another flush goes on where this one stopped.
        """
        if self._pipelines is None:
            return uninterrupted(self._without_model)()
        return self._pipelines.flush(self.id, on_progress)

    @operation("write", model=True)
    async def aflush(self, on_progress: OnProgress | None = None) -> FlushReport:
        """Async twin of `flush`."""
        if self._pipelines is None:
            return await in_thread_of(self.id, self._without_model)
        return await self._pipelines.aflush(self.id, on_progress)

    def _without_model(self) -> FlushReport:
        pending = self._services.read(
            self._own_view(), pending_messages.count_unread, 0
        )
        return FlushReport(status="no_model", pending=pending)

    @operation("write", model=True)
    def flush_soon(self) -> None:
        """Run extraction in the background, as nodes and middleware do; `add` itself
        does not.
        """
        if self._pipelines is not None:
            self._pipelines.worker.notify(self.id)

    @operation("write", model=True)
    def drain(self, timeout: float | None = None) -> bool:
        """Wait until background extraction has caught up; False after `timeout`
        seconds.

        Turns that are too few for a batch are not due; `flush` processes them too.
        """
        seconds = _seconds(timeout)
        if self._pipelines is None:
            return True
        return self._pipelines.loop.run(
            self._pipelines.worker.drained(self.id, seconds)
        )

    @operation("write", model=True)
    async def adrain(self, timeout: float | None = None) -> bool:
        """Async twin of `drain`."""
        seconds = _seconds(timeout)
        if self._pipelines is None:
            return True
        return await self._pipelines.loop.arun(
            self._pipelines.worker.drained(self.id, seconds)
        )


def _seconds(timeout: object) -> float | None:
    """How long to wait; None without end."""
    if timeout is None:
        return None
    # NaN is no number of seconds
    if not (isinstance(timeout, int | float) and timeout <= math.inf):
        raise InvalidInputError(
            f"timeout must be a number of seconds, or None, not {quoted(timeout)}."
        )
    return min(timeout, _LONGEST_WAIT)
