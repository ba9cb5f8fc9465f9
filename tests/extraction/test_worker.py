"""Extraction in the background: several users, closing, cancelling and asynchronous calls."""

import asyncio
import re
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph.errors import ClosedMemoryError, InvalidInputError
from langmem_graph.extraction import claim_due_batch
from langmem_graph.graphs.nodes import create_write_node
from langmem_graph.graphs.write_graph import create_write_graph
from tests.support.models import AnswersBySchema
from tests.support.topic_tracks import PROFILE, gather
from tests.support.writing import echo, line_aliases, turn


def test_two_users_at_once_and_a_restart_in_the_middle(open_memory: Any) -> None:
    seen: list[str] = []

    def extract(question: str) -> dict[str, Any]:
        seen.extend(line_aliases(question).values())
        return echo(question)

    def opened() -> Any:
        """With time to finish: a call that is cut off when it closes is made again."""
        return open_memory(
            AnswersBySchema(Extraction=extract), storage__closing_seconds=60
        )

    memory = opened()

    def talk(user: str, numbers: range) -> None:
        for n in numbers:
            memory.user(user).add(turn(f"{user} says {n}", number=n), session_id="s")
            memory._pipelines.worker.notify(user)

    for numbers in (range(25), range(25, 50)):
        threads = [
            threading.Thread(target=talk, args=(u, numbers)) for u in ("ana", "bob")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        memory = opened()
    for user in ("ana", "bob"):
        memory.user(user).flush()
        assert sorted(t for t in seen if t.startswith(f"{user} says")) == sorted(
            f"{user} says {n}" for n in range(50)
        )
        assert len(memory.user(user).search_records("says", k=99)) == 50


async def test_the_async_face_does_not_block(open_memory: Any) -> None:
    from blockbuster import blockbuster_ctx

    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    ana.add(turn("warm up"), session_id="s")
    await ana.aflush()
    with blockbuster_ctx():
        await ana.aadd(turn("I own a boat.", number=2), session_id="s")
        report = await ana.aflush()
        assert await ana.adrain(5)
        found = await ana.asearch_records("boat")
    assert report.stored == 1
    assert found


def test_a_session_that_stops_is_read_once_it_is_idle(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_due_batch, "IDLE", timedelta(seconds=0.3))
    memory = open_memory(
        AnswersBySchema(Extraction=echo), extraction__debounce_seconds=0.0
    )
    ana = memory.user("ana")
    ana.add(turn("I own a boat."), session_id="s")
    ana.flush_soon()
    assert ana.drain(5)
    # one turn of a session that goes on is not due
    assert ana.search_records("boat") == []
    until = time.monotonic() + 20
    while not ana.search_records("boat") and time.monotonic() < until:
        time.sleep(0.05)
    assert ana.search_records("boat")


def test_closing_reads_what_waits_and_leaves_the_rest_due(open_memory: Any) -> None:
    slow = AnswersBySchema(Extraction=lambda q: time.sleep(1) or echo(q))
    memory = open_memory(slow, storage__closing_seconds=0.1)
    memory.user("ana").add(turn("I own a boat."), session_id="s")
    memory._pipelines.worker.notify("ana")
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    assert ana.flush().stored == 1


def test_closing_reads_what_was_said_last(open_memory: Any) -> None:
    """Also where the loop was busy when the worker was notified of it."""
    memory = open_memory(AnswersBySchema(Extraction=echo))

    async def be_busy() -> None:
        time.sleep(0.3)  # noqa: ASYNC251  # so that nothing else runs

    memory.user("ana").add(turn("I own a boat."), session_id="s")
    memory._pipelines.loop.submit(be_busy())
    memory.user("ana").flush_soon()
    memory.close()
    ana = open_memory(None).user("ana")
    assert [hit.text for hit in ana.search_records("boat")]


def test_closing_with_many_users_due_ends_in_time(
    open_memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not read stays due, with nothing claimed, one line tells of it, and no
    thread is left.
    """

    def slow(question: str) -> dict[str, Any]:
        time.sleep(1)
        return echo(question)

    before = set(threading.enumerate())
    memory = open_memory(AnswersBySchema(Extraction=slow), storage__closing_seconds=4)
    users = [f"user {n}" for n in range(80)]
    for user in users:
        memory.user(user).add(turn("I own a boat."), session_id="s")
        memory._pipelines.worker.notify(user)
    begun = time.monotonic()
    memory.close()
    assert time.monotonic() - begun < 10  # without limit it takes as long as all users
    time.sleep(1.5)  # a call of the model that was left
    assert set(threading.enumerate()) <= before
    (line,) = [one for one in caplog.messages if "what is due of" in one]
    assert re.match(r"what is due of \d+ of \d+ users is done after the next", line)
    memory = open_memory(AnswersBySchema(Extraction=echo))
    due = [user.user_id for user in memory.users() if user.to_read]
    assert due
    assert [memory.user(user).flush().status for user in due] == ["ok"] * len(due)


def test_reading_is_no_part_of_the_callers_run(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    memory = open_memory(model)
    builder = StateGraph(MessagesState)
    builder.add_node("write", create_write_node(memory, extraction="inline"))
    builder.add_edge(START, "write")
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    where = {"configurable": {"user_id": "ana", "thread_id": "t"}, "recursion_limit": 2}
    said = {"messages": [("user", "I own a boat."), ("assistant", "Nice.")]}
    modes = ["messages", "updates", "custom"]
    parts = list(graph.stream(said, where, stream_mode=modes, subgraphs=True))
    assert memory.user("ana").search_records("boat")
    assert not [part for part in parts if part[1] == "messages"]
    assert {namespace for namespace, *_ in parts} == {()}
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) <= 3


async def test_the_write_graph(open_memory: Any) -> None:
    memory = open_memory(AnswersBySchema(Extraction=echo))
    graph = create_write_graph(memory)
    where = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    done = await graph.ainvoke({"messages": [("user", "I own a boat.")]}, where)
    assert done["memory_report"]["read"]["stored"] == 1
    done = await asyncio.to_thread(
        graph.invoke, {"messages": [("user", "And a car.")]}, where
    )
    assert done["memory_report"]["write"]["stored"] == 1
    with pytest.raises(InvalidInputError, match="with a model"):
        create_write_graph(open_memory(None))


async def test_giving_up_waiting_leaves_nothing_claimed(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=lambda q: time.sleep(0.5) or echo(q))
    ana = open_memory(model).user("ana")
    await ana.aadd(turn("I own a boat."), session_id="s")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ana.aflush(), 0.1)
    report = await ana.aflush()
    assert report.stored + len(ana.export_records()) >= 1
    assert report.pending == 0


def test_a_closed_memory_says_so(open_memory: Any) -> None:
    memory = open_memory(
        AnswersBySchema(Extraction=lambda q: time.sleep(1) or echo(q)),
        storage__closing_seconds=0,
    )
    ana = memory.user("ana")
    ana.add(turn("I own a boat."), session_id="s")
    closer = threading.Timer(0.2, memory.close)
    closer.start()
    with pytest.raises(ClosedMemoryError):
        ana.flush()
    closer.join()
    for call in (ana.flush, ana.drain, ana.flush_soon):
        with pytest.raises(ClosedMemoryError):
            call()


def old(user: Any) -> None:
    user.add(
        {"role": "user", "content": "I row.", "id": "old"},
        session_id="s",
        at="2020-01-01",
    )


def gone(user: Any) -> bool:
    for _ in range(250):
        if not user.export():
            return True
        time.sleep(0.02)
    return False


def test_what_is_too_old_expires_in_the_background_and_is_not_read(
    open_memory: Any,
) -> None:
    model = AnswersBySchema(Extraction=echo)
    memory = open_memory(None)
    for name in ("ana", "bob", "cleo"):
        old(memory.user(name))
    memory.user("cleo").keep_days(messages=10_000)
    memory = open_memory(model, extraction__debounce_seconds=60)
    memory.keep_days(messages=30)
    assert gone(memory.user("ana"))
    assert gone(memory.user("bob"))
    assert memory.user("cleo").export()
    assert model.asked == []


def test_a_users_own_limit_is_applied_before_the_next_reading(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo)
    memory = open_memory(model)
    ana = memory.user("ana")
    ana.keep_days(messages=30)
    old(ana)
    memory._pipelines.worker.notify("ana")
    assert gone(ana)
    assert model.asked == []
