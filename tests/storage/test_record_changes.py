"""What messages do to records: sources that support, forgetting, undoing, and why it happened."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from tests.support.changes import Talk
from tests.support.files import folder

DEEP: Any = "porto"
for _ in range(3_000):
    DEEP = [DEEP]


@pytest.fixture
def talk(memory: Memory) -> Talk:
    """Two homes, the second told by `m1`, and messages that say nothing yet."""
    made = Talk(memory)
    for number in range(6):
        made.say(f"m{number}", at=f"2025-01-0{number + 1}")
    made.record("porto", "m0")
    return made


def moved(talk: Talk) -> None:
    """`m1` says that the user has moved."""
    talk.replace("porto", "leeds", "m1")


def words_in_the_ledger(talk: Talk) -> str:
    file = folder(talk.memory, talk.user.id) / "ledger.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
        rows = (str(row) for name in tables for row in _rows(db, name))
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        return "\n".join(rows)


def _rows(db: sqlite3.Connection, name: str) -> list[Any]:
    try:
        return db.execute(f"SELECT * FROM {name}").fetchall()
    except sqlite3.OperationalError:  # an index
        return []


# ---- carrying and supporting sources


def again(talk: Talk, *messages: str) -> None:
    row = {"text": "The record porto.", "source_message_ids": list(messages)}
    assert talk.user.add_records(row).already_known


def test_what_is_said_again_supports_the_record(talk: Talk) -> None:
    again(talk, "m0", "m2")
    (porto,) = talk.user.get_records("porto")
    assert (porto.message_ids, porto.supporting_ids) == (["m0", "m2"], ["m2"])


def test_forgetting_a_message_that_only_confirmed_leaves_the_record(talk: Talk) -> None:
    again(talk, "m2")
    talk.change("porto", "confirms", "m3")
    assert [one.relation for one in talk.user.changes("porto")] == ["confirms"]
    report = talk.user.forget(message="m3")
    assert (report.records, report.read_again) == (0, 0)
    assert talk.user.changes("porto") == []
    assert [entry.op for entry in talk.user.history("porto")] == ["create"]
    talk.user.forget(message="m2")
    (porto,) = talk.user.get_records("porto")
    assert (porto.message_ids, porto.supporting_ids, porto.status) == (
        ["m0"],
        [],
        "active",
    )
    assert "words of m3" not in words_in_the_ledger(talk)


def test_forgetting_a_message_that_carries_takes_the_record(talk: Talk) -> None:
    again(talk, "m2")
    report = talk.user.forget(message="m0")
    # the supporting message is read again
    assert (report.records, report.read_again) == (1, 1)
    assert talk.user.get_records("porto") == []


def test_supporting_sources_survive_an_export(talk: Talk) -> None:
    again(talk, "m2")
    moved(talk)
    talk.change("leeds", "confirms", "m3")
    other = talk.memory.user("other")
    for row in talk.user.export():
        other.add(row, session_id=row["session_id"])
    rows = talk.user.export_records(history=True)
    assert other.add_records(rows).warnings == []
    for row, again_row in zip(rows, other.export_records(history=True), strict=True):
        assert again_row == {
            name: value for name, value in row.items() if name != "made_by"
        }
    assert other.add_records(rows).stored == []
    assert [one.quote for one in other.changes("porto")] == ["the words of m1"]
    assert other.forget(message="m3").records == 0
    assert other.forget(message="m1").restored == 1
    assert [row["record_id"] for row in other.export_records()] == ["porto"]


@pytest.mark.parametrize("supporting", [["m0"], ["m9"], "m0"])
def test_supporting_ids_that_cannot_be(talk: Talk, supporting: Any) -> None:
    row = {"text": "New.", "source_message_ids": ["m0"], "supporting_ids": supporting}
    (rejected,) = talk.user.add_records(row).rejected
    assert rejected.reason.startswith("supporting_ids")


@pytest.mark.parametrize(
    "field",
    [
        {"data": {"F": {"x": float("nan")}}},
        {"subject": "é" * 900, "attribute": "é" * 101},
        *({"record_id": one} for one in (0, False, [], 7, 10**5_000, DEEP)),
        {"source_message_ids": [10**5_000]},
        {"source_message_ids": [DEEP]},
        *({name: "half \ud800"} for name in ("subject", "attribute", "project")),
        {"entities": ["half \ud800"]},
    ],
)
def test_what_cannot_be_stored_is_rejected_and_spares_the_others(
    talk: Talk, field: dict[str, Any]
) -> None:
    row = {"text": "New.", "source_message_ids": ["m0"]}
    report = talk.user.add_records([{**row, **field}, {**row, "text": "Other."}])
    assert [(one.position, len(report.stored)) for one in report.rejected] == [(0, 1)]


def test_a_change_that_cannot_be_imported_is_told(talk: Talk) -> None:
    row = {"text": "New.", "source_message_ids": ["m0"], "record_id": "new"}
    given = [
        {"relation": "replaces", "message_id": "m1", "by_record_id": "nothing"},
        {"relation": "replaces", "message_id": "m99"},
        {"relation": "explodes", "message_id": "m1"},
        "words",
        {"relation": "confirms", "message_id": "m1", "quote": "the words"},
    ]
    report = talk.user.add_records({**row, "changes": given})
    assert report.stored == ["new"]
    assert len(report.warnings) == 4
    assert [one.relation for one in talk.user.changes("new")] == ["confirms"]


# ---- a quote goes with its message


def test_a_quote_goes_with_its_message(talk: Talk) -> None:
    talk.record("leeds", "m2")
    talk.change("porto", "replaces", "m1", by="leeds")
    assert talk.holding() == ["leeds"]
    report = talk.user.forget(message="m1")
    assert (report.records, report.restored) == (0, 1)
    assert talk.holding() == ["porto", "leeds"]
    (porto,), (leeds,) = talk.user.get_records("porto"), talk.user.get_records("leeds")
    assert (porto.status, porto.valid_to, porto.superseded_by) == ("active", None, [])
    assert leeds.supersedes == []
    assert talk.user.changes("porto") == []
    assert "words of m1" not in words_in_the_ledger(talk)


def test_an_agreement_goes_with_its_message(talk: Talk) -> None:
    talk.change("porto", "ended", "m1", agreed="m2")
    assert talk.holding() == []
    talk.user.forget(message="m2")
    assert talk.holding() == ["porto"]


def test_a_forgotten_record_gives_back_what_it_replaced(talk: Talk) -> None:
    moved(talk)
    assert talk.user.forget(record="leeds").restored == 1
    assert talk.holding() == ["porto"]
    assert talk.user.changes("porto") == []
    assert [entry.op for entry in talk.user.history("porto")] == ["create", "restore"]


@pytest.mark.parametrize("relation", ["replaces", "corrects", "reschedules"])
def test_a_chain_is_bridged(talk: Talk, relation: str) -> None:
    """porto ← leeds ← york: without leeds, york has replaced porto."""
    moved(talk)
    talk.replace("leeds", "york", "m2", relation)
    talk.user.forget(message="m1")
    assert talk.holding() == ["york"]
    (porto,) = talk.user.get_records("porto")
    assert (porto.superseded_by, f"{porto.valid_to:%d}") == (["york"], "03")
    (told,) = talk.user.changes("porto")
    assert (told.by_record_id, told.quote) == ("york", "the words of m2")
    assert talk.held("2025-01-01T12:00") == ["porto"]
    assert [one.record_id for one in talk.user.undo("york")] == ["porto", "york"]
    assert talk.holding() == ["porto"]


def test_an_end_that_another_message_tells_too_stays(talk: Talk) -> None:
    talk.change("porto", "ended", "m1")
    talk.change("porto", "ended", "m3")
    talk.user.forget(message="m1")
    (porto,) = talk.user.get_records("porto")
    assert (porto.status, f"{porto.valid_to:%d}") == ("superseded", "04")
    talk.user.forget(message="m3")
    assert talk.holding() == ["porto"]


def test_what_was_changed_later_stays_changed(talk: Talk) -> None:
    """`m1` settles a draft and `m2` ends it; forgetting either leaves the other's change."""
    talk.record("draft", "m0", confirmation="draft")
    talk.change("draft", "adopts", "m1", values={"confirmation": "confirmed"})
    talk.change("draft", "ended", "m2")
    talk.user.forget(message="m1")
    (draft,) = talk.user.get_records("draft")
    assert (draft.confirmation, draft.status) == ("draft", "superseded")
    talk.user.forget(message="m2")
    (draft,) = talk.user.get_records("draft")
    assert (draft.confirmation, draft.status, draft.valid_to) == (
        "draft",
        "active",
        None,
    )


