"""What a tool's schema means stays what it means when its references are replaced."""

from typing import Any

import pytest

from langmem_graph.grounding.schema_check import problem
from langmem_graph.grounding.tool_schema import slots_of
from langmem_graph.llm.tool_specs import tool_spec
from tests.support.flights import filling
from tests.support.models import AnswersBySchema

NUMBERED = {"type": "string", "pattern": r"^A\d+$", "title": "number", "maxLength": 9}


def refers(target: Any, **beside: Any) -> dict[str, Any]:
    """A tool whose one argument refers to the target."""
    part = {"$ref": "#/$defs/a", **beside}
    properties = {"x": part}
    return {
        "title": "act",
        "type": "object",
        "properties": properties,
        "$defs": {"a": target},
    }


@pytest.mark.parametrize(
    ("beside", "fits", "fails"),
    [
        ({"pattern": "^[A-Z]"}, "A1", "Bob"),
        ({"pattern": "7$"}, "A17", "A1"),
        ({"maxLength": 99}, "A1", "A123456789"),
        ({"maxLength": 2}, "A1", "A12"),
        ({"type": ["string", "null"]}, "A1", None),
        ({"allOf": [{"minLength": 3}], "pattern": "7$"}, "A17", "A7"),
        ({"title": "place"}, "A1", "Bob"),
    ],
)
def test_what_stands_beside_a_reference_holds_too(
    beside: Any, fits: Any, fails: Any
) -> None:
    spec = tool_spec(refers(NUMBERED, **beside))
    assert problem({"x": fits}, spec.schema) is None
    assert problem({"x": fails}, spec.schema) is not None
    (slot,) = slots_of(spec)
    assert slot.schema["title"] == beside.get("title", "number")
    assert "string" in slot.types


def test_the_parts_of_both_are_parts() -> None:
    text = {"type": "string"}
    target = {
        "type": "object",
        "properties": {"a": text, "both": {"minLength": 2}},
        "required": ["a"],
    }
    beside = {"properties": {"b": text, "both": text}, "required": ["b"]}
    spec = tool_spec(refers(target, **beside))
    assert {slot.name for slot in slots_of(spec)} == {"x.a", "x.b", "x.both"}
    assert problem({"x": {"a": "1", "b": "2", "both": "33"}}, spec.schema) is None
    for wrong in ({"a": "1"}, {"b": "2"}, {"a": 1, "b": "2"}):
        assert problem({"x": wrong}, spec.schema) is not None
    for both in ("3", 33):
        given = {"a": "1", "b": "2", "both": both}
        assert problem({"x": given}, spec.schema) is not None


def test_a_value_is_sent_only_where_both_hold(open_memory: Any) -> None:
    model = AnswersBySchema(ToolFill=filling(("x", "Bob", "f0", "Take Bob")))
    ana = open_memory(model).user("ana")
    call = ana.ground(refers(NUMBERED, pattern="^[A-Z]"), "Take Bob")
    assert call.arguments == {}
    assert "does not match" in " ".join(call.warnings)


@pytest.mark.parametrize("required", [[], ["b"]])
def test_a_part_of_both_that_only_one_allows_is_reported(
    open_memory: Any, required: list[str]
) -> None:
    shared = {"a": {"type": "string", "pattern": "^[A-Z]"}, "b": NUMBERED}
    tool = {
        "title": "act",
        "type": "object",
        "$ref": "#/$defs/shared",
        "properties": {"b": {"type": "string", "minLength": 2}},
        "required": required,
        "$defs": {"shared": {"type": "object", "properties": shared}},
    }
    cited = ("f0", "Take Bob")
    model = AnswersBySchema(
        ToolFill=filling(("a", "Bob", *cited), ("b", "Bob", *cited))
    )
    call = open_memory(model).user("ana").ground(tool, "Take Bob")
    assert call.arguments["a"] == "Bob"
    assert [one.name for one in call.missing] == required
    assert ("b" in call.arguments) is ("b" in required)
    assert "does not match" in str([*call.warnings, *call.missing])


@pytest.mark.parametrize(
    "data",
    [
        {"$schema": "q", "a": 1},
        {"$ref": "x"},
        {"$dynamicRef": "x"},
        {"a": {"$ref": "#/nothing"}},
        {"properties": {"$ref": "x"}},
        {"dependencies": {"a": ["b"]}},
    ],
)
def test_values_in_a_schema_are_no_schemas(data: Any) -> None:
    for keyword in ("const", "enum", "default", "examples"):
        values = [data] if keyword in ("enum", "examples") else data
        spec = tool_spec(refers({keyword: values}))
        part = spec.schema["properties"]["x"]
        assert part == {keyword: values}
        assert problem(data, part) is None
        named = {"title": "act", "type": "object", "properties": {keyword: NUMBERED}}
        assert problem({keyword: 7}, tool_spec(named).schema) is not None


def test_dependencies_of_older_drafts_are_checked(open_memory: Any) -> None:
    tool = {
        "title": "act",
        "type": "object",
        "properties": {name: {"type": "string"} for name in "abcd"},
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
        "dependentRequired": {"b": ["a"]},
    }
    schema = tool_spec(tool).schema
    for fits in ({"a": "1", "b": "2"}, {"c": "1", "d": "2"}, {"d": "1"}):
        assert problem(fits, schema) is None
    for lacking in ({"a": "1"}, {"b": "1"}, {"c": "1"}):
        assert problem(lacking, schema) is not None
    model = AnswersBySchema(ToolFill=filling(("a", "Bob", "f0", "Take Bob")))
    call = open_memory(model).user("ana").ground(tool, "Take Bob")
    assert [one.name for one in call.missing] == ["b"]
