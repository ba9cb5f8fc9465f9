"""Checks of a tool call's values that are bounded together, not each by itself."""

import time
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding import evidence_sources, verify_values
from langmem_graph.grounding.evidence_sources import Evidence, Source
from langmem_graph.grounding.schema_check import (
    LONGEST_QUOTE,
    errors,
    patterns_not_run,
    problem,
)
from langmem_graph.llm.answer_schemas import Taken, ToolFill
from langmem_graph.llm.tool_specs import tool_spec
from langmem_graph.middleware_tool_calls import GroundedTools
from langmem_graph.results import GroundedCall, Grounding, MissingSlot
from tests.support.models import AnswersBySchema

HOST = ".".join(["öäü"] * 20)
HOSTS = [f"{HOST}.a{n}" for n in range(50)]
NAMES = [f"word{n}" for n in range(300)]


def tool_with(part: Any) -> dict[str, Any]:
    return {"title": "act", "type": "object", "properties": {"x": part}}


def nested(value: Any) -> Any:
    for _ in range(28):
        value = {"a": value}
    return value


def nested_schema(part: Any) -> Any:
    for _ in range(28):
        part = {"type": "object", "properties": {"a": part}}
    return part


def listed(part: Any, times: int) -> dict[str, Any]:
    return {"type": "array", "items": {"allOf": [part] * times}}


@pytest.mark.parametrize(
    ("part", "value", "words", "is_sent"),
    [
        (listed({"format": "idn-hostname"}, 600), HOSTS, HOSTS, True),
        (nested_schema(listed({"if": True}, 160)), nested(NAMES), NAMES, False),
    ],
    ids=["one format again and again", "optional objects in each other"],
)
def test_a_value_is_not_checked_again_and_again(
    open_memory: Any, part: Any, value: Any, words: list[str], is_sent: bool
) -> None:
    asked = f"Take {' '.join(words)}"
    fill = {"arguments": {"x": value}, "sources": [], "missing": []}
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    start = time.process_time()
    call = user.ground(tool_with(part), asked)
    assert time.process_time() - start < 6
    assert call.arguments == ({"x": value} if is_sent else {})
    assert is_sent != any("is left out: it is too large" in w for w in call.warnings)


def test_the_digits_of_a_number_count_as_characters_do() -> None:
    enum = [10**4_200 + n for n in range(200)]
    with pytest.raises(InvalidInputError, match="more than 5,000 parts"):
        tool_spec(tool_with({"enum": enum}))
    assert tool_spec(tool_with({"enum": enum[:50]})).name == "act"


MANY = [f"v{n}" for n in range(1_000)]
LONG = "\U000e0001" * 9_000
WIDE = {f"{n}{'x' * 90}": f"{n}{'y' * 90}" for n in range(2_000)}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"not": {"examples": [WIDE]}}, 1),
        ({"oneOf": [{"default": WIDE}, {"default": MANY}]}, 1),
        ({"enum": MANY}, 1),
        ({"const": WIDE}, 1),
        ({"minItems": 2_000}, MANY),
        ({"anyOf": [{"type": "integer"}]}, MANY),
        ({"contains": {"type": "integer"}}, [[MANY]]),
        ({"additionalProperties": False}, {LONG: 1}),
        ({"pattern": "^a"}, LONG),
        ({"type": "integer"}, LONG),
        ({"properties": {"a": False}}, {"a": MANY}),
        ({"uniqueItems": True}, [*MANY, "v1"]),
    ],
)
def test_an_error_quotes_only_the_beginning_of_a_value_or_a_schema(
    schema: Any, value: Any
) -> None:
    (error,) = errors(value, schema)
    assert len(error.message) < 3 * LONGEST_QUOTE


def test_an_error_quotes_a_short_value_as_python_writes_it() -> None:
    value = {"a": [1, "it's", {}, []], "b": None, "c": [[2.5], {"d": True}]}
    (error,) = errors(value, {"enum": [value["a"], "x"]})
    assert error.message == f"{value!r} is not one of {[value['a'], 'x']!r}"
    assert error.instance == value


def test_conditions_in_each_other_do_not_quote_a_schema_again_and_again(
    open_memory: Any,
) -> None:
    texts = [f"{n}".ljust(99, "\U000e0001") for n in range(4_600)]
    part: Any = {"examples": [dict(zip(texts, texts, strict=True))]}
    for _ in range(56):
        part = {"not": part}
    names = [f"k{n}" for n in range(29)]
    asked = " ".join(f"{name} 7" for name in names)
    source = {"path": "x", "fact": "f0", "quote": asked}
    fill = {"arguments": {"x": dict.fromkeys(names, 7)}, "sources": [source]}
    user = open_memory(AnswersBySchema(ToolFill={**fill, "missing": []})).user("ana")
    start = time.process_time()
    user.ground(tool_with({"type": "object", "propertyNames": part}), asked)
    assert time.process_time() - start < 8


