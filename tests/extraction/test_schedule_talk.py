"""Talk that changes the schedule: called off, moved, done, left out once; with a scripted model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from tests.support.models import AnswersBySchema
from tests.support.writing import change, memories, memory_at, record_alias

MADRID = "Europe/Madrid"
NOW = "2099-06-01T09:00+02:00"  # a Monday


def item(text: str, when: str, recurrence: str = "") -> dict[str, Any]:
    row = {"text": text, "when": when, "recurrence": recurrence, "attribute": "plan"}
    return {**row, "kind": "event", "facet": "schedule", "sources": ["m1"]}


DENTIST = item("Dentist on 2 June 2099 at 15:30.", "2099-06-02T15:30")
DENTIST_MOVED = item("Dentist on 9 June 2099 at 15:30.", "2099-06-09T15:30")
CHOIR = item("Choir on Tuesdays at 15:00.", "2099-01-06T15:00", "FREQ=WEEKLY;BYDAY=TU")
CHOIR_MOVED = item("Choir on Fridays at 15:00.", "", "every Friday at 15:00")

Open = Callable[..., Memory]


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Open]:
    with memory_at(tmp_path / "m") as opened:
        yield opened


def talked(
    open_memory: Open, old: dict[str, Any], said: str, relation: str, **more: Any
) -> Any:
    """The user, after an item was noted and a second message changed it.

    Args:
        open_memory: opens the memory.
        old: the item.
        said: the message that changes it, quoted whole.
        relation: what it does.
        more: `new`, an item that the message states; other fields of the change.
    """
    new = more.pop("new", None)

    def extract(question: str) -> dict[str, Any]:
        if said not in question:
            return memories(old)
        alias = record_alias(question, old["text"])
        by = {"by": 0} if new else {}
        made = change(alias, relation, said, **by, **more)
        return memories(*([new] if new else []), changes=[made])

    memory = open_memory(AnswersBySchema(Extraction=extract), time_zone=MADRID)
    ana = memory.user("ana")
    for n, (text, day) in enumerate(
        [(old["text"], "2099-05-01"), (said, "2099-05-30")]
    ):
        message = {"role": "user", "content": text, "id": f"u{n}", "at": f"{day}T10:00"}
        ana.add([message], session_id=f"s{n}")
        ana.flush()
    return ana


def ahead(ana: Any, at: str = NOW) -> str:
    """What the context says is next on the schedule."""
    context: str = ana.recall("Great, what's next?", mode="fast", at=at).context
    return context.partition("Next on the schedule:")[2].partition(":\n- 2099")[0]


def is_taken(ana: Any, day: str, time: str = "15:00") -> bool:
    asked = f"Can we set the review for {day} {time}?"
    return bool(ana.recall(asked, mode="fast", at=NOW).reasoning)


@pytest.mark.parametrize(
    ("said", "relation", "more"),
    [
        ("I've cancelled the dentist.", "cancels", {}),
        (
            "The dentist had to cancel my appointment.",
            "cancels",
            {"since": "2099-06-02"},
        ),
        ("Zahnarzt fällt aus.", "cancels", {"since": "2099-07-01"}),
        ("I was at the dentist's today already.", "completes", {}),
        ("I'll skip the dentist this time.", "skips_once", {"since": "2099-06-02"}),
        ("There never was a dentist appointment.", "corrects", {"by": None}),
    ],
)
def test_an_appointment_that_is_off_is_off_at_once(
    open_memory: Open, said: str, relation: str, more: dict[str, Any]
) -> None:
    ana = talked(open_memory, DENTIST, said, relation, **more)
    assert "Dentist" not in ahead(ana)
    assert not is_taken(ana, "2099-06-02")
    ana.undo(ana.export_records(history=True)[0]["record_id"])
    assert "Tuesday 2099-06-02 15:30 Europe/Madrid" in ahead(ana)
    assert is_taken(ana, "2099-06-02")


@pytest.mark.parametrize("since", ["", "2099-06-09"])
def test_an_appointment_that_moves_is_at_its_new_time_alone(
    open_memory: Open, since: str
) -> None:
    said = "The dentist is on the 9th now."
    ana = talked(
        open_memory, DENTIST, said, "reschedules", since=since, new=DENTIST_MOVED
    )
    assert "Tuesday 2099-06-09 15:30 Europe/Madrid" in ahead(ana)
    assert "2099-06-02" not in ahead(ana)
    assert not is_taken(ana, "2099-06-02")
    assert is_taken(ana, "2099-06-09")


def test_a_routine_that_moves_is_on_its_new_day(open_memory: Open) -> None:
    said = "Chor ist jetzt freitags um drei."
    ana = talked(open_memory, CHOIR, said, "replaces", new=CHOIR_MOVED)
    assert "Friday 2099-06-05 15:00 Europe/Madrid" in ahead(ana)
    assert not is_taken(ana, "2099-06-02")
    assert is_taken(ana, "2099-06-05")


@pytest.mark.parametrize("relation", ["replaces", "reschedules"])
def test_a_routine_that_moves_on_a_day_to_come_is_on_its_old_day_until_then(
    open_memory: Open, relation: str
) -> None:
    said = "From 8 June on choir is on Fridays."
    ana = talked(
        open_memory, CHOIR, said, relation, since="2099-06-08", new=CHOIR_MOVED
    )
    assert is_taken(ana, "2099-06-02")
    assert not is_taken(ana, "2099-06-05")
    assert not is_taken(ana, "2099-06-09")
    assert is_taken(ana, "2099-06-12")


@pytest.mark.parametrize("relation", ["ended", "cancels"])
def test_a_routine_that_ends_on_a_day_to_come_is_on_until_then(
    open_memory: Open, relation: str
) -> None:
    ana = talked(
        open_memory, CHOIR, "Choir stops on 8 June.", relation, since="2099-06-08"
    )
    assert is_taken(ana, "2099-06-02")
    assert not is_taken(ana, "2099-06-09")


@pytest.mark.parametrize("since", ["2099-06-02", "", "2099-06-02T15:00"])
def test_a_routine_is_left_out_once(open_memory: Open, since: str) -> None:
    ana = talked(open_memory, CHOIR, "No choir this week.", "skips_once", since=since)
    assert not is_taken(ana, "2099-06-02")
    assert is_taken(ana, "2099-06-09")
    assert "Tuesday 2099-06-09 15:00 Europe/Madrid" in ahead(ana)
    (record,) = ana.export_records()
    assert record["event_time"]["skipped"] == ["2099-06-02T13:00:00Z"]
    ana.undo(record["record_id"])
    assert is_taken(ana, "2099-06-02")
