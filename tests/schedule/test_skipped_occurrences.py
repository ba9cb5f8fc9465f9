"""Occurrences that are left out, against dateutil's own exceptions to rules."""

import json
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rruleset, rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.schedule_changes import with_skipped
from langmem_graph.schedule.times import (
    EventTime,
    event_in,
    meetings,
    occurrences,
    time_key,
)
from tests.support.events import event

MADRID = "Europe/Madrid"
DAY = timedelta(days=1)
SAID = datetime(2026, 3, 2, 10, tzinfo=UTC)  # a Monday
CHOIR = {
    "start": "2026-01-06T19:30",
    "recurrence": "FREQ=WEEKLY;BYDAY=TU",
    "time_zone": MADRID,
}
MARKET = {"start": "2026-01-06", "granularity": "day", "recurrence": "FREQ=WEEKLY"}
PILLS = {"start": "2026-01-01T08:00", "recurrence": "FREQ=DAILY;BYHOUR=8,20"}
NIGHT = {
    "start": "2026-01-01T22:00",
    "end": "2026-01-02T06:00",
    "recurrence": "FREQ=DAILY",
}
BIWEEKLY = "FREQ=WEEKLY;INTERVAL=2"
FAIR = {
    "start": "2026-01-05",
    "end": "2026-01-07",
    "granularity": "day",
    "recurrence": BIWEEKLY,
}


def starts(kept: dict[str, Any]) -> list[str]:
    """When it takes place in the four weeks from 1 March 2026, in UTC."""
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    found = occurrences(EventTime(**kept), begin, begin + 28 * DAY)
    return [f"{start:%d %H:%M}" for start, _ in found]


# --- what is kept ---


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("granularity", ["day", "minute"])
@pytest.mark.parametrize("skipped", ["0001-01-01T00:00Z", "9999-12-31T23:00Z"])
def test_what_is_skipped_at_the_calendars_edges_is_no_error(
    zone: str, granularity: Any, skipped: str
) -> None:
    kept = {**CHOIR, "time_zone": zone, "granularity": granularity}
    assert starts({**kept, "skipped": [skipped]}) == starts(kept)


def test_skipped_occurrences_are_left_out_and_kept_as_json() -> None:
    weekly = event(**CHOIR, skipped=["2026-03-10T18:30Z", "2026-03-17"])
    assert starts(weekly.model_dump(mode="json")) == ["03 18:30", "24 18:30"]
    assert weekly.skipped == (
        datetime(2026, 3, 10, 18, 30, tzinfo=UTC),
        date(2026, 3, 17),
    )
    kept = json.loads(json.dumps(weekly.model_dump(mode="json")))
    assert kept["skipped"] == ["2026-03-10T18:30:00Z", "2026-03-17"]
    assert EventTime(**kept) == weekly == event_in(kept)
    assert "skipped" not in event(**CHOIR).model_dump(mode="json")


def test_the_same_routine_is_the_same_item_with_and_without_what_is_skipped() -> None:
    assert time_key("schedule", CHOIR) == time_key(
        "schedule", {**CHOIR, "skipped": ["2026-03-17"]}
    )


def test_times_without_an_offset_are_of_the_events_zone() -> None:
    weekly = event(**CHOIR, skipped=["2026-03-10T19:30"])
    assert starts(weekly.model_dump(mode="json"))[:2] == ["03 18:30", "17 18:30"]


def test_all_may_be_skipped() -> None:
    course = event("2026-03-03T19:00", recurrence="FREQ=DAILY;COUNT=2")
    none = course.model_copy(update={"skipped": (date(2026, 3, 3), date(2026, 3, 4))})
    assert occurrences(none, SAID, SAID + 99 * DAY) == []


