"""Steps as LangGraph nodes: written once, asynchronous, and usable under `invoke` too."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.runtime import get_runtime

from langmem_graph import tracing

T = TypeVar("T")
Event = dict[str, Any]
"""A stream event, as JSON: its kind under `event`, and what belongs to that kind."""


@dataclass
class TraceRecorder:
    """Records events in the trace and sends each at once as a stream event."""

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

    user: str
    config: RunnableConfig
    emit: Callable[[Event], None]
    """Sends a custom stream event."""

    def recorder(self, trace: Sequence[Event]) -> TraceRecorder:
        """A recorder that continues a copy of the trace."""
        return TraceRecorder(self.emit, list(trace))


Step = Callable[[Any, Any, StepRun], Coroutine[Any, Any, Any]]
"""`async def step(deps, state, run) -> update`: the one form of a step, in every graph here."""


def as_node(
    step: Step, deps: Any, user_of: Callable[[RunnableConfig], str]
) -> RunnableLambda[Any, Any]:
    """A node, named after the step.

    It runs on the caller's event loop, or, under `invoke`, on an event loop of its own.

    Args:
        step: takes its dependencies, the state and the run, and returns the state's update.
        deps: what the step works with.
        user_of: the user of a run; called where the run's context can be seen.
    """

    def node(state: Any, config: RunnableConfig) -> Any:
        return run_apart(_traced(step, deps, state, StepRun(user_of(config), config, emitter())))

    async def anode(state: Any, config: RunnableConfig) -> Any:
        return await _traced(step, deps, state, StepRun(user_of(config), config, emitter()))

    return RunnableLambda(node, anode, name=step.__name__)


async def _traced(step: Step, deps: Any, state: Any, run: StepRun) -> Any:
    with tracing.span(step.__name__, run.user) as noting:
        update = await step(deps, state, run)
        noting.note_sizes(update)
        return update


def configured_user(config: RunnableConfig) -> str:
    """The user of a run that the library itself started, with the user in its config."""
    user_id: str = config["configurable"]["user_id"]
    return user_id


def emitter() -> Callable[[Event], None]:
    """The running graph's stream writer, for use in any thread; outside a graph, nothing."""
    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):
        runtime = None
    if runtime is None:  # a runnable's config without a graph
        return lambda event: None
    write, here = runtime.stream_writer, contextvars.copy_context()
    return lambda event: here.copy().run(write, event)  # it looks for the run in its context


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of its own, in a thread of its own: the caller may be inside a loop.

    The thread does not have the caller's context, so model calls are no part of the caller's run.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="langmem-graph-step") as pool:
        return pool.submit(_run, work, tracing.current()).result()


def _run(work: Awaitable[T], caller: Any) -> T:
    async def inside() -> T:
        tracing.resume(caller)
        return await work

    return asyncio.run(inside())
