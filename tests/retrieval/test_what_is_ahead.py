"""What is ahead on the schedule: skipped, ended, moved and past items, without a model."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import to_utc
from langmem_graph.memory import Memory
from langmem_graph.schedule.schedule_changes import with_skipped
from langmem_graph.storage import record_queries
from langmem_graph.storage.record_effects import change_record, end_record
from langmem_graph.storage.record_writes import Change

NOW = "2099-06-01T09:00Z"  # a Monday
TUESDAYS = {"start": "2099-01-06T15:00", "recurrence": "FREQ=WEEKLY;BYDAY=TU"}
DENTIST = {"start": "2099-06-02T15:30"}
ASKED = "Can we set the review for Tuesday 15:00?"
IN_A_WEEK = "Can we set the review for 2099-06-09 15:00?"


class Schedule:
    """The schedule of one user in a memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.user = memory, memory.user("ana")
        said = {
            "role": "user",
            "content": "Note it.",
            "id": "m",
            "at": "2099-01-01T10:00",
        }
        self.user.add([said], session_id="s")

    def note(self, text: str, time: dict[str, Any], **fields: Any) -> str:
        """Store an item; its record id."""
        row = {
            "text": text,
            "facet": "schedule",
            "event_time": time,
            "source_message_ids": ["m"],
        }
        report = self.user.add_records([{**row, **fields}])
        assert not report.warnings
        return report.stored[0]

    def change(self, record_id: str, **values: Any) -> None:
        """Change columns of a record, as a model's answer does."""
        with (
            self.memory._services.room("ana") as room,
            room.database.write_transaction() as connection,
        ):
            n = record_queries.numbers_of(connection, [record_id])[record_id]
            change_record(connection, n, "change", Change.new("model"), values)

    def end(self, record_id: str, at: str) -> None:
        with (
            self.memory._services.room("ana") as room,
            room.database.write_transaction() as connection,
        ):
            n = record_queries.numbers_of(connection, [record_id])[record_id]
            until = to_utc(at)
            end_record(connection, n, until, Change.new("model"))

    def ahead(self, at: str = NOW) -> list[str]:
        """Times and texts below "Next on the schedule"."""
        context = self.user.recall("Great, what's next?", at=at).context.splitlines()
        if "Next on the schedule:" not in context:
            return []
        lines = context[context.index("Next on the schedule:") + 1 :]
        return [
            f"{line[2:]}: {lines[place + 1].split(chr(34))[1]}"
            for place, line in enumerate(lines[:-1])
            if re.match(r"- [A-Z][a-z]+day ", line)
        ]

    def at_the_time_of(self, asked: str, at: str = NOW) -> list[str]:
        """The items that conflict with a request."""
        reasoning = self.user.recall(asked, at=at).reasoning
        return [text.split(": ")[1] for text in reasoning.overlaps] if reasoning else []


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Schedule]:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        yield Schedule(memory)


def test_a_skipped_occurrence_is_not_ahead_and_the_next_one_is(plan: Schedule) -> None:
    choir = plan.note("Choir.", TUESDAYS)
    assert plan.ahead() == ["Tuesday 2099-06-02 15:00 UTC: Choir."]
    assert plan.at_the_time_of(ASKED) == ["Choir."]
    said = datetime(2099, 6, 1, 8, tzinfo=UTC)
    plan.change(choir, event=with_skipped(TUESDAYS, "2099-06-02", said, None))
    assert plan.ahead() == ["Tuesday 2099-06-09 15:00 UTC: Choir."]
    assert plan.at_the_time_of(ASKED) == []
    assert plan.at_the_time_of(IN_A_WEEK) == ["Choir."]
    (record,) = plan.user.export_records()
    assert record["event_time"]["skipped"] == ["2099-06-02T15:00:00Z"]
    plan.user.undo(choir)
    assert plan.at_the_time_of(ASKED) == ["Choir."]


def test_skipped_days_can_be_imported(plan: Schedule) -> None:
    plan.note("Choir.", {**TUESDAYS, "skipped": ["2099-06-02"]})
    assert plan.ahead() == ["Tuesday 2099-06-09 15:00 UTC: Choir."]
    assert plan.at_the_time_of(ASKED) == []


def test_a_routine_that_ends_on_a_day_to_come_is_on_until_then(plan: Schedule) -> None:
    choir = plan.note("Choir.", TUESDAYS)
    plan.end(choir, "2099-06-09T00:00")
    assert plan.ahead() == ["Tuesday 2099-06-02 15:00 UTC: Choir."]
    assert plan.at_the_time_of(ASKED) == ["Choir."]
    assert plan.at_the_time_of(IN_A_WEEK) == []
    assert plan.ahead("2099-06-03T09:00Z") == []


def test_a_routine_that_has_ended_is_off(plan: Schedule) -> None:
    choir = plan.note("Choir.", TUESDAYS)
    plan.end(choir, "2099-05-30T00:00")
    assert plan.ahead() == plan.at_the_time_of(ASKED) == []


def test_a_routine_that_was_corrected_was_never_on(plan: Schedule) -> None:
    choir = plan.note("Choir.", TUESDAYS, valid_from="2099-07-01", said_at="2099-07-01")
    plan.end(choir, "2099-07-01T00:00")
    assert plan.ahead() == plan.at_the_time_of(ASKED) == []


