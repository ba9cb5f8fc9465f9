"""How steps run: the event loop of a `Memory`, for callers on any or none, and graph
nodes.
"""

import asyncio
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.runtime import get_runtime
from pydantic import TypeAdapter

from langmem_graph import tracing
from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    InvalidInputError,
    for_log,
)
from langmem_graph.server_urls import as_shown
from langmem_graph.threads import (
    MOMENT,
    Begun,
    in_thread,
    opened,
    result_of,
    uninterrupted,
    without_exits,
)
from langmem_graph.view import View

T = TypeVar("T")
P = ParamSpec("P")
_log = logging.getLogger(__name__)
Event = dict[str, Any]
"""A stream event as a JSON object: its kind under `event`, and the fields of
that kind.
"""


class LoopThread:
    """An event loop in a thread of its own, which starts at the first call and ends at
    `close`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # a signal handler may close the memory inside
        self._pid = os.getpid()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(
        self, work: Coroutine[Any, Any, T], waited: Begun[T] | None = None
    ) -> "Future[T]":
        """Start work on the loop and return its future; the loop hands its result to
        `waited`.

        The work runs in an empty context: with the caller's, a LangGraph run would
        stream, save and limit it as part of itself.
        """
        try:
            self._check()
            with self._lock:
                if self._closed:
                    raise ClosedMemoryError(
                        "This Memory is closed. Open it again: Memory(path)."
                    )
                loop = self._loop or self._start()
                empty = contextvars.Context()
                # only the span is handed over
                empty.run(tracing.resume, tracing.current())
                future = empty.run(asyncio.run_coroutine_threadsafe, work, loop)
                if waited is not None:
                    callback = waited.hand_over
                    loop.call_soon_threadsafe(future.add_done_callback, callback)
                return future
        except Exception as error:
            work.close()
            # the program or the memory is at its end
            if isinstance(error, RuntimeError):
                raise ClosedMemoryError(
                    f"The memory cannot work any more: {error}."
                ) from error
            raise
        except BaseException:
            self._end(work)
            raise

    def _end(self, work: Coroutine[Any, Any, Any]) -> None:
        """Cancel work, whether the loop has begun it or an interrupt came before.

        The loop looks for itself: closed from another thread, work that has begun would
        never let go of what it holds.
        """
        loop = self._loop
        if inspect.getcoroutinestate(work) == inspect.CORO_CLOSED:
            return
        if loop is None:
            work.close()
            return
        with suppress(RuntimeError):  # a closed loop, which has ended its work
            loop.call_soon_threadsafe(_cancel, work)

    def _check(self) -> None:
        """Before the lock, which a thread may have held at a fork."""
        if threading.current_thread() is self._thread:
            raise InvalidInputError(
                "This is called from inside the memory's own work (a callback such as "
                "on_event)"
                " and would wait for itself. Do it after the call has come back."
            )
        if self.is_foreign:
            raise ForkedProcessError

    @property
    def has_begun(self) -> bool:
        """Whether work was given to it, and it is not closed."""
        return self._loop is not None

    @property
    def is_foreign(self) -> bool:
        """Whether this is a child process after `fork`."""
        return self._pid != os.getpid()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run work on the loop and wait for its result; an interrupt cancels
        the work.
        """
        try:
            waited = Begun[T]()
            self.submit(work, waited)
            return result_of(waited, seconds)
        except CancelledError as error:
            raise ClosedMemoryError(
                "The Memory was closed meanwhile; due work is done when it is "
                "opened "
                "again."
            ) from error
        except BaseException:  # the work's, or an interrupt of the wait
            self._end(work)
            raise

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop and wait for its result without blocking the caller's
        loop.
        """
        future = self.submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if future.cancelled() and not (task and task.cancelling()):
                raise ClosedMemoryError("The Memory was closed meanwhile.") from None
            raise
        except BaseException as error:  # noqa: BLE001  # raised again
            future.cancel()  # a coroutine that is thrown away ends its work
            raise _told(future, error)  # noqa: B904  # mostly the same error

    def _start(self) -> asyncio.AbstractEventLoop:
        def begin() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_serve, args=(loop,), name=self._name, daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            return loop, thread

        self._loop, self._thread = opened(begin, lambda begun: _stop(begun[0]))
        return self._loop

    def close(self, seconds: float) -> None:
        """Cancel running work, then end the thread; what does not end in time is
        abandoned.
        """
        if self.is_foreign:
            return
        with self._lock:
            loop = self._loop
            thread = self._thread
            self._loop = None
            self._thread = None
            self._closed = True
        if not loop or not thread or thread is threading.current_thread():
            return
        ending = _cancel_all()
        wait([asyncio.run_coroutine_threadsafe(ending, loop)], max(seconds, MOMENT))
        _stop(loop)
        thread.join(MOMENT)
        # the loop's thread is stuck
        if inspect.getcoroutinestate(ending) == inspect.CORO_CREATED:
            ending.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then close it; an exit that one task raises
    ends that task alone.
    """
    is_stopped = False
    while not is_stopped:
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            is_stopped = True
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon_threadsafe(loop.stop)


