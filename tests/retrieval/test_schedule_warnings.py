"""From messages to the warning: a request's time against the schedule, over a real memory."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.retrieval.quoted_context import AGAINST
from langmem_graph.settings import Settings
from tests.support.schedule_talk import (
    ASKED,
    DENTIST,
    NO_TIME,
    NOW,
    WARNING,
    noted,
    scripted_model,
    warnings_of,
    with_dentist,
)


def tell(memory: Memory, text: str, own_id: str = "m1", user: str = "ana") -> Any:
    """Say it and let the model read it."""
    ana = memory.user(user)
    said = {"role": "user", "content": text, "id": own_id, "at": "2099-05-01T10:00"}
    ana.add([said], session_id="s")
    ana.flush()
    return ana


STANDUP = {
    "text": "The team has its standup.",
    "when": "2099-05-05T15:00",
    "until": "2099-05-05T15:15",
    "recurrence": "FREQ=WEEKLY;BYDAY=TU",
}

PARTY = {
    "text": "Eva's party.",
    "when": "2099-06-01T22:00",
    "until": "2099-06-01T03:00",
}
FAIR = {"text": "The user is at the fair.", "when": "2099-06-01", "until": "2099-06-03"}
AT_THREE = {"risks": [], "start": "2099-06-02T15:00", "end": "2099-06-02T16:00"}


@pytest.mark.parametrize(
    ("row", "asked", "consequences", "when"),
    [
        (DENTIST, ASKED, AT_THREE, "Tue 2099-06-02 15:30 to 16:30 UTC"),
        (DENTIST, ASKED, NO_TIME, "Tue 2099-06-02 15:30 to 16:30 UTC"),
        (DENTIST, ASKED, {**AT_THREE, "start": "2099-06-09T15:00"}, "Tue 2099-06-02 15:30 to"),
        (DENTIST, ASKED, "no answer that could be used", "Tue 2099-06-02 15:30 to 16:30 UTC"),
        (DENTIST, "Book it then", AT_THREE, "Tue 2099-06-02 15:30 to 16:30 UTC"),
        (STANDUP, ASKED, AT_THREE, "Tue 2099-06-02 15:00 to 15:15 UTC, recurring"),
        (STANDUP, ASKED, NO_TIME, "Tue 2099-06-02 15:00 to 15:15 UTC, recurring"),
        (FAIR, ASKED, NO_TIME, "Mon 2099-06-01 to Wed 2099-06-03, all day"),
        (PARTY, "Book a cab for tomorrow at 02:00", NO_TIME,
         "Mon 2099-06-01 22:00 to Tue 2099-06-02 03:00 UTC"),
        (PARTY, "Book me on the night train", {"risks": [], "start": "2099-06-02T02:00+00:00"},
         "Mon 2099-06-01 22:00 to Tue 2099-06-02 03:00 UTC"),
        (DENTIST, "Can we set a weekly review?",
         {"risks": [], "start": "2099-05-26T15:00", "recurrence": "FREQ=WEEKLY"},
         "Tue 2099-06-02 15:30 to 16:30 UTC"),
        (DENTIST, "Is Tuesday at 15:00 still free?", NO_TIME, "Tue 2099-06-02 15:30 to 16:30 UTC"),
    ],
)  # fmt: skip
def test_what_was_said_collides_with_what_is_proposed(
    open_memory: Any, row: dict[str, Any], asked: str, consequences: Any, when: str
) -> None:
    memory = open_memory(scripted_model(noted(row), consequences))
    ana = tell(memory, f"Note: {row['text']} {row['when']}", "m-source")
    found = ana.recall(asked, mode="auto", at=NOW)
    (warning,) = warnings_of(found)
    assert warning.startswith(f"- {WARNING}: {when}")
    assert "[m-source]" in warning.split(" | ")[0]
    assert row["text"] in warning.split(" | ")[1]
    assert found.context.splitlines()[3] == AGAINST
    assert [text.split(": ")[1] for text in found.reasoning.overlaps] == [row["text"]]
    assert "m-source" in {hit.message_id for hit in found.evidence}
    (event,) = (one for one in found.trace if one["event"] == "memory_overlap")
    assert event["facts"] == [
        fact.id for fact in found.facts if fact.text == row["text"]
    ]


@pytest.mark.parametrize(
    ("row", "asked", "consequences"),
    [
        ({**DENTIST, "when": "2099-06-02T16:00"}, ASKED, AT_THREE),  # it only touches
        ({**DENTIST, "when": "2099-06-02T16:00"}, ASKED, NO_TIME),
        ({**DENTIST, "when": "2099-06-09T15:30"}, ASKED, NO_TIME),  # a week later
        (
            {**STANDUP, "recurrence": "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;UNTIL=20990526"},
            ASKED,
            NO_TIME,
        ),
        ({**STANDUP, "recurrence": "FREQ=WEEKLY;BYDAY=WE"}, ASKED, NO_TIME),
        ({**DENTIST, "when": ""}, ASKED, AT_THREE),
        ({**DENTIST, "when": "2099-06"}, ASKED, AT_THREE),  # some time in June
        (DENTIST, "Can we set the review soon?", NO_TIME),
        (DENTIST, "thanks!", AT_THREE),
        (DENTIST, "What did we do on Tuesday at 15:00?", NO_TIME),
        # the model reads no time
        (DENTIST, "Move the review to Tuesday 15:00", NO_TIME),
    ],
)
def test_what_does_not_collide_is_not_said_to(
    open_memory: Any, row: dict[str, Any], asked: str, consequences: Any
) -> None:
    ana = tell(open_memory(scripted_model(noted(row), consequences)), "Note it down.")
    found = ana.recall(asked, mode="auto", at=NOW)
    assert warnings_of(found) == []
    assert not (found.reasoning and found.reasoning.overlaps)


def test_another_users_schedule_is_no_obstacle(open_memory: Any) -> None:
    memory = open_memory(scripted_model(noted(DENTIST), AT_THREE))
    tell(memory, "The dentist, Tuesday 15:30.", user="bob")
    memory.user("ana").add(
        [{"role": "user", "content": "The review is due."}], session_id="s"
    )
    assert warnings_of(memory.user("ana").recall(ASKED, mode="auto", at=NOW)) == []
    assert len(warnings_of(memory.user("bob").recall(ASKED, mode="auto", at=NOW))) == 1


def test_two_appointments_of_one_name_are_two(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        day = "09" if "the 9th" in question.split("New messages")[1] else "02"
        return noted({**DENTIST, "when": f"2099-06-{day}T15:30"})

    memory = open_memory(scripted_model(extract))
    tell(memory, "The dentist on the 2nd.")
    tell(memory, "The dentist on the 9th too.", "m2")
    ana = tell(memory, "As I said, the dentist on the 2nd.", "m3")
    assert len(ana.export_records()) == 2
    for day, source in (("02", "[m1, m3]"), ("09", "[m2]")):
        asked = f"Can we set the review for 2099-06-{day} 15:00?"
        (warning,) = warnings_of(ana.recall(asked, mode="auto", at=NOW))
        assert source in warning


def test_two_imported_appointments_of_one_name_are_two(open_memory: Any) -> None:
    ana = with_dentist(open_memory(None))
    row = {
        "text": "The user sees the dentist.",
        "source_message_ids": ["m1"],
        "facet": "schedule",
    }
    times = [{"start": "2099-06-02T15:30"}, {"start": "2099-06-09T15:30"}]
    report = ana.add_records([{**row, "event_time": time} for time in times])
    assert (len(report.already_known), len(report.stored)) == (1, 1)
    assert len(warnings_of(ana.recall("Meet on 2099-06-09 at 15:00?", at=NOW))) == 1


# --- the users' clocks ---


MADRID = "Europe/Madrid"


def test_times_that_are_said_are_those_of_the_users_clock(open_memory: Any) -> None:
    memory = open_memory(scripted_model(noted(DENTIST), AT_THREE), time_zone=MADRID)
    ana = tell(memory, "The dentist, 2099-06-02 15:30.")
    (row,) = ana.export_records()
    assert row["event_time"]["start"] == "2099-06-02T13:30:00Z"
    assert row["event_time"]["time_zone"] == MADRID
    for mode in ("auto", "fast"):
        found = ana.recall(
            ASKED, mode=mode, at=datetime(2099, 6, 1, 9, tzinfo=ZoneInfo(MADRID))
        )
        (warning,) = warnings_of(found)
        assert "Tue 2099-06-02 15:30 to 16:30 Europe/Madrid [m1]" in warning


def test_an_item_of_another_zone_is_compared_by_the_moment(open_memory: Any) -> None:
    memory = open_memory(scripted_model(), time_zone=MADRID)
    ana = with_dentist(memory, start="2099-06-02T09:30", time_zone="America/New_York")
    (warning,) = warnings_of(ana.recall(ASKED, mode="auto", at=NOW))
    assert "Tue 2099-06-02 09:30 to 10:30 America/New_York [m1]" in warning
    asked = ASKED.replace("15:00", "09:30")
    assert warnings_of(ana.recall(asked, mode="auto", at=NOW)) == []


def test_an_imported_time_without_a_zone_is_of_the_users_clock(
    open_memory: Any,
) -> None:
    memory = open_memory(scripted_model(), time_zone=MADRID)
    ana = with_dentist(memory)
    (warning,) = warnings_of(ana.recall(ASKED, mode="auto", at=NOW))
    assert "15:30 to 16:30 Europe/Madrid" in warning
    bob = with_dentist(memory, "bob", start="2099-06-02T15:30Z")
    assert warnings_of(bob.recall(ASKED, mode="auto", at=NOW)) == []
    assert (
        len(
            warnings_of(
                bob.recall(ASKED.replace("15:00", "17:30"), mode="auto", at=NOW)
            )
        )
        == 1
    )


def test_the_model_is_shown_the_users_clock(open_memory: Any) -> None:
    model = scripted_model(noted(DENTIST), AT_THREE)
    memory = open_memory(model, time_zone=MADRID)
    ana = memory.user("ana")
    said = {
        "role": "user",
        "content": "Tomorrow I see the dentist.",
        "at": "2099-06-01T22:30Z",
    }
    ana.add([said], session_id="s")
    ana.flush()
    ana.recall(ASKED, mode="auto", at="2099-06-01T22:30Z")
    shown = dict(reversed(model.asked))  # type: ignore[attr-defined]
    assert '2099-06-02 00:30 user: "Tomorrow I see' in shown["Extraction"]
    assert "Now: 2099-06-02T00:30+02:00" in shown["GoalPlan"]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../etc/passwd", ""])
def test_an_unknown_zone_is_no_setting(zone: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        Settings(time_zone=zone)


def test_a_model_is_still_needed_to_reason(open_memory: Any) -> None:
    with pytest.raises(InvalidInputError, match="needs a model"):
        with_dentist(open_memory(None)).recall(ASKED, mode="auto", at=NOW)
