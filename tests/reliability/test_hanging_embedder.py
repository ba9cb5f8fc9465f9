"""An embedder that never answers stops no turn, no other user, no erasure and no closing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph

from langmem_graph.embeddings import embedder as embedder_module
from langmem_graph.errors import EmbeddingError, StorageError
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
)
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.tools import create_memory_tools
from tests.conftest import said
from tests.support.hanging import HangingEmbeddings, ends
from tests.support.models import steady_model

SHORT = Settings(embed_seconds=0.2, storage=StorageSettings(closing_seconds=5))
LONG = Settings(embed_seconds=3_600, storage=StorageSettings(closing_seconds=0.3))


@pytest.fixture
def hanging() -> Iterator[HangingEmbeddings]:
    made = HangingEmbeddings()
    yield made
    made.release()


def test_a_turn_goes_on_with_words_alone_and_the_work_stays_due(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    with Memory(tmp_path / "m", embeddings=hanging, settings=SHORT) as memory:
        ana = memory.user("ana")
        ana.add(said("my trombone is in the attic", id="1"), session_id="s")
        hanging.hangs = {"trombone"}
        recalled = ends(lambda: ana.recall("Where is the trombone?"))
        assert recalled.report.status == "degraded"
        assert [hit.message_id for hit in recalled.evidence] == ["1"]
        assert "no answer within 0.2 seconds" in recalled.report.warnings[0]
        added = ends(
            lambda: ana.add(said("the trombone is sold", id="2"), session_id="s")
        )
        assert (added.stored, added.not_yet_embedded) == (["2"], ["2"])
        assert "no answer" in added.warnings[0]
        assert memory.user("ben").recall("anything").report.status == "ok"
    hanging.release()
    with Memory(tmp_path / "m", embeddings=hanging, settings=SHORT) as memory:
        assert memory.user("ana").recall("trombone").report.status == "ok"
        assert memory.user("ana").doctor(sample=0).ok


@pytest.mark.parametrize("is_async", [False, True])
def test_through_nodes_the_turn_is_reported_as_degraded(
    tmp_path: Path, hanging: HangingEmbeddings, is_async: bool
) -> None:
    hanging.hangs = {"trombone"}
    with Memory(tmp_path / "m", embeddings=hanging, settings=SHORT) as memory:
        memory.user("ana").add(said("hello", id="1"), session_id="s")
        builder = StateGraph(MemoryState)
        builder.add_node("recall", create_recall_node(memory, report=True))
        builder.add_node("chat", lambda _: {"messages": [AIMessage("hi")]})
        builder.add_node("write", create_write_node(memory, report=True))
        builder.add_edge(START, "recall")
        builder.add_edge("recall", "chat")
        builder.add_edge("chat", "write")
        graph = builder.compile()
        asked: Any = {"messages": [("user", "Where is my trombone?")]}
        config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
        run = (lambda: asyncio.run(graph.ainvoke(asked, config))) if is_async else None
        done = ends(run or (lambda: graph.invoke(asked, config)))
    report = done["memory_report"]
    assert [report[part]["status"] for part in ("recall", "write")] == [
        "degraded",
        "degraded",
    ]
    assert report["write"]["stored"] == 2


async def test_calls_that_hang_stop_neither_other_users_nor_the_applications_executor(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    async def turn(user: str, text: str) -> None:
        await memory.user(user).arecall(text)
        await memory.user(user).aadd(said(text), session_id="s")

    async with Memory(tmp_path / "m", embeddings=hanging, settings=LONG) as memory:
        for user in ("ana", "ben", "eve"):
            await memory.user(user).aadd(said("hello", id="1"), session_id="s")
        tool = next(
            t for t in create_memory_tools(memory) if t.name == "search_records"
        )
        config: Any = {"configurable": {"user_id": "eve"}}
        hanging.hangs = {"trombone"}
        calls: list[Any] = [turn("ana", "trombone") for _ in range(60)]
        calls += [tool.ainvoke({"query": "trombone"}, config) for _ in range(60)]
        stuck = [asyncio.ensure_future(call) for call in calls]
        await asyncio.wait_for(asyncio.to_thread(hanging.entered.wait), 30)
        await asyncio.wait_for(turn("ben", "the garden"), 30)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 30) == 1
        assert not any(one.done() for one in stuck)
        hanging.release()
        await asyncio.gather(*stuck)


async def test_a_call_that_was_cancelled_keeps_nobody_waiting(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    async with Memory(tmp_path / "m", embeddings=hanging, settings=LONG) as memory:
        ana = memory.user("ana")
        await ana.aadd(said("hello"), session_id="s")
        hanging.hangs = {"trombone"}
        several = [said(f"trombone {n}", id=str(n)) for n in range(5)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ana.aadd(several, session_id="s"), 0.5)
        assert hanging.entered.is_set()
        hanging.hangs.clear()  # who asks from now on gets an answer
        added = await asyncio.wait_for(ana.aadd(said("tea"), session_id="s"), 30)
        assert not added.not_yet_embedded
        await ana.aadd(said("cake"), session_id="s")
        assert ana.doctor().waiting_to_embed == 0
        assert hanging.calls == 5  # each of the three, what was given up, and it again


async def test_a_call_that_nobody_waits_for_is_silent_when_its_time_is_over(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    settings = Settings(embed_seconds=1)
    several = [said(f"trombone {n}") for n in range(5)]

    async def give_up(session: str) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ana.aadd(several, session_id=session), 0.2)

    async with Memory(tmp_path / "m", embeddings=hanging, settings=settings) as memory:
        ana = memory.user("ana")
        await ana.aadd(said("hello"), session_id="s")
        hanging.hangs = {"trombone"}
        for session in "abc":
            await give_up(session)
        assert (await ana.arecall("hello")).report.status == "ok"
        await give_up("d")
        before = hanging.calls
        await ana.aadd(several, session_id="t")
        assert hanging.calls - before == 1
        hanging.release()


@pytest.mark.parametrize("call", ["erase", "close"])
def test_erase_and_close_end_while_a_call_hangs(
    tmp_path: Path, hanging: HangingEmbeddings, call: str
) -> None:
    memory = Memory(tmp_path / "m", embeddings=hanging, settings=LONG)
    ana = memory.user("ana")
    ana.add(said("hello", id="1"), session_id="s")
    hanging.hangs = {"trombone"}
    adding = asyncio.new_event_loop()
    try:
        stuck = adding.create_task(
            ana.aadd(said("my trombone", id="2"), session_id="s")
        )
        adding.run_until_complete(asyncio.wait([stuck], timeout=0.1))
        assert hanging.entered.wait(30)
        if call == "erase":
            assert isinstance(ends(ana.erase), StorageError)
        assert ends(memory.close) is None
        hanging.release()
        outcome = adding.run_until_complete(
            asyncio.gather(stuck, return_exceptions=True)
        )
        assert isinstance(outcome[0], StorageError) or outcome[0].stored == ["2"]
    finally:
        adding.close()
    with Memory(tmp_path / "m", embeddings=hanging) as memory:
        assert [row["id"] for row in memory.user("ana").export()] == ["1", "2"]
        assert memory.user("ana").doctor(sample=0).ok


def test_an_erasure_waits_until_the_embedder_is_given_up(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    hanging.hangs = {"trombone"}
    with Memory(tmp_path / "m", embeddings=hanging, settings=SHORT) as memory:
        ana = memory.user("ana")
        ends(lambda: ana.add(said("my trombone", id="1"), session_id="s"))
        assert ends(ana.erase).messages == 1
    assert not list((tmp_path / "m" / "users").iterdir())


def test_due_work_that_hangs_at_the_closing_stays_due(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    def fail() -> None:
        raise ConnectionError

    memory = Memory(tmp_path / "m", embeddings=hanging, settings=LONG)
    hanging.within = fail
    report = memory.user("ana").add(said("my trombone", id="1"), session_id="s")
    assert report.not_yet_embedded == ["1"]
    hanging.hangs = {"trombone"}
    assert ends(memory.close) is None
    assert hanging.entered.is_set()
    hanging.within = lambda: None
    hanging.release()
    with Memory(tmp_path / "m", embeddings=hanging) as memory:
        assert memory.user("ana").search_conversation("trombone", ranking="dense")


def test_a_silent_embedder_is_left_alone_and_tried_again(
    tmp_path: Path, hanging: HangingEmbeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(embedder_module, "monotonic", lambda: now[0])
    embedder = embedder_module.load_embedder(hanging)
    embedder.seconds = 0.05
    hanging.hangs = {"trombone"}
    for n in range(4):
        with pytest.raises(
            EmbeddingError, match="no answer within" if n < 2 else "not asked"
        ):
            embedder.embed(["trombone"])
    assert hanging.calls == 2
    now[0] = 1.0
    assert embedder.embed(["garden"]).shape[0] == 1  # one call tries; it works
    with pytest.raises(EmbeddingError, match="no answer within"):
        embedder.embed(["trombone"])


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), OSError()]
)
def test_what_an_embedder_raises_is_an_embedding_error(
    hanging: HangingEmbeddings, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    hanging.within = fail
    with pytest.raises(EmbeddingError, match=type(error).__name__):
        embedder_module.load_embedder(hanging).embed_query("garden")


def test_one_text_that_hangs_blocks_no_other_of_its_batch(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    hanging.hangs = {"trombone"}
    with Memory(tmp_path / "m", embeddings=hanging, settings=SHORT) as memory:
        talk = [said(f"the garden {n}", id=str(n)) for n in range(5)]
        added = memory.user("ana").add(
            [*talk, said("a trombone", id="x")], session_id="s"
        )
    assert added.not_yet_embedded == ["x"]


def test_reasoning_goes_on_with_words_alone(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    model = steady_model()
    with Memory(
        tmp_path / "m", embeddings=hanging, model=model, settings=SHORT
    ) as memory:
        ana = memory.user("ana")
        ana.add(said("my secret trombone is in the attic", id="1"), session_id="s")
        ana.flush()
        hanging.hangs = {"secret"}
        found = ends(lambda: ana.recall("Where is my secret trombone?", mode="reason"))
        assert found.report.status == "degraded"
        assert found.evidence
        grounded = ends(
            lambda: ana.ground({"title": "Send", "type": "object"}, "my secret")
        )
        assert grounded.name == "Send"


def test_a_store_goes_on_with_words_alone(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    store = ChromaStore(tmp_path / "m", embeddings=hanging, settings=SHORT)
    hanging.hangs = {"trombone"}
    ends(lambda: store.put(("a",), "k", {"text": "my trombone"}))
    (found,) = ends(lambda: store.search(("a",), query="trombone"))
    assert found.key == "k"
    assert ends(store.close) is None
    hanging.release()
    with ChromaStore(tmp_path / "m", embeddings=hanging) as store:
        assert store.search(("a",), query="trombone")[0].score is not None


async def test_calls_of_a_store_that_hang_leave_the_applications_executor_alone(
    tmp_path: Path, hanging: HangingEmbeddings
) -> None:
    store = ChromaStore(tmp_path / "m", embeddings=hanging, settings=LONG)
    await store.aput(("a",), "k", {"text": "the garden"})
    hanging.hangs = {"trombone"}
    stuck = [
        asyncio.ensure_future(store.asearch(("a",), query="trombone"))
        for _ in range(60)
    ]
    await asyncio.wait_for(asyncio.to_thread(hanging.entered.wait), 30)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 30) == 1
    assert ends(store.close) is None
    hanging.release()
    await asyncio.gather(*stuck, return_exceptions=True)
