"""A flush that tells how far it has come, is stopped or interrupted, and is gone on with."""

import asyncio
import os
import signal
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from langmem_graph import FlushProgress
from langmem_graph.errors import InvalidInputError
from tests.support.backlog import fill, noting, owned
from tests.support.hanging import LIMIT
from tests.support.models import AnswersBySchema
from tests.support.writing import memories


class TimeLimitError(Exception):
    """What the handlers of task queues raise."""


def test_progress_is_told_after_each_batch_in_the_memorys_own_thread(
    open_memory: Any,
) -> None:
    ana = open_memory(noting([])).user("ana")
    names = fill(ana, sessions=3, turns=5)
    batches = ana.flush_forecast().batches
    told: list[tuple[str, FlushProgress]] = []

    def on_progress(progress: FlushProgress) -> None:
        told.append((threading.current_thread().name, progress))

    report = ana.flush(on_progress)
    steps = [progress for _, progress in told]
    assert {thread for thread, _ in told} == {"langmem-graph"}
    after_batches, after_rounds = steps[:batches], steps[batches:]
    assert [step.batches_done for step in after_batches] == list(range(1, batches + 1))
    assert {step.batches_done for step in after_rounds} == {batches}
    assert all(step.read + step.pending == 2 * len(names) for step in steps)
    for earlier, later in pairwise(steps):
        assert later.calls > earlier.calls
        assert later.input_tokens > earlier.input_tokens
        assert later.output_tokens > earlier.output_tokens
        assert later.seconds > earlier.seconds
    for earlier, later in pairwise(after_batches):
        assert later.read > earlier.read
        assert later.stored > earlier.stored
    assert (steps[-1].read, steps[-1].pending) == (report.read, 0)
    assert steps[-1].calls == report.llm_calls
    assert (steps[-1].stored, steps[-1].updated) == (report.stored, report.updated)
    assert report.status == "ok"


@pytest.mark.parametrize("answer", [None, True, 0, ""])
def test_only_false_stops(open_memory: Any, answer: object) -> None:
    ana = open_memory(noting([])).user("ana")
    names = fill(ana, sessions=2, turns=5)
    assert ana.flush(lambda progress: answer).status == "ok"
    assert owned(ana) == names


def test_a_stopped_flush_is_gone_on_with(open_memory: Any) -> None:
    seen: list[str] = []
    ana = open_memory(noting(seen)).user("ana")
    names = fill(ana, sessions=3, turns=5)
    report = ana.flush(lambda progress: progress.batches_done < 2)
    assert report.status == "partial"
    assert report.problems == []
    assert 0 < report.stored == len(seen) < len(names)
    assert report.read + report.pending == 2 * len(names)
    assert owned(ana) == sorted(seen)
    again = ana.flush()
    assert (again.status, again.pending) == ("ok", 0)
    assert sorted(seen) == names, "each message is read once"
    assert owned(ana) == names


def test_after_a_stop_the_background_reads_on_only_with_new_messages(
    open_memory: Any,
) -> None:
    fill(open_memory(None).user("ana"), sessions=3, turns=5)
    seen: list[str] = []
    memory = open_memory(noting(seen, lambda: time.sleep(0.2)))
    ana = memory.user("ana")
    ana.sessions()  # opens the room: the background shall read what waits
    memory._pipelines.loop.run(_a_moment())
    report = ana.flush(lambda progress: False)
    read = len(seen)
    assert report.pending > 0
    time.sleep(0.6)
    assert len(seen) == read
    started = time.monotonic()
    memory.close()
    assert len(seen) == read, "closing does not read what was stopped"
    assert time.monotonic() - started < 10
    memory = open_memory(noting(seen))
    ana = memory.user("ana")
    ana.flush_soon()
    assert ana.drain(20)
    assert len(seen) > read


async def _a_moment() -> None:
    return None


