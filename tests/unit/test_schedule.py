"""The schedule: when events take place and meet, and what a conversation may change."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.changes import (
    ScheduleChange,
    ScheduleItem,
    apply,
    is_overdue,
    is_schedulable,
)
from langmem_graph.schedule.times import EventTime, Span, ends_at, meetings, occurrences
from langmem_graph.settings import Settings

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = datetime(2025, 5, 5, 12, tzinfo=UTC)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def event(start: str, **more: Any) -> EventTime:
    return EventTime(start=start, **more)


def overlaps(one: EventTime, other: EventTime, begin: datetime, end: datetime) -> list[Span]:
    """When both take place at once."""
    met = meetings(occurrences(one, begin, end), occurrences(other, begin, end))
    return [(max(a[0], b[0]), min(a[1], b[1])) for a, b in met]


# --- times ---


def test_naive_times_belong_to_the_events_zone() -> None:
    assert event("2025-07-01T09:00", time_zone="Europe/Madrid").start == utc(2025, 7, 1, 7)
    assert event("2025-07-01T09:00").start == utc(2025, 7, 1, 9)
    assert event("2025-07-01T09:00+09:00", time_zone="Europe/Madrid").start == utc(2025, 7, 1)


@pytest.mark.parametrize(
    ("start", "granularity", "expected"),
    [
        ("2025-05-07", "day", (utc(2025, 5, 7), utc(2025, 5, 8))),
        ("2025-05-07T15:00", "day", (utc(2025, 5, 7), utc(2025, 5, 8))),
        ("2025-05-07", "week", (utc(2025, 5, 5), utc(2025, 5, 12))),
        ("2025-05", "month", (utc(2025, 5, 1), utc(2025, 6, 1))),
        ("2025", "year", (utc(2025, 1, 1), utc(2026, 1, 1))),
        ("2025-05-07T15:00", "minute", (utc(2025, 5, 7, 15), utc(2025, 5, 7, 16))),
    ],
)
def test_without_an_end_the_granularity_says_how_long(
    start: str, granularity: str, expected: tuple[datetime, datetime]
) -> None:
    once = event(start, granularity=granularity)
    assert occurrences(once, utc(2024, 1, 1), utc(2027, 1, 1)) == [expected]
    assert ends_at(once) == expected[1]


def test_the_default_length_is_a_setting() -> None:
    minutes = Settings(event_minutes=15).event_minutes
    short = occurrences(event("2025-05-07T15:00"), NOW, NOW + 5 * DAY, default_minutes=minutes)
    assert short == [(utc(2025, 5, 7, 15), utc(2025, 5, 7, 15, 15))]


def test_the_last_named_day_is_included() -> None:
    trip = event("2025-05-03", end="2025-05-05", granularity="day", time_zone="America/New_York")
    assert ends_at(trip) == utc(2025, 5, 6, 4)


def test_nine_stays_nine_when_the_clocks_change() -> None:
    standup = event(
        "2025-03-24T09:00", time_zone="Europe/Madrid", recurrence="FREQ=WEEKLY;BYDAY=MO"
    )
    found = occurrences(standup, utc(2025, 3, 20), utc(2025, 4, 5))
    assert found == [
        (utc(2025, 3, 24, 8), utc(2025, 3, 24, 9)),
        (utc(2025, 3, 31, 7), utc(2025, 3, 31, 8)),
    ]


def test_a_time_the_clocks_skip_is_an_hour_later() -> None:
    daily = event(
        "2025-03-29T02:30",
        end="2025-03-29T03:00",
        time_zone="Europe/Madrid",
        recurrence="FREQ=DAILY",
    )
    assert occurrences(daily, utc(2025, 3, 30), utc(2025, 3, 31)) == [
        (utc(2025, 3, 30, 1, 30), utc(2025, 3, 30, 2))
    ]


def test_the_repeated_hour_of_a_one_off_is_kept_apart() -> None:
    late = event("2025-10-26T02:30+01:00", time_zone="Europe/Madrid")
    assert ends_at(late) == utc(2025, 10, 26, 2, 30)


def test_a_night_is_found_from_both_days() -> None:
    night = event("2025-05-01T22:00", end="2025-05-02T06:00", recurrence="RRULE:FREQ=DAILY;COUNT=3")
    assert len(occurrences(night, utc(2025, 5, 1), utc(2025, 6, 1))) == 3
    assert occurrences(night, utc(2025, 5, 2, 1), utc(2025, 5, 2, 2)) == [
        (utc(2025, 5, 1, 22), utc(2025, 5, 2, 6))
    ]
    assert occurrences(night, utc(2025, 5, 2, 6), utc(2025, 5, 2, 22)) == []


def test_until_a_day_includes_that_day() -> None:
    rule = "FREQ=DAILY;UNTIL={}"
    for until in ("20250503", "2025-05-03", "20250503T090000Z"):
        found = occurrences(
            event("2025-05-01T09:00", recurrence=rule.format(until)), utc(2025, 1, 1), NOW
        )
        assert len(found) == 3


def test_whole_months_follow_the_calendar() -> None:
    season = event(
        "2025-02-01", end="2025-03-01", granularity="month", recurrence="FREQ=YEARLY;INTERVAL=3"
    )
    assert occurrences(season, utc(2028, 1, 1), utc(2029, 1, 1)) == [
        (utc(2028, 2, 1), utc(2028, 4, 1))
    ]


def test_the_limit_and_windows_at_the_end_of_time() -> None:
    forever = event("2025-05-01T09:00", recurrence="FREQ=DAILY")
    assert len(occurrences(forever, utc(1, 1, 1), datetime.max.replace(tzinfo=UTC), 5)) == 5
    nights = event("2025-05-01T22:00", end="2025-05-02T06:00", recurrence="FREQ=DAILY")
    assert len(occurrences(nights, datetime.min, datetime.max, 5)) == 5
    assert occurrences(forever, datetime.max, datetime.max) == []
    assert occurrences(forever, NOW, NOW - DAY) == []
    assert occurrences(forever, NOW, NOW + DAY, 0) == []


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        ("every monday", "'EVERY MONDAY' is unknown"),
        ("", "unknown or out of range"),
        ("FREQ=SOMETIMES", "'FREQ=SOMETIMES' is unknown"),
        ("FREQ=SECONDLY", "'FREQ=SECONDLY' is unknown"),
        ("INTERVAL=2", "FREQ is missing"),
        ("FREQ=DAILY;INTERVAL=0", "'INTERVAL=0'"),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ stands twice"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20260101", "exclude each other"),
        ("FREQ=DAILY;UNTIL=soon", "Invalid isoformat"),
        ("FREQ=DAILY;UNTIL=20200101", "never happens"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "none of these months has such a day"),
        ("FREQ=HOURLY;BYMONTH=2", "HOURLY goes with"),
        ("FREQ=DAILY;BYSETPOS=5", "BYSETPOS goes with"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=SU", "never happens"),
        ("FREQ=WEEKLY;BYDAY=XX", "'BYDAY=XX'"),
        ("FREQ=DAILY\nDTSTART:20250101", "unknown or out of range"),
        ("FREQ=DAILY;" * 100, "longer than 500"),
    ],
)
def test_an_unusable_rule_is_refused_with_its_cause(rule: str, cause: str) -> None:
    with pytest.raises(InvalidInputError, match=cause):
        event("2025-05-05T09:00", recurrence=rule)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../etc/passwd", "", "a\0b"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInputError, match="Unknown time zone"):
        event("2025-05-05", time_zone=zone)


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, "start: Field required"),
        ({"start": "soon"}, "start: Invalid isoformat"),
        ({"start": None}, "start: Not a time"),
        ({"start": "0001-01-01"}, "the year 1 is not"),
        ({"start": "2025-05-05", "end": "2025-05-04"}, "is before the start"),
        ({"start": "2025-05-05", "end": "2027-05-05", "recurrence": "FREQ=DAILY"}, "at most a y"),
        ({"start": "2025-05-05", "granularity": "second"}, "granularity"),
        ({"start": "2025-05-05", "self": 1}, "self: Extra inputs"),
    ],
)
def test_nonsense_is_refused_with_its_cause(fields: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidInputError, match=cause):
        EventTime(**fields)


def test_overlaps_of_recurring_events() -> None:
    monday = event("2025-05-05T09:00", end="2025-05-05T10:00", recurrence="FREQ=WEEKLY")
    daily = event("2025-05-01T09:30", end="2025-05-01T11:00", recurrence="FREQ=DAILY")
    assert overlaps(monday, daily, utc(2025, 5, 1), utc(2025, 5, 15)) == [
        (utc(2025, 5, 5, 9, 30), utc(2025, 5, 5, 10)),
        (utc(2025, 5, 12, 9, 30), utc(2025, 5, 12, 10)),
    ]


def test_what_only_touches_does_not_overlap() -> None:
    one = event("2025-05-05T09:00", end="2025-05-05T10:00")
    other = event("2025-05-05T10:00")
    assert overlaps(one, other, utc(2025, 5, 1), utc(2025, 6, 1)) == []


RULES = [
    None,
    "FREQ=HOURLY;INTERVAL=6",
    "FREQ=DAILY",
    "FREQ=DAILY;BYHOUR=8,20",
    "FREQ=WEEKLY;BYDAY=MO,TH",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=31",
    "FREQ=YEARLY",
]
ZONES = [None, "Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]


@st.composite
def event_times(draw: st.DrawFn) -> EventTime:
    start = draw(st.datetimes(datetime(2024, 1, 1), datetime(2026, 12, 31)))
    length = draw(st.none() | st.integers(0, 3 * 24 * 60).map(lambda m: timedelta(minutes=m)))
    zone = draw(st.sampled_from(ZONES))
    aware = start.replace(tzinfo=ZoneInfo(zone) if zone else UTC)
    begin = aware.astimezone(UTC)
    return EventTime(
        start=draw(st.sampled_from([begin, aware])),
        end=None if length is None else begin + length,
        granularity=draw(st.sampled_from(["minute", "day", "week", "month", "year"])),
        recurrence=draw(st.sampled_from(RULES)),
        time_zone=zone,
    )


windows = st.tuples(
    st.datetimes(datetime(2024, 6, 1), datetime(2026, 6, 1)), st.integers(1, 60)
).map(lambda pair: (pair[0].replace(tzinfo=UTC), pair[0].replace(tzinfo=UTC) + pair[1] * DAY))


@given(event_times())
def test_events_survive_json(one: EventTime) -> None:
    assert EventTime(**json.loads(json.dumps(one.model_dump(mode="json")))) == one
    assert EventTime.model_validate_json(one.model_dump_json()) == one


@settings(deadline=None)
@given(event_times(), windows)
def test_occurrences_lie_in_the_window_in_order(
    one: EventTime, window: tuple[datetime, datetime]
) -> None:
    found = occurrences(one, *window)
    assert found == sorted(set(found))
    assert all(start < end for start, end in found)
    assert all(start < window[1] and end > window[0] for start, end in found)
    wider = occurrences(one, window[0] - 40 * DAY, window[1] + 40 * DAY)
    assert found == [span for span in wider if span[0] < window[1] and span[1] > window[0]]


@settings(deadline=None)
@given(event_times(), event_times(), windows)
def test_overlaps_are_what_comparing_every_pair_finds(
    one: EventTime, other: EventTime, window: tuple[datetime, datetime]
) -> None:
    pairs = [
        (max(a[0], b[0]), min(a[1], b[1]))
        for a in occurrences(one, *window)
        for b in occurrences(other, *window)
    ]
    expected = sorted(span for span in pairs if span[0] < span[1])
    assert sorted(overlaps(one, other, *window)) == expected
    assert sorted(overlaps(other, one, *window)) == expected


parts = st.sampled_from(
    "FREQ=DAILY FREQ=WEEKLY FREQ=MONTHLY FREQ=YEARLY FREQ=HOURLY INTERVAL=9999 INTERVAL=7 COUNT=1 "
    "UNTIL=99991231 UNTIL=20250506T000000+05:00 BYDAY=MO BYDAY=-5SU BYDAY=+1TU,WE BYMONTH=2,6 "
    "BYMONTHDAY=29 BYMONTHDAY=-31 BYSETPOS=-31 BYHOUR=23 BYMINUTE=0,59 WKST=SU X=".split()
) | st.text(max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(parts, max_size=5).map(";".join))
def test_any_rule_is_used_or_refused_in_time(rule: str) -> None:
    begun = time.perf_counter()
    try:
        occurrences(event("2025-05-05T09:00", recurrence=rule), NOW, NOW + 400 * DAY, 10)
    except InvalidInputError as error:
        assert "recurrence" in str(error)
    assert time.perf_counter() - begun < 20


# --- rules ---

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
