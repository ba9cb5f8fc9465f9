"""A copied text becomes a value of the slot's type, or stays a text that the schema refuses."""

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from langmem_graph.grounding.evidence_sources import Source, candidates_in, quoted_in
from langmem_graph.grounding.tool_schema import Slot, slot_name, slot_path, slots_of, tool_spec
from langmem_graph.grounding.type_conversion import inferred, problem_with, typed

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
        ("0,125", 0.125),
        ("1.200,50", 1200.5),
        ("1.200.000", 1200000),
        ("1,00,000", 100000),
        ("5人", 5),
        ("500円", 500),
        ("٥", 5),
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
        "5 K", "5 k", "5 M", "5 B", "5 mil", "5 grand", "3 Mill.", "5 Millionen", "5 Milliarden",
        "5 Tausend", "5 mille", "5 millones", "5 млн", "5 тысяч", "5 juta", "5 triệu", "5 แสน",
        "5万", "5 万", "5万円", "3千人", "2年半", "5만원", "10多个", "5 pct", "3 quarters",
        "2 thirds", "0 123 456",
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
    for said in ("Monday, May 7, 2025", "the 7th of May 2025", "7 May 2025.", "2025/5/7"):
        assert typed(said, day) == "2025-05-07"


@pytest.mark.parametrize(
    "raw",
    [
        "2025", "20250507", "May 2025", "7 May 25", "May 7, '25", "25年5月7日", "12:30:15", "1.2.3",
        "Marble 7, 2025", "Decker Street 7, 2024", "room 13 5 2025", "7-9 May 2025", "3/5/2025",
        "before May 7, 2025", "7 May 2025 BC", "7 May 2025 or 8 May 2025", "on", "",
    ],
)  # fmt: skip
def test_what_is_not_surely_one_day_is_no_date(raw: str) -> None:
    day = slot({"type": "string", "format": "date"})
    assert problem_with(typed(raw, day), day)


def test_formats_are_checked() -> None:
    class At(BaseModel):
        day: date
        start: datetime

    day, start = slots_of(tool_spec(At))
    assert problem_with("7 May 2025", day)
    assert problem_with("2025-05-07T10:00:00Z", start) is None
    assert problem_with("at ten", start)


def test_amounts_are_multiples_by_their_digits() -> None:
    price = slot({"type": "number", "multipleOf": 0.01})
    assert [problem_with(value, price) for value in (19.99, 0.29, 1e300, 7)] == [None] * 4
    assert problem_with(19.999, price)


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
        ({"type": "number"}, "1e999", "1e999"),
        ({}, "[-1e999]", "[-1e999]"),
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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("200", "It costs 1,200."),
        ("3", "3.5 kg"),
        ("5", "It is -5 outside."),
        ("2", "A city of 2 million people"),
        ("2", "a 2-million budget"),
        ("5", "5万円です"),
        ("2", "2 1/2 cups"),
        ("2", "2 and a half hours"),
        ("12", "12 500 kr"),
        ("500", "12 500 kr"),
        ("๕", "ราคา ๕๐ บาท"),
        ("cafe", "the cafe\u0301 there"),
        ("हिन", "हिन्दी भाषा"),
        ("ह", "हिन्दी भाषा"),
        ("alice", "alice@example.org"),
        ("AB", "AB-12"),
    ],
)
def test_a_part_is_no_quote(words: str, text: str) -> None:
    source = Source(alias="f1", text=text)
    assert quoted_in(words, source) is None
    assert words not in [one.raw for one in candidates_in([source], [])]


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        (" north ", "go north now", "north"),
        ("กรุงเทพ", "ฉันไปกรุงเทพกัน", "กรุงเทพ"),
        ("☕", "coffee☕ time", "☕"),
        ("☕", "my ☕\ufe0f time", "☕"),
        ("12 Main St", "at 12 Main\nSt, Oslo", "12 Main\nSt"),
        ("caf\u00e9", "the cafe\u0301 there", "cafe\u0301"),
        ("بيروت", "إلى بيروت، نعم", "بيروت"),
        ("7", "from 7-10 of them", "7"),
        ("12 500", "12 500 kr", "12 500"),
        ("5", "5 percent", "5"),
        ("2", "2 and 3", "2"),
    ],
)
def test_whole_words_of_any_script_are_quoted(words: str, text: str, found: str) -> None:
    assert quoted_in(words, Source(alias="f1", text=text)) == found


@given(st.lists(st.text("~01.a"), min_size=1, max_size=4))
def test_a_dot_in_a_name_is_no_part_of_the_path(path: list[str]) -> None:
    assert slot_path(slot_name(path)) == tuple(path)


def test_what_the_runtime_injects_is_no_argument() -> None:
    def forecast(city: str, config: RunnableConfig) -> str:
        """Forecast.

        Args:
            city: where.
        """
        return f"{city} {config}"

    (city,) = slots_of(tool_spec(forecast))
    assert (city.name, city.description) == ("city", "where.")
