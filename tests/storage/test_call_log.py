"""The log of model calls: what is kept of them, and for how long."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.reports import CallNote
from langmem_graph.storage import call_log
from langmem_graph.storage.call_log import write_calls
from tests.conftest import said
from tests.support.files import folder

AT = datetime(2025, 3, 1, tzinfo=UTC)


def note(purpose: str, **fields: Any) -> CallNote:
    usual = {"model": "m", "input_tokens": 9, "output_tokens": 3, "tokens_exact": True}
    usual |= {
        "milliseconds": 1.5,
        "repair": False,
        "problem": None,
        "refused": [],
        "at": AT,
    }
    return CallNote(**{"purpose": purpose, **usual, **fields})


def write(
    memory: Memory, notes: list[CallNote], numbers: list[int], user: str = "u"
) -> None:
    with (
        memory._services.room(user) as room,
        room.database.write_transaction() as connection,
    ):
        write_calls(connection, notes, numbers)


@pytest.fixture
def user(memory: Memory) -> Any:
    user = memory.user("u")
    user.add([said("one", id="a"), said("two", id="b")], session_id="s")
    return user


def test_calls_for_somebody_of_whom_nothing_is_stored_are_left_out(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory._services.log_calls("nobody", [note("plan")])
    assert not folder(memory, "nobody").exists()
    assert caplog.messages == []


def test_calls_are_read_back_newest_first(memory: Memory, user: Any) -> None:
    told = note("extract", repair=True, problem="no JSON", refused=["m1: no quote"])
    write(memory, [told, note("topics", at=AT + timedelta(days=1))], [1, 2, 99])
    newest, oldest = user.calls()
    assert (newest.purpose, newest.message_ids) == ("topics", ["a", "b"])
    assert oldest.model_dump(exclude={"message_ids"}) == {
        "at": AT,
        "purpose": "extract",
        "model": "m",
        "input_tokens": 9,
        "output_tokens": 3,
        "tokens_exact": True,
        "milliseconds": 1.5,
        "repair": True,
        "problem": "no JSON",
        "refused": ["m1: no quote"],
    }
    assert [one.purpose for one in user.calls("2025-03-01T12:00")] == ["topics"]
    assert [one.purpose for one in user.calls(limit=1)] == ["topics"]


def test_only_the_newest_are_kept(
    memory: Memory, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_log, "MAX_CALLS", 3)
    for number in range(5):
        write(memory, [note(str(number))], [1])
    assert [one.purpose for one in user.calls()] == ["4", "3", "2"]
    assert user.doctor(sample=0).ok


def test_a_call_is_forgotten_with_any_message_it_read(
    memory: Memory, user: Any
) -> None:
    write(memory, [note("both")], [1, 2])
    write(memory, [note("second")], [2])
    user.forget(message="a")
    assert [one.purpose for one in user.calls()] == ["second"]
    user.forget(session="s")
    assert user.calls() == []


def test_forgetting_a_record_leaves_the_costs_without_words(
    memory: Memory, user: Any
) -> None:
    user.add_records(
        [
            {"text": "Says one.", "source_message_ids": ["a"], "record_id": "r"},
            {"text": "Says more.", "source_message_ids": ["a"], "record_id": "other"},
        ]
    )
    write(memory, [note("extract", problem="'one' ?", refused=["Says one."])], [1])
    user.forget(record="r")
    (call,) = user.calls()
    assert (call.problem, call.refused, call.input_tokens) == (None, [], 9)


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": True}, {"since": "soon"}])
def test_what_cannot_be_asked_for(user: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        user.calls(**options)


def test_a_user_without_a_memory_has_no_calls(memory: Memory) -> None:
    assert memory.user("nobody").calls() == []
