"""Schemas whose checks fail by themselves: no error comes out of the library."""

import time
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.schema_check import problem
from tests.support.flights import filling
from tests.support.models import AnswersBySchema

LONG = 10**5_000
"""Python writes no number of more than 4,300 digits."""
INFINITE, NONE = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("regex", "a{99999999999999}"),
        ("regex", "(" * 900 + ")" * 900),
        ("relative-json-pointer", "²³"),
    ],
)
def test_a_format_that_cannot_be_checked_counts_as_none(form: str, value: str) -> None:
    assert problem(value, {"type": "string", "format": form}) is None
    assert problem(7, {"type": "string", "format": form}) is not None


def test_other_formats_are_checked() -> None:
    assert problem("12#", {"format": "relative-json-pointer"}) is None
    assert problem("x", {"format": "relative-json-pointer"}) is not None
    assert problem("2026-02-31", {"format": "date"}) is not None
    assert problem("2026-02-31T10:00", {"format": "date-time"}) is not None
    assert problem("2026-02-28T10:00", {"format": "date-time"}) is None


@pytest.mark.parametrize(
    ("form", "value", "fits"),
    [
        ("date-time", "2026-01-01", False),
        ("date-time", "2026-01-01T10:00:00Z", True),
        ("date-time", "2026-01-01 10:00", True),
        ("date-time", "2026-01-01t10:00:00z", True),
        ("time", "10:00:00z", True),
        ("time", "10:00:00Z", True),
        ("time", "10:00:00.5+02:00", True),
        ("time", "10:00", True),
        ("time", "25:00:00", False),
        ("time", "2026", False),
        ("time", "at ten", False),
    ],
)
def test_times_are_such(form: str, value: str, fits: bool) -> None:
    assert (problem(value, {"format": form}) is None) is fits


@pytest.mark.parametrize("step", [INFINITE, -INFINITE, NONE, 0])
def test_steps_that_are_none_are_not_checked(step: float) -> None:
    assert problem(7, {"multipleOf": step}) is None


def test_steps_of_any_size_are_checked() -> None:
    assert problem(7, {"multipleOf": -3.5}) is None
    assert problem(8, {"multipleOf": -3.5}) is not None
    assert problem(0, {"multipleOf": LONG}) is None
    assert problem(7, {"multipleOf": LONG}) is not None
    assert problem(3 * LONG, {"multipleOf": LONG}) is None
    assert problem(INFINITE, {"multipleOf": 2}) is not None
    assert problem(NONE, {"multipleOf": 2}) is not None


@pytest.mark.parametrize(
    "part", [{"minimum": LONG}, {"const": LONG}, {"enum": [LONG]}, {"type": "string"}]
)
def test_a_number_that_cannot_be_written_is_a_problem_like_others(part: Any) -> None:
    assert problem(LONG - 1, part) is not None
    assert problem(7, part) is not None


@pytest.mark.parametrize("step", [INFINITE, NONE])
def test_a_call_is_filled_though_a_check_cannot_be_run(
    open_memory: Any, step: float
) -> None:
    tool = {
        "title": "act",
        "type": "object",
        "properties": {
            "n": {"type": "number", "multipleOf": step},
            "pattern": {"type": "string", "format": "regex"},
        },
    }
    asked = "Take 7 of a{99999999999999}"
    model = AnswersBySchema(
        ToolFill=filling(
            ("n", 7, "f0", "Take 7"), ("pattern", "a{99999999999999}", "f0", asked)
        )
    )
    call = open_memory(model).user("ana").ground(tool, asked)
    assert call.arguments == {"n": 7, "pattern": "a{99999999999999}"}


def test_a_pattern_that_is_not_run_is_reported(open_memory: Any) -> None:
    code = {"type": "string", "pattern": "^(?=A)[A-Z]+$"}
    tool = {"title": "act", "type": "object", "properties": {"code": code}}
    model = AnswersBySchema(ToolFill=filling(("code", "bob", "f0", "Take bob")))
    call = open_memory(model).user("ana").ground(tool, "Take bob")
    assert call.arguments == {"code": "bob"}
    assert "code is not checked by the pattern" in call.warnings[0]
    other = open_memory(AnswersBySchema(ToolFill=filling())).user("ana")
    assert not any("pattern" in one for one in other.ground(tool, "Go").warnings)


def test_arguments_too_large_for_a_schema_are_not_read(open_memory: Any) -> None:
    item = {"anyOf": [{"type": "integer"}] * 2_400}
    listed = {"type": "array", "items": item}
    tool = {"title": "act", "type": "object", "properties": {"x": listed}}
    model = AnswersBySchema(ToolFill=filling(("x", [7] * 1_000, "f0", "Take 7")))
    start = time.process_time()
    call = open_memory(model).user("ana").ground(tool, "Take 7")
    assert time.process_time() - start < 5
    assert call.arguments == {}
    assert call.warnings == ["the model's arguments are too large to be checked"]


@pytest.mark.parametrize("word", ["maximum", "default", "const"])
def test_a_schema_that_cannot_be_shown_to_a_model_is_refused(
    open_memory: Any, word: str
) -> None:
    tool = {"title": "act", "type": "object", "properties": {"n": {word: LONG}}}
    with pytest.raises(InvalidInputError, match="digits"):
        open_memory(AnswersBySchema()).user("ana").ground(tool, "Take 7")
