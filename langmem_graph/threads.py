"""Threads for blocking calls: the library's own, never those of the application's
executor.

Work on files is kept apart from interrupts from the keyboard: Python raises
`KeyboardInterrupt` in the main thread between any two instructions, also where a `with`
has just begun or is about to end, and a transaction or a lock would then stay taken.
"""

import asyncio
import contextvars
import logging
import threading
from _thread import start_new_thread
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from functools import partial, wraps
from math import inf
from queue import Empty, SimpleQueue
from threading import Event, Lock, current_thread, main_thread
from time import monotonic
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from langmem_graph.errors import LangMemGraphError, StorageError, for_log
from langmem_graph.server_urls import as_shown

T = TypeVar("T")
P = ParamSpec("P")
_log = logging.getLogger(__name__)
MOMENT = 1.0  # seconds for the end of a loop, even where a closing has none left
WAKE_SECONDS = 0.2  # between two looks of a waiting main thread at signals
_MOMENT = 0.05  # seconds between two tries at what others keep in use
AT_ONCE = 16  # calls of one user that an event loop has in threads; the others wait
CALLERS_LOOP = ContextVar[asyncio.AbstractEventLoop | None](
    "callers_loop", default=None
)
"""The event loop whose task waits for the work of this thread, without being blocked by
it.
"""
_INTERRUPTED = ContextVar("interrupted", default=Event())  # noqa: B039  # which is never set
_ENDING = Event()
# `main_thread().is_alive()` would tell, too; but where it is interrupted, Python takes
# the main thread for one that has ended.
threading._register_atexit(_ENDING.set)  # type: ignore[attr-defined]
_SLOTS = WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Semaphore]()


