"""Keeps interrupts from the keyboard out of work on files.

Python raises `KeyboardInterrupt` in the main thread between any two instructions, also where a
`with` has just begun or is about to end: a transaction or a lock would then stay taken. So what the
main thread asks for is done in another thread, while the main thread waits.
"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from threading import Event, current_thread, main_thread
from typing import ParamSpec, TypeVar

from langmem_graph.threads import start_thread

P = ParamSpec("P")
T = TypeVar("T")
_INTERRUPTED = ContextVar("interrupted", default=Event())  # noqa: B039  # which is never set


def is_interrupted() -> bool:
    """Whether nobody waits for the current work any more; what can be done later then stays due."""
    return _INTERRUPTED.get().is_set()


def uninterrupted(work: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function: an interrupt ends the wait for it, but does not strike inside it."""

    @wraps(work)
    def inside(*args: P.args, **options: P.kwargs) -> T:
        main = main_thread()
        if current_thread() is not main or not main.is_alive():  # at exit no thread can be started
            return work(*args, **options)
        interrupted = Event()
        token = _INTERRUPTED.set(interrupted)  # the thread starts with a copy of this context
        try:
            return start_thread(partial(work, *args, **options), daemon=False).result()
        finally:
            interrupted.set()
            _INTERRUPTED.reset(token)

    return inside
