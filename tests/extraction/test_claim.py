"""Which messages are read together, and when."""

import time
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.extraction import claim_due_batch
from langmem_graph.extraction.claim_due_batch import (
    BATCH_BYTES,
    MAX_MESSAGE_BYTES,
    batches_of,
    count_turns,
)
from langmem_graph.extraction.flush import give_back_claim
from langmem_graph.extraction.graph import new_run
from langmem_graph.extraction.state import Dependencies
from langmem_graph.llm.structured_calls import model_runner
from langmem_graph.memory import Memory
from langmem_graph.runtime import StepRun
from langmem_graph.storage.pending_messages import Unread
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.view import own_view
from tests.support.models import AnswersBySchema
from tests.support.writing import echo, memories, turn


def pending(*parts: tuple[int, str, int]) -> list[Unread]:
    """Messages in the order of arrival, from their sessions, roles and sizes."""
    return [Unread(n, *part) for n, part in enumerate(parts, 1)]


sessions = st.integers(1, 3)
roles = st.sampled_from(["user", "assistant"])
sizes = st.integers(1, 200) | st.integers(1, 3 * BATCH_BYTES)
talks = st.lists(st.tuples(sessions, roles, sizes), max_size=60).map(
    lambda rows: pending(*rows)
)
turns_alone = st.lists(st.integers(1, 3_000), min_size=1, max_size=20)


@given(talks)
def test_every_message_is_read_once_and_in_order(messages: list[Unread]) -> None:
    read = [n for batch in batches_of(messages) for n in batch.items]
    assert sorted(read) == [message.n for message in messages]
    for session in {message.session for message in messages}:
        own = {message.n for message in messages if message.session == session}
        assert [n for n in read if n in own] == sorted(own)


@given(talks)
def test_no_batch_is_longer_than_a_prompt_holds(messages: list[Unread]) -> None:
    counted = {message.n: min(message.size, MAX_MESSAGE_BYTES) for message in messages}
    for batch in batches_of(messages):
        sizes = [counted[n] for n in batch.items]
        assert sizes
        assert sum(sizes) <= BATCH_BYTES or len(sizes) == 1


@given(talks)
def test_a_batch_is_full_before_the_next_one_begins(messages: list[Unread]) -> None:
    """Two batches in a row never fit into one, unless a turn that is too long was divided."""
    counted = {message.n: min(message.size, MAX_MESSAGE_BYTES) for message in messages}
    batches = list(batches_of(messages))
    for one, following in pairwise(batches):
        both = sum(counted[n] for n in (*one.items, *following.items))
        in_turn = next(
            turn for turn in turns_of(messages) if following.items[0] in turn
        )
        both_turns = sum(counted[n] for n in (*one.items, *in_turn))
        assert both > BATCH_BYTES or both_turns > BATCH_BYTES


def turns_of(messages: list[Unread]) -> list[list[int]]:
    """The turns, in another way: a session or a user's message after an answer begins one."""
    turns: list[list[int]] = []
    before: Unread | None = None
    for message in sorted(messages, key=lambda one: (one.session, one.n)):
        answered = before is not None and (before.role, message.role) == (
            "assistant",
            "user",
        )
        if before is None or before.session != message.session or answered:
            turns.append([])
        turns[-1].append(message.n)
        before = message
    return turns


@given(turns_alone, sessions)
def test_a_batch_ends_after_an_answer(lengths: list[int], session: int) -> None:
    parts = [
        (session, role, size) for size in lengths for role in ("user", "assistant")
    ]
    messages = pending(*parts)
    role = {message.n: message.role for message in messages}
    batches = list(batches_of(messages))
    assert {role[batch.items[-1]] for batch in batches} == {"assistant"}
    assert (
        sum(batch.turns for batch in batches) == len(lengths) == count_turns(messages)
    )


def test_a_turn_that_is_too_long_is_divided() -> None:
    monologue = pending(*[(1, "user", 10_000)] * 5, (1, "assistant", 10))
    assert [batch.items for batch in batches_of(monologue)] == [(1, 2, 3), (4, 5, 6)]
    one = pending((1, "user", 10**9), (1, "assistant", 10))
    assert [batch.items for batch in batches_of(one)] == [(1, 2)]


# --- when ------------------------------------------------------------------------------------


def test_without_a_model_messages_wait_and_are_read_when_there_is_one(
    open_memory: Any,
) -> None:
    ana = open_memory(None).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    report = ana.flush()
    assert (report.status, report.pending) == ("no_model", 2)
    assert ana.drain(1)
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    assert ana.flush().stored == 1


def test_what_an_earlier_process_left_is_read_at_the_next_opening(
    open_memory: Any,
) -> None:
    ana = open_memory(None).user("ana")
    for number in range(4):
        ana.add(turn(f"I own boat {number}.", number=number), session_id="s")
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    ana.sessions()
    for _ in range(500):
        if ana.export_records():
            break
        time.sleep(0.02)
    assert len(ana.export_records()) == 4


def test_a_session_that_goes_on_is_read_by_4_and_then_by_8_turns(
    open_memory: Any,
) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    read_after = []
    for number in range(1, 30):
        ana.add(turn(f"line {number}", number=number), session_id="s")
        before = len(model.asked)
        assert ana.drain(10)
        read_after += [number] * (len(model.asked) - before)
    assert read_after == [4, 12, 20, 28]


def test_long_turns_are_read_before_there_are_so_many(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    read_after = []
    for number in range(1, 7):
        ana.add(turn(f"{number} " + "word " * 2_000, number=number), session_id="s")
        before = len(model.asked)
        assert ana.drain(10)
        read_after += [number] * (len(model.asked) - before)
    assert read_after == [3, 5]  # three that count 8,000 bytes are too many for a batch


def test_the_rest_of_a_session_is_read_when_another_begins(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    for number in range(5):
        ana.add(turn(f"line {number}", number=number), session_id="s1")
    assert ana.drain(10)
    assert len(model.asked) == 1  # after 4
    ana.add(turn("other", number=9), session_id="s2")
    assert ana.drain(10)
    assert len(model.asked) == 2
    assert "line 4" in model.asked[-1][1]
    assert "other" not in model.asked[-1][1]


def test_sessions_that_have_ended_are_read_together(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo)
    ana = open_memory(model).user("ana")
    for number in range(6):
        ana.add(turn(f"line {number}", number=number), session_id=f"s{number}")
    assert ana.flush().read == 12
    (question,) = [asked for step, asked in model.asked if step == "Extraction"]
    assert question.count("-- another conversation --") == 5


def test_an_idle_session_has_ended(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    ana.add(turn("the only line"), session_id="s")
    assert ana.drain(10)
    assert model.asked == []
    monkeypatch.setattr(claim_due_batch, "IDLE", timedelta(0))
    assert ana.drain(10)
    assert len(model.asked) == 1


async def test_a_claim_that_comes_after_its_run_was_interrupted_takes_nothing(
    memory: Memory,
) -> None:
    """The thread that claims is left behind where its run is cancelled, and may go on later."""
    memory.user("u").add(turn("one"), session_id="s")
    services = memory._services
    deps = Dependencies(
        services, model_runner(ScriptedChatModel(), services.settings, "x")
    )
    interrupted, other = new_run(force=True), new_run(force=True)
    give_back_claim(services, "u", interrupted)
    for begun, is_claimed in ((interrupted, False), (other, True)):
        run = StepRun(own_view("u"), {}, lambda event: None)
        claimed = await claim_due_batch.claim(deps, begun, run)
        assert (claimed["batch"] is not None) is is_claimed
