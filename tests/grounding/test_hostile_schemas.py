"""Schemas of third parties: nothing is fetched, nothing freezes, size is bounded."""

import time
import urllib.request
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.tools import StructuredTool
from pydantic import create_model
from pydantic.v1 import create_model as create_model_v1
from typing_extensions import TypedDict

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.schema_check import (
    MOST_CHECKS,
    bounded_checks,
    errors,
    patterns_not_run,
    problem,
)
from langmem_graph.grounding.tool_schema import properties_in, slots_of
from langmem_graph.llm.tool_specs import DEEPEST, MOST_PARTS, tool_spec

SLOW = r"^([a-zA-Z0-9]+[._-]?)+@example\.com$"


def tool_with(part: Any) -> dict[str, Any]:
    return {"title": "act", "type": "object", "properties": {"x": part}}


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What anybody opens by URL while the test runs."""
    opened = list[Any]()
    monkeypatch.setattr(
        urllib.request, "urlopen", lambda *args, **_: opened.append(args)
    )
    return opened


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9/x.json", "file", "//host/x", "#"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_no_reference_out_of_a_schema_is_followed(
    word: str, place: str, inside: bool, fetched: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "x.json").write_text('{"const": "secret"}')
    target = (tmp_path / "x.json").as_uri() if place == "file" else place
    part: Any = {word: target}
    if inside:
        part = {"type": "array", "items": {"anyOf": [{"type": "null"}, part]}}
    try:
        tool_spec(tool_with(part))
    except InvalidInputError as error:
        assert "secret" not in str(error)
    else:  # a reference to the schema itself
        assert (word, place) == ("$ref", "#")
    assert fetched == []


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef"])
def test_the_check_of_a_value_fetches_nothing_by_itself(
    word: str, fetched: list[Any]
) -> None:
    assert "127" in str(problem("x", {word: "http://127.0.0.1:9/x.json"}))
    assert fetched == []


def test_a_pattern_that_makes_re_slow_is_run_in_linear_time() -> None:
    start = time.monotonic()
    assert problem("a" * 5_000 + "!", {"pattern": SLOW}) is not None
    assert problem("a" * 5_000 + "@example.com", {"pattern": SLOW}) is None
    names = {"patternProperties": {SLOW: {"type": "integer"}}}
    assert problem({"a" * 5_000 + "!": "x"}, names) is None
    assert problem({"a@example.com": "x"}, names) is not None
    closed = {**names, "additionalProperties": False}
    assert problem({"a" * 5_000 + "!": 1}, closed) is not None
    assert problem({"a@example.com": 1}, closed) is None
    typed = {**names, "additionalProperties": {"type": "string"}}
    assert problem({"a" * 5_000 + "!": 1}, typed) is not None
    unevaluated = {**names, "unevaluatedProperties": False}
    assert problem({"a" * 5_000 + "!": 1}, unevaluated) is None
    # `re` takes longer than the age of the universe for any of these
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_a_dialect_named_inside_changes_no_check(dialect: str) -> None:
    inside = {"$schema": dialect, "type": "string", "pattern": "("}
    spec = tool_spec(tool_with({"anyOf": [inside]}))
    # with jsonschema's own checks this raises re.error
    assert problem("anything", spec.schema["properties"]["x"]) is None


@pytest.mark.parametrize(
    "pattern", [r"(?=a)b", r"(a)\1", r"a{2000}", "(", r"\ud800", r"^[\pL\pN]{1,600}$"]
)
def test_a_pattern_that_cannot_be_run_counts_as_none(pattern: str) -> None:
    spec = tool_spec(tool_with({"type": "string", "pattern": pattern}))
    assert problem("anything", spec.schema["properties"]["x"]) is None
    named = {"patternProperties": {pattern: False}, "additionalProperties": False}
    assert problem({"anything": 1}, named) is None


def test_a_usual_pattern_is_run_over_long_texts() -> None:
    schema = {"pattern": r"^[\p{L}\p{N} ]{1,200}$"}
    with bounded_checks():
        wrong = [problem("é" * 180 + end, schema) for end in ("a", "b", "!")]
    assert [one is None for one in wrong] == [True, True, False]


def test_many_searches_for_a_large_pattern_are_bounded_together() -> None:
    schema = {"pattern": "(?:a?){1000}" * 5 + "b"}
    texts = ["a" * 150 + str(number) for number in range(400)]
    with bounded_checks():
        wrong = [str(problem(text, schema)) for text in texts]
    assert "does not match" in wrong[0]
    assert "too long to be checked" in wrong[-1]
    assert "does not match" in str(problem(texts[-1], schema))  # a call of its own


@pytest.mark.parametrize(
    "pattern", [r"^[\p{L}\p{N} ]{1,128}$", r"^[\p{L}\p{M}\p{N}\p{P} ]{1,200}$"]
)
def test_a_usual_pattern_of_unicode_classes_is_run(pattern: str) -> None:
    assert problem("a\n", {"pattern": pattern}) is not None
    assert list(patterns_not_run({"items": [{"pattern": pattern}]})) == []


def test_patterns_are_searched_as_json_schema_says() -> None:
    assert problem("my AB-12", {"pattern": r"[A-Z]{2}-\d+"}) is None
    assert problem("AB12", {"pattern": r"^[A-Z]{2}-\d+$"}) is not None
    assert problem("Ärger", {"pattern": r"^\p{L}+$"}) is None
    assert problem(12, {"pattern": "a"}) is None


@pytest.mark.parametrize("kind", ["deep", "wide", "long", "by reference"])
def test_a_schema_is_bounded(kind: str) -> None:
    part: Any = {"type": "string"}
    if kind == "deep":
        for _ in range(DEEPEST):
            part = {"type": "array", "items": part}
    elif kind == "wide":
        part = {"enum": [str(number) for number in range(MOST_PARTS)]}
    elif kind == "long":
        part = {"type": "string", "description": "x" * (100 * MOST_PARTS)}
    else:
        part = {"$ref": "#/$defs/d0"}
    tool = tool_with(part)
    twice = ["anyOf", "oneOf"]
    tool["$defs"] = {
        f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2 for word in twice}
        for n in range(12)
    }
    tool["$defs"]["d12"] = {"type": "string"}
    with pytest.raises(InvalidInputError, match=r"more than|not valid"):
        tool_spec(tool)


def test_references_into_lists_count_as_what_they_expand_to() -> None:
    parts: list[Any] = [{"type": "string"}]
    for number in range(18):
        ref = {"$ref": f"#/properties/x/anyOf/{number}"}
        parts.append({"type": "array", "prefixItems": [ref, ref]})
    with pytest.raises(InvalidInputError, match="more than"):
        tool_spec(tool_with({"anyOf": parts}))


def test_an_ordinary_large_schema_is_read() -> None:
    fields = {
        f"field_{n}": {"type": "string", "description": "x" * 80} for n in range(500)
    }
    tool = {"title": "act", "type": "object", "properties": fields}
    assert len(tool_spec(tool).schema["properties"]) == 500


@pytest.mark.parametrize("name", ["$defs", "definitions", "$ref", "properties"])
def test_an_argument_may_be_named_like_a_keyword(name: str) -> None:
    tool = {
        "title": "act",
        "type": "object",
        "properties": {
            name: {"type": "integer"},
            "x": {"$ref": f"#/properties/{name}"},
            "y": {"$ref": "#"},
        },
    }
    spec = tool_spec(tool)
    assert problem({name: "one"}, spec.schema) is not None
    assert problem({"x": "one"}, spec.schema) is not None
    assert problem({name: 1, "x": 1, "y": "anything"}, spec.schema) is None


@pytest.mark.parametrize("keyword", ["$defs", "definitions", "not", "x-extra"])
@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x", "#/nothing", "x", "#x"])
def test_a_reference_that_leads_nowhere_is_reported_wherever_it_is(
    keyword: str, reference: str, fetched: list[Any]
) -> None:
    with pytest.raises(InvalidInputError, match="not valid"):
        tool_spec(tool_with({keyword: {"$ref": reference}}))
    assert fetched == []


def test_a_circular_reference_ends_however_it_is_spelled() -> None:
    index = [
        {"type": "array", "items": {"$ref": f"#/properties/x/anyOf/{'0' * length}"}}
        for length in range(1, 12)
    ]
    part = {"anyOf": [{"type": "object", "anyOf": index}, {"type": "string"}]}
    spec = tool_spec(tool_with(part))
    assert problem({"x": "text"}, spec.schema) is None
    assert problem({"x": 1}, spec.schema) is not None


def test_names_in_references_may_be_escaped() -> None:
    tool = tool_with({"$ref": "#/$defs/a~1b%20~0c"})
    tool["$defs"] = {"a/b ~c": {"type": "integer"}}
    assert problem({"x": "text"}, tool_spec(tool).schema) is not None


def test_items_that_occur_twice_are_noticed_in_linear_time() -> None:
    unique = {"uniqueItems": True}
    mixed: list[Any] = [n if n % 2 else str(n) for n in range(20_000)]
    start = time.process_time()
    assert problem(mixed, unique) is None
    # comparing each with each takes minutes
    assert time.process_time() - start < 30
    assert problem([*mixed, {"a": [1]}, {"a": [1]}], unique) is not None
    assert problem([True, 1, "1", None, [1], {"a": 1}], unique) is None
    assert problem([1, 1], {"uniqueItems": False}) is None


def test_a_value_too_large_for_its_schema_is_said_to_be() -> None:
    items = 1_000
    schema = {"items": {"enum": [f"v{n}" for n in range(MOST_CHECKS // items)]}}
    assert problem(["v1"] * (items // 2), schema) is None
    found = list(errors(["v1"] * items, schema))
    assert [error.message for error in found] == [
        "it is too large to be checked against its schema"
    ]


def doubling() -> dict[str, Any]:
    levels = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(18)
    }
    tool = tool_with({"$ref": "#/$defs/d0"})
    tool["$defs"] = {**levels, "d18": {"type": "string"}}
    return tool


def long_references() -> dict[str, Any]:
    tool = tool_with({"anyOf": [{"$ref": "#/$defs/m"}] * 2_000})
    target = {"$ref": "#/$defs/" + "%41" * 100_000}
    tool["$defs"] = {"A" * 100_000: {"type": "string"}, "m": target}
    return tool


def patterns() -> list[str]:
    return [rf"^\pL{{1,100}}x{n}$" for n in range(300)]


def act() -> None: ...


@pytest.mark.parametrize(
    "schema",
    [
        doubling(),
        long_references(),
        tool_with({"anyOf": [{"pattern": one} for one in patterns()]}),
        tool_with({"patternProperties": dict.fromkeys(patterns(), True)}),
        tool_with({"type": [{"a": n} for n in range(2_400)]}),
        tool_with({"dependencies": {"a": [{"a": n} for n in range(2_400)]}}),
    ],
    ids=["doubling", "references", "patterns", "named by patterns", "types", "needed"],
)
@pytest.mark.parametrize("as_tool", [False, True])
def test_a_schema_that_takes_long_is_refused_soon(schema: Any, as_tool: bool) -> None:
    tool = StructuredTool(name="act", description="d", func=act, args_schema=schema)
    start = time.process_time()
    with pytest.raises(InvalidInputError, match="not valid"):
        tool_spec(tool if as_tool else schema)
    assert time.process_time() - start < 2


def test_a_class_that_expands_to_millions_is_refused_soon() -> None:
    part: Any = str
    for level in range(18):
        part = create_model(f"M{level}", a=(part, ...), b=(part, ...))
    tool = StructuredTool(name="act", description="d", func=act, args_schema=part)
    for given in (part, tool):
        start = time.process_time()
        with pytest.raises(InvalidInputError, match="not valid"):
            tool_spec(given)
        assert time.process_time() - start < 2


def test_a_class_of_parts_is_read() -> None:
    guest = create_model("Guest", name=(str, ...))
    spec = tool_spec(create_model("Book", first=(guest, ...), second=(guest, ...)))
    assert set(properties_in(spec.schema["properties"]["second"])) == {"name"}


@pytest.mark.parametrize(
    ("target", "beside", "value"),
    [
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"properties": {"b": {}}},
            {"b": 1},
        ),
        ({"items": {"type": "string"}}, {"prefixItems": [{}]}, [1]),
        ({"contains": {"const": 1}}, {"minContains": 0}, [2]),
        (
            {"additionalProperties": {"type": "string"}},
            {"properties": {"b": {}}},
            {"b": 1},
        ),
    ],
)
def test_conditions_beside_a_reference_change_none_of_its_own(
    target: Any, beside: Any, value: Any
) -> None:
    tool = tool_with({"$ref": "#/$defs/t", **beside})
    spec = tool_spec({**tool, "$defs": {"t": target}})
    assert problem({"x": value}, spec.schema) is not None


def test_what_must_hold_together_may_be_long() -> None:
    parts = [{"properties": {"x": {"minLength": n}}} for n in range(600)]
    spec = tool_spec({"title": "act", "type": "object", "allOf": parts})
    (slot,) = slots_of(spec)
    assert problem("x" * 599, slot.schema) is None
    assert problem("x" * 598, slot.schema) is not None


def test_a_reference_below_another_id_is_refused() -> None:
    inner = {"$id": "http://x/y", "$defs": {"t": {"type": "integer"}}}
    part = {**inner, "properties": {"n": {"$ref": "#/$defs/t"}}}
    tool = {**tool_with(part), "$defs": {"t": {"type": "string"}}}
    with pytest.raises(InvalidInputError, match=r"\$id"):
        tool_spec(tool)
    named = {**tool_with({"$ref": "#/$defs/t"}), "$id": "http://x", "$defs": {"t": {}}}
    assert tool_spec(named).name == "act"


@pytest.mark.parametrize("name", [10**5_000, 7, ["act"]], ids=["long", "short", "list"])
def test_a_name_that_is_no_text_is_none(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="no name"):
        tool_spec({"name": name, "parameters": {}})


def test_a_pattern_that_is_used_often_counts_once() -> None:
    fields = {f"f{n}": {"type": "string", "pattern": "^[a-z]+$"} for n in range(300)}
    spec = tool_spec({"title": "act", "type": "object", "properties": fields})
    assert problem({"f1": "A"}, spec.schema) is not None


@pytest.mark.parametrize("is_value", [True, False])
def test_long_texts_count_as_several_parts(is_value: bool) -> None:
    long = "é" * 200_000
    value: Any = long if is_value else [1] * 4_000
    schema = (
        {"anyOf": [{"type": "integer"}] * 4_900}
        if is_value
        else {"items": {"const": long}}
    )
    start = time.process_time()
    assert "too large" in str(problem(value, schema))
    assert time.process_time() - start < 1
    assert problem("é" * 50_000, {"type": "string", "minLength": 1}) is None


@pytest.mark.parametrize("name", [("a",), 1, None, True])
@pytest.mark.parametrize("keyword", ["properties", "default"])
def test_names_are_texts(name: Any, keyword: str) -> None:
    tool = tool_with({"type": "object", keyword: {name: {"type": "string"}}})
    with pytest.raises(InvalidInputError, match=r"not valid: .* no text"):
        tool_spec(tool)


def nested_classes(levels: int) -> dict[str, Any]:
    """Classes of several kinds that have two fields of the class before."""
    dictionary: Any = TypedDict("D0", {"x": str})
    plain: Any = make_dataclass("P0", [("x", str)])
    row: Any = namedtuple_of("R0", str)
    for n in range(1, levels + 1):
        fields = {"a": dictionary, "b": dictionary}
        dictionary = TypedDict(f"D{n}", fields)  # type: ignore[misc]
        plain = make_dataclass(f"P{n}", [("a", plain), ("b", plain)])
        row = namedtuple_of(f"R{n}", row)
    modern = create_model("M0", x=(str, ...))
    older = create_model_v1("V0", x=(str, ...))
    for n in range(1, levels + 1):
        modern = create_model(f"M{n}", a=(modern, ...), b=(modern, ...))
        older = create_model_v1(f"V{n}", a=(older, ...), b=(older, ...))
    outer: Any = TypedDict("Outer", {"a": older, "b": older})
    for made in (dictionary, modern, older, outer):
        made.__doc__ = "Acts."
    return {
        "TypedDict": dictionary,
        "pydantic": modern,
        "pydantic.v1": older,
        "TypedDict of pydantic.v1": outer,
        "dataclass": plain,
        "NamedTuple": row,
    }


def namedtuple_of(name: str, kind: Any) -> Any:
    return NamedTuple(name, [("a", kind), ("b", kind)])  # type: ignore[misc]


@pytest.mark.parametrize("kind", nested_classes(0))
def test_classes_that_double_are_refused_soon(kind: str) -> None:
    start = time.process_time()
    with pytest.raises(InvalidInputError, match=f"more than {MOST_PARTS:,}"):
        tool_spec(nested_classes(18)[kind])
    assert time.process_time() - start < 5
    assert tool_spec(nested_classes(2)[kind]).schema["properties"].keys() == {"a", "b"}


class Circular(TypedDict):
    """A part is one of the same kind."""

    a: "Circular"


def test_a_class_that_is_no_tool_is_refused_with_its_cause() -> None:
    with pytest.raises(InvalidInputError, match=r"no tool \(\w+Error: .*\). Give a"):
        tool_spec(Circular)
