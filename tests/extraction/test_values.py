"""How a statement's values rest on the messages that it cites, and which make it `inferred`."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.extraction.verify_values import grade_of, unknown_numbers
from tests.support.models import AnswersBySchema
from tests.support.writing import memories, turn


@pytest.mark.parametrize(
    ("raw", "value", "said", "grade"),
    [
        ("42.50 EUR", "42.50 EUR", "It costs 42.50 EUR.", "verbatim"),
        ("", "42.50 eur", "It costs 42.50  EUR.", "verbatim"),
        ("the 7th", "2026-12-07", "Let's say the 7th.", "resolved"),
        ("halb drei", "14:30", "Zahnarzt Freitag halb drei", "resolved"),
        ("half a dozen", "6", "half a dozen eggs", "resolved"),
        ("the 8th", "2026-12-07", "Let's say the 7th.", "unsupported"),
        ("", "52.50", "It costs 42.50.", "unsupported"),
        ("  ", "52.50", "It costs 42.50.", "unsupported"),
        ("", "42.50", "It costs 142.50.", "unsupported"),
        ("42", "42 years", "It costs 142.50.", "unsupported"),
        ("", "", "It costs 42.50.", "unsupported"),
    ],
)
def test_grades(raw: str, value: str, said: str, grade: str) -> None:
    assert grade_of(raw, value, [said]) == grade
    assert grade_of(raw, value, ["hm", said]) == grade
    assert grade_of(raw, value, []) == "unsupported"


SAID = "Thu 2025-09-04"


@pytest.mark.parametrize(
    ("raw", "value", "grade"),
    [
        ("Thu 2025-09-04", "September 2025", "resolved"),
        ("2025-09-04", "4. September 2025", "resolved"),
        ("2025-09-04", "5 September 2025", "unsupported"),
        ("2025-09-04", "September 2026", "unsupported"),
        ("2025-09-05", "5 September 2025", "unsupported"),
        ("", "4 September 2025", "unsupported"),
    ],
)
def test_the_date_of_a_message_is_a_source(raw: str, value: str, grade: str) -> None:
    assert grade_of(raw, value, ["I begin today."], [SAID]) == grade


@pytest.mark.parametrize(
    ("raw", "value", "grade"),
    [
        ("50 mg", "500 mg", "unsupported"),
        ("1.200 EUR", "1,200 EUR", "resolved"),
        ("1.200 EUR", "1200 EUR", "resolved"),
        ("1,5 kg", "1.50 kg", "resolved"),
        ("1,5 kg", "15 kg", "unsupported"),
        ("007", "7", "resolved"),
        ("1.200 EUR", "1.2 EUR", "unsupported"),
        ("2026-12-07", "2026-12-08", "unsupported"),
        ("2026-12-07", "2026-12-07 09:30", "resolved"),
        ("2026-12-07 08:00", "2026-12-08 08:00", "unsupported"),
        # Only where the words around the number are the same can arithmetic tell.
        ("50 mg", "0.05 g", "resolved"),
        ("a fortnight", "14 days", "resolved"),
        ("from 3 to 5", "3-6", "resolved"),
    ],
)
def test_arithmetic_refutes_a_reading(raw: str, value: str, grade: str) -> None:
    assert grade_of(raw, value, [f"They said {raw} then"]) == grade


@given(
    said=st.integers(0, 99_999),
    read=st.integers(0, 99_999),
    unit=st.sampled_from(["mg", "€"]),
)
def test_another_number_of_the_same_unit_is_never_supported(
    said: int, read: int, unit: str
) -> None:
    grade = grade_of(f"{said} {unit}", f"{read} {unit}", [f"I take {said} {unit}."])
    assert grade == ("verbatim" if said == read else "unsupported")


@given(
    whole=st.integers(1_000, 9_999_999),
    marks=st.tuples(*[st.sampled_from(["", ".", ","])] * 2),
)
def test_separators_of_thousands_change_no_number(
    whole: int, marks: tuple[str, str]
) -> None:
    raw, value = (f"{whole:,}".replace(",", mark) for mark in marks)
    assert grade_of(f"{raw} km", f"{value} km", [f"{raw} km"]) != "unsupported"


# --- in the whole write path -----------------------------------------------------------------


def stored(
    open_memory: Any, said: str, text: str, *values: dict[str, str], **fields: Any
) -> Any:
    """The record made of one message, said on Monday, 30 November 2026."""
    row = {"text": text, "sources": ["m1"], "values": list(values), **fields}
    ana = open_memory(AnswersBySchema(Extraction=memories(row))).user("ana")
    ana.add(
        [{"role": "user", "content": said, "id": "u"}],
        session_id="s",
        at="2026-11-30T10:00",
    )
    assert ana.flush().stored == 1
    (record,) = ana.get_records([one["record_id"] for one in ana.export_records()])
    return record


def test_a_value_keeps_the_words_that_it_was_read_from(open_memory: Any) -> None:
    day = {"raw": "the 7th", "value": "2026-12-07"}
    record = stored(
        open_memory, "My exam is on the 7th.", "The exam is on 2026-12-07.", day
    )
    assert record.confirmation == "confirmed"
    (value,) = record.values
    assert value == {**day, "grade": "resolved"}


def test_a_time_in_words(open_memory: Any) -> None:
    day = {"raw": "Freitag", "value": "4. Dezember 2026"}
    text = "Der Zahnarzttermin ist am 4. Dezember 2026 um 14:30."
    at = {"raw": "halb drei", "value": "14:30"}
    record = stored(open_memory, "Zahnarzt Freitag halb drei", text, day, at)
    assert record.confirmation == "confirmed"
    assert [value["grade"] for value in record.values] == ["resolved", "resolved"]


@pytest.mark.parametrize(
    ("said", "text", "values"),
    [
        ("It costs 42.50.", "It costs 52.50.", []),
        ("It costs 42.50.", "It costs 52.50.", [{"raw": "52.50", "value": "52.50"}]),
        (
            "I take 50 mg.",
            "The user takes 500 mg.",
            [{"raw": "50 mg", "value": "500 mg"}],
        ),
        ("It costs 142.50.", "It costs 42.50.", [{"raw": "42.50", "value": "42.50"}]),
        ("My exam is soon.", "The exam is on 2026-12-07.", []),
        # What it names is not in the message, though the statement has no digit of it.
        (
            "My code is secret.",
            "The user's code.",
            [{"raw": "hunter2", "value": "hunter2"}],
        ),
        (
            "My exam is on the 7th.",
            "It is on 2026-12-07.",
            [{"raw": "the 8th", "value": "7"}],
        ),
    ],
)
def test_what_nobody_said_makes_a_record_inferred(
    open_memory: Any, said: str, text: str, values: list[dict[str, str]]
) -> None:
    assert stored(open_memory, said, text, *values).confirmation == "inferred"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("It costs 1.200 EUR.", "It costs 1.200 EUR."),
        ("I was born in '89, on 03/04.", "The user was born on 3/4 89."),
        ("Today I passed the exam.", "The user passed the exam on 30 November 2026."),
        ("Today I passed the exam.", "The user passed the exam on 2026-11-30."),
        ("I like tea.", "The user likes tea."),
    ],
)
def test_figures_of_the_message_and_of_its_date_are_known(
    open_memory: Any, said: str, text: str
) -> None:
    assert stored(open_memory, said, text).confirmation == "confirmed"


def test_the_time_of_day_of_a_message_is_no_source(open_memory: Any) -> None:
    row = {"text": "The ticket costs 52 EUR.", "sources": ["m1"]}
    ana = open_memory(AnswersBySchema(Extraction=memories(row))).user("ana")
    said = [{"role": "user", "content": "I bought a ticket."}]
    ana.add(said, session_id="s", at="2026-11-30T07:52Z")
    ana.flush()
    assert [hit.confirmation for hit in ana.search_records("ticket")] == ["inferred"]


def test_the_date_is_that_of_the_users_clock(open_memory: Any) -> None:
    row = {"text": "The user passed the exam on 1 December.", "sources": ["m1"]}
    model = AnswersBySchema(Extraction=memories(row))
    ana = open_memory(model, time_zone="Asia/Tokyo").user("ana")
    ana.add(
        [{"role": "user", "content": "I passed!"}],
        session_id="s",
        at="2026-11-30T23:00Z",
    )
    ana.flush()
    assert [hit.confirmation for hit in ana.search_records("exam")] == ["confirmed"]


def test_a_value_must_stand_in_a_message_that_is_cited(open_memory: Any) -> None:
    rows = [
        {"text": "The rent is 900 EUR.", "sources": ["m1"], "attribute": "rent"},
        {"text": "The deposit is 900 EUR.", "sources": ["m2"], "attribute": "deposit"},
    ]
    ana = open_memory(AnswersBySchema(Extraction=memories(*rows))).user("ana")
    talk = ["The rent is 900 EUR.", "There is a deposit, too."]
    ana.add(
        [{"role": "user", "content": text} for text in talk],
        session_id="s",
        at="2026-11-30",
    )
    ana.flush()
    graded = {hit.text: hit.confirmation for hit in ana.search_records("EUR", k=5)}
    assert graded == {
        "The rent is 900 EUR.": "confirmed",
        "The deposit is 900 EUR.": "inferred",
    }


@pytest.mark.parametrize(
    ("fields", "sources", "grade"),
    [
        ({"role": "assistant"}, ["m1"], "draft"),
        ({"role": "user", "origin": "import"}, ["m1"], "draft"),
        ({"role": "user", "origin": "tool"}, ["m1"], "draft"),
        # she talks with Ben
        ({"role": "assistant", "name": "Eva"}, ["m1"], "confirmed"),
        ({"role": "assistant"}, ["m1", "m2"], "confirmed"),  # the user has taken it up
    ],
)
def test_what_no_person_said_is_a_draft(
    open_memory: Any, fields: dict[str, Any], sources: list[str], grade: str
) -> None:
    row = {"text": "The user flies to Rome.", "sources": sources}
    ana = open_memory(AnswersBySchema(Extraction=memories(row))).user("ana")
    talk = [
        {"content": "You fly to Rome.", **fields},
        {"role": "user", "content": "Right."},
    ]
    ana.add(talk, session_id="s", at="2026-11-30")
    assert ana.flush().stored == 1
    assert [hit.confirmation for hit in ana.search_records("Rome")] == [grade]


def test_what_was_only_considered_stays_a_draft_where_its_values_are_known(
    open_memory: Any,
) -> None:
    said = "Maybe I buy the ticket for 42 EUR."
    text = "The user may buy the ticket for 42 EUR."
    assert stored(open_memory, said, text, draft=True).confirmation == "draft"


@pytest.mark.parametrize(
    ("cited", "name", "confirmation"),
    [
        (["m1"], None, "confirmed"),
        (["m2"], None, "draft"),
        (["m1", "m2"], None, "confirmed"),
        (["m2"], "Bo", "confirmed"),
    ],
)
def test_what_only_the_assistant_says_is_a_draft(
    open_memory: Any, cited: list[str], name: str | None, confirmation: str
) -> None:
    row = {"text": "The user takes the night train.", "sources": cited}
    ana = open_memory(AnswersBySchema(Extraction=memories(row))).user("ana")
    asked, told = turn("How do I get there?", "Take the night train.")
    ana.add([asked, {**told, "name": name}], session_id="s")
    ana.flush()
    assert [record.confirmation for record in ana.search_records("train", k=3)] == [
        confirmation
    ]


HOUSE = "The user's house has 140 m² and was built in 1964."
LET = {"text": "The user lets the house of 140 m², built in 1964.", "sources": ["m1"]}


@pytest.mark.parametrize(
    ("said", "grade"), [(HOUSE, "confirmed"), ("My house.", "inferred")]
)
def test_a_successor_keeps_figures_that_were_supported(
    new_talk: Any, said: str, grade: str
) -> None:
    talk = new_talk({"text": HOUSE, "sources": ["m1"]}, said)
    assert talk.record.confirmation == grade
    talk.tell("We let the house now.", "replaces", LET)
    (new,) = talk.ana.export_records()
    assert new["text"] == LET["text"]
    assert new.get("confirmation", "confirmed") == grade


def test_figures_of_records_that_stay_are_no_source(new_talk: Any) -> None:
    talk = new_talk({"text": HOUSE, "sources": ["m1"]}, HOUSE)
    talk.tell("We let the house now.", "details", LET, by=0)
    (new,) = [row for row in talk.ana.export_records() if row["text"] == LET["text"]]
    assert new["confirmation"] == "inferred"


def test_a_refused_change_supports_no_figure(new_talk: Any) -> None:
    talk = new_talk({"text": HOUSE, "sources": ["m1"]}, HOUSE)
    report = talk.tell(
        "We let the house now.", "replaces", LET, quote="I never said this"
    )
    assert report.refused_changes == 1
    (new,) = [row for row in talk.ana.export_records() if row["text"] == LET["text"]]
    assert new["confirmation"] == "inferred"


def test_the_numbers_of_a_message_are_read_once() -> None:
    said = "7 81 " * 400_000
    start = time.process_time()
    for n in range(100):
        assert unknown_numbers(f"Part {n} of 0081", [said]) == {str(n)} - {"7", "81"}
    assert time.process_time() - start < 3
