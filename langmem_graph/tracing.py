"""Spans and gauges for OpenTelemetry, run names for LangSmith: counts, hashed ids, no
texts.

Without opentelemetry-api, or without a provider of the application, nothing is
recorded.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from pydantic import BaseModel

from langmem_graph.errors import LangMemGraphError
from langmem_graph.ids_and_times import folder_name
from langmem_graph.reports import UserSummary

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

NAME = "langmem_graph"
"""The name of the tracer and the loggers, and the tag of every run of this library in
LangSmith.
"""
_GENAI_OPERATIONS = {
    "recall": "search_memory",
    "search_records": "search_memory",
    "search_conversation": "search_memory",
    "add": "create_memory",
    "add_records": "create_memory",
    "remember": "create_memory",
    "correct": "update_memory",
    "flush": "update_memory",
    "hide": "update_memory",
    "unhide": "update_memory",
    "undo": "update_memory",
    "forget": "delete_memory",
    "expire": "delete_memory",
    "erase": "delete_memory_store",
}
"""What OpenTelemetry's conventions for generative AI call our operations."""
_NOSTREAM = "nostream"
"""LangGraph's tag that keeps the memory's model calls out of the application's message
stream.
"""


class Span:
    """Takes the attributes of the current step; without a recording span it does
    nothing.
    """

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def note(self, **counts: int | float | str | bool) -> None:
        """Add counts and names, never a user's text."""
        if self._span is not None:
            self._span.set_attributes(
                {f"{NAME}.{name}": value for name, value in counts.items()}
            )

    def note_sizes(self, outcome: object) -> None:
        """Add the length of every list and dict in an outcome."""
        if self._span is None:
            return
        if isinstance(outcome, BaseModel):
            outcome = dict(outcome)
        named = outcome if isinstance(outcome, Mapping) else {"found": outcome}
        several = {
            name: value
            for name, value in named.items()
            if isinstance(value, list | dict)
        }
        self.note(**{name: len(value) for name, value in several.items()})


@contextmanager
def span(
    step: str, user: str = "", **attributes: int | float | str | bool
) -> Iterator[Span]:
    """Record a span `langmem_graph.<step>` around the block; of the user, a hash is
    recorded. An operation also has the names of OpenTelemetry's conventions.

    The attributes are counts and names, never a user's text.
    """
    tracer = _tracer()
    if tracer is None:
        yield Span()
        return
    with tracer.start_as_current_span(
        f"{NAME}.{step}", record_exception=False, set_status_on_exception=False
    ) as current:
        noting = Span(current if current.is_recording() else None)
        noting.note(**attributes)
        if user:
            noting.note(user=folder_name(user))
        if user and step in _GENAI_OPERATIONS:
            current.set_attribute("gen_ai.operation.name", _GENAI_OPERATIONS[step])
            current.set_attribute("gen_ai.memory.store.id", folder_name(user))
        try:
            yield noting
        except BaseException as error:  # only its class: its message may quote a user
            from opentelemetry.trace import StatusCode

            current.set_status(StatusCode.ERROR, type(error).__name__)
            raise


@lru_cache(1)
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer(NAME)  # asks for the provider again until there is one


class _WithUsers(Protocol):
    def _summaries(self) -> list[UserSummary]: ...


_OBSERVED: WeakSet[_WithUsers] = WeakSet()
"""The memories whose due messages the gauges count."""


def observe_due(memory: _WithUsers) -> None:
    """Let two gauges tell what is due in this memory: how many messages, and for how
    long.
    """
    try:
        _gauges()
    except ImportError:
        return
    _OBSERVED.add(memory)


@lru_cache(1)
def _gauges() -> tuple[Any, Any]:
    """The gauges of this process; they are read when the application's reader asks."""
    from opentelemetry.metrics import Observation, get_meter

    def due(_: object) -> list[Any]:
        return [Observation(sum(one.to_read + one.to_embed for one in _summaries()))]

    def oldest(_: object) -> list[Any]:
        now = datetime.now(UTC)
        ages = [
            (now - one.oldest_due).total_seconds()
            for one in _summaries()
            if one.oldest_due
        ]
        return [Observation(max(ages, default=0.0))]

    meter = get_meter(NAME)
    return (
        meter.create_observable_gauge(f"{NAME}.due", [due], "{message}"),
        meter.create_observable_gauge(f"{NAME}.oldest_due", [oldest], "s"),
    )


def _summaries() -> Iterator[UserSummary]:
    for memory in list(_OBSERVED):
        try:
            yield from memory._summaries()
        except LangMemGraphError:  # it is closed, or its storage cannot be read now
            continue


def current() -> Any:
    """The caller's tracing context, to be resumed in another thread or context, or
    None.
    """
    if _tracer() is None:
        return None
    from opentelemetry.context import get_current

    return get_current()


def resume(caller: Any) -> None:
    """Make the caller's span the parent of the spans that follow in this context."""
    if caller is not None:
        from opentelemetry.context import attach

        attach(caller)


def labelled(run: str, user: str = "", **metadata: str) -> "RunnableConfig":
    """The run config under which LangSmith shows a model call or inner graph of this
    library.
    """
    known = {f"{NAME}_{name}": value for name, value in metadata.items()}
    if user:
        known[f"{NAME}_user"] = folder_name(user)
    return {"run_name": f"{NAME}.{run}", "tags": [NAME, _NOSTREAM], "metadata": known}