def test_what_is_skipped_meets_nothing() -> None:
    asked = occurrences(event("2026-03-10T18:00Z"), SAID, SAID + 30 * DAY)
    assert list(meetings(asked, occurrences(event(**CHOIR), SAID, SAID + 30 * DAY)))
    free = event(**CHOIR, skipped=["2026-03-10"])
    assert not list(meetings(asked, occurrences(free, SAID, SAID + 30 * DAY)))


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        (
            {"start": "2026-03-03T19:00", "skipped": ["2026-03-03"]},
            "only of what recurs",
        ),
        ({**CHOIR, "skipped": ["soon"]}, "skipped: "),
        ({**CHOIR, "skipped": [None]}, "skipped: "),
        ({**CHOIR, "skipped": "2026-03-10"}, "a list of times"),
        ({**CHOIR, "skipped": ["2026-03-10"] * 1_001}, "skipped: "),
    ],
)
def test_skips_that_cannot_be_used_are_refused(
    fields: dict[str, Any], cause: str
) -> None:
    with pytest.raises(InvalidInputError, match=cause):
        EventTime(**fields)


# --- skipping an occurrence ---


@pytest.mark.parametrize(
    ("kept", "day", "skipped"),
    [
        (CHOIR, "2026-03-10", ["2026-03-10T18:30:00Z"]),
        (CHOIR, "2026-03-31", ["2026-03-31T17:30:00Z"]),  # the clocks have changed
        (CHOIR, "2026-03-10T19:30", ["2026-03-10T18:30:00Z"]),
        # its day, at least, is right
        (CHOIR, "2026-03-10T18:00", ["2026-03-10T18:30:00Z"]),
        (CHOIR, "10 March 2026", ["2026-03-10T18:30:00Z"]),
        # midnight in Madrid
        (CHOIR, "2026-03-09T23:00:00+00:00", ["2026-03-10T18:30:00Z"]),
        (CHOIR, "2026-W11", ["2026-03-10T18:30:00Z"]),
        (
            CHOIR,
            "2026-03-09/2026-03-20",
            ["2026-03-10T18:30:00Z", "2026-03-17T18:30:00Z"],
        ),
        (CHOIR, "2026-02-24", ["2026-02-24T18:30:00Z"]),  # a week ago
        (CHOIR, None, ["2026-03-03T18:30:00Z"]),
        (CHOIR, "", ["2026-03-03T18:30:00Z"]),
        (CHOIR, "this time", ["2026-03-03T18:30:00Z"]),
        (CHOIR, "2026", ["2026-03-03T18:30:00Z"]),  # a whole year is no occurrence
        (MARKET, "2026-03-10", ["2026-03-10"]),
        (MARKET, None, ["2026-03-03"]),
        (PILLS, "2026-03-10T20:00", ["2026-03-10T20:00:00Z"]),
        (PILLS, "2026-03-10", ["2026-03-10T08:00:00Z", "2026-03-10T20:00:00Z"]),
        (PILLS, None, ["2026-03-02T20:00:00Z"]),
        (NIGHT, "2026-03-10", ["2026-03-10T22:00:00Z"]),
        (FAIR, "2026-03-04", ["2026-03-02"]),  # the second of three days
        (FAIR, None, ["2026-03-02"]),  # it is on
    ],
)
def test_an_occurrence_is_named_by_its_day(
    kept: dict[str, Any], day: str | None, skipped: list[str]
) -> None:
    changed = with_skipped(kept, day, SAID, None)
    assert changed == {**kept, "skipped": skipped}
    begin, end = SAID - 10 * DAY, SAID + 60 * DAY
    before, after = (
        occurrences(EventTime(**one), begin, end) for one in (kept, changed)
    )
    left_out = [span for span in before if span not in after]
    assert [
        f"{start:%Y-%m-%dT%H:%M:%SZ}"[: len(skipped[0])] for start, _ in left_out
    ] == skipped
    assert len(before) - len(after) == len(skipped)


@pytest.mark.parametrize(
    ("kept", "day"),
    [
        (None, None),
        ({}, None),
        ({"start": "soon"}, None),
        ({"start": "2026-03-10T19:30"}, "2026-03-10"),
        (CHOIR, "2026-03-11"),
        (CHOIR, "2025-12-30"),
        ({**CHOIR, "recurrence": "FREQ=WEEKLY;UNTIL=20260224"}, None),
        (NIGHT, "2025-12-31"),
    ],
)
def test_what_does_not_take_place_cannot_be_skipped(
    kept: dict[str, Any] | None, day: str | None
) -> None:
    assert with_skipped(kept, day, SAID, None) is None