def test_a_draft_that_two_messages_settle_stays_settled_without_one(talk: Talk) -> None:
    talk.record("draft", "m0", confirmation="draft")
    for message in ("m1", "m2"):
        talk.change("draft", "adopts", message, values={"confirmation": "confirmed"})
    talk.user.forget(message="m1")
    assert talk.user.get_records("draft")[0].confirmation == "confirmed"
    talk.user.forget(message="m2")
    assert talk.user.get_records("draft")[0].confirmation == "draft"


def test_days_that_are_left_out_are_given_back_one_by_one(talk: Talk) -> None:
    event = {"start": "2025-02-04T18:00", "recurrence": "FREQ=WEEKLY"}
    talk.record("choir", "m0", facet="schedule", event_time=event)
    for message, day in (("m1", "2025-02-11"), ("m2", "2025-02-18")):
        left_out = {"skipped": [day]}
        talk.change("choir", "skips_once", message, since=day, values=left_out)
    talk.user.forget(message="m1")
    assert talk.user.get_records("choir")[0].event_time == {
        **event,
        "skipped": ["2025-02-18"],
    }
    talk.user.forget(message="m2")
    assert talk.user.get_records("choir")[0].event_time == event


def test_what_was_undone_is_forgotten_without_an_effect(talk: Talk) -> None:
    talk.record("leeds", "m2")
    talk.change("porto", "replaces", "m1", by="leeds")
    talk.user.undo(message="m1")
    assert talk.holding() == ["porto", "leeds"]
    talk.user.forget(message="m1")
    assert talk.holding() == ["porto", "leeds"]
    assert [entry.op for entry in talk.user.history("porto")] == ["create"]


