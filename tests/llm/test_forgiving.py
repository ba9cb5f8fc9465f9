"""Answers of models are read part by part: one slip never costs the good parts beside it."""

import importlib.util
import json
import sys
import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ValidationError

from langmem_graph.llm import answer_schemas, forgiving_answers
from langmem_graph.llm.answer_schemas import (
    CausalPairs,
    Extraction,
    GoalPlan,
    GroundedAnswer,
    NewMemory,
    ProfileText,
    ToolFill,
    Unification,
)
from langmem_graph.llm.forgiving_answers import Answer, cut, normal_alias, read_text
from tests.support.examples import examples

SCHEMAS: dict[str, type[Answer]] = {
    name: schema
    for name, schema in vars(answer_schemas).items()
    if isinstance(schema, type) and issubclass(schema, Answer) and schema is not Answer
}
GOOD = {"text": "The user lives in Porto.", "sources": ["m1"]}


def read(**row: Any) -> Extraction:
    """An extraction of a good memory and one more."""
    return Extraction.model_validate(
        {"memories": [GOOD, {"text": "B.", "sources": ["m2"], **row}]}
    )


@pytest.mark.parametrize(
    ("row", "field", "value", "dropped"),
    [
        ({"when": None}, "when", "", None),
        ({"attribute": None, "project": None}, "project", "", None),
        ({"kind": "goal"}, "kind", "fact", "memories[1].kind: "),
        ({"kind": "Preference"}, "kind", "preference", None),
        ({"facet": "project state"}, "facet", "project_state", None),
        ({"text": "x y " * 110}, "text", "x y " * 99 + "x y", "memories[1].text: 440 characters"),
        ({"sources": "m2"}, "sources", ["m2"], None),
        ({"sources": '["m2", "m3"]'}, "sources", ["m2", "m3"], None),
        ({"sources": ["[m2]", "M3", " m4", "message m5"]}, "sources", ["m2", "m3", "m4", "m5"], 0),
        ({"sources": [{}, "m2"]}, "sources", ["m2"], "memories[1].sources[0]: "),
        ({"sources": ["m2", "m3 and m4"]}, "sources", ["m2"], "memories[1].sources[1]: "),
        ({"sources": [f"m{n}" for n in range(9)]}, "sources", [f"m{n}" for n in range(8)],
         "memories[1].sources: 9 items"),
        ({"text": 5}, "text", "5", None),
        ({"draft": "true"}, "draft", True, None),
        ({"draft": {}}, "draft", False, "memories[1].draft: "),
        ({"values": [{"raw": "9"}, {"raw": "8", "value": 8}]}, "values",
         [{"raw": "8", "value": "8"}], "memories[1].values[0].value: "),
        ({"values": {"raw": "8", "value": "8"}}, "values",
         [{"raw": "8", "value": "8"}], None),
        ({"recurrence": "FREQ=DAILY;" * 20}, "recurrence", "", "memories[1].recurrence: "),
        ({"unknown": [1]}, "text", "B.", None),
    ],
)  # fmt: skip
def test_a_slip_costs_only_its_own_field(
    row: Any, field: str, value: Any, dropped: Any
) -> None:
    answer = read(**row)
    assert answer.memories[0].text == GOOD["text"]
    assert answer.model_dump()["memories"][1][field] == value
    assert (
        [line[: len(dropped)] for line in answer.dropped] == [dropped]
        if dropped
        else (answer.dropped == [])
    )


@pytest.mark.parametrize(
    "row",
    [
        None,
        7,
        [],
        "text",
        {},
        {"text": "B."},
        {"text": None, "sources": ["m1"]},
        {"sources": []},
    ],
)
def test_an_item_without_what_it_needs_is_left_out(row: Any) -> None:
    answer = Extraction.model_validate({"memories": [row, GOOD]})
    assert [memory.text for memory in answer.memories] == [GOOD["text"]]
    assert len(answer.dropped) == 1
    assert answer.dropped[0].startswith("memories[0]")
    assert "left out" in answer.dropped[0]