class Begun(Future[T]):
    """The result of other threads' work, which `result_of` waits for.

    An interrupt of whoever asks a future may leave its lock taken: then whoever sets
    its result would wait for ever, be it the loop of all work. So the one that waits is
    handed a copy that no other thread has.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies = SimpleQueue["Future[T]"]()
        self.add_done_callback(self.hand_over)

    def hand_over(self, done: "Future[T]") -> None:
        """Hand the result of a future that is done to whoever waits for this one."""
        copy = Future[T]()
        if done.cancelled():
            copy.cancel()
        elif error := done.exception():
            copy.set_exception(without_exits(error))
        else:
            copy.set_result(done.result())
        self.copies.put(copy)


def start_thread(
    work: Callable[[], T],
    *,
    daemon: bool = True,
    loop: asyncio.AbstractEventLoop | None = None,
    interrupted: Event | None = None,
) -> Begun[T]:
    """Run blocking work in a thread of its own, which may be abandoned; see
    `without_exits`.

    `loop` is the one whose task awaits it. `interrupted` is set where nobody waits for
    it any more; without it that is so where nobody waits for the caller.
    """
    future = Begun[T]()
    context = contextvars.copy_context()
    context.run(CALLERS_LOOP.set, loop)
    if interrupted is not None:
        context.run(_INTERRUPTED.set, interrupted)

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001  # raised again in whoever waits
            future.set_exception(without_exits(error))

    def start() -> None:
        threading.Thread(target=run, daemon=daemon).start()

    def refuse(error: RuntimeError) -> None:
        text = (
            f"No thread can be started ({error}). Close the memory before the "
            "program ends."
        )
        future.set_exception(LangMemGraphError(text))

    future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
    started(start, refuse)
    return future


def started(
    start: Callable[[], object], refuse: Callable[[RuntimeError], object]
) -> None:
    """Start a thread by this function, or call `refuse` with the error.

    An interrupt inside `Thread.start` may leave the new thread waiting for ever. So the
    main thread, which alone gets interrupts, lets another one start it.
    """

    def begin() -> None:
        try:
            start()
        except RuntimeError as error:
            refuse(error)

    if current_thread() is not main_thread():
        begin()
        return
    try:
        start_new_thread(begin, ())
    except RuntimeError as error:
        refuse(error)


def result_of(begun: Begun[T], seconds: float | None = None) -> T:
    """The result of other threads' work, waited for so long; None is without a limit.

    Where nobody waits for the caller any more, this wait ends with a TimeoutError, too.
    The main thread wakes now and then: a signal that the system hands to another thread
    does not end its wait, and an interrupt from the keyboard would come only when the
    work is done.
    """
    until = inf if seconds is None else monotonic() + seconds
    while True:
        left = max(0.0, until - monotonic())
        try:
            done = begun.copies.get(timeout=min(WAKE_SECONDS, left))
        except Empty:
            if not left or is_interrupted():
                raise TimeoutError from None
        else:
            return done.result()


def without_exits(error: BaseException) -> Exception:
    """The error; one of ours instead of those that would end an event loop or that none
    takes.
    """
    if isinstance(error, Exception) and not isinstance(
        error, StopIteration | CancelledError
    ):
        return error
    text, cause = as_shown(error)
    made = LangMemGraphError(text)
    made.__cause__ = cause
    return made


async def in_thread(work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """Like `asyncio.to_thread`, for calls that may never return: the process ends
    without them.

    Chat models are called this way, and not by their async methods: providers share
    async HTTP connections between all models of a process, and these are bound to the
    loop that opened them. Used on the memory's loop, they would break the application's
    own calls.
    """
    return await _awaited(partial(work, *args, **options), daemon=True)


async def in_thread_of(user: str, work: Callable[[], T]) -> T:
    """Run a user's blocking work in a thread; only calls of the same user wait for each
    other.
    """
    key = (asyncio.get_running_loop(), user)
    slots = _SLOTS.setdefault(key, asyncio.Semaphore(AT_ONCE))
    await slots.acquire()
    return await _awaited(work, daemon=False, at_end=slots.release)


async def _awaited(
    work: Callable[[], T], *, daemon: bool, at_end: Callable[[], object] = lambda: None
) -> T:
    """The result of work in a thread, which can see it where its task is cancelled.

    `at_end` is called when the work has ended, also where nobody waits for it any more.
    """
    interrupted = Event()
    loop = asyncio.get_running_loop()
    begun = start_thread(work, daemon=daemon, loop=loop, interrupted=interrupted)
    future = asyncio.wrap_future(begun)
    future.add_done_callback(lambda _: at_end())
    try:
        return await asyncio.shield(future)
    except BaseException:
        interrupted.set()
        raise


def finish(work: Callable[[], object], until: float) -> None:
    """Do due work at a closing, until this time (`time.monotonic`) at most; then the
    work is told that it is interrupted.
    """
    interrupted = Event()
    try:
        start_thread(work, interrupted=interrupted).result(until - monotonic())
    except (TimeoutError, LangMemGraphError) as error:
        _log.warning("due work is left for the next opening: %s", for_log(error))
    finally:
        interrupted.set()


def is_ending() -> bool:
    """Whether the program ends: Python waits for its threads, or has done so, and lets
    no more begin.
    """
    return _ENDING.is_set()


def is_interrupted() -> bool:
    """Whether nobody waits for the current work any more; what can be done later then
    stays due.
    """
    return _INTERRUPTED.get().is_set()


def refuse_abandoned() -> None:
    """Raise where nobody waits for the current work any more.

    Words are stored after this alone: what was erased since the caller has left must
    not come back.
    """
    if is_interrupted():
        raise StorageError(
            "This call was interrupted before it had stored anything; do it again."
        )


def waited(until: float, ended: Event) -> bool:
    """Wait a moment for what others keep in use.

    Returns:
        False where there is no use in trying again: after this time
        (`time.monotonic`), where all is being closed, or where nobody waits for this
        work any more.
    """
    if is_interrupted() or monotonic() >= until:
        return False
    return not ended.wait(_MOMENT)


def for_others(work: Callable[[], T]) -> T:
    """Do work of other callers, too, which goes on where this one is interrupted."""
    context = contextvars.copy_context()
    context.run(_INTERRUPTED.set, Event())
    return context.run(work)


def uninterrupted(work: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function: the main thread has it done in another; an interrupt ends the
    wait.
    """

    @wraps(work)
    def inside(*args: P.args, **options: P.kwargs) -> T:
        if current_thread() is not main_thread() or is_ending():
            return work(*args, **options)
        interrupted = Event()
        call = partial(work, *args, **options)
        try:
            begun = start_thread(call, daemon=False, interrupted=interrupted)
            return result_of(begun)
        except BaseException:
            interrupted.set()
            raise

    return inside


def opened(work: Callable[[], T], undo: Callable[[T], object]) -> T:
    """What the work opens, in another thread; where an interrupt, or whatever a
    signal's handler raises, ends the wait for it, it is undone.
    """
    is_left = Event()
    made = list[T]()
    guard = Lock()

    def begin() -> None:
        thing = work()
        with guard:
            if is_left.is_set():
                undo(thing)
            else:
                made.append(thing)

    def leave() -> None:
        with guard:
            is_left.set()
            for thing in made:
                undo(thing)

    try:
        uninterrupted(begin)()
        return made[0]
    except BaseException:  # where the work itself has failed, nothing was made
        uninterrupted(leave)()
        raise
