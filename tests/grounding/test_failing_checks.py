"""Schemas whose checks fail by themselves: no error comes out of the library."""

import time
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.verify_values import grade_of
from langmem_graph.grounding.schema_check import problem
from langmem_graph.grounding.value_kinds import is_called
from langmem_graph.values import matching
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
    assert "nothing is checked by the pattern" in call.warnings[0]
    other = open_memory(AnswersBySchema(ToolFill=filling())).user("ana")
    assert not any("pattern" in one for one in other.ground(tool, "Go").warnings)


@pytest.mark.parametrize("quote", ["3 Aprıl", "3 APRİL", "sıx", "SİX cups"])
def test_a_turkish_i_is_no_fault(open_memory: Any, quote: str) -> None:
    day = {"type": "string", "format": "date"}
    parts = {"day": day, "n": {"type": "integer"}}
    tool = {"title": "act", "type": "object", "properties": parts}
    fill = filling(("day", "2026-04-03", "f0", quote), ("n", 6, "f0", quote))
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("ana").ground(tool, quote)
    assert call.name == "act"


@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_an_object_in_the_place_of_a_single_value(open_memory: Any, value: Any) -> None:
    forms = [{"type": "string"}, {"minProperties": 1}, {"minItems": 1}, {"const": "b"}]
    tool = {"title": "act", "type": "object", "properties": {"x": {"anyOf": forms}}}
    fill = filling(("x", value, "f0", "Take it"))
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("a").ground(tool, "Take it")
    assert call.arguments == {}


@pytest.mark.parametrize("value", ["1٣", "0.５"])
def test_digits_of_other_scripts_are_no_json(open_memory: Any, value: str) -> None:
    number = {"type": "number"}
    tool = {"title": "act", "type": "object", "properties": {"n": number}}
    fill = filling(("n", value, "f0", value))
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("ana").ground(tool, value)
    assert call.arguments == {}


def test_a_name_that_a_pattern_allows_is_sent_and_another_is_not(
    open_memory: Any,
) -> None:
    named = {"patternProperties": {"^x": {"type": "string"}}}
    tool = {
        "title": "act",
        "type": "object",
        "properties": {"o": {"type": "object", **named, "additionalProperties": False}},
    }
    answer = {"xa": "tea xa", "ya": "tea ya"}
    fill = filling(("o", answer, "f0", "tea xa, tea ya"))
    asked = "Take tea xa, tea ya"
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("ana").ground(tool, asked)
    assert call.arguments == {"o": {"xa": "tea xa"}}


@pytest.mark.parametrize("value", ["bob", ["bob"]])
def test_a_default_within_what_is_no_object_is_left_out(
    open_memory: Any, value: Any
) -> None:
    part = {"type": ["object", "string", "array"], "properties": {"y": {"default": 1}}}
    tool = {"title": "act", "type": "object", "properties": {"x": part}}
    fill = filling(("x", value, "f0", "Take bob"))
    call = (
        open_memory(AnswersBySchema(ToolFill=fill)).user("a").ground(tool, "Take bob")
    )
    assert call.arguments == {"x": value}


def test_an_alternative_that_nothing_fits_is_no_fault(open_memory: Any) -> None:
    parts = {"x": {"type": "string"}, "z": {"type": "string"}}
    forms = {"anyOf": [False, {"required": ["z"]}]}
    tool = {"title": "act", "type": "object", "properties": parts, **forms}
    fill = filling(("x", "bob", "f0", "Take bob"))
    call = (
        open_memory(AnswersBySchema(ToolFill=fill)).user("a").ground(tool, "Take bob")
    )
    assert call.arguments == {"x": "bob"}


def test_a_long_number_in_a_quote_is_no_fault(open_memory: Any) -> None:
    asked = "7" * 35
    tool = {"title": "act", "type": "object", "properties": {"n": {"type": "integer"}}}
    fill = filling(("n", 8, "f0", asked))
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("a").ground(tool, asked)
    assert call.arguments == {}


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("part", "value", "cited", "asked"),
    [
        ({"enum": ["", "b"], "description": "\n" * 100_000}, "", 1, "Take it"),
        (
            {
                "anyOf": [
                    {"pattern": f"^(?:{'?'.join(LETTERS)}?){{{900 + n}}}X"}
                    for n in range(20)
                ]
            },
            LETTERS * 400,
            1,
            "Take it",
        ),
        ({"enum": ["a"], "description": "a 0,a 1," * 30_000}, "a", 1, "Take it"),
        ({"type": "array", "items": {"type": "integer"}}, [7] * 1_000, 50, "Take 8"),
        ({"type": "string"}, "b", 400, "a" * 20_000),
        (
            {"type": "array", "items": {"type": "string"}},
            ["u"] * 2_000,
            0,
            "x" * 27_000,
        ),
        (
            {"examples": [{"pattern": ".{1000}" * 13 + f"{n}"} for n in range(2_400)]},
            "b",
            1,
            "Take b",
        ),
        (
            {"type": "array", "items": {"type": "string"}},
            [f"t{n}" for n in range(500)],
            8,
            "Take it. " * 35,
        ),
        ({}, nested({"y": [7] * 1_000}, 150), 1, "Take 7"),
        (
            {"items": {"anyOf": [{"required": [f"n{n}" for n in range(2_000)]}]}},
            [{"y": "Take"}] * 20,
            1,
            "Take it",
        ),
    ],
    ids=[
        "blank",
        "repeated",
        "named",
        "cited",
        "quoted",
        "uncited",
        "examples",
        "overlapping",
        "deep",
        "lacking",
    ],
)
def test_nothing_takes_long(
    open_memory: Any, part: Any, value: Any, cited: int, asked: str
) -> None:
    tool = {"title": "act", "type": "object", "properties": {"x": part}}
    quotes = [("x", value, "f0", asked[: 2 + n]) for n in range(cited or 1)]
    fill = filling(*quotes)
    if not cited:
        fill["sources"] = []
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    start = time.process_time()
    user.ground(tool, asked)
    assert time.process_time() - start < 8


