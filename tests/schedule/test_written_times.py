"""Times as models write them: what is read, as what, and what is refused."""

import time
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.model_written_times import read_day, written_event
from langmem_graph.schedule.named_moments import names_day
from langmem_graph.schedule.times import EventTime
from tests.support.examples import examples

MONDAY = datetime(2026, 2, 2, 10, tzinfo=UTC)
TUESDAYS = "FREQ=WEEKLY;BYDAY=TU"
AT_QUARTER_PAST = "2026-02-03T09:15"


def read(
    when: str, recurrence: str = "", until: str = "", zone: str | None = None
) -> str:
    """Start, end and rule, each where there is one; a mere day without its time."""
    event = written_event(when, until, recurrence, zone, MONDAY)
    form = "%Y-%m-%dT%H:%M" if event.granularity == "minute" else "%Y-%m-%d"
    times = [f"{one:{form}}" for one in (event.start, event.end) if one]
    return " ".join(
        ["/".join(times), *([event.recurrence] if event.recurrence else [])]
    )


@pytest.mark.parametrize(
    ("when", "recurrence", "expected"),
    [
        # Forms that models were seen to write.
        ("2026-02-03T09:15", "", AT_QUARTER_PAST),
        ("2026-02-03 09:15", "", AT_QUARTER_PAST),
        ("2026-02-03 9:15", "", AT_QUARTER_PAST),
        ("2026-02-03, 09:15", "", AT_QUARTER_PAST),
        ("3 February 2026 09:15", "", AT_QUARTER_PAST),
        ("Tuesday 9:15", "", AT_QUARTER_PAST),
        ("2026-02-03T09:15Z", "", AT_QUARTER_PAST),
        ("2026-02-03T09:15/2026-02-03T10:00", "", "2026-02-03T09:15/2026-02-03T10:00"),
        ("2026-10-04/2026-10-18", "", "2026-10-04/2026-10-18"),
        ("2026-02-03 to 2026-02-05", "", "2026-02-03/2026-02-05"),
        ("2026-02-03T16:00", f"RRULE:{TUESDAYS}", f"2026-02-03T16:00 {TUESDAYS}"),
        ("2026-02-03T16:00", "weekly on Tuesday", f"2026-02-03T16:00 {TUESDAYS}"),
        ("", TUESDAYS, f"2026-02-03 {TUESDAYS}"),
        ("", f"{TUESDAYS};BYHOUR=16;BYMINUTE=0",
         f"2026-02-03T16:00 {TUESDAYS};BYHOUR=16;BYMINUTE=0"),
        ("every Tuesday 16:00", TUESDAYS, f"2026-02-03T16:00 {TUESDAYS}"),
        ("2026-02-03", f"{TUESDAYS};BYHOUR=16", f"2026-02-03T16:00 {TUESDAYS};BYHOUR=16"),
        ("16:00", TUESDAYS, f"2026-02-03T16:00 {TUESDAYS}"),
        ("2026-02-03T16:00", "FREQ=WEEKLY;BYDAY=Tuesday", f"2026-02-03T16:00 {TUESDAYS}"),
        ("2026-02", "", "2026-02-01"),
        ("tomorrow", "", "2026-02-03"),
        # Days, weeks and longer.
        ("20260305", "", "2026-03-05"),
        ("2026/03/05 18:30", "", "2026-03-05T18:30"),
        ("2026-W10", "", "2026-03-02"),
        ("March 2026", "", "2026-03-01"),
        ("Tuesday, 3 February", "", "2026-02-03"),
        ("the day after tomorrow at noon", "", "2026-02-04T12:00"),
        # Times of day, offsets and zones.
        ("20260305T183000", "", "2026-03-05T18:30"),
        ("2026-03-05 6:30 pm", "", "2026-03-05T18:30"),
        ("2026-03-05 12 a.m.", "", "2026-03-05T00:00"),
        ("2026-03-05 18:30 UTC", "", "2026-03-05T18:30"),
        ("2026-03-05t18:30z", "", "2026-03-05T18:30"),
        ("2026-03-05T18:30:00+01:00[Europe/Madrid]", "", "2026-03-05T17:30"),
        ("2026-07-05 18:30 Europe/Madrid", "", "2026-07-05T16:30"),
        # Intervals.
        ("2026-03-05 18:30-20:00", "", "2026-03-05T18:30/2026-03-05T20:00"),
        ("2026-03-05 09:00 – 10:00", "", "2026-03-05T09:00/2026-03-05T10:00"),
        ("2026-03-05 09:00-10:00", "", "2026-03-05T09:00/2026-03-05T10:00"),
        ("2026-03-05T09:00-10:00", "", "2026-03-05T19:00"),  # an offset
        # there is none
        ("2026-03-05T18:30-20:00", "", "2026-03-05T18:30/2026-03-05T20:00"),
        ("2026-03-05 22:00 to 2:00", "", "2026-03-05T22:00/2026-03-06T02:00"),
        # iCalendar.
        ("", "freq=weekly; byday=tue", f"2026-02-03 {TUESDAYS}"),
        ("", f"DTSTART:20260310T183000Z\nRRULE:{TUESDAYS}", f"2026-03-10T18:30 {TUESDAYS}"),
        ("", f"DTSTART;TZID=Europe/Madrid:20260310T183000 RRULE:{TUESDAYS}",
         f"2026-03-10T17:30 {TUESDAYS}"),
        ("2026-03-10T19:00Z", f"DTSTART:20260310T183000Z RRULE:{TUESDAYS}",
         f"2026-03-10T19:00 {TUESDAYS}"),
        ("", f"{TUESDAYS};BYHOUR=9;BYMINUTE=0;BYSECOND=0",
         f"2026-02-03T09:00 {TUESDAYS};BYHOUR=9;BYMINUTE=0"),
        ("2026-02-03", "none", "2026-02-03"),
        # English phrases.
        ("", "every Tuesday at 18:00", f"2026-02-03T18:00 {TUESDAYS}"),
        ("Tuesdays and Thursdays, 7 pm", "", "2026-02-03T19:00 FREQ=WEEKLY;BYDAY=TU,TH"),
        ("", "daily", "2026-02-02 FREQ=DAILY"),
        ("", "once a week", "2026-02-02 FREQ=WEEKLY"),
        ("", "every 2 weeks on Mon and Thu", "2026-02-02 FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH"),
        ("", "every other Tuesday", "2026-02-03 FREQ=WEEKLY;INTERVAL=2;BYDAY=TU"),
        ("", "every weekday at 8:30", "2026-02-02T08:30 FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("", "on weekends", "2026-02-07 FREQ=WEEKLY;BYDAY=SA,SU"),
        ("", "monthly on the 1st", "2026-03-01 FREQ=MONTHLY;BYMONTHDAY=1"),
        ("", "every month on the 1st and 15th", "2026-02-15 FREQ=MONTHLY;BYMONTHDAY=1,15"),
        ("2026-02-03T06:00", "every 6 hours", "2026-02-03T06:00 FREQ=HOURLY;INTERVAL=6"),
    ],
)  # fmt: skip
def test_what_models_write_is_read(when: str, recurrence: str, expected: str) -> None:
    assert read(when, recurrence) == expected


@pytest.mark.parametrize(
    ("when", "recurrence", "field"),
    [
        ("09:15", "", "when"),
        ("", "", "when"),
        ("soon", "", "when"),
        ("next Tuesday", "", "when"),
        ("Monday", "", "when"),  # said on a Monday: today, or in a week?
        ("Wednesday, 3 February 2026", "", "when"),  # it is a Tuesday
        ("03/05/2026", "", "when"),
        ("2026-13-01", "", "when"),
        ("2026-02-30", "", "when"),
        ("31 June 2026", "", "when"),
        ("0001-01-01", "", "when"),
        ("9" * 300, "", "when"),
        ("soon", TUESDAYS, "when"),
        ("", "every 6 hours", "when"),
        ("2026-02-03", "sometimes", "recurrence"),
        ("2026-02-03", "every second Tuesday", "recurrence"),
        ("2026-02-03", "biweekly", "recurrence"),
        ("2026-02-03", "twice a week", "recurrence"),
        ("2026-02-03", "monthly on Tuesdays", "recurrence"),
        ("2026-02-03", "yearly on March 5th", "recurrence"),
        ("2026-02-03", "first Monday of every month", "recurrence"),
        ("2026-02-03", "FREQ=SOMETIMES", "recurrence"),
        ("2026-02-03", "FREQ=DAILY;UNTIL=20200101", "recurrence"),
        ("2026-02-03", f"RRULE:{TUESDAYS} RRULE:FREQ=DAILY", "recurrence"),
        ("2026-02-03", f"{TUESDAYS} EXDATE:soon", "recurrence"),
        ("2026-02-03", "DTSTART:20260203;FREQ=DAILY", "recurrence"),
        ("2026-02-03", "FREQ=DAILY;" * 100, "recurrence"),
    ],
)
def test_what_has_no_one_meaning_is_refused_with_the_form_asked_for(
    when: str, recurrence: str, field: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read(when, recurrence)
    assert str(refused.value).startswith(f"{field}: ")
    form = "FREQ=WEEKLY;BYDAY=" if field == "recurrence" else "2026-03-05T18:30"
    assert form in str(refused.value)


@pytest.mark.parametrize(
    ("when", "recurrence"),
    [
        ("tomorrow", ""),
        ("Tuesday 9:15", ""),
        ("3 February", ""),
        ("", TUESDAYS),
        ("16:00", "daily"),
    ],
)
def test_what_depends_on_the_day_needs_to_know_when_it_was_said(
    when: str, recurrence: str
) -> None:
    assert read(when, recurrence)
    with pytest.raises(InvalidInputError, match=r"^when: "):
        written_event(when, recurrence=recurrence)


@pytest.mark.parametrize(
    ("when", "until", "recurrence", "expected"),
    [
        ("2026-03-03T18:30", "20:00", "", "2026-03-03T18:30/2026-03-03T20:00"),
        ("2026-03-03T22:00", "2026-03-03T02:00", "", "2026-03-03T22:00/2026-03-04T02:00"),
        ("2026-03-03T22:00", "2026-03-05", "", "2026-03-03T22:00/2026-03-06T00:00"),
        ("2026-03-03", "5 March", "", "2026-03-03/2026-03-05"),
        ("2026-03-03", "2026-03", "", "2026-03-03/2026-03-31"),
        ("2026-02", "2026-04", "", "2026-02-01/2026-04-01"),
        ("2026-03-03T18:30", "late", "", "2026-03-03T18:30"),
        ("2026-03-03T18:30", "2026-03-01", "", "2026-03-03T18:30"),
        # Of what recurs.
        ("2026-03-03T22:00", "06:00", "daily", "2026-03-03T22:00/2026-03-04T06:00 FREQ=DAILY"),
        ("2026-03-06", "2026-03-08", "monthly", "2026-03-06/2026-03-08 FREQ=MONTHLY"),
        ("2026-03-03T18:30", "2026-06-30", TUESDAYS,
         f"2026-03-03T18:30 {TUESDAYS};UNTIL=20260630"),
        ("2026-03-03T18:30", "2026-06", TUESDAYS, f"2026-03-03T18:30 {TUESDAYS};UNTIL=20260630"),
        ("2026-03-03", "2026-06-30", TUESDAYS, f"2026-03-03 {TUESDAYS};UNTIL=20260630"),
        ("2026-03-03T18:30", "2026-03-31T18:30", TUESDAYS,
         f"2026-03-03T18:30 {TUESDAYS};UNTIL=20260331T183000Z"),
        ("2026-03-03T18:30", "2029-06-30", f"{TUESDAYS};COUNT=9",
         f"2026-03-03T18:30 {TUESDAYS};COUNT=9"),
    ],
)  # fmt: skip
def test_an_end_is_one_of_the_event_or_of_the_series(
    when: str, until: str, recurrence: str, expected: str
) -> None:
    assert read(when, recurrence, until) == expected


def test_a_routine_without_a_date_begins_on_the_day_of_the_users_clock() -> None:
    late = datetime(2026, 2, 2, 23, 30, tzinfo=UTC)  # already Tuesday in Madrid
    event = written_event("", "", TUESDAYS, "Europe/Madrid", late)
    assert (event.start, event.granularity) == (
        datetime(2026, 2, 2, 23, tzinfo=UTC),
        "day",
    )
    assert written_event("", "", TUESDAYS, None, late).start == datetime(
        2026, 2, 3, tzinfo=UTC
    )


@pytest.mark.parametrize("when", ["tomorrow", "next week", "", "Monday 9:00", "May"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("said_at", [datetime.min, datetime.max])
def test_what_lies_outside_of_the_calendar_is_refused(
    when: str, zone: str | None, said_at: datetime
) -> None:
    with pytest.raises(InvalidInputError):
        written_event(when, zone=zone, said_at=said_at.replace(tzinfo=UTC))


def test_an_offset_that_leaves_the_calendar_is_no_time() -> None:
    for text in ("9999-12-31T23:00-12:00", "0001-01-01T00:00+14:00"):
        assert read_day(text) is None
        with pytest.raises(InvalidInputError):
            written_event(text)


def test_exceptions_of_icalendar_are_skipped() -> None:
    text = f"DTSTART:20260303T183000Z RRULE:{TUESDAYS} EXDATE:20260310T183000Z,20260317"
    event = written_event("", recurrence=text)
    assert event.skipped == (
        datetime(2026, 3, 10, 18, 30, tzinfo=UTC),
        date(2026, 3, 17),
    )


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Unknown time zone"):
        written_event("2026-03-05", zone="Mars/Olympus")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-09-14", "2025-09-13T22:00"),
        ("2025-09", "2025-08-31T22:00"),
        ("2025", "2024-12-31T23:00"),
        ("2025-W10", "2025-03-02T23:00"),
        ("2025-09-14T18:30", "2025-09-14T16:30"),
        ("2025-09-14 18:30+00:00", "2025-09-14T18:30"),
        ("14 September 2025", "2025-09-13T22:00"),
        ("September 2025", "2025-08-31T22:00"),
        ("", None),
        ("since Easter", None),
        ("tomorrow", None),
        ("2025-99", None),
        ("0000", None),
    ],
)
def test_a_day_is_read_as_its_first_moment(text: str, expected: str | None) -> None:
    day = read_day(text, "Europe/Madrid")
    assert (day and f"{day:%Y-%m-%dT%H:%M}") == expected
    assert day is None or day.tzinfo is UTC


MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 12, 31)).map(
    lambda moment: moment.replace(second=0, microsecond=0)
)
FORMS = [
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d, %H:%M:00",
    "%Y%m%dT%H%M",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%d %I:%M %p",
    "%Y-%m-%dT%H:%MZ",
    "%d %B %Y, %H:%M",
    "%B %d, %Y at %I:%M %p",
    "%A, %d %B %Y %H:%M UTC",
    "%H:%M on %d %b %Y",
]


