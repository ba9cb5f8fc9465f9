"""When events take place, recur and meet."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.times import EventTime, Span, ends_at, meetings, occurrences
from langmem_graph.settings import Settings
from tests.support.events import NOW, event
from tests.support.examples import examples

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS, MINUTES = (",".join(map(str, range(count))) for count in (24, 60))


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def overlaps(
    one: EventTime, other: EventTime, begin: datetime, end: datetime
) -> list[Span]:
    """When both take place at once."""
    met = meetings(occurrences(one, begin, end), occurrences(other, begin, end))
    return [(max(a[0], b[0]), min(a[1], b[1])) for a, b in met]


def test_naive_times_belong_to_the_events_zone() -> None:
    assert event("2025-07-01T09:00", time_zone="Europe/Madrid").start == utc(
        2025, 7, 1, 7
    )
    assert event("2025-07-01T09:00").start == utc(2025, 7, 1, 9)
    assert event("2025-07-01T09:00+09:00", time_zone="Europe/Madrid").start == utc(
        2025, 7, 1
    )


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
    short = occurrences(
        event("2025-05-07T15:00"), NOW, NOW + 5 * DAY, default_minutes=minutes
    )
    assert short == [(utc(2025, 5, 7, 15), utc(2025, 5, 7, 15, 15))]


def test_the_last_named_day_is_included() -> None:
    trip = event(
        "2025-05-03", end="2025-05-05", granularity="day", time_zone="America/New_York"
    )
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
    night = event(
        "2025-05-01T22:00",
        end="2025-05-02T06:00",
        recurrence="RRULE:FREQ=DAILY;COUNT=3",
    )
    assert len(occurrences(night, utc(2025, 5, 1), utc(2025, 6, 1))) == 3
    assert occurrences(night, utc(2025, 5, 2, 1), utc(2025, 5, 2, 2)) == [
        (utc(2025, 5, 1, 22), utc(2025, 5, 2, 6))
    ]
    assert occurrences(night, utc(2025, 5, 2, 6), utc(2025, 5, 2, 22)) == []


def test_until_a_day_includes_that_day() -> None:
    rule = "FREQ=DAILY;UNTIL={}"
    for until in ("20250503", "2025-05-03", "20250503T090000Z"):
        found = occurrences(
            event("2025-05-01T09:00", recurrence=rule.format(until)),
            utc(2025, 1, 1),
            NOW,
        )
        assert len(found) == 3


def test_whole_months_follow_the_calendar() -> None:
    season = event(
        "2025-02-01",
        end="2025-03-01",
        granularity="month",
        recurrence="FREQ=YEARLY;INTERVAL=3",
    )
    assert occurrences(season, utc(2028, 1, 1), utc(2029, 1, 1)) == [
        (utc(2028, 2, 1), utc(2028, 4, 1))
    ]


def test_the_limit_and_windows_at_the_end_of_time() -> None:
    forever = event("2025-05-01T09:00", recurrence="FREQ=DAILY")
    assert (
        len(occurrences(forever, utc(1, 1, 1), datetime.max.replace(tzinfo=UTC), 5))
        == 5
    )
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
        ("FREQ=HOURLY;INTERVAL=28;BYDAY=FR", "never happens"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=31", "never happens"),
        ("FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", "never happens"),
        ("FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=2MO", "never happens"),
        ("FREQ=DAILY;COUNT=10000", "'COUNT=10000'"),
        ("FREQ=MONTHLY;COUNT=9999", "more than a hundred years; give UNTIL"),
        ("FREQ=HOURLY;INTERVAL=84;BYDAY=MO;BYHOUR=21", "never happens"),
        (f"FREQ=DAILY;BYHOUR=1,2;BYMINUTE={MINUTES}", "more than 96 times a day"),
        ("FREQ=WEEKLY;BYDAY=XX", "'BYDAY=XX'"),
        ("FREQ=DAILY\nDTSTART:20250101", "unknown or out of range"),
        ("FREQ=DAILY;" * 100, "longer than 500"),
    ],
)
def test_an_unusable_rule_is_refused_with_its_cause(rule: str, cause: str) -> None:
    with pytest.raises(InvalidInputError, match=cause):
        event("2025-05-05T09:00", recurrence=rule)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;INTERVAL=3;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=YEARLY;INTERVAL=400;BYMONTH=5;BYDAY=MO",
        "FREQ=MONTHLY;INTERVAL=9999",
        "FREQ=DAILY;COUNT=1095",
        "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;COUNT=3",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    ],
)
def test_a_rule_that_seldom_happens_is_taken(rule: str) -> None:
    assert event("2025-05-05T09:00", recurrence=rule).recurrence == rule


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "Europe", "../etc/passwd", "", "a\0b"]
)
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
        (
            {"start": "2025-05-05", "end": "2027-05-05", "recurrence": "FREQ=DAILY"},
            "at most a y",
        ),
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


def test_what_begins_as_a_window_ends_is_not_in_it() -> None:
    morning = event("2025-05-05T10:00", end="2025-05-05T11:00", recurrence="FREQ=DAILY")
    assert occurrences(morning, utc(2025, 5, 5), utc(2025, 5, 6, 10)) == [
        (utc(2025, 5, 5, 10), utc(2025, 5, 5, 11))
    ]


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

ZONES = [
    None,
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
]


@st.composite
def event_times(draw: st.DrawFn) -> EventTime:
    start = draw(st.datetimes(datetime(2024, 1, 1), datetime(2026, 12, 31)))
    length = draw(
        st.none() | st.integers(0, 3 * 24 * 60).map(lambda m: timedelta(minutes=m))
    )
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
).map(
    lambda pair: (
        pair[0].replace(tzinfo=UTC),
        pair[0].replace(tzinfo=UTC) + pair[1] * DAY,
    )
)


@given(event_times())
def test_events_survive_json(one: EventTime) -> None:
    assert EventTime(**json.loads(json.dumps(one.model_dump(mode="json")))) == one
    assert EventTime.model_validate_json(one.model_dump_json()) == one


@settings(deadline=None, max_examples=examples(100))
@given(event_times(), windows)
def test_occurrences_lie_in_the_window_in_order(
    one: EventTime, window: tuple[datetime, datetime]
) -> None:
    found = occurrences(one, *window)
    assert found == sorted(set(found))
    assert all(start < end for start, end in found)
    assert all(start < window[1] and end > window[0] for start, end in found)
    wider = occurrences(one, window[0] - 40 * DAY, window[1] + 40 * DAY)
    assert found == [
        span for span in wider if span[0] < window[1] and span[1] > window[0]
    ]


@settings(deadline=None, max_examples=examples(100))
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


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(parts, max_size=5).map(";".join))
def test_any_rule_is_used_or_refused_in_time(rule: str) -> None:
    begun = time.thread_time()
    try:
        occurrences(
            event("2025-05-05T09:00", recurrence=rule), NOW, NOW + 400 * DAY, 10
        )
    except InvalidInputError as error:
        assert "recurrence" in str(error)
    assert time.thread_time() - begun < 20