@pytest.mark.parametrize(
    "error", [ValueError("no more"), SystemExit(3), KeyboardInterrupt()]
)
def test_an_error_in_the_callback_stops_and_is_reported(
    open_memory: Any, error: BaseException
) -> None:
    seen: list[str] = []
    ana = open_memory(noting(seen)).user("ana")
    names = fill(ana, sessions=3, turns=5)

    def failing(progress: FlushProgress) -> None:
        raise error

    report = ana.flush(failing)
    assert report.status == "partial"
    assert report.problems == [f"on_progress: {type(error).__name__}: {error}"]
    assert 0 < len(owned(ana)) < len(names)
    assert ana.flush().status == "ok"
    assert sorted(seen) == owned(ana) == names


def test_the_callback_cannot_call_the_memory(open_memory: Any) -> None:
    ana = open_memory(noting([])).user("ana")
    fill(ana, sessions=2, turns=5)
    report = ana.flush(lambda progress: ana.flush())
    assert report.status == "partial"
    assert "InvalidInputError: This is called from inside" in report.problems[0]


def test_what_cannot_be_called_is_refused(open_memory: Any) -> None:
    ana = open_memory(noting([])).user("ana")
    with pytest.raises(InvalidInputError, match="on_progress must be a function"):
        ana.flush("loud")  # type: ignore[arg-type]


def test_nothing_is_told_without_a_model_or_anything_to_read(open_memory: Any) -> None:
    told: list[FlushProgress] = []
    ana = open_memory(None).user("ana")
    fill(ana, sessions=1, turns=1)
    assert ana.flush(told.append).status == "no_model"
    ana = open_memory(AnswersBySchema(Extraction=memories())).user("ana")
    ana.flush()
    assert ana.flush(told.append).status == "ok"
    assert told == []


def test_a_batch_that_fails_is_no_progress(open_memory: Any) -> None:
    told: list[FlushProgress] = []
    ana = open_memory(AnswersBySchema(Extraction=ConnectionError("out"))).user("ana")
    fill(ana, sessions=2, turns=5)
    report = ana.flush(told.append)
    assert (report.status, report.read, told) == ("partial", 0, [])


async def test_the_twin_stops_too(open_memory: Any) -> None:
    seen: list[str] = []
    ana = open_memory(noting(seen)).user("ana")
    names = fill(ana, sessions=3, turns=5)
    told: list[FlushProgress] = []

    def on_progress(progress: FlushProgress) -> bool:
        told.append(progress)
        return False

    report = await ana.aflush(on_progress)
    assert (report.status, len(told)) == ("partial", 1)
    assert (await ana.aflush()).status == "ok"
    assert sorted(seen) == names


def test_an_interrupt_ends_the_wait_and_the_flush(open_memory: Any) -> None:
    """What was read stays, the batch in hand stays pending, and another flush can begin at once."""
    seen: list[str] = []
    calls: list[int] = []

    def interrupt_the_second_call() -> None:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    model = noting(seen, interrupt_the_second_call)
    ana = open_memory(model, extraction__debounce_seconds=0.3).user("ana")
    names = fill(ana, sessions=3, turns=5)
    ana.flush_soon()  # the background would read on
    with pytest.raises(KeyboardInterrupt):
        ana.flush()
    time.sleep(1.5)
    assert len(calls) == 2, "nothing goes on reading"
    first = owned(ana)
    assert 0 < len(first) < len(names)
    report = ana.flush()
    assert (report.status, report.pending) == ("ok", 0)
    assert owned(ana) == names, "no message is lost, and none has two records"


async def test_after_a_cancelled_flush_the_background_does_not_go_on(
    open_memory: Any,
) -> None:
    """So does Ctrl-C end it under `asyncio.run`."""
    seen: list[str] = []
    calls: list[int] = []
    second = threading.Event()

    def note_the_second_call() -> None:
        calls.append(1)
        if len(calls) == 2:
            second.set()
            time.sleep(0.3)

    model = noting(seen, note_the_second_call)
    ana = open_memory(model, extraction__debounce_seconds=0.3).user("ana")
    fill(ana, sessions=3, turns=5)
    ana.flush_soon()  # the background would read on
    flush = asyncio.create_task(ana.aflush())
    await asyncio.to_thread(second.wait, LIMIT)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    await asyncio.sleep(1.5)
    assert len(calls) == 2


