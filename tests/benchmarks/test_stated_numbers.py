"""One reading of numbers, over whole tokens."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.metrics.stated_numbers import amounts


def numbers(text: str) -> list[float]:
    return [float(one.value) for one in amounts(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("I weigh out 1,5 kg of flour", 1.5),
        ("0,5 litre", 0.5),
        ("0,125", 0.125),
        ("1,200.50", 1200.5),
        ("1.200,50", 1200.5),
        ("1.200.000", 1_200_000),
        ("1,00,000", 100_000),
        ("1'000", 1000),
        ("1 200", 1200),
        ("12 500 kr", 12_500),
        ("$1,200 a month", 1200),
        ("-5 degrees", -5),
        ("it was −5 outside", -5),
        ("NOK 690", 690),
        ("690 NOK", 690),
        ("85 kW", 85),
        ("10km", 10),
        ("5 m", 5),
        ("the 5th", 5),
        ("4 people.", 4),
        ("5人", 5),
        ("500円", 500),
        ("٥", 5),
        ("50%", 50),
        ("2 million", 2_000_000),
        ("5 million people", 5_000_000),
        ("2 dozen", 24),
        ("twenty-two", 22),
        ("minus 5", -5),
        ("€5k", 5000),
        ("every two weeks", 2),
        ("1.365 EUR", 1365),
        ("EUR 4.890", 4890),
        ("peak 2 871", 2871),
        ("off-peak 22\u00a0615 today", 22615),
        ("paid 2'871 francs", 2871),
        ("Four of us", 4),
    ],
)
def test_one_number_is_read(text: str, value: float) -> None:
    assert numbers(text) == [value]


@pytest.mark.parametrize(
    "text",
    [
        "3,4,5", "1.000 euro", "10,000", "1.234", "€ 1,234", "1.899 EUR/l", "$1.234", "AB-12",
        "lat 48,137",
        "my phone is 555-1234", "version 1.2.3", "on 2024-05-01", "score 2:1", "pin 0012", "12A",
        "room 5a", "1e5", "12½", "1/2", "1,234,56", "2 and a half hours", "2 1/2 cups", "5万円",
        "3千人", "2年半", "5만원", "5 M", "5 mil", "5 mille", "5 Millionen", "5 млн", "5 triệu",
        "two hundred", "two and a half", "half past two", "-$5",
        "12:30", "a few", "", "5 thousand million",
    ],
)  # fmt: skip
def test_what_is_not_surely_a_number_is_none(text: str) -> None:
    assert numbers(text) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("between 7-10", [7, 10]),
        ("it is 3 4 people", [3, 4]),
        ("1.234 of 12,50", [1234, 12.5]),
        ("1,234 of 12,50", [1.234, 12.5]),
        ("1.234 of 12,50 or 3.5", [12.5, 3.5]),
    ],
)
def test_other_numbers_show_the_decimal_mark(text: str, values: list[float]) -> None:
    assert numbers(text) == values


def test_the_text_around_a_quote_shows_the_mark_too() -> None:
    (amount,) = amounts("1.200 euro", "The deposit is 1.200 euro, the fee 12,50 euro")
    assert amount == (Decimal(1200), "euro")


def test_what_must_be_whole_has_groups_of_thousands() -> None:
    assert amounts("103.250 km", whole=True) == [(Decimal(103250), "km")]
    assert amounts("103.250 km", "103.250 km, 2.6 times", whole=True) == [
        (Decimal(103250), "km")
    ]
    assert amounts("1,5 km", whole=True) == [(Decimal("1.5"), "km")]


@pytest.mark.parametrize(
    "text", ["06 39 98 41 27", "+48 571 309 228", "12 2 871", "2 871 33"]
)
def test_digits_beside_a_group_make_it_none(text: str) -> None:
    assert not {2871, 571309228, 309228} & set(numbers(text))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_number_is_no_other(one: int, other: int) -> None:
    assert (Decimal(one) in [a.value for a in amounts(f"It was {other} m.")]) == (
        one == other
    )


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert all(isinstance(one.value, Decimal) for one in amounts(text))
