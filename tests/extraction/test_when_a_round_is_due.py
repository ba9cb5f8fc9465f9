"""Topics and the profile are made once, at the end of a session or a flush."""

from itertools import chain, count
from typing import Any

import pytest

from langmem_graph.extraction.plan_round import MAX_WAITING, is_round_due
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.tables import get_meta, meta, set_meta
from tests.support.topic_tracks import (
    BOATS,
    CANOES,
    active,
    calls,
    gathering,
    questions,
    rows,
    tell,
    texts_in,
    user_with_source,
)
from tests.support.writing import echo, memories, track, turn

# --- when a round is due -----------------------------------------------------------------------


def test_fewer_than_three_changes_wait_for_more(open_memory: Any) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, BOATS[:2], "s1")
    assert ana.flush().topics == 0
    assert calls(model) == {"Extraction": 1}
    tell(ana, BOATS[2:], "s2")
    assert ana.flush().topics == 1
    assert len(texts_in(questions(model, "TopicRound")[0])) == 3


def test_the_end_of_a_session_makes_a_round_due_and_a_session_that_goes_on_does_not(
    open_memory: Any,
) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, ("one", "two", "three", "four"), "s1")
    ana.drain(10)
    assert len(active(ana)) == 4
    assert ana.files() == []
    ana.add(turn("five", number=9), session_id="s2")
    ana.drain(10)
    assert "one" in ana.read_file("topics/boats.md")
    assert calls(model)["TopicRound"] == 1
    ana.drain(10)
    assert calls(model)["TopicRound"] == 1


def test_many_waiting_records_make_a_round_due_in_a_session_that_goes_on(
    open_memory: Any,
) -> None:
    memory = open_memory(None)
    ana = user_with_source(memory)

    def due() -> bool:
        with (
            memory._services.room("ana") as room,
            room.database.read_transaction(EVERYTHING) as connection,
        ):
            return is_round_due(connection, force=False)

    texts = [f"Fact {number}." for number in range(MAX_WAITING + 1)]
    ana.add_records(rows(*texts[:MAX_WAITING]))
    assert not due()
    ana.add_records(rows(texts[MAX_WAITING]))
    assert due()


@pytest.mark.parametrize(("records", "rounds"), [(40, 1), (200, 1), (250, 2)])
def test_a_flush_asks_once_for_two_hundred_changed_records(
    open_memory: Any, records: int, rounds: int
) -> None:
    model = gathering(TopicRound=track(), ProfileText={"text": "x", "topics": ["x"]})
    ana = user_with_source(open_memory(model))
    ana.add_records(rows(*(f"Fact {number}." for number in range(records))))
    ana.flush()
    assert calls(model) == {"CausalPairs": 1, "TopicRound": rounds, "ProfileText": 1}
    shown = [
        text
        for question in questions(model, "TopicRound")
        for text in texts_in(question)
    ]
    assert sorted(shown) == sorted(f"Fact {number}." for number in range(records))
    assert ana.flush().llm_calls == 0


def test_a_later_version_does_not_gather_everything_again(open_memory: Any) -> None:
    """An earlier one noted the last record that a round had seen, and no history entry."""
    model = gathering()
    memory = open_memory(model)
    ana = memory.user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        connection.execute(
            meta.delete().where(meta.c.key.in_(("topics_seen", "topics_refused")))
        )
        set_meta(connection, "topic_checkpoint", "3")
    tell(ana, CANOES, "s2")
    ana.flush()
    assert len(texts_in(questions(model, "TopicRound")[1])) == 3


def test_forgetting_lets_all_records_be_gathered_again(open_memory: Any) -> None:
    model = gathering()
    memory = open_memory(model)
    ana = memory.user("ana")
    tell(ana, (*BOATS, *CANOES), "s1")
    ana.flush()
    ana.forget(record=active(ana)[0])
    assert ana.files() == []
    with (
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        kept = [get_meta(connection, key) for key in ("topics_seen", "profile_seen")]
    assert kept == [None, None]
    ana.flush()
    assert all(record in ana.read_file("topics/boats.md") for record in active(ana))


# --- what it costs -----------------------------------------------------------------------------


def always(question: str) -> dict[str, Any]:
    """Memories of the last messages: a model that always finds something."""
    return memories(*echo(question)["memories"][-8:])


@pytest.mark.parametrize(("turns", "most"), [(12, 6), (20, 8)])
def test_a_live_session_costs_few_calls(
    open_memory: Any, turns: int, most: int
) -> None:
    model = gathering(Extraction=always)
    ana = open_memory(model).user("ana")
    for number in range(turns):
        ana.add(
            turn(
                f"My plan number {number} for the garden shed goes on.", number=number
            ),
            session_id="s",
        )
        ana.drain(10)
    ana.flush()
    assert len(model.asked) <= most
    assert {"CausalPairs", "TopicRound", "ProfileText"} <= calls(model).keys()


def test_a_backlog_of_fifteen_sessions_costs_few_calls(open_memory: Any) -> None:
    model = gathering(Extraction=always)
    ana = open_memory(model).user("ana")
    for session in range(15):
        said = f"In talk {session} my plan number {{}} for the garden shed goes on."
        talk = chain.from_iterable(turn(said.format(n), number=n) for n in range(10))
        ana.add(list(talk), session_id=f"s{session}")
    report = ana.flush()
    assert report.read == 300
    assert report.llm_calls == len(model.asked) <= 6


@pytest.mark.stress
def test_a_dense_backlog_costs_at_most_one_and_a_half_calls_for_3_000_tokens(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each turn of 80 tokens makes a record, and three of ten batches a second call."""
    batches = count()

    def unseen(*shown: Any) -> list[int]:
        return [1] if next(batches) % 10 in (0, 3, 6) else []

    monkeypatch.setattr("langmem_graph.extraction.reconcile_records.unseen", unseen)
    model = gathering()
    ana = open_memory(model).user("ana")
    for session in range(17):
        said = [
            f"In talk {session} my plan number {n} for the shed goes on."
            for n in range(15)
        ]
        talk = (
            turn(one.ljust(160, "!"), "Yes. " * 32, n) for n, one in enumerate(said)
        )
        ana.add(list(chain.from_iterable(talk)), session_id=f"s{session}")
    tokens = 17 * 15 * 80
    foreseen, report = ana.flush_forecast(), ana.flush()
    assert (report.read, report.stored) == (510, 255)
    assert calls(model)["Reconciliation"] == 2
    assert report.llm_calls == len(model.asked) <= 1.5 * tokens / 3_000
    assert foreseen.calls_low <= report.llm_calls <= foreseen.calls_high