@pytest.mark.parametrize("error", [SystemExit, TimeLimitError])
def test_what_a_signals_handler_raises_ends_the_flush_too(
    open_memory: Any, error: type[BaseException]
) -> None:
    calls: list[int] = []

    def signal_in_the_second_call() -> None:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(1)

    def handler(*_: object) -> None:
        raise error

    model = noting([], signal_in_the_second_call)
    ana = open_memory(model, extraction__debounce_seconds=0.3).user("ana")
    fill(ana, sessions=3, turns=5)
    ana.flush_soon()  # the background would read on
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(error):
            ana.flush()
    finally:
        signal.signal(signal.SIGUSR1, before)
    time.sleep(1.5)
    assert len(calls) == 2


def test_an_interrupt_stays_one_where_the_memory_is_closed_meanwhile(
    open_memory: Any,
) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.5)

    def handler(*_: object) -> None:
        memory.close()
        raise KeyboardInterrupt

    memory = open_memory(noting([], interrupt), storage__closing_seconds=1.0)
    fill(memory.user("ana"), sessions=1, turns=5)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            memory.user("ana").flush()
    finally:
        signal.signal(signal.SIGUSR1, before)


async def test_a_flush_that_is_thrown_away_ends(open_memory: Any) -> None:
    """Ctrl-C in `run_until_complete` cancels no task; Python throws them away."""
    calls: list[int] = []
    second = threading.Event()

    def note_the_second_call() -> None:
        calls.append(1)
        if len(calls) == 2:
            second.set()
            time.sleep(0.3)

    model = noting([], note_the_second_call)
    memory = open_memory(model, extraction__debounce_seconds=0.3)
    fill(memory.user("ana"), sessions=3, turns=5)
    memory.user("ana").flush_soon()
    flush = memory._pipelines.aflush("ana")
    flush.send(None)
    await asyncio.to_thread(second.wait, LIMIT)
    flush.close()
    await asyncio.sleep(1.5)
    assert len(calls) == 2


def test_an_interrupt_as_the_flush_is_handed_over_ends_it(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing reads on that nobody waits for, and no later flush waits for it."""
    seen: list[str] = []
    asked, answered = threading.Event(), threading.Event()
    waited_for: list[bool] = []

    def hang_at_first() -> None:
        if not asked.is_set():
            asked.set()
            waited_for.append(not answered.wait(LIMIT))

    hand_over = asyncio.run_coroutine_threadsafe

    def interrupted(*given: Any) -> Any:
        monkeypatch.undo()
        hand_over(*given)
        assert asked.wait(LIMIT)
        raise KeyboardInterrupt

    ana = open_memory(noting(seen, hang_at_first)).user("ana")
    names = fill(ana, sessions=1, turns=5)
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ana.flush()
    report = ana.flush()
    assert waited_for == []
    assert (report.status, report.pending) == ("ok", 0)
    assert sorted(seen) == owned(ana) == names
    answered.set()


def test_the_rounds_at_the_end_can_be_stopped_too(open_memory: Any) -> None:
    """Of a long backlog they are many; what was not done is due at the next flush."""
    model = noting([])
    ana = open_memory(model).user("ana")
    names = fill(ana, sessions=3, turns=5)
    report = ana.flush(lambda progress: progress.pending > 0)
    assert (report.status, report.pending) == ("partial", 0)
    assert owned(ana) == names
    assert "TopicRound" not in [schema for schema, _ in model.asked]
    assert ana.flush().status == "ok"
    assert "TopicRound" in [schema for schema, _ in model.asked]
