"""Days that a question names, and how well the day of a message fits them."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.moments.fitting import MOST_ASKED, asked_days, best_fit
from langmem_graph.moments.moment import NamedDay
from langmem_graph.moments.scanner import scan

ASKED = date(2026, 2, 20)  # a Friday


def fit(question: str, said: str, asked: date | None = ASKED) -> float:
    return best_fit(asked_days(question, asked), date.fromisoformat(said))


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("What did we do on May 7, 2023?", NamedDay(2023, 5, 7)),
        ("on the 7th of May", NamedDay(None, 5, 7)),
        ("7 may 2023", NamedDay(2023, 5, 7)),
        ("2023-05-07", NamedDay(2023, 5, 7)),
        ("in Sept. 2024", NamedDay(2024, 9, None)),
        ("what happened in march", NamedDay(None, 3, None)),
        ("back in 1999", NamedDay(1999, None, None)),
    ],
)
def test_dates_named_in_a_question(question: str, day: NamedDay) -> None:
    (named,) = asked_days(question, None)
    assert named.dates == (day,)


@pytest.mark.parametrize(
    "question",
    [
        *("may I march on", "order 20231", "mark 12345", "", "1.5.2.9"),
        *("the sun in a second", "I think this may help", "open 24/7"),
    ],
)
def test_what_is_no_date(question: str) -> None:
    assert asked_days(question, ASKED) == []


@pytest.mark.parametrize(
    ("question", "said", "expected"),
    [
        ("7 May 2023", "2023-05-07", 1.0),
        ("7 May 2023", "2023-05-08", 1.0),
        ("7 May 2023", "2023-05-04", 0.5),
        ("7 May 2023", "2023-05-20", 0.5),
        ("7 May 2023", "2023-05-29", 0.25),
        ("7 May 2023", "2023-07-01", 0.0),
        ("on 7 May", "2020-05-07", 1.0),
        ("in May", "2020-05-01", 1.0),
        ("in May 2021", "2020-05-01", 0.0),
        ("in 2020", "2020-05-01", 0.25),
        ("31 June 2023", "2023-06-30", 0.0),
        ("30 May to 2 June 2025", "2025-05-31", 1.0),
        ("30 May to 2 June 2025", "2025-06-10", 0.5),
        ("from 12 to 15 June", "2019-06-13", 1.0),
    ],
)
def test_how_well_a_day_fits(question: str, said: str, expected: float) -> None:
    assert fit(question, said) == fit(question, said, None) == expected


@pytest.mark.parametrize(
    ("question", "said", "expected"),
    [
        ("What did I do yesterday?", "2026-02-19", 1.0),
        ("What did I do yesterday?", "2026-02-10", 0.25),
        ("last Friday", "2026-02-13", 1.0),
        ("last Friday", "2026-02-16", 0.5),
        ("three weeks ago", "2026-01-30", 1.0),
        ("three weeks ago", "2026-01-27", 0.5),  # about a week
        ("three weeks ago", "2026-01-20", 0.25),  # the month of that day
        ("last week", "2026-02-11", 1.0),
        ("last month", "2026-01-02", 1.0),
        ("last month", "2026-02-02", 0.0),
        ("two months ago", "2025-12-01", 1.0),
        ("last year", "2025-06-01", 0.25),
        ("Was habe ich letzten Freitag gemacht?", "2026-02-13", 1.0),
    ],
)
def test_a_time_that_is_reckoned_from_the_question(
    question: str, said: str, expected: float
) -> None:
    assert fit(question, said) == expected
    assert fit(question, said, None) == 0.0


def test_an_ambiguous_figure_fits_both_readings() -> None:
    assert fit("02/07/2025", "2025-07-02") == fit("02/07/2025", "2025-02-07") == 1.0
    assert fit("24/12/2025", "2025-12-24") == 1.0


@pytest.mark.parametrize(
    "question",
    [
        *("What shall I wear today?", "Book a table on Friday", "until tomorrow"),
        *("next week", "this month", "every Monday", "a gift for Christmas"),
    ],
)
def test_what_may_still_be_to_come_fits_nothing(question: str) -> None:
    assert fit(question, "2026-02-20") == fit(question, "2026-02-13") == 0.0


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What did I say today?", "2026-02-20"),
        ("What did I do on Monday?", "2026-02-16"),
        ("What was it this week?", "2026-02-17"),
    ],
)
def test_a_question_that_looks_back_finds_them(question: str, said: str) -> None:
    assert fit(question, said) == 1.0


def test_the_weekday_of_a_date_is_no_day_of_its_own() -> None:
    question = "What did we do on Friday, 5 May 2023?"
    assert fit(question, "2023-05-05") == 1.0
    assert fit(question, "2026-02-13") == 0.0


@given(st.text(), st.dates(), st.dates())
def test_any_question_names_days_or_none(
    question: str, asked: date, said: date
) -> None:
    assert 0.0 <= best_fit(asked_days(question, asked), said) <= 1.0
    assert len(scan(question, asked)) >= len(asked_days(question, asked))


def test_a_time_that_is_named_again_and_again_is_compared_once() -> None:
    assert len(asked_days("What did I say on 3 May, 5 May, 3 May, 3 May?", ASKED)) == 2


def test_of_many_times_the_first_ones_are_compared() -> None:
    every = [f"{year}-05-{day:02}" for year in range(1990, 2020) for day in (3, 17)]
    question = f"What happened on {', '.join(every)}?"
    assert len(asked_days(question, ASKED)) == MOST_ASKED
    assert fit(question, "1990-05-03") == 1.0
