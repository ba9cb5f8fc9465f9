"""A copied text becomes a value of the slot's type, or stays a text that the schema refuses."""

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from langmem_graph.grounding.slots import Slot, joined, parted, slots_of
from langmem_graph.grounding.sources import Source, quoted_in
from langmem_graph.grounding.tool_spec import tool_spec
from langmem_graph.grounding.values import inferred, problem_with, typed

INTEGER = {"type": "integer"}


def slot(schema: dict[str, Any], name: str = "x") -> Slot:
    return Slot((name,), schema, required=True)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("7", 7),
        ("12345678901234567", 12345678901234567),
        ("1,200.50", 1200.5),
        ("1 200", 1200),
        ("-5", -5),
        ("$20", 20),
        ("690 NOK", 690),
        ("NOK 690", 690),
        ("85 kW", 85),
        ("10km", 10),
        ("5 m", 5),
        ("the 5th", 5),
        ("4 people.", 4),
    ],
)
def test_one_number_is_read(raw: str, value: float) -> None:
    read = typed(raw, slot({"type": "number"}))
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "raw",
    [
        "10k", "1.5 million", "2 dozen", "1/2", "2025-05-07", "50%", "12A", "7-10", "minus 5",
        "7 to 10", "7 pm", "1.2.3", "5 and 6", "under 5", "two", "10 12", "12:30", "",
    ],
)  # fmt: skip
def test_what_is_more_than_a_number_is_none(raw: str) -> None:
    assert problem_with(typed(raw, slot({"type": "number"})), slot({"type": "number"}))


def test_a_per_cent_counts_where_the_slot_says_so() -> None:
    assert typed("50 percent", slot(INTEGER, "percent")) == 50
    assert typed("50%", slot({**INTEGER, "description": "in %"})) == 50


@given(st.integers())
def test_whole_numbers_keep_every_digit(number: int) -> None:
    assert typed(str(number), slot(INTEGER)) in (number, str(number))
    if abs(number) < 10**40:
        assert typed(str(number), slot(INTEGER)) == number


@given(st.text())
def test_a_string_stays_what_it_was(text: str) -> None:
    assert typed(text, slot({"type": "string"})) == text


def test_dates_are_in_the_form_that_the_schema_asks_for() -> None:
    day = slot({"type": "string", "format": "date"})
    assert typed("7 May 2025", day) == "2025-05-07"
    assert problem_with("2025-05-07", day) is None
    assert problem_with(typed("7 May", day), day)
    assert typed("7 May 2025", slot({"type": "string"})) == "7 May 2025"


def test_formats_are_checked() -> None:
    class At(BaseModel):
        day: date
        start: datetime

    day, start = slots_of(tool_spec(At))
    assert problem_with("7 May 2025", day)
    assert problem_with("2025-05-07T10:00:00Z", start) is None
    assert problem_with("at ten", start)


def test_items_of_lists_that_may_be_left_out() -> None:
    class Rooms(BaseModel):
        numbers: list[int] | None = None

    (numbers,) = slots_of(tool_spec(Rooms))
    assert typed("4", numbers) == 4


def test_items_may_be_choices() -> None:
    extras = slot({"type": "array", "items": {"enum": ["Meal", "Blanket"]}})
    assert extras.choices == ("Meal", "Blanket")
    assert typed("meal", extras) == "Meal"


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "90210", "90210"),
        ({"type": "string"}, '"Oslo"', "Oslo"),
        ({"type": "string"}, "true", "true"),
        ({"type": "integer"}, "3", 3),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "3", 3),
        ({"type": "boolean"}, "true", True),
        ({"type": "array"}, '["a"]', ["a"]),
        ({}, "NaN", "NaN"),
        ({}, '"\\ud800"', '"\\ud800"'),
        ({}, "[" * 490 + "]" * 490, "[" * 490 + "]" * 490),
    ],
)
def test_what_a_model_concludes_fits_the_slot(schema: Any, text: str, value: Any) -> None:
    assert inferred(text, slot(schema)) == value


@pytest.mark.parametrize(
    ("words", "found"),
    [("1", None), ("no", None), ("12 bags", "12 bags"), ("i KNOW", "I know"), ("北京", "北京")],
)
def test_words_are_quoted_whole(words: str, found: str | None) -> None:
    source = Source(alias="f1", text="I know I have 12 bags in 去北京吧.")
    assert quoted_in(words, source) == found


@given(st.lists(st.text("~01.a"), min_size=1, max_size=4))
def test_a_dot_in_a_name_is_no_part_of_the_path(path: list[str]) -> None:
    assert parted(joined(path)) == tuple(path)


def test_what_the_runtime_injects_is_no_argument() -> None:
    def forecast(city: str, config: RunnableConfig) -> str:
        """Forecast.

        Args:
            city: where.
        """
        return f"{city} {config}"

    (city,) = slots_of(tool_spec(forecast))
    assert (city.name, city.description) == ("city", "where.")
