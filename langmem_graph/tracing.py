"""Spans for OpenTelemetry, and names for LangSmith. Counts and hashed ids, never a text.

Without opentelemetry-api, or where the application has configured no provider, nothing happens.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from pydantic import BaseModel

from langmem_graph.messages import folder_name

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

P = ParamSpec("P")
T = TypeVar("T")


class _OfUser(Protocol):
    id: str


U = TypeVar("U", bound=_OfUser)

NAME = "langmem_graph"
"""Of the tracer and the loggers, and the tag of every model call and inner graph in LangSmith."""
_NOSTREAM = "nostream"
"""LangGraph's tag: answers to memory's questions are no messages of the application's stream."""


class Span:
    """What a step notes of itself; does nothing where nobody records."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def note(self, **counts: int | float | str | bool) -> None:
        """Add figures and names of ours."""
        if self._span is not None:
            self._span.set_attributes({f"{NAME}.{name}": value for name, value in counts.items()})

    def note_sizes(self, outcome: object) -> None:
        """Add how many there are of everything that an outcome has several of."""
        if self._span is None:
            return
        if isinstance(outcome, BaseModel):
            outcome = dict(outcome)
        named = outcome if isinstance(outcome, Mapping) else {"found": outcome}
        several = {name: value for name, value in named.items() if isinstance(value, list | dict)}
        self.note(**{name: len(value) for name, value in several.items()})


@contextmanager
def span(step: str, user: str = "", **attributes: int | float | str | bool) -> Iterator[Span]:
    """A span `langmem_graph.<step>` around the block.

    Args:
        step: what is done.
        user: whose memory; its hash is recorded, the name of the user's folder.
        attributes: figures and names of ours.
    """
    tracer = _tracer()
    if tracer is None:
        yield Span()
        return
    with tracer.start_as_current_span(
        f"{NAME}.{step}", record_exception=False, set_status_on_exception=False
    ) as current:
        noting = Span(current if current.is_recording() else None)
        noting.note(**attributes, **({"user": folder_name(user)} if user else {}))
        try:
            yield noting
        except BaseException as error:  # its text may quote what was said
            from opentelemetry.trace import StatusCode

            current.set_status(StatusCode.ERROR, type(error).__name__)
            raise


def traced(method: Callable[Concatenate[U, P], T]) -> Callable[Concatenate[U, P], T]:
    """A user's method in a span of its name, with the sizes of what it returns."""

    @wraps(method)
    def inside(self: U, /, *args: P.args, **options: P.kwargs) -> T:
        with span(method.__name__, self.id) as noting:
            outcome = method(self, *args, **options)
            noting.note_sizes(outcome)
            return outcome

    return inside


@lru_cache(1)
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer(NAME)  # asks for the provider again until there is one


def current() -> Any:
    """The caller's span, to be continued in another thread or context; None without one."""
    if _tracer() is None:
        return None
    from opentelemetry.context import get_current

    return get_current()


def resume(caller: Any) -> None:
    """Make the caller's span the parent of what follows in this context."""
    if caller is not None:
        from opentelemetry.context import attach

        attach(caller)


def labelled(run: str, user: str = "", **metadata: str) -> "RunnableConfig":
    """How LangSmith shows a model call or an inner graph of the memory's own."""
    known = {f"{NAME}_{name}": value for name, value in metadata.items()}
    if user:
        known[f"{NAME}_user"] = folder_name(user)
    return {"run_name": f"{NAME}.{run}", "tags": [NAME, _NOSTREAM], "metadata": known}
