"""What a message does to an older record: each relation, its label, the past, and undoing it."""

import re
from itertools import permutations
from typing import Any

import pytest

from langmem_graph.testing import alias_of
from tests.support.changes_in_talk import BERLIN, HOME
from tests.support.models import AnswersBySchema
from tests.support.writing import change, line_aliases, memories, record_alias

PORTO_NOW, BERLIN_NOW = [HOME["text"]], [BERLIN["text"]]
GYM = {
    "text": "Gym on Mondays.",
    "when": "2025-01-06T18:00",
    "recurrence": "FREQ=WEEKLY;BYDAY=MO",
    "facet": "schedule",
    "kind": "event",
    "sources": ["m1"],
    "attribute": "gym",
}
DENTIST = {
    "text": "The user sees the dentist.",
    "when": "2025-06-05T15:00",
    "facet": "schedule",
    "kind": "event",
    "sources": ["m1"],
    "attribute": "dentist visit",
}


# --- what no longer holds --------------------------------------------------------------------


def test_replaces(new_talk: Any) -> None:
    talk = new_talk()
    report = talk.tell(
        "No, I moved to Berlin.", "replaces", BERLIN, quote="i moved to berlin"
    )
    assert (report.stored, report.updated, report.refused_changes) == (1, 1, 0)
    assert talk.holding() == BERLIN_NOW
    assert talk.holding("2025-03-01") == PORTO_NOW
    assert talk.holding("2025-07-01") == BERLIN_NOW
    (new,) = [row["record_id"] for row in talk.ana.export_records()]
    assert (talk.record.status, talk.record.superseded_by) == ("superseded", [new])
    assert f"{talk.record.valid_to:%Y-%m-%d}" == "2025-06-01"
    label = talk.label
    assert (label.relation, label.message_id, label.quote) == (
        "replaces",
        "u2",
        "i moved to berlin",
    )
    assert (label.by_record_id, label.by_text, label.made_by) == (
        new,
        BERLIN["text"],
        "model",
    )
    assert (label.since, label.agreed_message_id) == (None, None)
    last = talk.ana.history(new)[-1]
    assert (last.record_id, last.op, last.quote) == (
        talk.old,
        "supersede",
        "i moved to berlin",
    )
    assert last.reason == "replaces: “i moved to berlin”"
    talk.ana.undo(new)
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []
    assert talk.ana.get_records(new)[0].status == "discarded"
    assert talk.ana.doctor(sample=0).ok


@pytest.mark.parametrize("since", ["2025-04-01", "2025-04", "1 April 2025"])
def test_replaces_since_a_day_that_was_said(new_talk: Any, since: str) -> None:
    talk = new_talk()
    talk.tell("I moved to Berlin in April.", "replaces", BERLIN, since=since)
    assert talk.holding("2025-03-31") == PORTO_NOW
    assert talk.holding("2025-04-02") == BERLIN_NOW
    assert f"{talk.label.since:%Y-%m-%d}" == "2025-04-01"