def test_the_next_one_is_the_next_that_is_not_skipped() -> None:
    once = with_skipped(CHOIR, None, SAID, None)
    twice = with_skipped(once, None, SAID, None)
    assert (twice or {})["skipped"] == ["2026-03-03T18:30:00Z", "2026-03-10T18:30:00Z"]
    assert with_skipped(twice, "2026-03-10", SAID, None) == twice


def test_a_leap_day_is_found_years_ahead() -> None:
    leap = {"start": "2024-02-29T20:00", "recurrence": "FREQ=YEARLY"}
    skipped = with_skipped(leap, None, SAID, None)
    assert (skipped or {})["skipped"] == ["2028-02-29T20:00:00Z"]


def test_a_day_is_one_of_the_users_clock_where_the_event_has_none() -> None:
    # Wednesdays in Madrid
    late = {"start": "2026-01-06T23:30Z", "recurrence": "FREQ=WEEKLY"}
    skipped = with_skipped(late, "2026-03-11", SAID, MADRID)
    assert (skipped or {})["skipped"] == ["2026-03-10T23:30:00Z"]


# --- against dateutil ---

RULES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;COUNT=40",
    "FREQ=DAILY;BYHOUR=8,20",
    "FREQ=WEEKLY;INTERVAL=2",
    "FREQ=WEEKLY;BYDAY=MO,TH",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=31",
    "FREQ=YEARLY",
]
ZONES = ["UTC", MADRID, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
# From 4 o'clock on no clock of these zones is set.
WALLS = st.datetimes(datetime(2025, 1, 1), datetime(2026, 6, 30)).map(
    lambda wall: wall.replace(hour=4 + wall.hour % 20, second=0, microsecond=0)
)
BEGIN, END = datetime(2026, 1, 1), datetime(2026, 12, 31)


def utc(wall: datetime, zone: str) -> datetime:
    return wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def oracle(rule: str, first: datetime, without: list[datetime]) -> list[datetime]:
    """The wall-clock starts in 2026, by dateutil alone."""
    rules = rruleset()
    rules.rrule(rrulestr(rule, dtstart=first))  # type: ignore[arg-type]
    for wall in without:
        rules.exdate(wall)
    return rules.between(BEGIN, END, inc=True)


@settings(deadline=None)
@given(st.sampled_from(RULES), st.sampled_from(ZONES), WALLS, st.data())
def test_skips_are_dateutils_exceptions(
    rule: str, zone: str, first: datetime, data: st.DataObject
) -> None:
    walls = oracle(rule, first, [])
    assume(walls)
    moments = data.draw(st.lists(st.sampled_from(walls), max_size=5))
    days = data.draw(st.lists(st.sampled_from(walls).map(datetime.date), max_size=3))
    skipped = [*(utc(wall, zone) for wall in moments), *days]
    one = EventTime(
        start=utc(first, zone), time_zone=zone, recurrence=rule, skipped=skipped
    )
    found = [start for start, _ in occurrences(one, utc(BEGIN, zone), utc(END, zone))]
    without = [*moments, *(wall for wall in walls if wall.date() in days)]
    expected = [utc(wall, zone) for wall in oracle(rule, first, without)]
    assert [start for start in found if start >= utc(BEGIN, zone)] == expected


@settings(deadline=None)
@given(
    st.sampled_from(RULES),
    st.sampled_from(ZONES),
    WALLS,
    st.dates(date(2026, 1, 2), date(2026, 12, 30)),
)
def test_skipping_a_day_takes_that_days_occurrences_and_no_others(
    rule: str, zone: str, first: datetime, day: date
) -> None:
    kept = {
        "start": utc(first, zone).isoformat(),
        "time_zone": zone,
        "recurrence": rule,
    }
    changed = with_skipped(kept, day.isoformat(), SAID, "Asia/Tokyo")
    walls = oracle(rule, first, [])
    if day not in {wall.date() for wall in walls}:
        assert changed is None
        return
    assert changed is not None
    assert {**changed, "skipped": None} == {**kept, "skipped": None}
    found = occurrences(EventTime(**changed), utc(BEGIN, zone), utc(END, zone))
    expected = [utc(wall, zone) for wall in walls if wall.date() != day]
    midnight = utc(datetime.combine(BEGIN, time.min), zone)
    assert [start for start, _ in found if start >= midnight] == expected
