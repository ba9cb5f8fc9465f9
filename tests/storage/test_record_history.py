"""Undoing in order, and records that are not true yet."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from tests.conftest import said


def chain(user: Any, length: int, **last: Any) -> None:
    """r0 ← r1 ← r2 …, each superseding the one before."""
    user.add(
        [said(f"home {n}", id=str(n), at="2025-01-01") for n in range(length)],
        session_id="s",
    )
    for n in range(length):
        row = {
            "text": f"Lives at {n}.",
            "source_message_ids": [str(n)],
            "record_id": f"r{n}",
        }
        row |= {"supersedes": [f"r{n - 1}"] if n else []} | (
            last if n == length - 1 else {}
        )
        assert user.add_records(row).stored == [f"r{n}"]


def true(user: Any) -> list[str]:
    exported = [row["record_id"] for row in user.export_records()]
    found = [
        hit.record_id for hit in user.search_records("lives", k=9) if not hit.labels
    ]
    assert sorted(found) == sorted(exported)
    return exported


def test_a_change_with_others_on_top_is_not_undone(memory: Memory) -> None:
    user = memory.user("u")
    chain(user, 4)
    for record in ("r0", "r1"):
        with pytest.raises(InvalidInputError, match=r"undo 'r\d' first"):
            user.undo(record)
    assert true(user) == ["r3"]
    with pytest.raises(InvalidInputError, match="undo 'r3' first"):
        user.undo("r1")
    assert [record.status for record in user.undo("r3")] == ["active", "discarded"]
    assert true(user) == ["r2"]
    user.undo("r1")  # its latest change that stands is r2's
    user.undo("r0")
    assert true(user) == ["r0"]
    user.undo("r0")
    assert true(user) == []
    assert user.undo("r0") == []


def test_what_was_forgotten_is_on_top_of_nothing(memory: Memory) -> None:
    user = memory.user("u")
    chain(user, 3)
    user.forget(record="r2")
    user.undo("r0")
    assert true(user) == ["r0"]


def in_days(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


def test_a_record_is_not_true_before_its_time(memory: Memory) -> None:
    user = memory.user("u")
    chain(user, 2, valid_from=in_days(30))
    assert true(user) == ["r0"]
    (now,) = user.search_records("lives", as_of=in_days(0))
    (then,) = user.search_records("lives", as_of=in_days(31))
    assert (now.record_id, then.record_id) == ("r0", "r1")
    assert [row["record_id"] for row in user.export_records(history=True)] == [
        "r0",
        "r1",
    ]
    user.forget(record="r1")
    assert true(user) == ["r0"]
    assert user.get_records("r0")[0].status == "active"


def test_a_record_becomes_true_when_its_time_comes(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langmem_graph.storage import record_queries as record_lookups

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=31)

    user = memory.user("u")
    chain(user, 2, valid_from=in_days(30))
    monkeypatch.setattr(record_lookups, "datetime", Later)
    assert true(user) == ["r1"]


def test_what_took_the_place_twice_is_settled_once(memory: Memory) -> None:
    """r0 was replaced at once by r2, and later by r1: it is true no more."""
    user = memory.user("u")
    chain(user, 2, valid_from=in_days(30))
    row = {"text": "Lives at 2.", "source_message_ids": ["0"], "record_id": "r2"}
    user.add_records({**row, "supersedes": ["r0"]})
    assert true(user) == ["r2"]


def test_a_clock_that_is_ahead_hides_nothing(memory: Memory) -> None:
    user = memory.user("u")
    user.add(said("I live in Porto", id="m", at=in_days(0.01)), session_id="s")
    user.add_records(
        {"text": "Lives in Porto.", "source_message_ids": ["m"], "record_id": "r"}
    )
    assert true(user) == ["r"]


def test_a_correction_holds_where_the_clock_was_set_back_before_it(
    memory: Memory,
) -> None:
    user = memory.user("u")
    user.add(said("Seat 12A", id="m", at=in_days(0.01)), session_id="s")
    user.add_records(
        {"text": "Seat is 12A.", "source_message_ids": ["m"], "record_id": "r"}
    )
    corrected = user.correct("r", "Seat is 14C.")
    assert true(user) == [corrected.record_id]


def test_what_had_ended_before_it_was_added_held_then(memory: Memory) -> None:
    user = memory.user("u")
    user.add(said("I lived in Rome", id="m", at="2026-01-01"), session_id="s")
    row = {"text": "Lives in Rome.", "source_message_ids": ["m"], "record_id": "r"}
    user.add_records({**row, "valid_from": "2020-01-01", "valid_to": "2022-01-01"})
    assert true(user) == []
    held = [
        [one["record_id"] for one in user.export_records(as_of=at)]
        for at in ("2019-06-01", "2021-06-01", "2023-06-01")
    ]
    assert held == [[], ["r"], []]
    assert user.search_records("Rome", as_of="2021-06-01")
