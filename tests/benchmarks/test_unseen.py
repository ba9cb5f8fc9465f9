"""`benchmarks.unseen`: questions, acts and tool calls over unread messages."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import unseen
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel
from tests.support.goals import alias

MEMORY = [
    {"id": "m1", "at": "2026-01-05T10:00:00", "message": "Lilies make my cat ill."},
    {"id": "m2", "at": "2026-01-06T10:00:00", "message": "My phone is 0172 39200 88."},
]


@pytest.fixture
def asking(tmp_path: Path) -> Any:
    """A run over the two messages, with these answers."""
    unseen.fill(tmp_path, MEMORY, HashEmbeddings())

    def made(**answers: Any) -> unseen.Asking:
        return unseen.Asking(
            tmp_path, lambda tag: ScriptedChatModel(answers=answers), HashEmbeddings()
        )

    return made


def test_a_question_and_an_act_are_told_with_what_was_found(asking: Any) -> None:
    def plan(prompt: str) -> dict[str, Any]:
        fact = alias(prompt, "Lilies make my cat ill.")
        if "Order" in prompt:
            return {
                "intent": "act",
                "sure": True,
                "against": [{"fact": fact, "why": "The cat."}],
            }
        return {
            "facts": [fact],
            "rows": [{"item": "lilies", "facts": [fact]}],
            "sure": True,
        }

    items: list[dict[str, Any]] = [
        {
            "id": "q",
            "kind": "list",
            "question": "What makes my cat ill?",
            "evidence": ["m1"],
        },
        {"id": "a", "kind": "act", "request": "Order lilies", "conflicts_with": "m1"},
    ]
    done = [asking(GoalPlan=plan).run(item, unseen.recalled)[0] for item in items]
    assert done[0]["quoted"] == ["m1"]
    assert (done[0]["calls"], done[1]["against"]) == (1, ["m1"])
    told = unseen.report_think(done)
    assert (
        "| list | 1 | 1/1 (100%) | 1/1 (100%) |  | 0/1 (0%) | 1.00, at most 1 |" in told
    )
    assert "| act | 1 |  |  |  | 1/1 (100%) | 1.00, at most 1 |" in told
    assert "lilies" in unseen.sheet(done)


def test_a_set_may_ask_questions_alone(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"id": "q1"}\n', encoding="utf-8")
    assert unseen.asked_in(tmp_path, ("questions", "acts")) == [{"id": "q1"}]
    with pytest.raises(SystemExit, match=r"no tasks\.jsonl"):
        unseen.asked_in(tmp_path, ("tasks",))


def test_a_judges_verdicts_are_counted_where_they_lie(tmp_path: Path) -> None:
    row = {
        "kind": "list",
        "calls": 1,
        "against": [],
        "evidence": [],
        "quoted": [],
        "plain": [],
    }
    done = [row | {"id": name} for name in ("q1", "q2")]
    kept = gzip.compress(json.dumps(done).encode())
    (tmp_path / unseen.KEPT).write_bytes(kept)
    verdicts = {"q1": {"right": True}, "q2": {"right": False}}
    (tmp_path / "verdicts.json").write_text(json.dumps(verdicts), encoding="utf-8")
    assert "| 1/2 (50%) |" in unseen.report_think(unseen.kept_in(tmp_path))


def test_a_tool_call_is_compared_with_what_it_should_hold(asking: Any) -> None:
    def fill(prompt: str) -> dict[str, Any]:
        source = alias(prompt, "My phone is 0172 39200 88.")
        taken = {"path": "guests.0.phone", "fact": source, "quote": "0172 39200 88"}
        values = {"guests": [{"phone": "01723920088"}], "pin": "1234"}
        return {"arguments": json.dumps(values), "sources": [taken]}

    phone = {"type": "object", "properties": {"phone": {"type": "string"}}}
    schema = {
        "properties": {
            "guests": {"type": "array", "items": phone},
            "pin": {"type": "string"},
        }
    }
    item = {
        "id": "t",
        "request": "Book the table.",
        "tool": {
            "name": "book",
            "description": "Book.",
            "parameters": {"type": "object", **schema},
        },
        "gold": {
            "guests[0].phone": {
                "value": "01723920088",
                "from": "memory",
                "sources": ["m2"],
            }
        },
        "absent": ["pin"],
    }
    done, watched = asking(ToolFill=fill).run(item, unseen.grounded)
    assert [call.purpose for call in watched.calls] == ["ToolFill"]
    told = unseen.report_calls([done])
    assert "| values from memory, right | 1/1 (100%) |" in told
    assert "| values that nobody told, sent all the same | 0/1 (0%) |" in told
    assert unseen.value_at(done["call"]["arguments"], "guests[3].phone") is None


def test_a_task_may_list_what_the_model_may_choose(asking: Any) -> None:
    values = {"arguments": json.dumps({"guests": [{"vip": True}]}), "sources": []}
    guests = {"type": "array", "items": {"properties": {"vip": {"type": "boolean"}}}}
    parameters = {"type": "object", "properties": {"guests": guests}}
    tool = {"name": "book", "description": "Book.", "parameters": parameters}
    item = {
        "id": "t",
        "request": "Book the table.",
        "tool": tool,
        "gold": {},
        "absent": [],
    }
    listed = {**item, "model_may_choose": ["guests.vip"]}
    sent = [
        asking(ToolFill=values).run(one, unseen.grounded)[0] for one in (item, listed)
    ]
    found = [unseen.value_at(one["call"]["arguments"], "guests[0].vip") for one in sent]
    assert found == [None, True]
