"""Steps as LangGraph nodes: written once, asynchronous, and usable under `invoke` too."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.runtime import get_runtime

from langmem_graph import tracing

T = TypeVar("T")
Event = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """The run that a step belongs to."""

    user: str
    config: RunnableConfig
    emit: Callable[[Event], None]
    """Sends a custom stream event."""


Step = Callable[[Any, Call], Coroutine[Any, Any, dict[str, Any]]]


def as_node(
    name: str, step: Step, user_of: Callable[[RunnableConfig], str]
) -> RunnableLambda[Any, dict[str, Any]]:
    """A node that runs the step on the caller's loop, or, under `invoke`, on one of its own.

    Args:
        name: the node's name.
        step: takes the state and the run.
        user_of: whose run it is; called where the run's context can be seen.
    """

    def run(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return run_apart(_traced(name, step, state, Call(user_of(config), config, emitter())))

    async def arun(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return await _traced(name, step, state, Call(user_of(config), config, emitter()))

    return RunnableLambda(run, arun, name=name)


async def _traced(name: str, step: Step, state: Any, call: Call) -> dict[str, Any]:
    with tracing.span(name, call.user) as noting:
        update = await step(state, call)
        noting.note_sizes(update)
        return update


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


@dataclass
class Watch:
    """Notes what happens: for the trace, and at once as a stream event."""

    emit: Callable[[Event], None]
    trace: list[Event]

    def note(self, event: str, **fields: Any) -> None:
        """Add one event."""
        noted = {"event": event, **fields}
        self.trace.append(noted)
        self.emit(noted)
