"""What a flush would read and cost, before it starts."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph import FlushForecast, Memory
from langmem_graph.extraction import claim_due_batch
from langmem_graph.extraction.claim_due_batch import (
    BATCH_BYTES,
    MAX_MESSAGE_BYTES,
    batches_of,
)
from langmem_graph.messages import parse_messages
from langmem_graph.reports import AddReport
from langmem_graph.storage import add_messages
from langmem_graph.storage.pending_messages import Unread
from langmem_graph.tokens import token_counter
from tests.support.backlog import fill, noting, session
from tests.support.models import AnswersBySchema
from tests.support.writing import memories

_MESSAGES = st.lists(
    st.builds(
        Unread,
        n=st.integers(1, 500),
        session=st.integers(1, 4),
        role=st.sampled_from(["user", "assistant", "tool"]),
        size=st.sampled_from([0, 10, 900, 4_000, 7_000, 30_000]),
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda message: message.n,
)


def _size(message: Unread) -> int:
    return min(message.size, MAX_MESSAGE_BYTES)


@given(_MESSAGES)
def test_all_batches_at_once_are_those_that_are_claimed_one_by_one(
    messages: list[Unread],
) -> None:
    waiting, claimed = list(messages), []
    while waiting:
        claimed.append(next(batches_of(waiting)))
        waiting = [one for one in waiting if one.n not in claimed[-1].items]
    assert list(batches_of(messages)) == claimed


@given(_MESSAGES)
def test_each_message_is_in_one_batch_that_one_prompt_can_hold(
    messages: list[Unread],
) -> None:
    ordered = sorted(messages, key=lambda message: (message.session, message.n))
    of = {message.n: message for message in messages}
    batches = list(batches_of(messages))
    assert [n for batch in batches for n in batch.items] == [
        message.n for message in ordered
    ]
    for batch in batches:
        assert sum(_size(of[n]) for n in batch.items) <= BATCH_BYTES


@given(_MESSAGES)
def test_only_a_turn_that_is_too_long_is_divided(messages: list[Unread]) -> None:
    """And as late as possible: it begins a batch."""
    firsts = {batch.items[0] for batch in batches_of(messages)}
    ordered = sorted(messages, key=lambda message: (message.session, message.n))
    batch_of = {
        n: place
        for place, batch in enumerate(batches_of(messages))
        for n in batch.items
    }
    for turn in claim_due_batch._turns(ordered):
        if sum(map(_size, turn)) <= BATCH_BYTES:
            assert len({batch_of[message.n] for message in turn}) == 1
        else:
            assert turn[0].n in firsts


def test_batches_are_made_in_one_pass() -> None:
    """Going over what is left for each batch would take long here."""
    many = [Unread(n, 1, "user", 2_000) for n in range(50_000)]
    start = time.thread_time()
    assert sum(len(batch.items) for batch in batches_of(many)) == len(many)
    assert time.thread_time() - start < 5


def test_a_forecast_counts_what_waits_and_needs_no_model(memory: Memory) -> None:
    ana = memory.user("ana")
    assert (
        ana.flush_forecast().model_copy(update={"milliseconds": 0.0}) == FlushForecast()
    )
    fill(ana, sessions=3, turns=5)
    ana.add({"role": "user", "content": "and?", "id": "open"}, session_id="s2")
    foreseen = ana.flush_forecast()
    assert (foreseen.messages, foreseen.turns, foreseen.sessions) == (31, 15, 3)
    assert foreseen.batches == foreseen.calls_low > 1
    assert foreseen.calls_high > foreseen.calls_low
    assert foreseen.milliseconds > 0


def test_a_flush_makes_the_calls_that_were_foreseen(open_memory: Any) -> None:
    """What the model is sent is about what was foreseen, and never more."""
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    fill(ana, sessions=6, turns=9)
    foreseen = ana.flush_forecast()
    assert model.asked == []
    report = ana.flush()
    assert foreseen.calls_low <= report.llm_calls <= foreseen.calls_high
    count = token_counter(ana.settings.encoding).count
    questions = sum(count(message.text) for sent in model.requests for message in sent)
    assert questions < foreseen.input_tokens < 4 * questions
    assert [schema for schema, _ in model.asked].count("Extraction") == foreseen.batches
    again = ana.flush_forecast()
    assert (again.messages, again.batches, again.calls_high, again.input_tokens) == (
        0,
        0,
        0,
        0,
    )


def test_second_calls_and_rounds_are_within_the_forecast(open_memory: Any) -> None:
    seen: list[str] = []
    ana = open_memory(noting(seen)).user("ana")
    fill(ana, sessions=2, turns=3)
    foreseen = ana.flush_forecast()
    report = ana.flush()
    assert report.stored == 6
    assert foreseen.calls_low <= report.llm_calls <= foreseen.calls_high


@pytest.mark.parametrize(("scorer", "causal"), [("verifier", 1), ("none", 0)])
def test_causes_are_foreseen_where_they_are_looked_for(
    tmp_path: Any, scorer: str, causal: int
) -> None:
    model = AnswersBySchema(Extraction=memories())
    with Memory(
        tmp_path, model=model, embeddings="hash", causal_scorer=scorer
    ) as memory:
        ana = memory.user("ana")
        # each session a batch; enough to tell for 50 records
        fill(ana, sessions=3, turns=3)
        foreseen = ana.flush_forecast()
        assert foreseen.batches == 3
        second, topics, profile = 1, 1, 1
        assert foreseen.calls_high == 3 + second + causal + topics + profile


def test_what_people_say_costs_more_output_than_what_the_assistant_says(
    memory: Memory,
) -> None:
    words = "Last year we went to the sea with Ada, and I lost my blue hat there. " * 40
    quiet, talkative = memory.user("quiet"), memory.user("talkative")
    for n in range(6):
        answer = {"role": "assistant", "content": words, "id": f"a{n}"}
        quiet.add(
            [{"role": "user", "content": "Go on.", "id": f"u{n}"}, answer],
            session_id="s",
        )
        both = [
            {"role": "user", "name": name, "content": words} for name in ("Ada", "Bo")
        ]
        talkative.add(both, session_id="s", at=f"2025-01-0{n + 1}")
    few, many = quiet.flush_forecast(), talkative.flush_forecast()
    # a second call, causes, topics and profile
    assert few.calls_high == few.calls_low + 1 + 1 + 2
    assert many.output_tokens > 3 * few.output_tokens


def test_a_long_message_counts_as_it_is_shown(memory: Memory) -> None:
    long, short = memory.user("long"), memory.user("short")
    for user, size in ((long, 400_000), (short, 8_000)):
        user.add({"role": "user", "content": "word " * (size // 5)}, session_id="s")
    counts = [user.flush_forecast().input_tokens for user in (long, short)]
    assert counts[0] < 1.1 * counts[1]


def test_a_forecast_starts_no_reading(open_memory: Any) -> None:
    """What an earlier process left is read in the background, but not because of a forecast."""
    fill(open_memory(None).user("ana"), sessions=2, turns=3)
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model, extraction__debounce_seconds=0).user("ana")
    assert ana.flush_forecast().messages == 12
    time.sleep(0.5)
    assert model.asked == []


async def test_the_twin_and_a_read_only_memory(memory: Memory, tmp_path: Any) -> None:
    fill(memory.user("ana"), sessions=2, turns=3)
    plain = {"milliseconds": 0.0}
    expected = memory.user("ana").flush_forecast().model_copy(update=plain)
    twin = await memory.user("ana").aflush_forecast()
    assert twin.model_copy(update=plain) == expected
    with Memory(tmp_path / "memory", embeddings="hash", read_only=True) as looking:
        assert looking.user("ana").flush_forecast().model_copy(update=plain) == expected


@pytest.mark.stress
def test_10_000_messages_are_forecast_in_seconds(memory: Memory) -> None:
    ana = memory.user("ana")
    with (
        memory._services.room("ana", create=True) as room,
        room.database.write_transaction() as connection,
    ):
        for number in range(500):
            rows = session(
                number, 10, filler="and the garden needs water because it was hot. " * 5
            )
            new, *_ = parse_messages(
                rows, session_id=f"s{number}", at=None, max_chars=10_000
            )
            add_messages.append(connection, new, AddReport(), sent_again=False)
    foreseen = ana.flush_forecast()
    assert (foreseen.messages, foreseen.turns, foreseen.sessions) == (
        10_000,
        5_000,
        500,
    )
    assert 75 < foreseen.batches < 250
    assert foreseen.milliseconds < 15_000
    ana.erase()  # or closing would embed them all
