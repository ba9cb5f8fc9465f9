"""`SystemExit` and the like out of a model or a callback: an error at once, and memory lives on."""

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langgraph.graph import START, StateGraph

from langmem_graph import threads
from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.runtime import LoopThread
from langmem_graph.settings import (
    ExtractionSettings,
    ReasoningSettings,
    Settings,
    StorageSettings,
)
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.hanging import ends, raising
from tests.support.isolation import Send
from tests.support.models import ANSWERS, steady_model


class Odd(BaseException):
    """An error of nobody's."""


ERRORS: list[BaseException] = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration("x"),
    Odd("x"),
]
# Like SystemExit to the event loop, and like Odd to the rest.
_ALIKE = (KeyboardInterrupt, GeneratorExit)
MOST_LATER = [
    ERRORS[0],
    *(
        pytest.param(
            one,
            marks=pytest.mark.stress if isinstance(one, _ALIKE) else pytest.mark.long,
        )
        for one in ERRORS[1:]
    ),
]
SETTINGS = Settings(
    extraction=ExtractionSettings(debounce_seconds=0.0, call_seconds=3_600),
    reasoning=ReasoningSettings(seconds=3_600, call_seconds=3_600),
    storage=StorageSettings(closing_seconds=3),
)
CONFIG: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
ACT: Any = {"messages": [("user", "Shall I tell my secret to the gardener?")]}
QUESTION = "Where is my secret?"


@pytest.fixture
def model() -> ScriptedChatModel:
    return steady_model()


@pytest.fixture
def memory(tmp_path: Path, model: ScriptedChatModel) -> Iterator[Memory]:
    opened = Memory(
        tmp_path / "m",
        model=model,
        embeddings="hash",
        settings=SETTINGS,
        causal_scorer="none",
    )
    opened.user("ana").add(said("My secret is in the garden.", id="1"), session_id="s")
    yield opened
    assert ends(opened.close) is None


def agent(memory: Memory) -> Any:
    middleware = MemoryMiddleware(memory, mode="auto", extraction="inline")
    return create_agent(ScriptedChatModel(script=["done"] * 2), middleware=[middleware])


def nodes(memory: Memory) -> Any:
    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory, mode="reason"))
    builder.add_node("write", create_write_node(memory, extraction="inline"))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "write")
    return builder.compile()


CALLS: dict[str, Callable[[Memory], Any]] = {
    "flush": lambda memory: memory.user("ana").flush(),
    "aflush": lambda memory: asyncio.run(memory.user("ana").aflush()),
    "recall": lambda memory: memory.user("ana").recall(QUESTION, mode="reason"),
    "arecall": lambda memory: asyncio.run(
        memory.user("ana").arecall(QUESTION, mode="reason")
    ),
    "ground": lambda memory: memory.user("ana").ground(Send, QUESTION),
    "aground": lambda memory: asyncio.run(memory.user("ana").aground(Send, QUESTION)),
    "nodes": lambda memory: nodes(memory).invoke(ACT, CONFIG),
    "nodes, async": lambda memory: asyncio.run(nodes(memory).ainvoke(ACT, CONFIG)),
    "agent": lambda memory: agent(memory).invoke(ACT, CONFIG),
    "agent, async": lambda memory: asyncio.run(agent(memory).ainvoke(ACT, CONFIG)),
    "write graph": lambda memory: create_write_graph(memory).invoke(ACT, CONFIG),
    "recall graph": lambda memory: create_recall_graph(memory).invoke(ACT, CONFIG),
    "grounding graph": lambda memory: create_grounding_graph(memory, tools=Send).invoke(
        ACT, CONFIG
    ),
}


@pytest.mark.parametrize("error", MOST_LATER, ids=lambda error: type(error).__name__)
def test_what_a_model_raises_is_an_unusable_answer(
    memory: Memory, model: ScriptedChatModel, error: BaseException
) -> None:
    model.answers = dict.fromkeys(ANSWERS, raising(error))
    outcomes = {
        name: ends(lambda call=call: call(memory)) for name, call in CALLS.items()
    }  # type: ignore[misc]
    assert not {n: o for n, o in outcomes.items() if isinstance(o, BaseException)}
    assert outcomes["flush"].status == outcomes["aflush"].status == "partial"
    assert type(error).__name__ in outcomes["flush"].problems[0]
    assert outcomes["recall"].report.status == "degraded"
    model.answers = ANSWERS
    assert ends(lambda: CALLS["aflush"](memory)).status == "ok"


def test_background_extraction_lives_on(
    memory: Memory, model: ScriptedChatModel
) -> None:
    model.answers = {"Extraction": raising(SystemExit(3))}
    ana = memory.user("ana")
    ana.add(("assistant", "I see."), session_id="s")
    ana.add(said("A new session.", id="2"), session_id="t")
    ana.flush_soon()
    assert ends(lambda: ana.drain(30)) is True
    model.answers = ANSWERS
    ana.flush_soon()
    assert ends(lambda: ana.drain(30)) is True
    assert ana.export_records()


@pytest.mark.parametrize("error", MOST_LATER, ids=lambda error: type(error).__name__)
def test_callbacks(
    memory: Memory, model: ScriptedChatModel, error: BaseException
) -> None:
    def callback(_: Any) -> None:
        raise error

    class Handler(BaseCallbackHandler):
        raise_error = True

        def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            raise error

    ana = memory.user("ana")
    found = ends(lambda: ana.recall(QUESTION, mode="reason", on_event=callback))
    assert found.report.status == "ok"
    assert ends(lambda: ana.flush(on_progress=callback)).status in ("ok", "partial")
    ana.add(said("Another secret.", id="2"), session_id="s")
    model.callbacks = [Handler()]
    assert ends(ana.flush).status == "partial"
    model.callbacks = None
    assert ends(ana.flush).pending == 0


