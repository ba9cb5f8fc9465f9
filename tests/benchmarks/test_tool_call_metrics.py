"""Tool-call measures against values worked out by hand."""

from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.metrics import tool_calls as measures
from benchmarks.metrics.answers import bleu1, token_f1
from benchmarks.metrics.tool_calls import GoldSlot, ToolTask

GOLD = {"city": "New York", "guests": 2, "pool": True}
SLOTS = (
    GoldSlot("city", "New York", sources=frozenset({"m1"})),
    GoldSlot("guests", 2, "inferred"),
    GoldSlot("pool", True, "default"),
)
TASK = ToolTask(
    "book", SLOTS, "book", GOLD, shown=["Book it for 2 people."], shown_ids=["m1"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=6,
)


def test_value_f1_counts_words_of_values_only():
    # gold: new york 2 true (keys sorted: city, guests, pool); predicted: new jersey 2 -> 2 shared
    made = {"city": "New Jersey", "guests": 2}
    assert measures.value_tokens(GOLD) == ["new", "york", "2", "true"]
    assert measures.value_f1(GOLD, made) == pytest.approx(2 * 2 / (4 + 3))
    assert measures.value_f1({"x": "a"}, {"y": "a"}) == 1  # keys do not count
    assert measures.value_f1({}, {}) == 1
    assert measures.value_f1(GOLD, {}) == 0


def test_bleu1_clips_and_shortens():
    # `the the` against `the cat sat`: one clipped hit of 2, brevity exp(1 - 3/2)
    assert bleu1(["the", "the"], ["the", "cat", "sat"]) == pytest.approx(
        0.5 * exp(-0.5)
    )
    assert bleu1(["the", "cat", "sat", "down"], ["the", "cat", "sat"]) == pytest.approx(
        3 / 4
    )
    assert token_f1(["a", "a", "b"], ["a", "b", "b"]) == pytest.approx(2 / 3)


def test_call_bleu1_has_the_name_and_the_keys():
    # gold `arguments city rome name book`, made `arguments city oslo name book`: 4 of 5
    task = ToolTask("book", (GoldSlot("city", "Rome"),), "book", {"city": "Oslo"})
    assert measures.call_bleu1(task) == pytest.approx(4 / 5)


def test_equality_is_strict_on_types_and_lax_on_form():
    same = measures.same_value
    assert same(5, 5.0)
    assert same(" Rome ", "rome")
    assert same(["a", {"b": 1}], ["A", {"b": 1.0}])
    assert not same("5", 5)
    # as floats they are one
    assert not same(12345678901234567890, 12345678901234567891)
    assert not same(5, 10**400)
    assert same("cafe\u0301", "caf\u00e9")
    assert not same(True, 1)
    assert not same(None, "")
    assert not same([1], [1, 2])
    assert not same({"a": 1}, {"a": 1, "b": 2})
    assert same("https://X.org/A", "https://x.org/a")
    assert not same("https://x.org/A", "https://x.org/a", exact_links=True)


@given(VALUES, VALUES)
def test_equality_is_reflexive_and_symmetric(one, other):
    assert measures.same_value(one, one)
    assert measures.same_value(one, other) == measures.same_value(other, one)


def test_slot_f1():
    # 1 right of 3 predicted and 3 gold
    made = {"city": "new york", "guests": "2", "spa": True}
    assert measures.slot_counts(GOLD, made) == (1, 3, 3)
    assert measures.slot_f1(GOLD, made) == pytest.approx(1 / 3)
    assert measures.slot_f1({}, {}) == 1


def test_exact_match_needs_the_tool_the_keys_and_the_values():
    assert measures.exact_match(TASK)
    assert not measures.exact_match(replace(TASK, predicted_tool="other"))
    assert not measures.exact_match(replace(TASK, predicted={**GOLD, "spa": True}))
    assert not measures.exact_match(replace(TASK, predicted={**GOLD, "guests": 3}))


def test_invented_slots():
    made = replace(TASK, predicted={**GOLD, "spa": True, "note": "x"})
    assert measures.invented(made) == ["spa", "note"]
    assert measures.invented(replace(made, absent=["note"])) == ["note"]


@pytest.mark.parametrize(
    ("value", "marked", "kind"),
    [
        (True, None, "boolean"),
        (3, None, "number"),
        ("Rome", None, "simple"),
        ("x" * 30, None, "simple"),
        ("very " * 7, None, "complex"),
        ("https://x.org/a", None, "complex"),
        ("ana@example.org", None, "complex"),
        (["a"], None, "complex"),
        ("Rome", True, "complex"),
        ("https://x.org/a", False, "simple"),
    ],
)
def test_complexity(value, marked, kind):
    assert measures.complexity(GoldSlot("slot", value, complex=marked)) == kind


def errors(task):
    return [measures.error_class(slot, task) for slot in task.gold]


def test_error_classes_in_their_order():
    assert errors(TASK) == [None, None, None]
    assert errors(replace(TASK, predicted_tool=None)) == ["tool_selection"] * 3
    wrong = replace(TASK, predicted={"city": "Rome", "pool": False})
    assert errors(wrong) == ["unused", "unused", "hallucinated_default"]
    blind = replace(wrong, shown=[], shown_ids=[])
    assert errors(blind) == ["retrieval_miss", "retrieval_miss", "hallucinated_default"]


def test_a_damaged_complex_value_is_a_failure_of_retention():
    slot = GoldSlot("code", "AX-4711-Q", complex=True)
    task = ToolTask(
        "t", (slot,), "t", {"code": "AX-4711"}, shown=["The code is AX-4711-Q."]
    )
    assert errors(task) == ["lossless_retention"]
    assert errors(replace(task, predicted={"code": "nothing"})) == ["unused"]
    assert errors(replace(task, predicted={})) == ["unused"]
    assert errors(replace(task, predicted={"code": ""})) == ["unused"]
    assert errors(replace(task, shown=["No code."])) == ["retrieval_miss"]


def test_rates_are_over_all_slots():
    wrong = replace(TASK, predicted={"city": "Rome", "pool": True}, shown=[])
    # 6 slots: city unused (its source was shown), guests a miss (inferred, no source)
    rates = measures.error_rates([TASK, wrong])
    assert rates["unused"] == pytest.approx(1 / 6)
    assert rates["retrieval_miss"] == pytest.approx(1 / 6)
    assert sum(rates.values()) == pytest.approx(2 / 6)


def test_slot_accuracy_by_type():
    wrong = replace(TASK, predicted={"city": "Rome", "pool": True})
    by_type = measures.slot_accuracy([TASK, wrong], lambda slot: slot.type)
    assert by_type == {"default": (1.0, 2), "explicit": (0.5, 2), "inferred": (0.5, 2)}
    other_tool = replace(TASK, predicted_tool="other")
    assert measures.slot_accuracy([other_tool], measures.complexity)["simple"] == (
        0.0,
        1,
    )


def test_summary():
    unread = replace(TASK, predicted_tool=None, predicted={})
    figures = measures.summary([TASK, unread])
    assert (
        figures["value_f1"] == figures["exact_match"] == figures["tool_accuracy"] == 0.5
    )
    assert figures["arg_f1"] == 1
    # 3 right of 3 predicted and 6 gold
    assert figures["slot_f1_micro"] == pytest.approx(2 * 3 / (3 + 6))
    assert figures["slot_f1"] == 0.5
    assert measures.summary([]) == {}


def test_a_wrong_tools_arguments_fill_no_slot():
    figures = measures.summary([replace(TASK, predicted_tool="other")])
    assert figures["slot_f1"] == figures["slot_f1_micro"] == 0
    # 1 right of 3 predicted, of which the wrong tool's 2 count, and 2 gold
    slots = (GoldSlot("x", 1),)
    pair = [
        ToolTask("a", slots, "a", {"x": 1}),
        ToolTask("a", slots, "b", {"x": 1, "y": 2}),
    ]
    assert measures.summary(pair)["slot_f1_micro"] == pytest.approx(2 * 1 / (3 + 2))


@pytest.mark.parametrize("made", [None, "other"])
def test_a_call_without_arguments_has_to_be_made_all_the_same(made):
    figures = measures.summary([ToolTask("ping", (), made, {})])
    assert figures["slot_f1"] == figures["slot_f1_micro"] == figures["exact_match"] == 0
    assert figures["value_f1"] == figures["value_bleu1"] == (made is not None)
    assert (figures["call_bleu1"] > 0) == (made is not None)
    right = measures.summary([ToolTask("ping", (), "ping", {})])
    assert right["slot_f1"] == right["value_f1"] == right["exact_match"] == 1


def test_gold_slots_are_read():
    raw = {
        "a": {"value": 1, "type": "inferred", "sources": ["m1", 2], "complex": False}
    }
    (slot,) = measures.gold_slots({**raw})
    assert slot == GoldSlot("a", 1, "inferred", frozenset({"m1", "2"}), complex=False)
