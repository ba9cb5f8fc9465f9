"""Labels: which statements no longer hold, since when, what holds instead and in whose words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from langmem_graph.memory import Memory
from langmem_graph.schemas import NO_LONGER, ChangeRelation, Label
from langmem_graph.storage import record_queries, record_writes, superseded_labels
from langmem_graph.storage.reading import EVERYTHING
from tests.conftest import said
from tests.support.homes import HOMES, changed, live_in, told

JUNE = datetime(2025, 6, 5, 10, tzinfo=UTC)


def of_records(memory: Memory, *ids: str) -> dict[str, list[Label]]:
    """The labels by record."""
    with (
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        numbers = record_queries.numbers_of(connection, ids)
        found = superseded_labels.labels_of_records(connection, numbers.values())
    return {own_id: found[n] for own_id, n in numbers.items() if n in found}


def of_messages(memory: Memory, *ids: str) -> dict[str, list[Label]]:
    """The labels by message."""
    with (
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        numbers = {
            i: row[0]
            for i, row in record_queries.message_numbers(connection, ids).items()
        }
        found = superseded_labels.labels_of_messages(connection, numbers.values())
    return {own_id: found[n] for own_id, n in numbers.items() if n in found}


def test_a_record_superseded_by_hand_has_a_successor_and_no_quote(
    memory: Memory,
) -> None:
    live_in(memory.user("ana"), "Porto", "Berlin")
    assert of_records(memory, "r1", "r2") == {
        "r1": [
            Label(
                relation="replaces",
                statement="Ana lives in Porto.",
                record_id="r1",
                since=datetime(2025, 2, 5, 10, tzinfo=UTC),
                replaced_by="Ana lives in Berlin.",
                newest_id="r2",
            )
        ]
    }
    assert [one.record_id for one in of_messages(memory, "m1", "m2")["m1"]] == ["r1"]
    assert "m2" not in of_messages(memory, "m1", "m2")


@pytest.mark.parametrize("relation", get_args(ChangeRelation))
def test_a_change_is_told_in_the_words_that_made_it(
    memory: Memory, relation: Any
) -> None:
    ana = memory.user("ana")
    told(ana, "I own a bike.", "m1", "r1", "2025-01-05")
    ana.add([said("I sold the bike", id="m2", at=JUNE)], session_id="b")
    changed(memory, relation, "r1", "m2", "sold the bike")
    found = of_records(memory, "r1")
    if relation not in NO_LONGER:
        assert not found
        return
    (label,) = found["r1"]
    assert (label.relation, label.quote, label.message_id) == (
        relation,
        "sold the bike",
        "m2",
    )
    assert label.since == JUNE  # of a correction too, though it held at no time
    assert label.replaced_by is None


def test_a_date_that_was_named_counts_before_that_of_the_message(
    memory: Memory,
) -> None:
    told(memory.user("ana"), "I live in Porto.", "m1", "r1", "2025-01-05")
    told(memory.user("ana"), "I live in Berlin since May.", "m2", "r2", "2025-06-05")
    changed(
        memory,
        "replaces",
        "r1",
        "m2",
        "in Berlin",
        by="r2",
        since=JUNE - timedelta(days=30),
    )
    (label,) = of_records(memory, "r1")["r1"]
    assert label.since == JUNE - timedelta(days=30)
    assert label.replaced_by == "I live in Berlin since May."


def test_a_chain_is_followed_to_what_holds_now(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, *HOMES)
    last = f"r{len(HOMES)}"
    for (label,) in of_records(memory, "r1", "r4", "r7").values():
        assert (label.replaced_by, label.newest_id) == ("Ana lives in Graz.", last)
    between = of_records(memory, "r4")["r4"][0].between
    assert between == [f"Ana lives in {home}." for home in HOMES[4:-1]]
    ana.add(
        [said("I live nowhere any more", id="end", at="2025-12-01")], session_id="end"
    )
    changed(memory, "ended", last, "end", "nowhere any more")
    found = of_records(memory, "r1", last)
    assert (found["r1"][0].replaced_by, found["r1"][0].newest_id) == (None, last)
    assert (found[last][0].relation, found[last][0].quote) == (
        "ended",
        "nowhere any more",
    )


def test_a_message_is_labelled_by_statement(memory: Memory) -> None:
    ana = memory.user("ana")
    ana.add(
        [said("I live in Porto and have a dog, Rex.", id="m1", at="2025-01-01")],
        session_id="a",
    )
    both = [("home", "Ana lives in Porto."), ("dog", "Ana has a dog, Rex.")]
    for own_id, text in both:
        ana.add_records(
            {"record_id": own_id, "text": text, "source_message_ids": ["m1"]}
        )
    told(ana, "Ana lives in Berlin.", "m2", "new", "2025-06-05", supersedes=["home"])
    (label,) = of_messages(memory, "m1")["m1"]
    assert (label.statement, label.partial) == ("Ana lives in Porto.", True)
    assert not ana.get_conversation("m1")[0].outdated
    ana.add([said("Rex has died", id="m3", at="2025-07-05")], session_id="c")
    changed(memory, "ended", "dog", "m3", "Rex has died")
    fallen = of_messages(memory, "m1")["m1"]
    assert [(one.record_id, one.partial) for one in fallen] == [
        ("home", False),
        ("dog", False),
    ]
    assert ana.get_conversation("m1")[0].outdated


def test_a_message_that_only_supports_a_record_is_never_labelled_as_a_whole(
    memory: Memory,
) -> None:
    live_in(memory.user("ana"), "Porto", "Berlin")
    memory.user("ana").add(
        [said("Yes, still in Porto. Ham is off!", id="s", at="2025-01-20")],
        session_id="c",
    )
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        (n,) = record_queries.numbers_of(connection, ["r1"]).values()
        (message,) = (
            row[0] for row in record_queries.message_numbers(connection, ["s"]).values()
        )
        record_writes.add_sources(connection, n, [message], supporting=True)
    found = of_messages(memory, "s", "m1")
    assert {own_id: one.partial for own_id, (one,) in found.items()} == {
        "s": True,
        "m1": False,
    }


def test_what_was_taken_back_labels_nothing(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto", "Berlin")
    ana.undo("r2")
    assert not of_messages(memory, "m1", "m2")
    assert not of_records(memory, "r1", "r2")


def test_an_undone_change_labels_nothing(memory: Memory) -> None:
    ana = memory.user("ana")
    told(ana, "I own a bike.", "m1", "r1", "2025-01-05")
    ana.add([said("I sold the bike", id="m2", at=JUNE)], session_id="b")
    changed(memory, "ended", "r1", "m2", "sold the bike")
    assert of_messages(memory, "m1")["m1"][0].quote == "sold the bike"
    ana.undo("r1")
    assert not of_messages(memory, "m1")


def test_a_quote_goes_with_its_message_and_the_label_with_the_quote(
    memory: Memory,
) -> None:
    ana = memory.user("ana")
    told(ana, "I own a bike.", "m1", "r1", "2025-01-05")
    ana.add([said("I sold the bike", id="m2", at=JUNE)], session_id="b")
    changed(memory, "ended", "r1", "m2", "sold the bike")
    ana.forget(message="m2")
    assert not of_messages(memory, "m1")


def test_what_ended_at_a_date_is_dated_by_it(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto")
    past = {
        "text": "Ana has a fern.",
        "record_id": "fern",
        "source_message_ids": ["m1"],
    }
    ana.add_records({**past, "valid_to": "2025-02-01"})
    (label,) = of_records(memory, "fern")["fern"]
    assert (label.relation, label.since) == ("ended", datetime(2025, 2, 1, tzinfo=UTC))


def test_what_is_to_come_does_not_hold_yet(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto")
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    told(
        ana,
        "Moving to Berlin!",
        "m2",
        "r2",
        "2025-03-01",
        valid_from=later,
        supersedes=["r1"],
    )
    (label,) = of_records(memory, "r1", "r2")["r2"]
    assert (label.relation, label.since) == (None, later)
    assert list(of_messages(memory, "m1", "m2")) == ["m2"]
    assert [hit.record_id for hit in ana.search_records("live")] == ["r1"]


def test_the_number_of_queries_does_not_grow_with_the_items(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto", "Berlin")
    for number in range(20):
        old = {
            "text": f"Old {number}",
            "record_id": f"o{number}",
            "source_message_ids": ["m1"],
        }
        new = {
            "text": f"New {number}",
            "record_id": f"n{number}",
            "source_message_ids": ["m2"],
        }
        ana.add_records([old, {**new, "supersedes": [f"o{number}"]}])
        changed(memory, "replaces", f"o{number}", "m2", "I live", by=f"n{number}")
    many = [f"o{number}" for number in range(20)]
    assert _statements(memory, lambda: of_records(memory, *many)) == _statements(
        memory, lambda: of_records(memory, "o1")
    )
    assert _statements(memory, lambda: ana.search_records("Old", 20)) == _statements(
        memory, lambda: ana.search_records("Old", 1)
    )


def _statements(memory: Memory, work: Callable[[], object]) -> int:
    """How many SQL statements something needs."""
    ran: list[str] = []

    def note(*given: Any) -> None:
        ran.append(given[2])

    with memory._services.room("ana") as room:
        event.listen(room.database._engine, "before_cursor_execute", note)
        try:
            work()
        finally:
            event.remove(room.database._engine, "before_cursor_execute", note)
    return len(ran)


@given(st.lists(st.integers(0, 7), max_size=8))
def test_whatever_superseded_what_the_newest_is_what_holds(pairs: list[int]) -> None:
    """Records 0 to 8, each superseded by a later one or by none."""
    above = {n: max(n, later) for n, later in enumerate(pairs)}
    holding = {n for n in range(9) if above.get(n, n) == n}
    rank = {n: (n in holding, JUNE + timedelta(days=n), n) for n in range(9)}
    successors = {n: {later} for n, later in above.items() if later != n}
    found = superseded_labels._newest(successors, rank)
    for n in range(9):
        newest = superseded_labels._chain(n, successors, rank, found.get(n, n))[-1]
        last = n
        while last not in holding:
            last = above[last]
        assert newest == last


def test_a_long_chain_takes_few_statements_and_names_the_newest(memory: Memory) -> None:
    ana = memory.user("ana")
    ana.add([{"role": "user", "content": "Balance.", "id": "m"}], session_id="s")
    rows = [
        {
            "record_id": f"r{n}",
            "text": f"The balance is {n}.",
            "source_message_ids": ["m"],
            "supersedes": [f"r{n - 1}"] if n else [],
        }
        for n in range(100)
    ]
    assert len(ana.add_records(rows).stored) == 100
    (first,) = ana.get_records("r0")
    (label,) = first.labels
    assert label.newest_id == "r99"
    assert label.replaced_by == "The balance is 99."
    assert label.between[0] == "The balance is 1."
    assert len(label.between) == superseded_labels.MOST_BETWEEN
    assert _statements(memory, lambda: ana.get_records("r0")) < 20