def test_an_exhausted_model_costs_no_waiting(tmp_path: Path) -> None:
    class Exhausted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    model = Exhausted(messages=iter([]))
    with Memory(
        tmp_path / "m", model=model, embeddings="hash", settings=SETTINGS
    ) as memory:
        ana = memory.user("ana")
        ana.add(said("My secret is in the garden.", id="1"), session_id="s")
        assert (
            ends(lambda: ana.recall(QUESTION, mode="reason")).report.status
            == "degraded"
        )
        assert "StopIteration" in ends(ana.flush).problems[0]


@pytest.mark.parametrize("error", ERRORS[:2], ids=lambda error: type(error).__name__)
def test_a_scorer_that_raises_on_the_loop_ends_its_flush_alone(
    tmp_path: Path, error: BaseException
) -> None:
    class Scorer:
        name = "odd"

        def score(self, pairs: Any) -> list[float]:
            raise error

        async def ascore(self, pairs: Any) -> list[float]:
            raise error

    pair = {"cause": "r1", "effect": "r2", "sure": "yes"}
    model = ScriptedChatModel(
        answers={**ANSWERS, "CausalPairs": {"pairs": [pair]}}, record=False
    )
    close = SETTINGS.extraction.model_copy(update={"cluster_max_distance": 1.5})
    memory = Memory(
        tmp_path / "m",
        model=model,
        embeddings="hash",
        settings=SETTINGS.model_copy(update={"extraction": close}),
        causal_scorer=Scorer(),  # type: ignore[arg-type]
    )
    ana = memory.user("ana")
    ana.add(
        [said(f"My secret {n} is here.", id=str(n)) for n in range(9)], session_id="s"
    )
    outcome = ends(ana.flush)
    assert isinstance(outcome, LangMemGraphError)
    assert type(error).__name__ in str(outcome)
    assert ends(lambda: ana.recall(QUESTION, mode="reason")).report.status == "ok"
    assert ends(memory.close) is None


@pytest.mark.parametrize("error", ERRORS[:3], ids=lambda error: type(error).__name__)
def test_the_loop_lives_on_after_a_task_that_exits(error: BaseException) -> None:
    async def task() -> None:
        raise error

    async def work() -> None:
        await asyncio.gather(asyncio.create_task(task()))

    async def fine() -> int:
        return 1

    loop = LoopThread("test")
    for run in (loop.run, lambda work: asyncio.run(loop.arun(work))):
        outcome = ends(lambda run=run: run(work()))  # type: ignore[misc]
        assert isinstance(outcome, LangMemGraphError)
        assert type(error).__name__ in str(outcome)
        assert ends(lambda run=run: run(fine())) == 1  # type: ignore[misc]
    loop.close(1)


def test_work_that_does_not_end_is_abandoned_when_the_loop_closes() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                continue

    loop = LoopThread("test")
    loop.submit(stubborn())
    assert ends(lambda: loop.close(0.1)) is None


async def test_what_is_written_for_a_user_ends_before_the_process_does() -> None:
    assert not (await threads.in_thread_of("ana", threading.current_thread)).daemon


def test_work_that_nobody_waits_for_any_more_can_know_it() -> None:
    known = threading.Event()

    @threads.uninterrupted
    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        until = time.monotonic() + 5
        while not threads.is_interrupted() and time.monotonic() < until:
            time.sleep(0.01)
        if threads.is_interrupted():
            known.set()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert known.wait(10)


def test_work_is_not_interrupted_by_a_call_that_has_ended(tmp_path: Path) -> None:
    one_by_one = Settings(storage=StorageSettings(embed_batch=1))
    with Memory(tmp_path / "m", embeddings="hash", settings=one_by_one) as opened:
        user = opened.user("ana")
        user.add(said("first"), session_id="s")
        adding = user.aadd(
            [said("second"), said("third"), said("fourth")], session_id="s"
        )
        assert asyncio.run(adding).not_yet_embedded == []


async def test_a_cancelled_caller_stays_cancelled(memory: Memory) -> None:
    task = asyncio.create_task(memory.user("ana").aflush())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_closing_in_a_callback_ends(memory: Memory) -> None:
    seen: list[Any] = []

    def close(_: Any) -> None:
        try:
            memory.close()
        except InvalidInputError as error:
            seen.append(error)

    ends(lambda: memory.user("ana").recall(QUESTION, mode="reason", on_event=close))
    with pytest.raises(LangMemGraphError):
        memory.user("ana").recall(QUESTION)


# the loop is left
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_where_no_thread_can_start_an_error_of_ours_says_so(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threads.threading.Thread, "start", refuse)
        patch.setattr(threads, "main_thread", threads.threading.Thread)  # it has ended
        report = memory.user("ana").add(said("late", id="late"), session_id="s")
        assert (report.stored, report.not_yet_embedded) == (["late"], ["late"])
        assert "No thread can be started" in report.warnings[0]
        with pytest.raises(LangMemGraphError):
            memory.user("ana").flush()
    assert ends(memory.user("ana").flush).status == "ok"
    gc.collect()  # the loop that was left is an error of no later test


@pytest.mark.timeout(60)  # it used to wait for ever
def test_where_the_memorys_own_thread_cannot_start_the_main_thread_goes_on(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "langmem-graph":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(LangMemGraphError, match="can't start new thread"):
            memory.user("ana").flush()
    assert memory.user("ana").flush().status == "ok"
