"""What a tool wants, slot by slot."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field, create_model

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.tool_schema import slots_of
from langmem_graph.llm.tool_specs import tool_spec

LONG = "x" * 100_000


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


@dataclass
class Stay:
    """Book a room."""

    hotel: str
    guest: Guest


@tool
def book_flight(destination: str, bags: int = 0) -> str:
    """Book a flight."""
    return f"{destination}{bags}"


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
        ({"name": "book", "input_schema": SCHEMA}, "book", ["to"]),  # Anthropic
        ({"name": "book", "inputSchema": SCHEMA}, "book", ["to"]),  # MCP
        (Stay, "Stay", ["hotel", "guest.name", "guest.email"]),
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
            "$defs": {
                "place": {
                    "type": "object",
                    "properties": {"street": {"type": "string"}},
                }
            },
            "properties": {
                "to": {"$ref": "#/$defs/place"},
                "back": {"$ref": "#/$defs/place"},
            },
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
    assert slots["destination"].about == "destination airport or city"
    assert slots["payer.email"].about == "payer email where the ticket goes"


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
        {
            "name": "x",
            "parameters": {"type": "object", "properties": {"a": {"type": "strng"}}},
        },
        {
            "name": "x",
            "parameters": {
                "type": "object",
                "properties": {"a": {"$ref": "#/nowhere"}},
            },
        },
        int,
    ],
)
def test_what_is_no_tool_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        tool_spec(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"name": LONG, "parameters": {"type": 5}},
        {"name": LONG, "parameters": {"type": "array"}},
        {
            "name": "x",
            "parameters": {"anyOf": {f"{LONG[:90]}{n}": {} for n in range(900)}},
        },
        {"name": "x", "parameters": {(LONG,): {}}},
        create_model("Later", when=(LONG, ...)),
    ],
    ids="type array schema key class".split(),
)
def test_an_error_about_a_tool_quotes_no_more_than_its_beginning(bad: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        tool_spec(bad)
    assert len(str(refused.value)) < 1_000


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