def test_items_are_known_by_the_place_that_the_model_gave_them() -> None:
    row = {
        "record": "n1",
        "relation": "replaces",
        "by": "2",
        "message": "m1",
        "quote": "now",
    }
    answer = Extraction.model_validate(
        {
            "memories": [{"text": "no source"}, GOOD, {**GOOD, "text": "C."}],
            "changes": row,
        }
    )
    by = answer.changes[0].by
    assert by == 2
    assert answer.memories[answer.place_of("memories", by) or 0].text == "C."
    assert [answer.place_of("memories", place) for place in (None, -1, 0, 1, 3)] == [
        *(None, None, None, 0, None)
    ]
    assert "memories[0]" in str(answer.loss_in("memories"))
    assert answer.loss_in("changes") is None


def test_a_change_with_an_unknown_relation_is_left_out() -> None:
    row = {"record": "n1", "relation": "likes", "message": "m1", "quote": "now"}
    answer = Extraction.model_validate(
        {"memories": [], "changes": [row, {**row, "relation": "Skips once"}]}
    )
    assert [change.relation for change in answer.changes] == ["skips_once"]
    assert answer.dropped[0].startswith("changes[0].relation: ")


def test_values_of_a_call_are_whole_or_missing() -> None:
    long = {"path": "note", "fact": "f1", "quote": "dear all " * 200}
    answer = ToolFill.model_validate({"arguments": {"note": "dear"}, "sources": [long]})
    assert (answer.arguments, answer.sources) == ('{"note": "dear"}', [])
    assert answer.dropped[0].startswith("sources[0]")


@pytest.mark.parametrize(
    ("schema", "given", "usable"),
    [
        (Extraction, {"memories": []}, True),
        (Extraction, {"memories": "none"}, False),
        (Extraction, {"memories": [{}, {}]}, False),
        (Extraction, {"memories": [{}, GOOD]}, True),
        (Unification, {}, True),
        (Unification, {"bindings": [{}], "grounded": []}, False),
        (GoalPlan, {"intent": "act", "subgoals": [{}]}, True),
        (GoalPlan, {"intent": "lookup", "subgoals": [{}]}, False),
        (GoalPlan, {"plan": "look it up"}, False),
        (GroundedAnswer, {"known": False, "facts": [{}]}, True),
    ],
)
def test_usable_is_an_answer_of_which_something_is_left(
    schema: type[Answer], given: Any, usable: bool
) -> None:
    assert schema.model_validate(given).is_usable() is usable


def test_a_missing_list_is_empty_where_something_else_is_usable() -> None:
    change = {"record": "n1", "relation": "ended", "message": "m1", "quote": "sold it"}
    answer = Extraction.model_validate({"memories": None, "changes": [change]})
    assert (answer.memories, len(answer.changes)) == ([], 1)
    assert answer.dropped == ["memories: missing, read as an empty list"]
    assert ProfileText.model_validate({"text": "Ana."}).topics == []
    for nothing in ({}, {"changes": []}, {"changes": None}):
        with pytest.raises(ValidationError):
            Extraction.model_validate(nothing)


def test_answers_made_in_code_and_from_json_text_are_read_too() -> None:
    made = Extraction(memories=[NewMemory(text="A.", sources=["m1"])])
    text = json.dumps({"memories": [{"text": "A.", "sources": ["m1"]}, 3]})
    parsed = Extraction.model_validate_json(text)
    assert made.dropped == []
    assert parsed.memories == made.memories
    assert parsed.dropped[0].startswith("memories[1]: ")


def test_the_schema_that_the_model_is_sent_stays_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forgiving_answers, "Answer", BaseModel)
    spec = importlib.util.spec_from_file_location(
        "plain_schemas", str(answer_schemas.__file__)
    )
    assert spec
    assert spec.loader
    plain = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plain_schemas", plain)
    spec.loader.exec_module(plain)
    assert not issubclass(plain.Extraction, Answer)
    assert len(SCHEMAS) > 20
    for name, schema in SCHEMAS.items():
        twin = getattr(plain, name)
        assert schema.model_json_schema() == twin.model_json_schema()
        assert convert_to_openai_tool(schema) == convert_to_openai_tool(twin)


# --- any JSON at all ------------------------------------------------------------------------------

texts = st.text(max_size=30) | st.sampled_from(
    ["m1", "[", "{}", "\ud800", "user", "x " * 300, "1"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
names = sorted({field for schema in SCHEMAS.values() for field in schema.model_fields})
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(names) | texts, inner, max_size=6)
    ),
    max_leaves=16,
)
usual = settings(
    deadline=timedelta(seconds=30), suppress_health_check=[HealthCheck.too_slow]
)