def _told(future: "Future[Any]", error: BaseException) -> BaseException:
    """The error; where the work itself raised an exit, one of ours. An interrupt stays
    one.
    """
    is_own = future.done() and not future.cancelled() and future.exception() is error
    return without_exits(error) if is_own else error


def _cancel(work: Coroutine[Any, Any, Any]) -> None:
    tasks = [task for task in asyncio.all_tasks() if task.get_coro() is work]
    for task in tasks:
        task.cancel()
    if not tasks:
        work.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()


@dataclass
class TraceRecorder:
    """Adds events to a trace and sends each of them at once as a stream event."""

    emit: Callable[[Event], None]
    trace: list[Event]

    def record(self, event: str, **fields: Any) -> None:
        """Add one event."""
        recorded = {"event": event, **fields}
        self.trace.append(recorded)
        self.emit(recorded)


@dataclass(frozen=True)
class StepRun:
    """The run that a step belongs to."""

    view: View
    """What the run may read."""
    config: RunnableConfig
    emit: Callable[[Event], None]
    """Sends a custom stream event."""
    warnings: list[str] = field(default_factory=list)
    """What the step went on without; it joins those of the state, each text once."""

    @property
    def user(self) -> str:
        """Whose run it is."""
        return self.view.user

    def recorder(self, trace: Sequence[Event]) -> TraceRecorder:
        """A recorder that continues a copy of the given trace."""
        return TraceRecorder(self.emit, list(trace))

    def problem(self, failed: str, error: Exception) -> str:
        """Log that something failed, without any user's text; returns the whole error's
        text, but for a password.
        """
        _log.warning("%s: %s", failed, for_log(error))
        text, _ = as_shown(error)
        return text

    def warning(self, failed: str, error: Exception) -> str:
        """The same with what failed, as a line for a report."""
        return f"{failed}: {self.problem(failed, error)}"


Step = Callable[[Any, Any, StepRun], Coroutine[Any, Any, Any]]
"""`async def step(deps, state, run) -> update`: the form of every step in every
graph.
"""


def as_node(
    step: Step, deps: Any, view_of: Callable[[RunnableConfig], View]
) -> RunnableLambda[Any, Any]:
    """Make a LangGraph node, named after the step, that records a span.

    It runs on the caller's event loop, or, under `invoke`, on an event loop of its own.
    `view_of` is called inside the run's context.
    """

    def node(state: Any, config: RunnableConfig) -> Any:
        return run_apart(
            _traced(step, deps, state, StepRun(view_of(config), config, emitter()))
        )

    async def anode(state: Any, config: RunnableConfig) -> Any:
        return await _traced(
            step, deps, state, StepRun(view_of(config), config, emitter())
        )

    return RunnableLambda(node, anode, name=step.__name__)


def either(
    blocking: bool,
    method: Callable[P, T],
    twin: Callable[P, Awaitable[T]] | None = None,
) -> Callable[P, Awaitable[T]]:
    """What work that is written once for `invoke` and `ainvoke` awaits: a method or its
    twin.

    The method itself if `blocking`, and nothing then waits; else the twin, or without
    one the method in a thread. A method without a twin is no public one: it is kept
    apart from interrupts here.
    """
    if not blocking:
        return twin or partial(in_thread, method)
    work = method if twin else uninterrupted(method)

    async def here(*args: P.args, **options: P.kwargs) -> T:
        return work(*args, **options)

    return here


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that awaits `either` with `blocking` alone: it is done right
    here.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise RuntimeError("Blocking work waits for something.")


