"""Days that a query names, and how well a date fits them."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.schedule.time_phrases import NamedDay, day_fit, named_days


@pytest.mark.parametrize(
    ("query", "day"),
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
def test_dates_named_in_a_query(query: str, day: NamedDay) -> None:
    assert named_days(query) == [day]


@pytest.mark.parametrize(
    "query", ["may I march on", "order 20231", "mark 12345", "", "1.5.2.9"]
)
def test_what_is_no_date(query: str) -> None:
    assert named_days(query) == []


@pytest.mark.parametrize(
    ("named", "said", "fit"),
    [
        (NamedDay(2023, 5, 7), date(2023, 5, 7), 1.0),
        (NamedDay(2023, 5, 7), date(2023, 5, 8), 1.0),
        (NamedDay(2023, 5, 7), date(2023, 5, 20), 0.5),
        (NamedDay(2023, 5, 7), date(2023, 5, 29), 0.25),
        (NamedDay(2023, 5, 7), date(2023, 7, 1), 0.0),
        (NamedDay(None, 5, None), date(2020, 5, 1), 1.0),
        (NamedDay(2021, 5, None), date(2020, 5, 1), 0.0),
        (NamedDay(2020, None, None), date(2020, 5, 1), 0.25),
        (NamedDay(2023, 6, 31), date(2023, 6, 30), 0.0),
    ],
)
def test_how_well_a_day_fits(named: NamedDay, said: date, fit: float) -> None:
    assert day_fit([named], said) == fit
    assert day_fit([], said) == 0.0


@given(st.text())
def test_any_query_names_dates_or_none(query: str) -> None:
    for named in named_days(query):
        assert 0.0 <= day_fit([named], date(2024, 2, 29)) <= 1.0