def test_replaces_from_a_day_to_come(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("I move to Berlin in 2099.", "replaces", BERLIN, since="2099-01-01")
    assert talk.holding() == PORTO_NOW
    assert talk.holding("2099-02-01") == BERLIN_NOW


def test_what_takes_place_once_is_known_from_when_it_was_said(new_talk: Any) -> None:
    talk = new_talk()
    trip = {**BERLIN, "when": "2025-08-01T09:00"}
    talk.tell("I move to Berlin in August.", "replaces", trip, since="2025-08-01")
    [new] = [one for one in talk.ana.export_records() if one["record_id"] != talk.old]
    assert new["valid_from"].startswith("2025-06-01")


def test_since_before_the_record_was_told_it_never_held(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("I moved to Berlin in 2020.", "replaces", BERLIN, since="2020-01-01")
    assert talk.holding("2025-03-01") == BERLIN_NOW
    assert talk.record.valid_to == talk.record.valid_from


def test_ended(new_talk: Any) -> None:
    talk = new_talk({**HOME, "text": "The user owns a boat."}, "I own a boat.")
    report = talk.tell("Sold the boat, by the way.", "ended", quote="sold the boat")
    assert (report.stored, report.updated) == (0, 1)
    assert talk.holding() == []
    assert talk.holding("2025-03-01") == ["The user owns a boat."]
    assert (talk.label.relation, talk.label.by_record_id) == ("ended", None)
    assert talk.ops() == ["create", "end"]
    talk.ana.undo(talk.old)
    assert talk.holding() == ["The user owns a boat."]
    assert talk.ana.changes(talk.old) == []


def test_corrects(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell(
        "Sorry, I meant Berlin, not Porto.", "corrects", BERLIN, quote="I meant Berlin"
    )
    assert talk.holding() == BERLIN_NOW
    assert talk.holding("2025-03-01") == []  # it was never right
    assert talk.record.valid_to == talk.record.valid_from
    assert talk.label.relation == "corrects"
    talk.ana.undo(message="u2")
    assert talk.holding() == talk.holding("2025-03-01") == PORTO_NOW


def test_replaces_without_a_memory_lets_the_record_end(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("I left Porto.", "replaces", by=None)
    assert (talk.label.relation, talk.label.by_record_id) == ("ended", None)
    assert talk.holding() == []


@pytest.mark.parametrize("by", [99, -1])
def test_a_memory_that_was_not_given_replaces_nothing(new_talk: Any, by: int) -> None:
    talk = new_talk()
    report = talk.tell("I left Porto.", "replaces", by=by)
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []
    assert report.reasons == [f"A change names a memory that could not be read: {by}"]


def test_two_corrections_in_a_row_leave_the_last_one(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("I moved to Berlin.", "replaces", BERLIN, at="2025-02-01")
    oslo = {**BERLIN, "text": "The user lives in Oslo."}
    talk.first = BERLIN
    talk.say("Now it's Oslo.", id="u3", at="2025-03-01", session="s3")
    assert talk.flush("replaces", "Now it's Oslo.", oslo).updated == 1
    assert talk.holding() == ["The user lives in Oslo."]
    for day, text in (
        ("2025-01-15", HOME),
        ("2025-02-15", BERLIN),
        ("2025-04-01", oslo),
    ):
        assert talk.holding(day) == [text["text"]]
    talk.ana.undo(message="u3")
    assert talk.holding() == BERLIN_NOW


# --- the schedule ----------------------------------------------------------------------------


@pytest.mark.parametrize(("relation", "op"), [("cancels", "end"), ("completes", "end")])
def test_an_appointment_is_over(new_talk: Any, relation: str, op: str) -> None:
    talk = new_talk(DENTIST, "Dentist on 5 June at 15:00.")
    talk.tell("The dentist is off.", relation, at="2025-06-02T10:00")
    assert talk.holding() == []
    assert talk.holding("2025-05-01") == [DENTIST["text"]]
    assert talk.label.relation == relation
    assert talk.ops() == ["create", op]
    talk.ana.undo(talk.old)
    assert talk.holding() == [DENTIST["text"]]


def test_reschedules(new_talk: Any) -> None:
    talk = new_talk(DENTIST, "Dentist on 5 June at 15:00.")
    moved = {
        **DENTIST,
        "text": "The user sees the dentist on the 9th.",
        "when": "2025-06-09T15:00",
    }
    talk.tell(
        "Dentist is on the 9th now.", "reschedules", moved, at="2025-06-02T10:00", by=0
    )
    assert talk.holding() == [moved["text"]]
    (new,) = talk.ana.export_records()
    assert new["event_time"]["start"].startswith("2025-06-09")
    assert (talk.label.relation, talk.label.by_text) == ("reschedules", moved["text"])
    assert f"{talk.record.valid_to:%Y-%m-%d}" == "2025-06-02"
    talk.ana.undo(new["record_id"])
    assert talk.holding() == [DENTIST["text"]]


def test_skips_once(new_talk: Any) -> None:
    talk = new_talk(GYM, "Gym every Monday at 18:00.")
    report = talk.tell(
        "No gym next week.", "skips_once", at="2025-06-05", since="2025-06-09"
    )
    assert report.updated == 0
    assert talk.record.status == "active"
    (skipped,) = talk.record.event_time["skipped"]
    assert skipped.startswith("2025-06-09")
    assert (talk.label.relation, f"{talk.label.since:%Y-%m-%d}") == (
        "skips_once",
        "2025-06-09",
    )
    assert talk.ops() == ["create", "skip"]
    talk.ana.undo(talk.old)
    assert "skipped" not in talk.record.event_time
    assert talk.ana.changes(talk.old) == []


def test_skips_once_of_what_does_not_recur_cancels_it(new_talk: Any) -> None:
    talk = new_talk(DENTIST, "Dentist on 5 June at 15:00.")
    talk.tell("I leave the dentist out this time.", "skips_once", at="2025-06-02T10:00")
    assert talk.label.relation == "cancels"
    assert talk.holding() == []


def test_skips_once_of_a_habit_without_times_leaves_it(new_talk: Any) -> None:
    """ "I take the tram" holds on after "by car today, the trams are on strike"."""
    talk = new_talk()
    report = talk.tell("Not Porto today.", "skips_once")
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []
    assert report.updated == 0


def test_a_day_on_which_nothing_takes_place_is_not_skipped(new_talk: Any) -> None:
    talk = new_talk(GYM, "Gym every Monday at 18:00.")
    talk.tell("No gym on Tuesday.", "skips_once", at="2025-06-05", since="2025-06-10")
    assert "skipped" not in talk.record.event_time
    assert talk.ana.changes(talk.old) == []


# --- what holds on ---------------------------------------------------------------------------


def test_adopts(new_talk: Any) -> None:
    plan = {
        "text": "The user may take the night train.",
        "sources": ["m1"],
        "draft": True,
    }
    talk = new_talk(plan, "Maybe the night train.")
    assert talk.record.confirmation == "draft"
    talk.tell("The night train it is.", "adopts")
    assert talk.record.confirmation == "confirmed"
    assert (talk.record.message_ids, talk.record.supporting_ids) == (
        ["u1", "u2"],
        ["u2"],
    )
    assert (talk.label.relation, talk.ops()) == ("adopts", ["create", "adopt"])
    talk.ana.undo(talk.old)
    assert (talk.record.confirmation, talk.record.message_ids) == ("draft", ["u1"])


def test_adopts_of_what_is_settled_confirms_it(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("Yes, Porto it is.", "adopts")
    assert talk.label.relation == "confirms"


@pytest.mark.parametrize("by", [None, 0])
def test_confirms(new_talk: Any, by: int | None) -> None:
    """A statement that says the same again is no second record."""
    talk = new_talk()
    same = {**HOME, "text": "Porto is where the user lives."}
    report = talk.tell(
        "I still live in Porto.", "confirms", *([same] if by == 0 else []), by=by
    )
    assert (report.stored, report.updated) == (0, 0)
    assert talk.holding() == PORTO_NOW
    assert (talk.record.message_ids, talk.record.supporting_ids) == (
        ["u1", "u2"],
        ["u2"],
    )
    assert (talk.label.relation, talk.label.by_record_id) == ("confirms", None)
    assert talk.label.quote == "I still live in Porto."
    assert talk.ops() == ["create", "confirm"]
    talk.ana.undo(talk.old)
    assert (talk.record.message_ids, talk.record.status) == (["u1"], "active")
    assert talk.ana.changes(talk.old) == []


def test_a_confirmation_that_also_takes_a_place_is_stored(new_talk: Any) -> None:
    """One statement says what one record says, and replaces another."""
    talk = new_talk()
    car = {"text": "The user drives a car.", "sources": ["m1"], "attribute": "travel"}
    tram = {
        "text": "The user takes the tram.",
        "sources": ["m1"],
        "attribute": "travel",
    }
    talk.say("I drive.", session="s2", at="2025-02-01", id="u2")
    talk.model.answers["Extraction"] = memories(car)
    talk.ana.flush()

    def extract(question: str) -> dict[str, Any]:
        said = "In Porto I take the tram."
        home, travel = (record_alias(question, one["text"]) for one in (HOME, car))
        changes = [
            change(home, "confirms", said, by=0),
            change(travel, "replaces", said),
        ]
        return memories(tram, changes=changes)

    talk.say("In Porto I take the tram.", session="s3", at="2025-03-01", id="u3")
    talk.model.answers["Extraction"] = extract
    assert talk.ana.flush().updated == 1
    assert talk.holding() == [HOME["text"], tram["text"]]


def test_details(new_talk: Any) -> None:
    talk = new_talk()
    more = {**HOME, "text": "The user's flat in Porto is on the third floor."}
    report = talk.tell("My flat is on the third floor.", "details", more, by=0)
    assert (report.stored, report.updated) == (1, 0)
    assert talk.holding() == sorted([HOME["text"], more["text"]])
    (new,) = [
        row["record_id"]
        for row in talk.ana.export_records()
        if row["record_id"] != talk.old
    ]
    assert talk.ana.get_records(new)[0].refines == [talk.old]
    assert (talk.label.relation, talk.label.by_record_id) == ("details", new)
    talk.ana.undo(message="u2")
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []


def test_details_without_a_memory_do_nothing(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("Porto, by the river.", "details")
    assert talk.ana.changes(talk.old) == []


# --- the order of time -----------------------------------------------------------------------


def test_what_was_said_first_does_not_replace_what_was_said_later(
    new_talk: Any,
) -> None:
    """An import stores the older message last: the relation is turned round."""
    talk = new_talk()
    talk.tell("I live in Berlin.", "replaces", BERLIN, at="2024-06-01")
    assert talk.holding() == PORTO_NOW
    assert talk.holding("2024-07-01") == BERLIN_NOW
    (berlin,) = [
        one
        for one in talk.ana.export_records(history=True)
        if one["record_id"] != talk.old
    ]
    (label,) = talk.ana.changes(berlin["record_id"])
    assert (label.relation, label.by_record_id, label.message_id) == (
        "replaces",
        talk.old,
        "u2",
    )
    assert talk.ana.changes(talk.old) == []
    assert talk.record.supersedes == [berlin["record_id"]]
    talk.ana.undo(berlin["record_id"])
    assert talk.holding() == PORTO_NOW


@pytest.mark.parametrize(
    "relation", ["ended", "corrects", "cancels", "completes", "reschedules"]
)
def test_an_older_message_lets_nothing_end(new_talk: Any, relation: str) -> None:
    talk = new_talk()
    report = talk.tell("I left Porto.", relation, at="2024-06-01", by=None)
    assert talk.holding() == PORTO_NOW
    assert (report.refused_changes, report.updated) == (1, 0)
    assert "older than the record" in report.reasons[0]


def test_of_two_changes_in_a_batch_the_one_said_last_counts(new_talk: Any) -> None:
    talk = new_talk()
    oslo = {**BERLIN, "text": "The user lives in Oslo.", "sources": ["m2"]}

    def extract(question: str) -> dict[str, Any]:
        alias = record_alias(question, HOME["text"])
        moved = change(alias, "replaces", "it's Oslo", message="m2")
        left = change(alias, "replaces", "moved to Berlin", message="m1", by=1)
        return memories(oslo, BERLIN, changes=[moved, left])

    talk.say("I moved to Berlin.", at="2025-02-01", id="u2")
    talk.say("Now it's Oslo.", at="2025-03-01", id="u3")
    talk.model.answers["Extraction"] = extract
    talk.ana.flush()
    assert (talk.label.quote, talk.label.by_text) == ("it's Oslo", oslo["text"])
    assert f"{talk.record.valid_to:%Y-%m-%d}" == "2025-03-01"


def test_a_change_that_is_refused_does_not_hide_an_earlier_one(new_talk: Any) -> None:
    talk = new_talk()

    def extract(question: str) -> dict[str, Any]:
        alias = record_alias(question, HOME["text"])
        invented = change(alias, "ended", "I left for good", message="m2")
        return memories(
            BERLIN, changes=[change(alias, "replaces", "moved to Berlin"), invented]
        )

    talk.say("I moved to Berlin.", at="2025-02-01", id="u2")
    talk.say("hm", at="2025-03-01", id="u3")
    talk.model.answers["Extraction"] = extract
    talk.ana.flush()
    assert talk.holding() == BERLIN_NOW
    assert talk.label.quote == "moved to Berlin"


def test_memories_are_counted_as_the_model_gave_them(new_talk: Any) -> None:
    """The first memory cannot be read at all; `by` still names the one that was meant."""
    talk = new_talk()
    dog = {"text": "The user has a dog.", "sources": ["m1"], "attribute": "pet"}
    talk.say("I have a dog and moved to Berlin.", id="u2", at="2025-06-01")
    report = talk.flush("replaces", "moved to Berlin", {"text": []}, BERLIN, dog, by=1)
    assert (report.stored, report.updated) == (2, 1)
    assert talk.label.by_text == BERLIN["text"]


def test_what_holds_already_may_take_a_place(new_talk: Any) -> None:
    """The memory that holds instead is known: the older one gives way to the record of it."""
    talk = new_talk()
    talk.say("I also live in Berlin.", id="u2", at="2025-02-01")
    talk.model.answers["Extraction"] = memories(BERLIN)
    talk.ana.flush()
    talk.say("Only in Berlin now.", id="u3", at="2025-03-01", session="s3")
    report = talk.flush("replaces", "Only in Berlin now.", BERLIN)
    assert (report.stored, report.known, report.updated) == (0, 1, 1)
    assert talk.holding() == BERLIN_NOW
    assert talk.label.by_text == BERLIN["text"]


def test_a_record_does_not_take_its_own_place(new_talk: Any) -> None:
    talk = new_talk()
    report = talk.tell("I live in Porto, I say.", "replaces", HOME)
    assert (report.known, report.updated) == (1, 0)
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []


def test_undoing_a_message_takes_back_all_that_it_did(new_talk: Any) -> None:
    talk = new_talk()
    boat = {"text": "The user owns a boat.", "sources": ["m1"], "attribute": "boat"}
    talk.say("I own a boat.", id="b", at="2025-02-01")
    talk.model.answers["Extraction"] = memories(boat)
    talk.ana.flush()

    def extract(question: str) -> dict[str, Any]:
        said = "I sold the boat and moved to Berlin."
        home, own = (record_alias(question, one["text"]) for one in (HOME, boat))
        changes = [change(home, "replaces", said), change(own, "ended", said)]
        return memories(BERLIN, changes=changes)

    talk.model.answers["Extraction"] = extract
    talk.say(
        "I sold the boat and moved to Berlin.", id="u2", at="2025-06-01", session="s3"
    )
    assert talk.ana.flush().updated == 2
    assert talk.holding() == BERLIN_NOW
    talk.ana.undo(message="u2")
    assert talk.holding() == sorted([HOME["text"], boat["text"]])
    assert talk.ana.forget(message="u2").messages == 1
    assert talk.holding() == sorted([HOME["text"], boat["text"]])


def test_forgetting_the_message_takes_its_label_back(new_talk: Any) -> None:
    talk = new_talk()
    talk.tell("I moved to Berlin.", "replaces", BERLIN)
    report = talk.ana.forget(message="u2")
    assert (report.records, report.restored) == (1, 1)
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []


def test_several_messages_of_a_batch_are_cited_by_their_own_aliases(
    new_talk: Any,
) -> None:
    talk = new_talk()

    def extract(question: str) -> dict[str, Any]:
        (alias,) = [
            one for one, words in line_aliases(question).items() if "Berlin" in words
        ]
        home = record_alias(question, HOME["text"])
        moved = change(home, "replaces", "moved to Berlin", message=alias)
        return memories({**BERLIN, "sources": [alias]}, changes=[moved])

    for number, text in enumerate(["hello", "I moved to Berlin.", "bye"], 2):
        talk.say(text, id=f"u{number}", at=f"2025-0{number}-01")
    talk.model.answers["Extraction"] = extract
    talk.ana.flush()
    assert talk.label.message_id == "u3"
    assert f"{talk.record.valid_to:%Y-%m-%d}" == "2025-03-01"


CITIES = (("Berlin", "2025-06-01"), ("New York", "2023-01-01"), ("Rome", "2024-03-01"))


@pytest.mark.parametrize("told", list(permutations(CITIES)))
def test_in_any_order_of_import_each_held_until_the_next(
    open_memory: Any, told: tuple[tuple[str, str], ...]
) -> None:
    """A fact of the middle shortens the one before it."""

    def read(question: str) -> dict[str, Any]:
        new = question[question.index("New messages:") :]
        city = next(name for name, _ in CITIES if f"I live in {name}" in new)
        shown = re.findall(r"^(n\d+) ", question, re.MULTILINE)
        alias = alias_of(question, f"I live in {city}")
        quote = f"I live in {city}"
        changes = [change(n, "replaces", quote, message=alias, by=0) for n in shown]
        home = {"text": f"The user lives in {city}.", "attribute": "home"}
        return {"memories": [{**home, "sources": [alias]}], "changes": changes}

    ana = open_memory(AnswersBySchema(Extraction=read)).user("ana")
    for city, at in told:
        ana.add([("user", f"I live in {city} now.")], session_id=city, at=at)
        ana.flush()
    held = [
        [record["text"] for record in ana.export_records(as_of=at)]
        for at in ("2022-06-01", "2023-06-01", "2024-06-01", "2025-12-01")
    ]
    lived = [[f"The user lives in {city}."] for city in ("New York", "Rome", "Berlin")]
    assert held == [[], *lived]
    if told[-1][0] == "Rome":
        (rome,) = ana.export_records(as_of="2024-06-01")
        ana.undo(rome["record_id"])
        (then,) = ana.export_records(as_of="2024-06-01")
        assert then["text"] == "The user lives in New York."
