"""Times that the words of a request name beyond doubt, and words that leave one."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.schedule.time_phrases import LONGEST, spoken_time

MONDAY = datetime(2025, 6, 2, 9, tzinfo=UTC)


def said(text: str, now: datetime = MONDAY, zone: str | None = None) -> str | None:
    """The time as `start` or `start/end`, in UTC."""
    event = spoken_time(text, now, zone)
    if event is None:
        return None
    return "/".join(
        f"{moment:%Y-%m-%d %H:%M}" for moment in (event.start, event.end) if moment
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Can we set the review for Tuesday 15:00?", "2025-06-03 15:00"),
        ("can we set the review for TUESDAY 15:00", "2025-06-03 15:00"),
        ("Book a table for 5 people on Sunday at 8pm", "2025-06-08 20:00"),
        ("Dinner on Friday at 7:30 p.m.", "2025-06-06 19:30"),
        ("Lunch tomorrow at noon", "2025-06-03 12:00"),
        ("Lunch tomorrow at 12 pm", "2025-06-03 12:00"),
        ("Call me tomorrow at 12am", "2025-06-03 00:00"),
        ("the day after tomorrow at 09:00", "2025-06-04 09:00"),
        ("today at 18:00", "2025-06-02 18:00"),
        ("tonight at 8pm", "2025-06-02 20:00"),
        ("15:00 June 3 works?", "2025-06-03 15:00"),
        ("Tuesday, June 3rd - 15:00", "2025-06-03 15:00"),
        ("on 3 June 2025 at 15:00", "2025-06-03 15:00"),
        # more than half a year ahead: this one or the last?
        ("on January 5 at 15:00", None),
        ("on 5 November at 15:00", "2025-11-05 15:00"),
        ("2025-06-03 15:00", "2025-06-03 15:00"),
        ("2025-06-03T15:00", "2025-06-03 15:00"),
        ("2025-06-03T15:00:30Z", "2025-06-03 15:00"),
        ("2025-06-03T15:00-05:00 for 2 hours", "2025-06-03 20:00/2025-06-03 22:00"),
        ("2025-06-03T22:00 to 2025-06-04T02:00", "2025-06-03 22:00/2025-06-04 02:00"),
        ("Tuesday from 15:00 to 16:30", "2025-06-03 15:00/2025-06-03 16:30"),
        ("Tuesday 15:00–16:30", "2025-06-03 15:00/2025-06-03 16:30"),
        ("Tuesday 3-4pm", "2025-06-03 15:00/2025-06-03 16:00"),
        ("Tuesday 11 to 1pm", "2025-06-03 11:00/2025-06-03 13:00"),
        ("Tuesday 11am to 1pm", "2025-06-03 11:00/2025-06-03 13:00"),
        ("Friday 10pm to 2am", "2025-06-06 22:00/2025-06-07 02:00"),
        ("Friday 22:00 until 2:00", "2025-06-06 22:00/2025-06-07 02:00"),
        ("Tuesday 9:00 to 17:00", "2025-06-03 09:00/2025-06-03 17:00"),
        ("a two-hour review on Tuesday at 15:00", "2025-06-03 15:00/2025-06-03 17:00"),
        ("Tuesday 15:00 for 90 minutes", "2025-06-03 15:00/2025-06-03 16:30"),
        ("Tuesday 15:00, half an hour", "2025-06-03 15:00/2025-06-03 15:30"),
        ("Tuesday 15:00 for 1.5 hours", "2025-06-03 15:00/2025-06-03 16:30"),
        ("Tuesday 15:00 UTC", "2025-06-03 15:00"),
        ("Tuesday 15:00 my time", "2025-06-03 15:00"),
        ("Is Tuesday at 15:00 still free?", "2025-06-03 15:00"),
    ],
)
def test_one_day_and_one_time_are_a_proposal(text: str, expected: str | None) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Book a table",
        "Can we meet on Tuesday?",
        "Can we meet at 15:00?",
        "Tuesday at 3",
        "Tuesday at 3:30",  # in the afternoon?
        "Monday at 15:00",  # today's weekday: today, or in a week?
        "next Tuesday at 15:00",
        "every Tuesday at 15:00",
        "Tuesdays at 15:00",
        "Tuesday the 17th at 15:00",
        "Wednesday, June 3 at 15:00",  # it is a Tuesday
        "Tuesday in two weeks at 15:00",
        "Tuesday or Wednesday at 15:00",
        "Tuesday at 15:00 or 16:00",
        "from Tuesday 22:00 to Wednesday 02:00",
        "two or three hours on Tuesday at 15:00, 1 hour at most",
        "before Tuesday 15:00",
        "not on Tuesday at 15:00",
        "I can't do Tuesday at 15:00",
        "Move the review to Tuesday 15:00",
        "Cancel Tuesday 15:00",
        "Where is Tuesday's 15:00 meeting?",
        "What did we say on Tuesday at 15:00?",
        "today at 08:00",
        "2025-06-01T15:00",
        "June 1, 2025 at 15:00",
        "in 2 hours",
        "Tuesday at 15:00 CET",
        "Tuesday at 3pm ET",
        "Tuesday at 15:00 (New York time)",
        "Tuesday at 15:00 Europe/Madrid",
        "Tuesday at 25:00",
        "Tuesday at 15pm",
        "June 31 at 15:00",
        "9999-06-03T15:00",
        "Tuesday midnight, 00:00",
        "It costs €15:00 on Tuesday",
        "2025-06-03T15:00 and Thursday 16:00",
        "on 06/07/2025 at 15:00",  # in June, or in July?
        "in two weeks at 15:00",
        "Morgen um 15:00 geht es nicht",  # these rules know English alone
        "2025-06-03T15:00 and 2025-06-04T15:00",
        "Tuesday at 15:00 " + "so " * LONGEST,
    ],
)
def test_what_leaves_a_doubt_is_none(text: str) -> None:
    assert said(text) is None


def test_the_day_and_the_time_are_those_of_the_users_clock() -> None:
    # half past midnight in Madrid, a Tuesday
    late = datetime(2025, 6, 2, 22, 30, tzinfo=UTC)
    assert said("tomorrow at 15:00", late) == "2025-06-03 15:00"
    assert said("tomorrow at 15:00", late, "Europe/Madrid") == "2025-06-04 13:00"
    assert said("Tuesday at 15:00", late, "Europe/Madrid") is None
    assert said("Tuesday at 15:00 UTC", MONDAY, "Europe/Madrid") == "2025-06-03 15:00"


@pytest.mark.parametrize("zone", [None, "Pacific/Auckland", "America/Los_Angeles"])
@pytest.mark.parametrize(
    "words", ["on Thursday at 15:00", "tomorrow at 9:00", "today at 8pm"]
)
def test_beyond_the_calendar_nothing_is_proposed(words: str, zone: str | None) -> None:
    ends = [edge.replace(tzinfo=UTC) for edge in (datetime.max, datetime.min)]
    found = [spoken_time(f"Can we meet {words}?", now, zone) for now in ends]
    assert found[0] is None


words = st.sampled_from(
    "tuesday tomorrow today june may 3 31 2025-06-03 2025-02-30T10:00 15:00 3pm 12am 0pm 25:99 to "
    "- from for hours 2 the at noon utc z +02:00 next 's 2025 0000-00-00 t".split()
) | st.text(max_size=6)


@given(
    st.lists(words, max_size=8).map(" ".join), st.sampled_from([None, "Asia/Kathmandu"])
)
def test_any_words_are_a_time_to_come_or_none(text: str, zone: str | None) -> None:
    event = spoken_time(text, MONDAY, zone)
    assert event is None or event.start > MONDAY
    assert (
        event is None
        or event.end is None
        or event.end - event.start <= timedelta(days=400)
    )
