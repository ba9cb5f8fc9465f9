"""An interrupt from the keyboard, at any moment of a call: later calls find nothing left open.

Notebooks keep the last exceptions with all their frames, and so do these tests: what an interrupted
frame holds open is not let go of by chance.
"""

import _weakrefset
import asyncio
import concurrent.futures._base as futures_of_python
import functools
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from filelock import FileLock
from langgraph.store.base import TTLConfig

from langmem_graph.memory import Memory, UserMemory
from langmem_graph.runtime import LoopThread
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel
from langmem_graph.threads import uninterrupted
from tests.conftest import said
from tests.support.settings import nested

SETTINGS = nested(storage__busy_timeout_seconds=2.0, storage__index_batch=8)


# Between a lock and its release Python lets no signal in; what is raised while an object
# is collected is not seen by its caller.
NOT_INSIDE = {
    threading.__file__,
    weakref.__file__,
    _weakrefset.__file__,
    functools.__file__,  # of `cached_property` all objects of a class have one lock
}
TAKING, FUTURES = threading.Condition.__enter__.__code__, futures_of_python.__file__


class SoftLimitError(Exception):
    """What a signal's handler may raise, as those of task queues do."""


@contextmanager
def interrupted_at(
    place: int, by: type[BaseException] = KeyboardInterrupt
) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at the so-manyth line that this thread runs; counts the lines."""
    lines, before = [0], sys.gettrace()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename in NOT_INSIDE:
            return None
        lines[0] += event == "line"
        if lines[0] == place:
            lines[0] += 1
            raise by
        return trace

    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def places(work: Callable[[], Any], most: int) -> range:
    """Places all over the work, at which it can be interrupted."""
    with interrupted_at(-1) as lines:
        work()
    return range(1, lines[0], max(1, lines[0] // most))


@pytest.fixture
def user(tmp_path: Path) -> Iterator[UserMemory]:
    gc.disable()
    with Memory(tmp_path / "m", embeddings="hash", settings=SETTINGS) as memory:
        yield memory.user("a")
    gc.enable()
    others = [
        one for one in threading.enumerate() if one is not threading.current_thread()
    ]
    for one in others:
        if not one.daemon:
            one.join(5)  # the process would wait for it without a limit
            assert not one.is_alive(), one


def test_an_add_that_was_interrupted_anywhere_leaves_nothing_open(
    user: UserMemory,
) -> None:
    def add(number: object) -> Any:
        return user.add(said(f"text {number}", id=f"{number}"), session_id="s").stored

    acknowledged, kept = add("first"), list[BaseException]()
    for place in places(lambda: add("second"), 40):
        try:
            with interrupted_at(place):
                acknowledged += add(place)
        except KeyboardInterrupt as problem:
            kept.append(problem)
        acknowledged += add(f"after {place}")
    assert len(kept) >= 10
    assert set(acknowledged) <= {row["id"] for row in user.export()}
    assert user.erase().messages >= len(acknowledged)


def test_what_an_interrupted_add_did_not_embed_is_done_at_the_closing(
    tmp_path: Path,
) -> None:
    threads = list[threading.Thread]()

    class Interrupting(HashEmbeddings):
        """The notebook's stop button, pressed while the first texts are embedded."""

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            threads.append(threading.current_thread())
            if len(threads) == 1:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
            return super().embed_documents(texts)

    # Chroma's approximate search misses some of many texts that differ by one word of two only.
    talk = [
        said(f"text {n} {n * n} {n * 7919 % 100_003}", id=f"{n}") for n in range(300)
    ]
    with (
        Memory(tmp_path / "m", embeddings=Interrupting()) as memory,
        pytest.raises(KeyboardInterrupt),
    ):
        memory.user("a").add(talk, session_id="s")
    assert threads.count(threads[0]) == 1  # the closing did the rest
    with Memory(tmp_path / "m", embeddings=HashEmbeddings()) as memory:
        assert len(memory.user("a").export()) == 300
        assert memory.user("a").doctor(sample=0).problems == []


def test_a_store_that_was_interrupted_anywhere_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    kept = list[BaseException]()
    with ChromaStore(
        tmp_path / "m", embeddings=HashEmbeddings(), settings=SETTINGS
    ) as store:
        for place in places(lambda: store.put(("a",), "key", {"text": "first"}), 60):
            try:
                with interrupted_at(place):
                    store.put(("a",), "key", {"text": f"{place}"})
            except KeyboardInterrupt as problem:
                kept.append(problem)
            store.put(("a",), "key", {"text": f"after {place}"})
            assert store.search(("a",), query="after")
    assert len(kept) >= 8


OF_STORE: dict[str, Callable[[ChromaStore], Any]] = {
    "rebuild": lambda store: store.rebuild(),
    "start_ttl_sweeper": lambda store: store.start_ttl_sweeper(),
    "stop_ttl_sweeper": lambda store: store.stop_ttl_sweeper(),
    "sweep_ttl": lambda store: store.sweep_ttl(),
}