def test_what_was_undone_stays_undone_where_a_record_beside_it_is_forgotten(
    talk: Talk,
) -> None:
    talk.record("car", "m2")
    for name in ("porto", "car"):
        talk.change(name, "ended", "m1")
    talk.user.undo(message="m1")
    talk.user.forget(record="car")
    assert talk.user.undo("porto")
    assert talk.status("porto") == "discarded"  # its creation, not its end once more


def test_the_reason_of_a_forgotten_change_keeps_no_words(talk: Talk) -> None:
    moved(talk)
    talk.change("porto", "confirms", "m2")
    talk.user.forget(message="m2")
    assert "words of m2" not in words_in_the_ledger(talk)
    talk.user.erase()
    assert talk.user.changes("porto") == talk.user.calls() == []


# ---- undo


def test_undoing_a_message_takes_back_all_that_it_caused(talk: Talk) -> None:
    again(talk, "m1")
    talk.record("boat", "m0", "m1")
    talk.record("draft", "m0", confirmation="draft")
    talk.record("car", "m2")
    moved(talk)
    talk.change("draft", "adopts", "m1", values={"confirmation": "confirmed"})
    talk.change("car", "ended", "m1")
    touched = {one.record_id: one for one in talk.user.undo(message="m1")}
    assert set(touched) == {"porto", "leeds", "draft", "car"}
    assert {name: one.status for name, one in touched.items()} == {
        "porto": "active",
        "leeds": "discarded",
        "draft": "active",
        "car": "active",
    }
    assert touched["draft"].confirmation == "draft"
    assert touched["porto"].message_ids == ["m0"]
    assert talk.status("boat") == "active"  # another message carries it, too
    assert talk.user.changes("porto") == talk.user.changes("car") == []
    assert talk.user.undo(message="m1") == []
    assert talk.user.get_conversation("m1")


def test_undoing_a_message_under_a_later_change_names_what_is_first(talk: Talk) -> None:
    moved(talk)
    talk.replace("leeds", "york", "m2")
    with pytest.raises(InvalidInputError, match="undo the record 'york' first"):
        talk.user.undo(message="m1")
    talk.user.undo(message="m2")
    talk.user.undo(message="m1")
    assert talk.holding() == ["porto"]


def test_an_end_on_top_is_undone_first(talk: Talk) -> None:
    moved(talk)
    talk.change("leeds", "ended", "m2")
    with pytest.raises(InvalidInputError, match="undo the record 'leeds' first"):
        talk.user.undo(message="m1")
    talk.user.undo("leeds")
    talk.user.undo(message="m1")
    assert talk.holding() == ["porto"]