@settings(usual, max_examples=examples(300))
@given(schema=st.sampled_from(sorted(SCHEMAS)), value=junk)
def test_any_json_is_an_answer_or_a_validation_error(schema: str, value: Any) -> None:
    try:
        answer = SCHEMAS[schema].model_validate(value)
    except ValidationError:
        return
    assert all(isinstance(line, str) and line for line in answer.dropped)
    again = SCHEMAS[schema].model_validate(answer.model_dump())
    assert again.model_dump() == answer.model_dump()
    assert again.dropped == []


optional = {
    name: junk for name in NewMemory.model_fields if name not in ("text", "sources")
}
words = st.text("abc ", min_size=1, max_size=40).map(
    lambda text: " ".join(text.split()) or "a"
)
good = st.fixed_dictionaries(
    {"text": words, "sources": st.lists(st.sampled_from(["m1", "m2"]), max_size=3)},
    optional=optional,
)


@settings(usual, max_examples=examples(150))
@given(rows=st.lists(good.map(lambda row: (True, row)) | junk.map(lambda row: (False, row)),
                     min_size=1, max_size=12), beside=junk)  # fmt: skip
def test_good_items_beside_bad_ones_survive(
    rows: list[tuple[bool, Any]], beside: Any
) -> None:
    given = {"memories": [row for _, row in rows], "changes": beside, "more": beside}
    answer = Extraction.model_validate(given)
    for place, (is_good, row) in enumerate(rows):
        if is_good:
            kept = answer.place_of("memories", place)
            assert kept is not None
            assert answer.memories[kept].text == row["text"]
            assert answer.memories[kept].sources == row["sources"]
    lost = len(rows) - len(answer.memories)
    assert sum("left out" in line and line.startswith("memories[") and "].values[" not in line
               and "].sources[" not in line for line in answer.dropped) == lost  # fmt: skip


@settings(usual, max_examples=examples(150))
@given(pairs=st.lists(junk, max_size=6))
def test_what_is_left_out_of_pairs_is_said(pairs: list[Any]) -> None:
    answer = CausalPairs.model_validate({"pairs": pairs})
    assert len(answer.pairs) + len(answer.dropped) >= len(pairs)


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "Sure! Here it is:\n{}\nAnything else? (x:person) {{not json}}",
        '<think>maybe {{"known": true, "answer": "draft"}} or not</think>{}',
        'Note {{"a": 1}} first.\n{}\nand {{"b": {{"c": 2}}}}',
    ],
)
def test_an_object_is_found_in_the_text_around_it(around: str) -> None:
    said = json.dumps({"known": True, "answer": "Porto {really}", "facts": ["f1"]})
    text = around.replace("{}", said).replace("{{", "{").replace("}}", "}")
    found = read_text(GroundedAnswer, text)
    assert found is not None
    assert (found.answer, found.facts) == ("Porto {really}", ["f1"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "{}",
        '{"foo": 1}',
        '[{"text": "x"}]',
        '{"subgoals": [{"atom": "x"',
        "{" * 9,
    ],
)
def test_other_texts_are_no_answer(text: str) -> None:
    assert read_text(GoalPlan, text) is None


@pytest.mark.parametrize(
    "text", ["{" * 60_000, '{"a":' * 12_000, "[" * 60_000, '{"a":1}' * 8_000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    start = time.thread_time()
    assert read_text(GoalPlan, text) is None
    assert time.thread_time() - start < 2


@pytest.mark.parametrize(
    ("given", "alias"),
    [("[m1]", "m1"), ("M12", "m12"), ("message m3.", "m3"), ("`n4`", "n4"), ("m1, m2", "m1, m2"),
     ("1", "1"), ("", ""), ("item7x", "item7x"), (None, None), (3, 3)],
)  # fmt: skip
def test_aliases_as_models_write_them(given: Any, alias: Any) -> None:
    assert normal_alias(given) == alias


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("It costs 1250 EUR.", 11, "It costs"),
        ("It costs 1250 EUR.", 13, "It costs 1250"),
        ("It costs 1250 EUR.", 14, "It costs 1250"),
        ("価格は1250円です", 5, "価格は"),
        ("abcdef", 3, "abc"),
        ("123456", 3, "123"),
        ("short", 9, "short"),
    ],
)
def test_a_cut_leaves_no_half_of_a_number(text: str, most: int, kept: str) -> None:
    assert cut(text, most) == kept