def test_long_names_of_many_choices_take_no_long(open_memory: Any) -> None:
    names = ";".join(f"k: {'a' * 180}b{n}" for n in range(20))
    part = {"enum": ["k", "z"], "description": names}
    tool = {
        "title": "act",
        "type": "object",
        "properties": {f"p{n}": part for n in range(50)},
    }
    asked = f"take {'a' * 900} now"
    fill = filling(*((f"p{n}", "k", "f0", asked) for n in range(50)))
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    start = time.process_time()
    user.ground(tool, asked)
    assert time.process_time() - start < 8


def test_names_of_many_choices_take_no_long_in_what_others_said(
    open_memory: Any,
) -> None:
    names = ";".join(f"k: {'a' * n}" for n in range(3, 23))
    part = {"enum": ["k", "z"], "description": names}
    properties = {f"p{n}": part for n in range(110)}
    tool = {"title": "act", "type": "object", "properties": properties}
    said = [f"Take it {n} {'a' * 980}" for n in range(4)]
    told = [
        {"role": "tool", "name": "t", "tool_call_id": "c", "content": s} for s in said
    ]
    fill = filling(*((f"p{n}", "k", "f0", "Take it") for n in range(110)))
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    user.add(told, session_id="s")
    start = time.process_time()
    call = user.ground(tool, "Take it")
    assert len(call.grounding) == 110
    assert time.process_time() - start < 8


def test_long_quotes_of_many_values_are_too_many(open_memory: Any) -> None:
    part = {"type": "string", "format": "date-time"}
    properties = {f"p{n}": part for n in range(52)}
    tool = {"title": "act", "type": "object", "properties": properties}
    asked = "3 Dec " * 166
    fill = filling(*((f"p{n}", "2031-01-01T07:07", "f0", asked) for n in range(52)))
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("ana").ground(tool, asked)
    assert "the model's arguments are too large to be checked" in call.warnings


def test_a_value_is_looked_for_at_a_number_of_places() -> None:
    assert len(list(matching.places("42", "142 " * 9_000))) == matching.MOST_PLACES
    assert matching.holds_value("142 " * 500 + "42", "42")
    start = time.process_time()
    for value in range(500):
        grade_of("42", str(value), ["142 " * 20_000])
    assert time.process_time() - start < 8


def test_many_numbers_in_a_quote_are_compared_soon() -> None:
    numbers = " ".join(f"{n:06}," for n in range(100_000, 101_000))
    start = time.process_time()
    for _ in range(100):
        assert not is_called("+99912345678", [numbers])
        assert is_called("+99100999", [numbers])
    assert time.process_time() - start < 8


def test_an_allowed_value_that_is_nearly_a_day_is_no_fault(open_memory: Any) -> None:
    part = {"enum": ["2026-02-31", "never"]}
    tool = {"title": "act", "type": "object", "properties": {"x": part}}
    fill = filling(("x", "2026-02-31", "f0", "Take it"))
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    assert user.ground(tool, "Take it").name == "act"


def test_a_long_text_is_not_read_anew_for_each_of_many_values(open_memory: Any) -> None:
    listed = {"type": "array", "items": {"type": "number"}}
    tool = {"title": "act", "type": "object", "properties": {"x": listed}}
    asked = "pay 1.234 pieces, " + "12.345 a " * 20_000
    fill = filling(("x", [n + 5.5 for n in range(100)], "f0", "1.234 pieces"))
    call = open_memory(AnswersBySchema(ToolFill=fill)).user("ana").ground(tool, asked)
    assert call.arguments == {}
    assert "the model's arguments are too large to be checked" in call.warnings


@pytest.mark.parametrize("cites", [(), ("v1", "f1")])
def test_a_long_text_is_not_searched_for_each_of_many_values(
    open_memory: Any, cites: tuple[str, ...]
) -> None:
    """The request where a value cites nothing, and all that the user said where it
    cites an assistant.
    """
    listed = {"type": "array", "items": {"type": "string"}}
    tool = {"title": "act", "type": "object", "properties": {"x": listed}}
    fill = filling(("x", [f"v{n}" for n in range(400)], "f1", "v1"))
    fill["sources"] = fill["sources"] if cites else []
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    user.add([("assistant", "It is v1, v2 or v3.")], session_id="s")
    call = user.ground(tool, "say " + "what is v1 or v2, " * 6_000)
    assert call.arguments == {}
    assert "the model's arguments are too large to be checked" in call.warnings


def test_the_best_tool_is_chosen_soon_from_long_descriptions(open_memory: Any) -> None:
    tools = [
        {"title": name, "description": "words of all kinds " * 20_000, "type": "object"}
        for name in ("one", "two")
    ]
    model = AnswersBySchema(ToolChoice={"tool": "t1"}, ToolFill=filling())
    user = open_memory(model).user("ana")
    start = time.process_time()
    user.ground(tools, "Take tea. " * 10_000)
    assert time.process_time() - start < 8


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
