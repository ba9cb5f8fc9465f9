"""`operation`: what every public method of a memory has in common."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from langmem_graph.errors import ReadOnlyError
from langmem_graph.rooms import Action
from langmem_graph.threads import in_thread, in_thread_of, uninterrupted
from langmem_graph.tracing import Span, span

P = ParamSpec("P")
T = TypeVar("T")


class HasOperations(Protocol):
    """A memory, of one user or of all."""

    @property
    def _read_only(self) -> bool:
        """Whether it was opened for reading alone."""


M = TypeVar("M", bound=HasOperations)
_ACTION = "__memory_action__"
_IN_ROOMS = "__in_shared_rooms__"


def operation(
    action: Action, *, model: bool = False, in_rooms: bool = True
) -> Callable[[Callable[Concatenate[M, P], T]], Callable[Concatenate[M, P], T]]:
    """Make a method a public operation: the only way to one.

    It is a span of the method's name with the sizes of what it returns. An interrupt
    ends the wait for its work, which goes on in another thread to its end: no
    transaction, lock or file stays open. In a shared room the application is asked
    first.

    Args:
        action: what a shared room asks the application for. What writes needs a memory
            that is opened for writing.
        model: it calls a model, in the memory's own event loop, which ends with an
            interrupt.
        in_rooms: whether shared rooms have it.
    """

    def decorate(
        method: Callable[Concatenate[M, P], T],
    ) -> Callable[Concatenate[M, P], T]:
        name = method.__name__
        work = method if model else uninterrupted(method)

        is_async = iscoroutinefunction(method)
        step = name.removeprefix("a") if is_async else name

        @contextmanager
        def begun(memory: M) -> Iterator[Span]:
            with span(step, getattr(memory, "id", "")) as noting:
                if action == "write":
                    refuse_read_only(memory, name)
                yield noting

        @wraps(method)
        def inside(memory: M, /, *args: P.args, **options: P.kwargs) -> T:
            with begun(memory) as noting:
                outcome = work(memory, *args, **options)
                noting.note_sizes(outcome)
                return outcome

        @wraps(method)
        async def inside_async(memory: M, /, *args: P.args, **options: P.kwargs) -> Any:
            with begun(memory) as noting:
                outcome = await cast("Any", method(memory, *args, **options))
                noting.note_sizes(outcome)
                return outcome

        made: Any = inside_async if is_async else inside
        setattr(made, _ACTION, action)
        setattr(made, _IN_ROOMS, in_rooms)
        return cast("Callable[Concatenate[M, P], T]", made)

    return decorate


def twin(
    method: Callable[Concatenate[M, P], T],
) -> Callable[Concatenate[M, P], Coroutine[Any, Any, T]]:
    """The asynchronous twin of an operation that calls no model: it takes the same, and
    runs in a worker thread.

    Of one user's memory so many run at a time as `in_thread_of` lets.
    """

    @wraps(method)
    async def inside(memory: M, /, *args: P.args, **options: P.kwargs) -> T:
        work = partial(getattr(memory, method.__name__), *args, **options)
        user = getattr(memory, "id", None)
        return await (in_thread(work) if user is None else in_thread_of(user, work))

    inside.__name__ = f"a{method.__name__}"
    inside.__doc__ = f"Async twin of `{method.__name__}`."
    return inside


def action_of(method: object) -> Action | None:
    """What a shared room asks for before this operation; None where rooms lack it."""
    action: Action | None = getattr(method, _ACTION, None)
    return action if getattr(method, _IN_ROOMS, False) else None


def is_operation(method: object) -> bool:
    """Whether the method was made by `operation`, or is the twin of such a one."""
    return hasattr(method, _ACTION)


def refuse_read_only(memory: HasOperations, name: str) -> None:
    """Raise ReadOnlyError for a memory that is opened for reading alone."""
    if memory._read_only:
        raise ReadOnlyError(
            f"{name} needs a memory opened for writing, not read_only=True."
        )
