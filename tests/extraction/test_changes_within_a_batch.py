"""What one batch says first and then otherwise: a record and what ends it, from one answer."""

from typing import Any

import pytest

from tests.support.models import AnswersBySchema
from tests.support.writing import memories, turn

FERRY = [
    {"text": "The ferry leaves at 8:10.", "sources": ["m1"], "attribute": "ferry"},
    {"text": "The ferry leaves at 9:40.", "sources": ["m3"], "attribute": "ferry"},
]


def ferry(open_memory: Any, **fields: Any) -> Any:
    """A talk in which a slip is put right; memory 1 takes the place of memory 0."""
    slip = {
        "record": "0",
        "relation": "corrects",
        "by": 1,
        "message": "m3",
        "quote": "9:40, sorry",
    }
    model = AnswersBySchema(Extraction=memories(*FERRY, changes=[slip | fields]))
    ana = open_memory(model).user("ana")
    ana.add(
        [
            *turn("The ferry leaves at 8:10."),
            *turn("9:40, sorry, I misread.", number=1),
        ],
        session_id="s",
    )
    return ana, ana.flush()


def test_a_slip_in_the_same_batch_is_labelled(open_memory: Any) -> None:
    ana, report = ferry(open_memory)
    assert (report.stored, report.updated, report.refused_changes) == (2, 1, 0)
    assert [row["text"] for row in ana.export_records()] == [
        "The ferry leaves at 9:40."
    ]
    rows = ana.export_records(history=True)
    (wrong,) = [row["record_id"] for row in rows if "8:10" in row["text"]]
    (told,) = ana.changes(wrong)
    assert (told.relation, told.quote) == ("corrects", "9:40, sorry")
    assert told.by_text == "The ferry leaves at 9:40."
    (source,) = ana.get_records(wrong)[0].message_ids
    (message,) = ana.get_conversation(source)
    assert [label.replaced_by for label in message.labels] == [
        "The ferry leaves at 9:40."
    ]
    assert "9:40, sorry" in ana.recall("When does the ferry leave?").context


def test_what_a_batch_put_right_is_undone_with_the_record(open_memory: Any) -> None:
    ana, _ = ferry(open_memory)
    (right,) = [row["record_id"] for row in ana.export_records()]
    ana.undo(right)
    assert [row["text"] for row in ana.export_records()] == [
        "The ferry leaves at 8:10."
    ]
    assert ana.doctor(sample=0).ok


@pytest.mark.parametrize(
    "fields",
    [
        {"by": 0},
        {"relation": "confirms"},
        {"relation": "details"},
        {"record": "7"},
        {"quote": "I never said this"},
        {"message": "m2", "quote": "I see."},
    ],
    ids=str,
)
def test_a_memory_that_no_words_end_stays(
    open_memory: Any, fields: dict[str, Any]
) -> None:
    ana, report = ferry(open_memory, **fields)
    assert report.updated == 0
    assert len(ana.export_records()) == 2


def test_a_routine_told_and_left_out_once(open_memory: Any) -> None:
    choir = {
        "text": "Choir every Tuesday at 19:00.",
        "sources": ["m1"],
        "kind": "event",
        "facet": "schedule",
        "when": "2026-01-20T19:00",
        "recurrence": "FREQ=WEEKLY;BYDAY=TU",
    }
    quote = "tomorrow is off"
    skip = {"record": "0", "relation": "skips_once", "message": "m3", "quote": quote}
    skip["since"] = "2026-01-20"
    model = AnswersBySchema(Extraction=memories(choir, changes=[skip]))
    ana = open_memory(model).user("ana")
    said = [
        *turn("Choir is on Tuesdays at seven."),
        *turn("Oh, tomorrow is off.", number=1),
    ]
    ana.add(said, session_id="s", at="2026-01-19T18:00")
    report = ana.flush()
    assert report.refused_changes == 0
    (row,) = ana.export_records()
    assert row["event_time"]["skipped"] == ["2026-01-20T19:00:00Z"]