def test_later_changes_of_something_else_are_not_in_the_way(talk: Talk) -> None:
    talk.record("draft", "m0", confirmation="draft")
    talk.change("draft", "adopts", "m1", values={"confirmation": "confirmed"})
    talk.change("draft", "confirms", "m2")
    talk.change("draft", "ended", "m3")
    talk.user.undo(message="m1")
    (draft,) = talk.user.get_records("draft")
    assert (draft.confirmation, draft.status) == ("draft", "superseded")


def test_undoing_a_record_marks_what_made_the_change(talk: Talk) -> None:
    talk.record("leeds", "m2")
    talk.change("porto", "replaces", "m1", by="leeds")
    assert [one.record_id for one in talk.user.undo("porto")] == ["porto"]
    assert talk.user.changes("porto") == []
    assert talk.holding() == ["porto", "leeds"]
    assert talk.user.get_records("leeds")[0].supersedes == []
    assert talk.user.undo(record="porto")[0].status == "discarded"


def test_undoing_a_record_takes_back_what_it_replaced_in_a_change_of_its_own(
    talk: Talk,
) -> None:
    talk.record("leeds", "m2")
    talk.change("porto", "replaces", "m1", by="leeds")
    assert {one.record_id for one in talk.user.undo("leeds")} == {"porto", "leeds"}
    assert talk.holding() == ["porto"]
    assert talk.user.changes("porto") == []


def test_a_confirmation_is_undone(talk: Talk) -> None:
    talk.change("porto", "confirms", "m1")
    assert talk.user.get_records("porto")[0].supporting_ids == ["m1"]
    assert talk.user.undo("porto")[0].supporting_ids == []
    assert talk.user.changes("porto") == []


def test_undoing_one_of_two_ends_leaves_the_other(talk: Talk) -> None:
    talk.change("porto", "ended", "m1")
    talk.change("porto", "ended", "m3")
    talk.user.undo(message="m1")
    (porto,) = talk.user.get_records("porto")
    assert (porto.status, f"{porto.valid_to:%d}") == ("superseded", "04")
    talk.user.undo(message="m3")
    assert talk.holding() == ["porto"]


def test_undoing_one_message_of_an_import_leaves_the_other_records(talk: Talk) -> None:
    rows = [
        {"text": f"Made of {n}.", "source_message_ids": [f"m{n}"], "record_id": f"r{n}"}
        for n in (1, 2)
    ]
    talk.user.add_records([*rows, {**rows[0], "text": "More.", "record_id": "r3",
                                   "supersedes": ["porto"]}])  # fmt: skip
    assert {one.record_id for one in talk.user.undo(message="m1")} == {
        "r1",
        "r3",
        "porto",
    }
    assert talk.holding() == ["porto", "r2"]
    assert [one.record_id for one in talk.user.undo("r2")] == ["r2"]


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({}, "Name one thing"),
        ({"record": "porto", "message": "m0"}, "Name one thing"),
        ({"record": "x"}, "no record 'x'"),
        ({"message": "x"}, "no message 'x'"),
    ],
)
def test_what_cannot_be_undone(talk: Talk, named: dict[str, str], error: str) -> None:
    with pytest.raises(InvalidInputError, match=error):
        talk.user.undo(**named)


# ---- correct


def test_a_correction_holds_from_the_beginning(talk: Talk) -> None:
    about = {
        "subject": "Ann",
        "attribute": "dentist",
        "project": "teeth",
        "kind": "event",
    }
    event = {"start": "2099-05-06T09:00"}
    talk.record(
        "dentist", "m1", facet="schedule", event_time=event, priority=70, **about
    )
    moved_to = {"start": "2099-05-07T09:00"}
    text = "Ann's record with the dentist is on 7 May."
    right = talk.user.correct("dentist", text, event_time=moved_to)
    (wrong,) = talk.user.get_records("dentist")
    same = {
        "kind",
        "facet",
        "subject",
        "attribute",
        "project",
        "priority",
        "valid_from",
    }
    assert right.model_dump(include=same) == wrong.model_dump(include=same)
    assert right.event_time == moved_to
    assert (right.made_by, right.supersedes) == ("user", ["dentist"])
    assert (wrong.status, wrong.valid_to) == ("superseded", wrong.valid_from)
    assert talk.user.get_conversation(right.message_ids)[0].origin == "user"
    assert talk.user.flush().pending == len(talk.user.export()) - 1  # it is not read
    (told,) = talk.user.changes("dentist")
    assert (told.relation, told.made_by, told.quote) == ("corrects", "user", "")
    assert "dentist" not in talk.holding()
    assert "dentist" not in talk.held("2025-01-02T12:00")
    assert right.record_id in talk.held("2025-01-02T12:00")
    talk.user.undo(right.record_id)
    assert talk.status("dentist") == "active"


