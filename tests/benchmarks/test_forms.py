"""`benchmarks.forms`: what an application asks for, read by a model and judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import forms, unseen
from benchmarks.truth.playing import CaseFailedError
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel, alias_of

FIELDS = [
    {
        "name": "frame",
        "type": "string",
        "required": True,
        "description": "of the bicycle",
    },
    {
        "name": "inches",
        "type": "integer",
        "required": True,
        "description": "of a wheel",
    },
    {"name": "bought", "type": "date", "required": False, "description": "when"},
    {
        "name": "kind",
        "type": ["city", "race"],
        "required": False,
        "description": "what for",
    },
]
APPLICATION = {
    "id": "shop", "instructions": "bicycles", "never": "money",
    "forms": [{"name": "Bicycle", "description": "One that they own.", "fields": FIELDS}],
}  # fmt: skip
SAID = {"id": "m1", "role": "user", "text": "My steel bike has 28 inch wheels."}
SESSION = {
    "app": "shop", "user": "u1", "session": "s1", "at": "2026-03-02T10:00:00Z", "messages": [SAID]
}  # fmt: skip
GOLD = [
    {
        "user": "u1",
        "kind": "form",
        "form": "Bicycle",
        "data": {"frame": "steel", "inches": 28},
    },
    {"user": "u1", "kind": "never", "sources": ["m1"], "words": "what it cost"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "applications.json").write_text(
        json.dumps([APPLICATION]), encoding="utf-8"
    )
    for name, rows in (("conversations", [SESSION]), ("gold", GOLD)):
        lines = "\n".join(map(json.dumps, rows))
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def test_what_was_read_is_shown_to_a_judge_and_counted(folder: Path) -> None:
    def read(question: str) -> dict[str, Any]:
        filled = {
            "form": "Bicycle",
            "data": {"frame": "steel", "inches": 28, "kind": "city"},
        }
        return {
            "memories": [
                {
                    "text": "Rides steel.",
                    "sources": [alias_of(question, "steel")],
                    **filled,
                }
            ]
        }

    model = ScriptedChatModel(answers={"Extraction": read})
    done, told, watched = forms.run(folder, lambda tag: model, HashEmbeddings())
    assert '{"frame": "steel", "inches": 28, "bought": null, "kind": "city"}' in told
    assert "Rides steel. (from m1)" in told and '"words": "what it cost"' in told
    assert len(watched[0].calls) == 1
    assert all(
        word in str(watched[0].rules) for word in ("Bicycle", "bicycles", "money")
    )
    unseen.keep(folder, done, told)
    assert "not judged" in forms.report(unseen.kept_in(folder))
    verdicts = {"g001": {"right": True}, "g002": {"right": True}}
    (folder / "verdicts.json").write_text(json.dumps(verdicts), encoding="utf-8")
    table = forms.report(unseen.kept_in(folder))
    assert (
        "kept as they hold | 1/1 (100%)" in table and "in a record | 0/1 (0%)" in table
    )
    assert "a session | 1.00" in table


def test_messages_that_were_not_read_end_the_run(folder: Path) -> None:
    model = ScriptedChatModel(answers={"Extraction": lambda question: "no JSON"})
    with pytest.raises(CaseFailedError, match="u1: "):
        forms.run(folder, lambda tag: model, HashEmbeddings())


def test_the_kept_run_prints_its_figures() -> None:
    kept = Path(__file__).parents[2] / "benchmarks" / "recorded" / "forms_1"
    printed = forms.report(unseen.kept_in(kept))
    assert all(
        figure in printed for figure in ("80/81", "0/21", "0/32", "0/29", "3.14")
    )