@pytest.mark.parametrize(
    "until", ["2099-05-30T00:00", "2099-06-02T00:00", "2099-06-20T00:00"]
)
def test_an_appointment_that_is_called_off_is_off_at_once(
    plan: Schedule, until: str
) -> None:
    dentist = plan.note("Dentist.", DENTIST)
    assert plan.at_the_time_of(ASKED) == ["Dentist."]
    plan.end(dentist, until)
    assert plan.ahead() == plan.at_the_time_of(ASKED) == []
    plan.user.undo(dentist)
    assert plan.ahead() == ["Tuesday 2099-06-02 15:30 UTC: Dentist."]


def test_a_routine_that_moves_on_a_day_to_come(plan: Schedule) -> None:
    choir = plan.note("Choir on Tuesdays.", TUESDAYS)
    fridays = {"start": "2099-01-02T15:00", "recurrence": "FREQ=WEEKLY;BYDAY=FR"}
    plan.note("Choir on Fridays.", fridays, valid_from="2099-06-08", supersedes=[choir])
    tuesday, friday = "Choir on Tuesdays.", "Choir on Fridays."
    assert plan.at_the_time_of(ASKED) == [tuesday]
    assert plan.at_the_time_of("Can we meet on 2099-06-05 at 15:00?") == []
    assert plan.at_the_time_of(IN_A_WEEK) == []
    assert plan.at_the_time_of("Can we meet on 2099-06-12 at 15:00?") == [friday]
    assert plan.ahead() == [
        f"Tuesday 2099-06-02 15:00 UTC: {tuesday}",
        f"Friday 2099-06-12 15:00 UTC: {friday}",
    ]


def test_an_appointment_that_was_moved_is_at_its_new_time_alone(plan: Schedule) -> None:
    dentist = plan.note("Dentist on the 2nd.", DENTIST)
    plan.note(
        "Dentist on the 9th.", {"start": "2099-06-09T15:30"}, supersedes=[dentist]
    )
    assert plan.ahead() == ["Tuesday 2099-06-09 15:30 UTC: Dentist on the 9th."]
    assert plan.at_the_time_of(ASKED) == []
    assert plan.at_the_time_of(IN_A_WEEK) == ["Dentist on the 9th."]


def test_what_is_past_leaves_by_time_alone(plan: Schedule) -> None:
    plan.note("Dentist.", DENTIST)
    assert plan.ahead("2099-06-02T16:00Z") == ["Tuesday 2099-06-02 15:30 UTC: Dentist."]
    assert plan.ahead("2099-06-02T16:30Z") == []
    plan.note("Optician.", {"start": "2099-06-03T10:00"})
    assert plan.ahead("2099-06-02T16:30Z") == [
        "Wednesday 2099-06-03 10:00 UTC: Optician."
    ]
    records = plan.user.export_records()
    assert [record["event_time"] for record in records] == [
        DENTIST,
        {"start": "2099-06-03T10:00"},
    ]


def test_a_routine_of_every_day_without_a_time_is_no_obstacle(plan: Schedule) -> None:
    every = {"start": "2099-01-01", "granularity": "day", "recurrence": "FREQ=DAILY"}
    plan.note("Walks the dog.", every)
    assert plan.at_the_time_of(ASKED) == []
    plan.note("Runs.", {**every, "recurrence": "FREQ=DAILY;INTERVAL=2;BYMONTH=6"})
    plan.note("Market day.", {**every, "recurrence": "FREQ=WEEKLY;BYDAY=TU"})
    assert "Market day." in plan.at_the_time_of(ASKED)


def test_fields_that_are_no_time_are_reported_and_count_for_nothing(
    plan: Schedule,
) -> None:
    row = {"text": "Dentist.", "facet": "schedule", "source_message_ids": ["m"]}
    times = [{**DENTIST, "postponed": True}, {**DENTIST, "skipped": ["2099-06-02"]}]
    report = plan.user.add_records(
        [
            {**row, "text": f"Dentist {n}.", "event_time": time}
            for n, time in enumerate(times)
        ]
    )
    assert [text.split(": ")[0].split(" ", 1)[1] for text in report.warnings] == [
        "collides with nothing"
    ] * 2
    assert plan.ahead() == plan.at_the_time_of(ASKED) == []


def test_a_list_that_is_cut_has_the_earliest_and_says_so(
    plan: Schedule, caplog: Any
) -> None:
    """A daily item is in a long list as often as it takes place, up to the limit of the list."""
    plan.note("Choir.", {"start": "2099-01-01T15:00", "recurrence": "FREQ=DAILY"})
    plan.note("Dentist.", DENTIST)
    whole = plan.user.schedule("2099-01-01", "2100-01-01")
    assert (len(whole), caplog.messages) == (366, [])
    assert len(plan.user.schedule("2099-01-01", "2100-01-01", limit=366)) == 366
    assert caplog.messages == []
    assert plan.user.schedule("2099-01-01", "2100-01-01", limit=200) == whole[:200]
    assert [one.record.text for one in whole[150:154]] == ["Choir."] * 3 + ["Dentist."]
    (warning,) = caplog.messages
    assert "was cut after 200 entries" in warning
    assert plan.user.schedule("2099-01-01", "2102-01-01") == plan.user.schedule(
        "2099-01-01", "2100-05-16"
    )
    assert "was cut after 500 entries" in caplog.messages[-1]
    for limit in (0, 1_001):
        with pytest.raises(
            InvalidInputError, match="limit must be a whole number from 1 to 1,000"
        ):
            plan.user.schedule("2099-01-01", "2100-01-01", limit=limit)
