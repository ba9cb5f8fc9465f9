"""Corrections and merges: what takes the place of what."""

from typing import Any

import pytest

from tests.support.models import AnswersBySchema
from tests.support.writing import line_aliases, memories, turn


def test_a_correction_supersedes_and_can_be_undone(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        place = "Berlin" if "Berlin" in question.split("New messages")[1] else "Porto"
        row = {"text": f"The user lives in {place}.", "sources": ["m1"], "attribute": "home"}
        return memories(row)

    decide = {
        "decisions": [{"record": "r1", "action": "update", "targets": ["n1"], "attribute": "a1"}]
    }
    ana = open_memory(
        AnswersBySchema(Extraction=extract, Reconciliation=decide), extraction__neighbour_floor=0.1
    ).user("ana")
    ana.add(turn("I live in Porto."), session_id="s1", at="2025-01-01")
    ana.flush()
    ana.add(turn("No, I moved to Berlin."), session_id="s2", at="2025-06-01")
    report = ana.flush()
    assert (report.updated, report.llm_calls) == (1, 3)  # and one for topics
    (now,) = ana.search_records("user lives in", k=5)
    assert now.text == "The user lives in Berlin."
    (then,) = ana.search_records("user lives in", k=5, as_of="2025-03-01")
    assert then.text == "The user lives in Porto."
    old, new = ana.get_records([then.record_id, now.record_id])
    assert old.status == "superseded"
    assert old.superseded_by == [new.record_id]
    assert f"{old.valid_to:%Y-%m-%d}" == "2025-06-01"
    assert new.supersedes == [old.record_id]
    assert [entry.op for entry in ana.history(new.record_id)] == ["create", "create", "supersede"]
    assert ana.history(new.record_id)[-1].reason

    ana.undo(new.record_id)
    (back,) = ana.search_records("user lives in", k=5)
    assert back.text == "The user lives in Porto."
    assert ana.get_records(new.record_id)[0].status == "discarded"
    assert ana.doctor(sample=0).ok
    assert ana.undo(old.record_id)[0].status == "discarded"  # its own creation
    assert ana.undo(old.record_id) == []


def test_two_corrections_in_one_batch_leave_the_last_one_true(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        said = line_aliases(question)
        rows = [
            {"text": f"The user lives in {place}.", "sources": [alias], "attribute": "home"}
            for place in ("Porto", "Berlin", "Oslo")
            for alias, text in said.items()
            if place in text
        ]
        return memories(*rows)

    decide = {
        "decisions": [
            {"record": r, "action": "update", "targets": ["n1"], "attribute": "a1"}
            for r in ("r1", "r2")
        ]
    }
    model = AnswersBySchema(Extraction=extract, Reconciliation=decide)
    ana = open_memory(model, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("I live in Porto."), session_id="s1", at="2025-01-01")
    ana.flush()
    ana.add(turn("I moved to Berlin.", number=2), session_id="s2", at="2025-02-01")
    ana.add(turn("Now I have moved to Oslo.", number=3), session_id="s2", at="2025-03-01")
    ana.flush()
    (now,) = ana.search_records("user lives in", k=9)
    assert now.text == "The user lives in Oslo."
    for day, place in (("2025-01-15", "Porto"), ("2025-02-15", "Berlin"), ("2025-04-01", "Oslo")):
        (then,) = ana.search_records("user lives in", k=9, as_of=day)
        assert place in then.text


MERGES = {
    "another attribute": ("I sold my blue car.", "car", "I sold my blue car."),
    "drops the old half": ("The boat is fast.", "boat", "The boat is fast."),
    "denies": ("The boat is fast.", "boat", "I own no red boat and the boat is fast."),
    "adds": ("The boat is fast.", "boat", "I own a red boat and the boat is fast in Oslo."),
}


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_cannot_hide_a_true_record(open_memory: Any, name: str) -> None:
    said, attribute, merged = MERGES[name]

    def extract(question: str) -> dict[str, Any]:
        own = "boat" if "red boat" in question.split("New messages")[1] else attribute
        (alias, text), *_ = line_aliases(question).items()
        return memories({"text": text, "sources": [alias], "attribute": own})

    decide = {"record": "r1", "action": "merge", "targets": ["n1"], "text": merged}
    model = AnswersBySchema(Extraction=extract, Reconciliation={"decisions": [decide]})
    ana = open_memory(model, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("I own a red boat."), session_id="s1")
    ana.flush()
    ana.add(turn(said, number=2), session_id="s2")
    report = ana.flush()
    assert (report.merged, report.stored) == (0, 1)
    assert {row["text"] for row in ana.export_records()} == {"I own a red boat.", said}


def test_a_merge_of_two_halves(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        (alias, text), *_ = line_aliases(question).items()
        return memories({"text": text, "sources": [alias], "attribute": "boat"})

    both = "The boat is red and the boat is fast."
    decide = {"record": "r1", "action": "merge", "targets": ["n1"], "text": both}
    model = AnswersBySchema(Extraction=extract, Reconciliation={"decisions": [decide]})
    ana = open_memory(model, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("The boat is red."), session_id="s1")
    ana.flush()
    ana.add(turn("The boat is fast.", number=2), session_id="s2")
    assert ana.flush().merged == 1
    (row,) = ana.export_records()
    assert row["text"] == both
    assert len(row["source_message_ids"]) == 2