OPTIONAL = "a{0,999}" * 140


@pytest.mark.parametrize(
    "pattern",
    [
        OPTIONAL,
        r"\pL" + OPTIONAL,
        r"\Q[\E" + OPTIONAL + "]",
        r"[[:alpha:]\]]" + OPTIONAL + "]",
        "[]]" + OPTIONAL + "]",
        "[ab]{0,999}" * 140,
        "(?:a{0,9}){0,99}" * 140,
        "a?" * 100_000,
    ],
)
def test_a_pattern_that_takes_long_to_compile_is_not_run(pattern: str) -> None:
    start = time.process_time()
    assert list(patterns_not_run({"pattern": pattern})) == [pattern]
    assert problem("b", {"pattern": pattern + "z"}) is None
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "pattern",
    [
        "^.{1,1000}$",
        r"^[^,\]]{1,1000},[\s\S]{0,1000}\.{0,3}$",
        r"^[\w.%+-]{1,64}@[[:alnum:].-]{1,255}\.[A-Za-z]{2,63}$",
        r"^(?:\+\d{1,3})?[\d ()/-]{5,30}$",
        "^(?:" + "|".join(f"Country {n}" for n in range(300)) + ")$",
    ],
)
def test_a_usual_pattern_is_run(pattern: str) -> None:
    assert list(patterns_not_run({"pattern": pattern})) == []
    assert problem("\n", {"pattern": pattern}) is not None


@pytest.mark.parametrize("start", ["[.", "[[:a", r"\p{", r"\x{", r"\Q", "(?P<", "["])
@pytest.mark.parametrize("length", [9_000, 400_000])
@pytest.mark.parametrize("end", ["]", "\\"])
def test_a_long_pattern_is_read_soon(start: str, length: int, end: str) -> None:
    before = time.process_time()
    problem("(", {"pattern": start * (length // len(start)) + end})
    assert time.process_time() - before < 1


def test_what_is_lacking_is_looked_up_once() -> None:
    deep: Any = [7] * 240
    for _ in range(26):
        deep = [deep]
    place = "x" + ".0" * 26
    lacking = [f"y.{n}.r{m}" for n in range(240) for m in range(140)]
    source = Grounding(type="copied", text="7")
    names = [*(f"{place}.{n}" for n in range(240)), "y.0.a"]
    call = GroundedCall(
        name="act",
        arguments={"x": deep, "y": [{"a": 7}]},
        grounding=dict.fromkeys(names, source),
        missing=[MissingSlot(name=name, reason="not said") for name in lacking],
    )
    start = time.process_time()
    checked = GroundedTools([tool_with({})], "flag").checked("act", {}, call, "7")
    assert checked.arguments == {"x": deep}
    assert time.process_time() - start < 3


@pytest.mark.parametrize("name", [".", "a."])
def test_a_name_of_many_parts_is_looked_up_soon(open_memory: Any, name: str) -> None:
    source = {"path": "x", "fact": "f0", "quote": "7"}
    fill = {"arguments": {"x": "7", name * 9_000: [7] * 40}, "sources": [source]}
    user = open_memory(AnswersBySchema(ToolFill={**fill, "missing": []})).user("ana")
    start = time.process_time()
    user.ground(tool_with({"type": "string"}), "Take 7")
    assert time.process_time() - start < 3


def test_all_texts_count_in_which_a_quote_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = list[int]()
    found_in = evidence_sources.quoted_in

    def looked_for(words: str, text: str) -> str | None:
        read.append(len(text))
        return found_in(words, text)

    monkeypatch.setattr(evidence_sources, "quoted_in", looked_for)
    trusted = tuple(f"{n} {'a' * 900}" for n in range(100))
    source = Source("f1", "Tea.", said="Tea?", trusted=trusted, record_ids=("r1",))
    evidence = Evidence([Source("f2", "Some tea."), source])
    quotes = [Taken(path="x", fact="f1", quote="b" * n) for n in range(1, 100)]
    first = Taken(path="y", fact="f2", quote="tea")
    answer = ToolFill(arguments="{}", sources=[first, *quotes])
    assert [one.words for one in verify_values._citations(answer, evidence)["y",]]
    assert 0 < sum(read) <= verify_values.MOST_READ
