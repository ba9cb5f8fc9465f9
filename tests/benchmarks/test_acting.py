"""Tool calls filled over the written set: what the docs claim, with the real embedder."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from benchmarks import acting
from benchmarks.acting import Filled
from benchmarks.reasoning import load
from tests.support.marks import needs_model


def sampled(every: int) -> tuple[list[Any], list[Any]]:
    """The lines that every so many tasks need, with a third of the others; and these tasks."""
    lines, tasks = load("acting_memory"), load("acting_tasks")[::every]
    needed = {
        one
        for task in tasks
        for gold in task["gold"].values()
        for one in gold["sources"]
    }
    needed |= {line["supersedes"] for line in lines}
    kept = [
        line
        for place, line in enumerate(lines)
        if place % 3 == 0 or line["id"] in needed or line["supersedes"]
    ]
    return kept, tasks


@needs_model
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(42, marks=pytest.mark.stress),
        pytest.param(1, marks=[pytest.mark.stress, pytest.mark.timeout(900)]),
    ],
)
def test_values_are_found_copied_and_never_invented(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if every > 1:
        monkeypatch.setattr(
            acting, "load", lambda name: sampled(every)[name == "acting_tasks"]
        )
    done, lies = acting.acting(lies=max(3, 10 // every))
    assert len(done) >= 60 // every
    seen = acting.shown(done)
    assert sum(seen) >= 0.95 * len(seen)
    remembered = acting.shown(done, remembered=True)
    assert sum(remembered) >= 0.93 * len(remembered)
    for one in done:
        assert all(one.copied()), one.task["id"]
        assert all(one.defaults()), one.task["id"]
        assert all(one.reported()), one.task["id"]
        assert one.invented() == [], one.task["id"]
        assert 1 <= one.call.llm_calls <= 3
        _fits(one)
    assert acting.lies_taken(lies) == 0
    measures = acting.report_acting(done, lies)
    for name in (
        "value_f1",
        "slot_f1",
        "exact_match",
        "slot accuracy, inferred",
        "unused",
    ):
        assert name in measures


def _fits(one: Filled) -> None:
    """The call is valid, but for what is missing."""
    missing = {slot.name.split(".")[0] for slot in one.call.missing}
    for error in Draft202012Validator(one.task["tool"]["parameters"]).iter_errors(
        one.call.arguments
    ):
        assert error.validator == "required" and missing, error.message


def test_the_set_is_what_it_says() -> None:
    lines, tasks = load("acting_memory"), load("acting_tasks")
    known = {line["id"]: line for line in lines}
    slots = [
        (task, slot, gold) for task in tasks for slot, gold in task["gold"].items()
    ]
    kinds = {gold["type"] for _, _, gold in slots}
    assert kinds == {"explicit", "inferred", "default"}
    assert {task["kind"] for task in tasks} >= {
        "update",
        "scope",
        "mid_history",
        "complex",
    }
    for task, slot, gold in slots:
        told = [
            known[one][part] or ""
            for one in gold["sources"]
            for part in ("message", "record")
        ]
        words = gold.get("surface", gold["value"])
        if gold["type"] != "explicit" or not told or isinstance(words, list):
            continue
        assert any(str(words) in text for text in told), (task["id"], slot)