def test_a_correction_keeps_the_time_that_it_does_not_give(talk: Talk) -> None:
    talk.record(
        "choir", "m1", facet="schedule", event_time={"start": "2099-05-06T09:00"}
    )
    right = talk.user.correct("choir", "The record choir is in the new hall.")
    assert right.event_time == {"start": "2099-05-06T09:00"}


def test_a_correction_to_what_is_known_already(talk: Talk) -> None:
    talk.record("leeds", "m1")
    right = talk.user.correct("porto", "The record leeds.")
    assert (right.record_id, len(right.supporting_ids)) == ("leeds", 1)
    assert talk.holding() == ["leeds"]
    talk.user.undo("porto")
    assert talk.holding() == ["porto", "leeds"]
    assert talk.user.get_records("leeds")[0].supersedes == []


def test_what_cannot_be_corrected(talk: Talk) -> None:
    moved(talk)
    before = talk.user.export()
    for record, text, error in (
        ("porto", "Right.", "correct 'leeds' instead"),
        ("nothing", "Right.", "no record 'nothing'"),
        ("leeds", "  ", "nothing to correct"),
        ("leeds", "The record leeds.", "says exactly that already"),
        ("leeds", "x" * 10_000, "at most"),
    ):
        with pytest.raises(InvalidInputError, match=error):
            talk.user.correct(record, text)
    assert talk.user.export() == before
    talk.change("leeds", "ended", "m2")
    with pytest.raises(InvalidInputError, match="undo what ended it first"):
        talk.user.correct("leeds", "Right.")


# ---- why


def test_changes_and_history_show_why(talk: Talk) -> None:
    moved(talk)
    talk.record("flat", "m2")
    talk.change("leeds", "details", "m2", by="flat", agreed="m3")
    (told,) = talk.user.changes("porto")
    assert (told.relation, told.message_id, told.quote) == (
        "replaces",
        "m1",
        "the words of m1",
    )
    assert (told.by_record_id, told.by_text, told.made_by) == (
        "leeds",
        "The record leeds.",
        "model",
    )
    (detail,) = talk.user.changes("leeds")
    assert (detail.agreed_message_id, detail.agreed_quote) == ("m3", "the words of m3")
    told_of = [
        (one.record_id, one.op, one.relation, one.quote)
        for one in talk.user.history("porto")
    ]
    assert ("porto", "supersede", "replaces", "the words of m1") in told_of
    assert ("porto", "create", None, None) in told_of
    talk.user.undo("porto")
    undone = [one for one in talk.user.history("porto") if one.op == "supersede"]
    assert [one.message_id for one in undone] == ["m1"]  # history goes on telling why
    assert talk.user.changes("nothing") == []


# ---- doctor


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            "UPDATE record_sources SET supporting = 1",
            "1 records have no message that carries them",
        ),
        (
            "UPDATE effects SET message = 99 WHERE op = 'confirm'",
            "1 rows of effects refer to rows that",
        ),
    ],
)
def test_doctor_compares_the_tables(talk: Talk, damage: str, problem: str) -> None:
    talk.change("porto", "confirms", "m1")
    assert talk.user.doctor(sample=0).ok
    with closing(sqlite3.connect(folder(talk.memory, "u") / "ledger.db")) as db:
        db.execute(damage)
        db.commit()
    (found,) = talk.user.doctor(sample=0).problems
    assert found.startswith(problem)
    assert talk.user.rebuild().problems == [found]


# ---- what was made of a message


def test_a_messages_changes_are_listed_once_however_many_records_there_are(
    talk: Talk,
) -> None:
    moved(talk)
    for number in range(2, 5):
        talk.record(f"other{number}", f"m{number}")
    first, second, third = talk.user.made_of(["m0", "m1", "m2"])
    assert [record.record_id for record in first.records] == ["porto"]
    assert first.changes == []
    assert [(one.relation, one.record_id) for one in second.changes] == [
        ("replaces", "porto")
    ]
    assert [record.record_id for record in third.records] == ["other2"]
