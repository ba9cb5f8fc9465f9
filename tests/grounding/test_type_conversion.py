"""Arguments as a model writes them: their JSON types, their schemas, and the words they quote."""

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from langmem_graph.grounding.schema_check import problem
from langmem_graph.grounding.tool_schema import (
    Slot,
    converted,
    leaves,
    read_arguments,
    slot_name,
    slot_path,
    slots_of,
)
from langmem_graph.llm.tool_specs import tool_spec
from langmem_graph.values.matching import quoted_in

INTEGER = {"type": "integer"}


def slot(schema: dict[str, Any], name: str = "x") -> Slot:
    return Slot((name,), schema, required=True)


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_keep_every_digit(number: int) -> None:
    assert converted(str(number), slot(INTEGER)) == number


@given(st.text())
def test_a_string_stays_what_it_was(text: str) -> None:
    assert converted(text, slot({"type": "string"})) == text


def test_formats_are_checked() -> None:
    class At(BaseModel):
        day: date
        start: datetime

    day, start = slots_of(tool_spec(At))
    assert problem("7 May 2025", day.schema)
    assert problem("2025-05-07T10:00:00Z", start.schema) is None
    assert problem("at ten", start.schema)


def test_amounts_are_multiples_by_their_digits() -> None:
    price = slot({"type": "number", "multipleOf": 0.01})
    assert [problem(value, price.schema) for value in (19.99, 0.29, 1e300, 7)] == [
        None
    ] * 4
    assert problem(19.999, price.schema)


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        ({"type": "string"}, 90210, "90210"),
        ({"type": "string"}, 0, "0"),
        ({"type": "string"}, 1.0, "1.0"),
        ({"type": "string"}, True, True),
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, "1,5", "1,5"),
        ({"type": "number"}, "1.5", 1.5),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "3", "3"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"enum": ["Meal", "Blanket"]}, "meal", "Meal"),
        ({}, 3.5, 3.5),
    ],
)
def test_a_value_gets_the_json_type_of_its_slot(
    schema: Any, given: Any, value: Any
) -> None:
    found = converted(given, slot(schema))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "7",
        "{",
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        '{"a": 1e999}',
        '{"a":' * 500 + "1",
    ],
)
def test_what_is_no_object_of_json_is_no_arguments(text: str) -> None:
    assert read_arguments(text) is None


def found_in(
    value: Any, schema: dict[str, Any]
) -> dict[str, tuple[Any, tuple[str, ...]]]:
    return {one.slot.name: (one.slot.types, one.free) for one in leaves(value, schema)}


def test_every_single_value_has_its_schema() -> None:
    line = {"properties": {"amount": {"type": "number"}}, "additionalProperties": False}
    schema = {
        "properties": {
            "lines": {"type": "array", "items": line},
            "pay": {
                "anyOf": [
                    {"properties": {"card": INTEGER}},
                    {"properties": {"iban": {"type": "string"}}},
                ]
            },
            "pair": {"prefixItems": [INTEGER, {"type": "boolean"}]},
            "free": {"type": "object", "additionalProperties": INTEGER},
            "day": {"type": "string"},
        }
    }
    proposed = {
        "lines": [{"amount": 1, "other": 2}, {"amount": None}],
        "pay": {"iban": "x"},
        "pair": [1, True],
        "free": {"a": 1},
        "day": ["x"],
        "unknown": "y",
    }
    assert found_in(proposed, schema) == {
        "lines.0.amount": (("number",), ()),
        "pay.iban": (("string",), ()),
        "pair.0": (("integer",), ()),
        "pair.1": (("boolean",), ()),
        "free.a": (("integer",), ("a",)),
        "day": (("string",), ()),
        "unknown": ((), ("unknown",)),
    }


@pytest.mark.parametrize(
    ("schema", "choice", "names"),
    [
        (
            {"enum": ["nb", "pl"], "description": "pl Polish, nb Norwegian."},
            "nb",
            ["nb", "Norwegian"],
        ),
        (
            {"enum": ["A", "B"], "description": "A: by air; B - by boat"},
            "B",
            ["B", "by boat"],
        ),
        (
            {"oneOf": [{"const": 1, "title": "one"}, {"const": "x", "title": "Ex"}]},
            "x",
            ["x", "Ex"],
        ),
        ({"enum": ["ST", "DELUXE"], "description": "STD is no choice"}, "ST", ["ST"]),
        ({"enum": ["half_board"]}, "half_board", ["half_board", "half board"]),
    ],
)
def test_a_choice_has_the_names_that_the_schema_gives_it(
    schema: Any, choice: str, names: list[str]
) -> None:
    assert slot(schema).names_of(choice) == names


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("1", None),
        ("no", None),
        ("12 bags", "12 bags"),
        ("i KNOW", "I know"),
        ("北京", "北京"),
    ],
)
def test_words_are_quoted_whole(words: str, found: str | None) -> None:
    assert quoted_in(words, "I know I have 12 bags in 去北京吧.") == found


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
        ("7", "from 7-10 of them"),
    ],
)
def test_a_part_is_no_quote(words: str, text: str) -> None:
    assert quoted_in(words, text) is None


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
        ("12 500", "12 500 kr", "12 500"),
        ("5", "5 percent", "5"),
        ("2", "2 and 3", "2"),
        ("Ana's seat", "it is Ana’s seat", "Ana’s seat"),
    ],
)
def test_whole_words_of_any_script_are_quoted(
    words: str, text: str, found: str
) -> None:
    assert quoted_in(words, text) == found


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