@pytest.mark.parametrize("name", sorted(OF_STORE))
def test_a_stores_method_that_was_interrupted_anywhere_leaves_nothing_open(
    name: str, tmp_path: Path
) -> None:
    kept = list[BaseException]()
    path, ttl = tmp_path / "m", TTLConfig(default_ttl=1e-9)
    with ChromaStore(
        path, embeddings=HashEmbeddings(), settings=SETTINGS, ttl=ttl
    ) as store:
        store.put(("a",), "key", {"text": "first"})
        store.start_ttl_sweeper()
        for place in places(lambda: OF_STORE[name](store), 60):
            store.put(("a",), "key", {"text": f"{place}"})
            try:
                with interrupted_at(place):
                    OF_STORE[name](store)
            except KeyboardInterrupt as problem:
                kept.append(problem)
            store.put(("a",), "other", {"text": f"after {place}"})
            store.start_ttl_sweeper()
    assert len(kept) >= 3
    with FileLock(path / "lock", timeout=0):
        pass


@pytest.mark.parametrize(
    ("opened", "by"),
    [
        ("memory", KeyboardInterrupt),
        ("memory", SystemExit),
        ("store", KeyboardInterrupt),
        ("store", SoftLimitError),
    ],
)
def test_an_opening_that_was_interrupted_anywhere_leaves_nothing_open(
    opened: str, by: type[BaseException], tmp_path: Path
) -> None:
    def open_at(path: Path) -> Any:
        if opened == "store":
            return ChromaStore(path, embeddings=HashEmbeddings(), settings=SETTINGS)
        model = ScriptedChatModel(answers={"Extraction": {"memories": []}})
        return Memory(path, embeddings="hash", model=model, settings=SETTINGS)

    open_at(tmp_path / "imports").close()
    first, kept = list[Any](), list[BaseException]()
    everywhere = places(lambda: first.append(open_at(tmp_path / "first")), 120)
    first[0].close()
    for place in everywhere:
        path, made = tmp_path / f"{place}", list[Any]()
        try:
            with interrupted_at(place, by):
                made.append(open_at(path))
        except by as problem:
            kept.append(problem)
        for one in [*made, open_at(path)]:
            one.close()
        # what was being opened is closed in the background
        with FileLock(path / "lock", timeout=10):
            pass
    assert len(kept) >= 20


def test_a_close_that_was_interrupted_anywhere_is_completed_by_the_next(
    tmp_path: Path,
) -> None:
    def opened(place: object) -> Memory:
        model = ScriptedChatModel(answers={"Extraction": {"memories": []}})
        path = tmp_path / f"{place}"
        memory = Memory(path, embeddings="hash", model=model, settings=SETTINGS)
        memory.user("a").add(said("I like tea."), session_id="s")
        return memory

    first, kept = opened("first"), list[BaseException]()
    for place in places(first.close, 60):
        memory = opened(place)
        try:
            with interrupted_at(place):
                memory.close()
        except KeyboardInterrupt as problem:
            kept.append(problem)
        memory.close()
        with FileLock(tmp_path / f"{place}" / "lock", timeout=0):
            pass
    assert len(kept) >= 20


@contextmanager
def interrupted_holding(place: int) -> Iterator[None]:
    """Raise KeyboardInterrupt where this thread has just taken a future's lock, for the
    so-manyth time.

    Python does so too: it looks for signals after every call, also where the method
    that took the lock has not come back yet.
    """
    taken, before = [0], sys.gettrace()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        by = frame.f_back.f_code.co_filename if frame.f_back else ""
        if frame.f_code is TAKING and event == "return" and by == FUTURES:
            taken[0] += 1
            if taken[0] == place:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_an_interrupted_wait_leaves_no_lock_taken(place: int) -> None:
    ended, loop = list[str](), LoopThread("test")

    async def work(name: str) -> None:
        await asyncio.sleep(0.3)
        ended.append(name)

    @uninterrupted
    def in_another_thread() -> None:
        time.sleep(0.3)
        ended.append("thread")

    before = set(threading.enumerate())
    for wait in (lambda: loop.run(work("loop")), in_another_thread):
        with suppress(KeyboardInterrupt), interrupted_holding(place):
            wait()
    loop.run(work("next"), 5)
    assert "next" in ended
    for one in set(threading.enumerate()) - before:
        if not one.daemon:
            one.join(5)
            assert not one.is_alive()
    loop.close(5)


@pytest.mark.timeout(90)
def test_an_interrupt_of_the_handing_over_is_one_and_leaves_no_thread() -> None:
    """It may come inside of Python's own `Thread.start` and `is_alive`."""
    module = [sys.executable, "-m", "tests.support.interrupted_calls", "4"]
    done = subprocess.run(
        module, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("True threads: 1, apart: True\n", 0)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_interrupts_at_random_moments_of_everything(user: UserMemory) -> None:
    """For two minutes, by a timer, wherever the main thread and the others are."""
    chance, acknowledged, kept = random.Random(7), set[str](), list[BaseException]()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    number, until = 0, time.monotonic() + 120
    try:
        while time.monotonic() < until:
            number += 1
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.3))
            try:
                report = user.add(
                    said(f"text {number}", id=f"{number}"), session_id="s"
                )
                acknowledged |= set(report.stored)
                user.recall(f"text {number}")
                user.forget(message="no such message")
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as problem:
                kept[:] = [*kept[-9:], problem]
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    print(f"{number} calls, {len(acknowledged)} acknowledged")
    assert acknowledged <= {row["id"] for row in user.export()}
    assert user.erase().messages >= len(acknowledged)