@given(MOMENTS, st.sampled_from(FORMS))
def test_all_forms_of_a_moment_are_the_same_moment(moment: datetime, form: str) -> None:
    event = written_event(moment.strftime(form))
    assert (event.start, event.granularity) == (moment.replace(tzinfo=UTC), "minute")


PIECES = st.sampled_from(
    "2026-03-05 T 18:30 - / to at every other Tuesday weekly on 1st of month FREQ=WEEKLY ; "
    "BYDAY=TU RRULE: DTSTART: EXDATE: 20260305 2026-W10 Z +01:00 pm Europe/Madrid noon tomorrow "
    ", (".split()
) | st.text(max_size=4)
TEXTS = st.lists(PIECES, max_size=8).map(" ".join) | st.lists(PIECES, max_size=8).map(
    "".join
)


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS, TEXTS, TEXTS, st.none() | st.just(MONDAY))
def test_any_text_is_read_or_refused_in_time(
    when: str, until: str, recurrence: str, said_at: datetime | None
) -> None:
    begun = time.perf_counter()
    try:
        event = written_event(when, until, recurrence, "Europe/Madrid", said_at)
        assert EventTime(**event.model_dump(mode="json")) == event
    except InvalidInputError as error:
        assert str(error).startswith(("when: ", "recurrence: "))
    read_day(when)
    assert timedelta(seconds=time.perf_counter() - begun) < timedelta(seconds=5)


@pytest.mark.parametrize("day", ["tues", "thurs", "tuesday"])
def test_many_weekdays_are_read_soon(day: str) -> None:
    before = time.process_time()
    with pytest.raises(InvalidInputError, match="recurrence"):
        read("2026-02-03", "every" + f" {day}" * 24 + " on no day")
    assert time.process_time() - before < 1


def test_many_days_without_an_end_are_read_soon() -> None:
    before = time.process_time()
    quoted = [("monday the 1st, " * 6_000, MONDAY.date())]
    assert not names_day(date(2026, 5, 1), quoted)
    assert time.process_time() - before < 4