BothStep = Callable[[Any, RunnableConfig, bool], Coroutine[Any, Any, T]]
"""`async def step(state, config, blocking) -> update`: a node for `invoke` and
`ainvoke`.
"""


def both(
    step: BothStep[T],
) -> tuple[Callable[..., T], Callable[..., Coroutine[Any, Any, T]]]:
    """The function and the coroutine function of a node, for a `RunnableLambda`."""

    def node(state: Any, config: RunnableConfig) -> T:
        return at_once(step(state, config, True))

    async def anode(state: Any, config: RunnableConfig) -> T:
        return await step(state, config, False)

    return node, anode


@dataclass(frozen=True)
class StateForm:
    """How a graph keeps its state between steps: as objects, or as JSON
    (`StateForm.json`).

    A LangGraph server gives a graph a checkpointer of its own, whose serializer warns
    about classes that it does not know.
    """

    types: Mapping[str, TypeAdapter[Any]] = field(default_factory=dict)
    """Types of the keys that are kept as JSON; all other keys are kept as they are."""

    @classmethod
    def json(cls, **types: Any) -> "StateForm":
        """Keep these keys, whose types are given, as JSON."""
        return cls({name: TypeAdapter(kind) for name, kind in types.items()})

    def load(self, state: Mapping[str, Any]) -> Any:
        """The state as a step takes it: with objects in place of their JSON."""
        kept = self._types_in(state).items()
        return {
            **state,
            **{name: kind.validate_python(state[name]) for name, kind in kept},
        }

    def dump(self, update: Mapping[str, Any]) -> Any:
        """A step's update as the graph keeps it."""
        kept = self._types_in(update).items()
        return {
            **update,
            **{n: kind.dump_python(update[n], mode="json") for n, kind in kept},
        }

    def _types_in(self, state: Mapping[str, Any]) -> dict[str, TypeAdapter[Any]]:
        return {n: kind for n, kind in self.types.items() if state.get(n) is not None}

    def step(self, step: Step) -> Step:
        """The step, over state in this form."""

        @wraps(step)
        async def converted(deps: Any, state: Any, run: StepRun) -> Any:
            return self.dump(await step(deps, self.load(state), run))

        return converted

    def route(self, choose: Callable[[Any], T]) -> RunnableLambda[Any, T]:
        """A conditional edge, over state in this form, that needs no thread under
        `ainvoke`.
        """

        @wraps(choose)
        def converted(state: Any) -> T:
            return choose(self.load(state))

        async def aconverted(state: Any) -> T:
            return converted(state)

        return RunnableLambda(converted, aconverted, name=choose.__name__)


_VIEW = "__langmem_graph_view"
"""Key of a run's config; LangGraph keeps keys of this form out of metadata."""

OBJECTS = StateForm()
"""The form for graphs that the library runs itself: no checkpointer sees their
state.
"""


async def _traced(step: Step, deps: Any, state: Any, run: StepRun) -> Any:
    with tracing.span(step.__name__, run.user) as noting:
        update = await step(deps, state, run)
        noting.note_sizes(update)
        if not run.warnings:
            return update
        known = update.get("warnings", state.get("warnings") or [])
        return {**update, "warnings": list(dict.fromkeys([*known, *run.warnings]))}


def own_config(run: str, view: View) -> RunnableConfig:
    """The config of a run that the library itself starts; `configured_view` reads the
    view.
    """
    return {**tracing.labelled(run, view.user), "configurable": {_VIEW: view}}


def configured_view(config: RunnableConfig) -> View:
    """The view of a run that the library itself started, taken from the run's
    config.
    """
    view: View = config["configurable"][_VIEW]
    return view


def emitter() -> Callable[[Event], None]:
    """The running graph's stream writer, usable in any thread; outside a graph it does
    nothing.
    """
    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):
        runtime = None
    if runtime is None:  # a runnable's config without a graph
        return lambda event: None
    write = runtime.stream_writer
    here = contextvars.copy_context()
    # the writer finds its run in the context
    return lambda event: here.copy().run(write, event)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run work on an event loop of its own, since the caller may be inside a loop; an
    interrupt cancels it.

    It does not have the caller's context, so model calls are not part of the caller's
    run.
    """
    loop = LoopThread("langmem-graph-apart")
    try:
        return loop.run(work)
    finally:
        loop.close(MOMENT)
