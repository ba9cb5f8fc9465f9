"""What a conversation may change in the schedule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.schedule_changes import (
    ScheduleChange,
    ScheduleItem,
    apply,
    is_overdue,
    is_schedulable,
)
from langmem_graph.schedule.times import EventTime
from tests.support.events import NOW, event

SOON, PAST = event("2025-05-06T09:00"), event("2025-05-01T09:00")
WEEKLY = event("2025-04-01T09:00", recurrence="FREQ=WEEKLY")


def item(record_id: str = "r1", when: EventTime | None = SOON, **more: Any) -> ScheduleItem:
    return ScheduleItem(record_id=record_id, action="call the dentist", event=when, **more)


def change(op: str, record_id: str = "r1", **more: Any) -> dict[str, Any]:
    return {"op": op, "record_id": record_id, **more}


@pytest.mark.parametrize(
    ("action", "when", "status", "allowed"),
    [
        ("call the dentist", SOON, "planned", True),
        ("去看牙医", WEEKLY, "planned", True),
        ("call the dentist", None, "postponed", True),
        ("call the dentist", None, "planned", False),
        ("something", SOON, "planned", False),
        ("do it", SOON, "postponed", False),
        ("the thing, TBD", SOON, "planned", False),
        (" 3 — ", SOON, "planned", False),
    ],
)
def test_an_item_needs_an_action_and_a_time_or_the_postponed_mark(
    action: str, when: EventTime | None, status: Any, allowed: bool
) -> None:
    entry = ScheduleItem(record_id="r", action=action, event=when, status=status)
    assert is_schedulable(entry) is allowed


def test_without_schedule_talk_the_list_is_unchanged() -> None:
    items = [item(when=PAST), item("r2", WEEKLY), item("r3", status="done")]
    assert apply(items, [], NOW).items == items


def test_a_done_one_off_keeps_its_place_as_done() -> None:
    applied = apply([item(), item("r2")], [change("done")], NOW)
    assert [entry.status for entry in applied.items] == ["done", "planned"]
    assert applied.notes == []


@pytest.mark.parametrize("op", ["missed", "done"])
def test_what_recurs_outlives_one_time(op: str) -> None:
    applied = apply([item(when=WEEKLY)], [change(op)], NOW)
    assert applied.items == [item(when=WEEKLY)]
    assert applied.notes == [f"r1 recurs: one time is {op}, the item stays"]


@pytest.mark.parametrize("op", ["retime", "cancel", "postpone"])
def test_what_recurs_changes_only_on_explicit_request(op: str) -> None:
    new = {"event": SOON} if op == "retime" else {}
    refused = apply([item(when=WEEKLY)], [change(op, **new)], NOW)
    assert refused.items == [item(when=WEEKLY)]
    assert "only when the user asks" in refused.notes[0]
    assert apply([item(when=WEEKLY)], [change(op, explicit=True, **new)], NOW).items != [
        item(when=WEEKLY)
    ]


def test_what_is_overdue_is_retimed_or_marked_postponed() -> None:
    items = [item(when=PAST), item("r2", PAST), item("r3", WEEKLY), item("r4")]
    moved = change("retime", event=SOON.model_dump(mode="json"))
    applied = apply(items, [moved], NOW)
    assert [entry.status for entry in applied.items] == [
        "planned", "postponed", "planned", "planned"
    ]  # fmt: skip
    assert applied.items[0].event == SOON
    assert applied.notes == ["r2 is overdue: marked as postponed"]


def test_a_missed_one_off_is_postponed_or_gets_its_new_time() -> None:
    assert apply([item(when=PAST)], [change("missed")], NOW).items[0].status == "postponed"
    (moved,) = apply([item(when=PAST)], [change("missed", event=SOON)], NOW).items
    assert (moved.event, moved.status) == (SOON, "planned")


def test_a_postponed_item_is_planned_again_with_a_time() -> None:
    waiting = item(when=None, status="postponed")
    (again,) = apply(
        [waiting], [ScheduleChange(op="retime", record_id="r1", event=SOON)], NOW
    ).items
    assert again == item()


def test_a_new_item_is_added_with_a_time_or_as_postponed() -> None:
    changes = [
        change("add", action="call the dentist", event=SOON),
        change("postpone", "r2", action="paint the fence"),
    ]
    first, later = apply([], changes, NOW).items
    assert first == item()
    assert (later.status, later.event) == ("postponed", None)


@pytest.mark.parametrize(
    ("nonsense", "reason"),
    [
        (change("done", "r9"), "r9 is not on the schedule"),
        (change("done", "closed"), "closed is already cancelled"),
        (change("retime"), "to no time"),
        (change("retime", event=PAST), "to a time that is over"),
        (change("retime", event={"start": "soon"}), "Invalid isoformat"),
        (change("add"), "already on the schedule"),
        (change("add", "new", action="stuff", event=SOON), "no concrete action"),
        (change("add", "new", action="call Ana"), "neither a time nor a frequency"),
        (change("add", "new", action="call Ana", event=PAST), "its time is over"),
        (change("explode"), "op: Input should be"),
        ({}, "op: Field required"),
        (None, "not a change"),
        ("cancel everything", "not a change"),
    ],
)
def test_nonsense_is_left_out_with_its_reason(nonsense: Any, reason: str) -> None:
    items = [item(), item("closed", status="cancelled"), item("late", PAST)]
    applied = apply(items, [nonsense], NOW)
    assert applied.items == items
    (note,) = applied.notes
    assert note.startswith("ignored: ")
    assert reason in note


def test_items_with_one_id_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="same record_id"):
        apply([item(), item()], [], NOW)


names = st.sampled_from(["r1", "r2", "r3", "r4"])
times = st.sampled_from([None, SOON, PAST, WEEKLY])
statuses = st.sampled_from(["planned", "done", "postponed", "cancelled"])

schedules = st.dictionaries(names, st.tuples(times, statuses)).map(
    lambda entries: [item(name, when, status=status) for name, (when, status) in entries.items()]
)

proposals = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from("add retime done missed postpone cancel nonsense".split())},
        optional={
            "record_id": names | st.text(max_size=3),
            "action": st.sampled_from(["call Ana", "", "stuff"]),
            "event": times | st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
            "explicit": st.booleans(),
        },
    ),
    max_size=6,
)


@given(schedules, proposals)
def test_whatever_is_proposed_the_rules_hold(
    items: list[ScheduleItem], changes: list[dict[str, Any]]
) -> None:
    applied = apply(items, changes, NOW)
    before = {entry.record_id: entry for entry in items}
    after = {entry.record_id: entry for entry in applied.items}
    asked = {one.get("record_id") for one in changes if one.get("explicit")}
    assert list(after)[: len(before)] == list(before)
    for record_id, entry in before.items():
        recurs = entry.event is not None and entry.event.recurrence is not None
        if record_id not in asked and (recurs or entry.status in ("done", "cancelled")):
            assert after[record_id] == entry
    assert all(is_schedulable(after[new]) for new in after.keys() - before.keys())
    if applied.items != items:
        assert not any(is_overdue(entry, NOW) for entry in applied.items)
    assert apply(applied.items, [], NOW).items == applied.items
