"""What a tool wants, slot by slot, and whether a text supports a value."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.tool_schema import slots_of, tool_spec
from langmem_graph.values.matching import says, supports


class Guest(BaseModel):
    name: str
    email: str | None = Field(None, description="where the ticket goes")


class BookFlight(BaseModel):
    """Book a flight."""

    destination: str = Field(description="airport or city")
    seat: Literal["aisle", "window"] = "aisle"
    bags: int = 0
    guests: list[Guest] = []
    payer: Guest


@tool
def book_flight(destination: str, bags: int = 0) -> str:
    """Book a flight."""
    return f"{destination}{bags}"


FLIGHT = ["destination", "seat", "bags", "guests", "payer.name", "payer.email"]
SCHEMA = {"title": "book", "type": "object", "properties": {"to": {"type": "string"}}}


@pytest.mark.parametrize(
    ("given_tool", "name", "slots"),
    [
        (
            BookFlight,
            "BookFlight",
            ["destination", "seat", "bags", "guests", "payer.name", "payer.email"],
        ),
        (
            convert_to_openai_tool(BookFlight)["function"],
            "BookFlight",
            ["destination", "seat", "bags", "guests", "payer.name", "payer.email"],
        ),
        (book_flight, "book_flight", ["destination", "bags"]),
        (convert_to_openai_tool(book_flight), "book_flight", ["destination", "bags"]),
        (SCHEMA, "book", ["to"]),
        ({"name": "ping", "parameters": {}}, "ping", []),
        ({"name": "ping"}, "ping", []),
    ],
)
def test_any_kind_of_tool_is_read(given_tool: Any, name: str, slots: list[str]) -> None:
    spec = tool_spec(given_tool)
    assert spec.name == name
    assert [slot.name for slot in slots_of(spec)] == slots
    json.dumps(spec.schema)


def test_references_are_resolved() -> None:
    schema = {
        "name": "ship",
        "parameters": {
            "type": "object",
            "$defs": {"place": {"type": "object", "properties": {"street": {"type": "string"}}}},
            "properties": {"to": {"$ref": "#/$defs/place"}, "back": {"$ref": "#/$defs/place"}},
            "required": ["to"],
        },
    }
    spec = tool_spec(schema)
    assert [slot.name for slot in slots_of(spec)] == ["to.street", "back.street"]
    assert "$ref" not in json.dumps(spec.schema)


def test_required_is_what_the_call_cannot_do_without() -> None:
    needed = {slot.name: slot.required for slot in slots_of(tool_spec(BookFlight))}
    assert needed == {
        "destination": True,
        "seat": False,
        "bags": False,
        "guests": False,
        "payer.name": True,
        "payer.email": False,
    }


def test_slots_know_types_choices_and_defaults() -> None:
    slots = {slot.name: slot for slot in slots_of(tool_spec(BookFlight))}
    assert slots["seat"].choices == ("aisle", "window")
    assert slots["seat"].has_default
    assert slots["payer.email"].types == ("string", "null")
    assert not slots["destination"].has_default
    assert slots["destination"].query() == "destination airport or city"
    assert slots["payer.email"].query() == "payer email where the ticket goes"


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        "book",
        {},
        {"a": 1},
        {"type": "object", "properties": {}},
        {"name": " ", "parameters": {}},
        {"name": "x", "parameters": {"type": "array", "items": {}}},
        {"name": "x", "parameters": {"type": "object", "properties": {"a": {"type": "strng"}}}},
        {"name": "x", "parameters": {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}},
        int,
    ],
)
def test_what_is_no_tool_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        tool_spec(bad)


@pytest.mark.timeout(20)
def test_a_schema_of_references_that_multiply_is_refused() -> None:
    chained: dict[str, Any] = {"d30": {"type": "string"}}
    for n in range(30):
        twice = {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"}
        chained[f"d{n}"] = {"type": "object", "properties": twice}
    names = [f"d{n}" for n in range(12)]
    each = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    knotted = {name: {"type": "object", "properties": each} for name in names}
    for defined in (chained, knotted):
        parameters = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defined}
        with pytest.raises(InvalidInputError, match="more than"):
            tool_spec({"name": "t", "parameters": parameters})


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}}
    loop = {"name": "x", "parameters": {"$defs": {"tree": tree}, **tree}}
    assert len(slots_of(tool_spec(loop))) <= 5


@pytest.mark.parametrize(
    ("text", "value", "supported"),
    [
        ("I live at 12 Elm Street.", "12 Elm Street", True),
        ("I live at 12 Elm Street.", "13 Elm Street", False),
        ("an aisle seat, please", "aisle", True),
        ("an aisle seat, please", "Aisle", True),
        ("the aisles are narrow", "isle", False),
        ("booked for 2025-05-07", "7 May 2025", True),
        ("booked for May 7, 2025", "2025-05-07", True),
        ("booked for May 7, 2025", "2025-05-08", False),
        ("it cost 1,200.50 euros", 1200.5, True),
        ("it cost 1,200.50 euros", 1200, False),
        ("room 7", 7, True),
        ("room 17", 7, False),
        ("yes", True, False),
        ("anything", None, False),
        ("anything", "", False),
        ("no AC", "AC", True),
        ("a cat", "AC", False),
        ("mail ana@example.org or bob@example.org", "ana@example.org", True),
        ("mail ana@example.org", "anna@example.org", False),
        ("see https://example.org/A?b=1", "https://example.org/A?b=1", True),
        ("see https://example.org/A?b=1", "https://example.org/A?b=2", False),
        ("Ana, Bob and Cleo come", ["Ana", "Cleo"], True),
        ("Ana, Bob and Cleo come", ["Ana", "Dora"], False),
        ("Ana lives in Porto", {"who": "Ana", "where": "Porto"}, True),
        ("some vegetarian food", "vegetarian foods", True),
        ("我住在东京", "东京", True),
        ("ฉันไปกรุงเทพกัน", "กรุงเทพ", True),
        ("a raise of 3.5k", 3, False),
        ("5 million people", 5, False),
        ("12 500 kr", 500, False),
        ("it was −5 outside", -5, True),
    ],
)
def test_texts_support_values(text: str, value: Any, supported: bool) -> None:
    assert supports(text, value) is supported


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_texts_can_be_compared(text: str, value: str) -> None:
    assert supports(text, value) in (True, False)


@given(st.from_regex(r"[a-zA-Z0-9@./:]{3,20}", fullmatch=True))
def test_what_stands_in_a_text_is_said(value: str) -> None:
    assert says(f"well, {value} it is", value)
