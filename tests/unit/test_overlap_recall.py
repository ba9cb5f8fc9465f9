"""From messages to the warning: a request's time against the schedule, over a real memory."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from langchain_core.messages import HumanMessage

from langmem_graph.errors import InvalidInputError
from langmem_graph.graphs.nodes import create_recall_node
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.memory import Memory
from langmem_graph.retrieval.formatting import AGAINST, ALSO
from langmem_graph.schemas import Recall
from langmem_graph.settings import Settings
from tests.support.minds import Mind
from tests.support.settings import nested

NOW = "2099-06-01T09:00"  # a Monday
ASKED = "Can we set the review for Tuesday 15:00?"
WARNING = "The schedule has something at that time"
NO_TIME: dict[str, Any] = {"risks": []}


def noted(*rows: dict[str, Any]) -> dict[str, Any]:
    """What the model makes of one message."""
    base = {"facet": "schedule", "kind": "event", "sources": ["m1"]}
    return {"scene": "plans", "memories": [{**base, **row} for row in rows]}


def mind(extracted: Any = None, consequences: Any = None, **more: Any) -> Mind:
    return Mind(
        Extraction=extracted or noted(),
        GoalPlan={"intent": "act"},
        Consequences=NO_TIME if consequences is None else consequences,
        **more,
    )


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Any]:
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        while opened:
            opened.pop().close()
        chosen = nested(
            **{"extraction__debounce_seconds": 3_600, "storage__closing_seconds": 0.01, **settings}
        )
        opened.append(Memory(tmp_path / "m", model=model, embeddings="hash", settings=chosen))
        return opened[-1]

    yield make
    while opened:
        opened.pop().close()


def tell(memory: Memory, text: str, own_id: str = "m1", user: str = "ana") -> Any:
    """Say it and let the model read it."""
    ana = memory.user(user)
    said = {"role": "user", "content": text, "id": own_id, "at": "2099-05-01T10:00"}
    ana.add([said], session_id="s")
    ana.flush()
    return ana


def warnings_of(found: Recall) -> list[str]:
    """The lines of the context that warn, each with the quote below it."""
    lines = found.context.splitlines()
    return [
        f"{line} | {lines[place + 1].strip()}"
        for place, line in enumerate(lines)
        if WARNING in line
    ]


DENTIST = {"text": "The user sees the dentist.", "when": "2099-06-02T15:30"}
STANDUP = {
    "text": "The team has its standup.",
    "when": "2099-05-05T15:00",
    "until": "2099-05-05T15:15",
    "recurrence": "FREQ=WEEKLY;BYDAY=TU",
}
PARTY = {"text": "Eva's party.", "when": "2099-06-01T22:00", "until": "2099-06-01T03:00"}
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
    memory = open_memory(mind(noted(row), consequences))
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
    assert event["facts"] == [fact.id for fact in found.facts if fact.text == row["text"]]


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
        ({**DENTIST, "facet": "none"}, ASKED, AT_THREE),
        ({**DENTIST, "when": ""}, ASKED, AT_THREE),
        ({**DENTIST, "when": "2099-06"}, ASKED, AT_THREE),  # some time in June
        (DENTIST, "Can we set the review soon?", NO_TIME),
        (DENTIST, "thanks!", AT_THREE),
        (DENTIST, "What did we do on Tuesday at 15:00?", NO_TIME),
        (DENTIST, "Move the review to Tuesday 15:00", NO_TIME),  # the model reads no time
    ],
)
def test_what_does_not_collide_is_not_said_to(
    open_memory: Any, row: dict[str, Any], asked: str, consequences: Any
) -> None:
    ana = tell(open_memory(mind(noted(row), consequences)), "Note it down.")
    found = ana.recall(asked, mode="auto", at=NOW)
    assert warnings_of(found) == []
    assert not (found.reasoning and found.reasoning.overlaps)


def test_another_users_schedule_is_no_obstacle(open_memory: Any) -> None:
    memory = open_memory(mind(noted(DENTIST), AT_THREE))
    tell(memory, "The dentist, Tuesday 15:30.", user="bob")
    memory.user("ana").add([{"role": "user", "content": "The review is due."}], session_id="s")
    assert warnings_of(memory.user("ana").recall(ASKED, mode="auto", at=NOW)) == []
    assert len(warnings_of(memory.user("bob").recall(ASKED, mode="auto", at=NOW))) == 1


def test_an_appointment_that_was_moved_collides_at_its_new_time_alone(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        hour = "17" if "17:00" in question.split("New messages")[1] else "15"
        text = f"The dentist appointment is on 2099-06-02 at {hour}:00."
        row = {"text": text, "when": f"2099-06-02T{hour}:00", "subject": "dentist appointment"}
        return noted({**row, "attribute": "appointment time"})

    decide = {"record": "r1", "action": "update", "targets": ["n1"], "attribute": "a1"}
    model = mind(extract, Reconciliation={"decisions": [decide]})
    memory = open_memory(model, extraction__neighbour_floor=0.0)
    tell(memory, "The dentist appointment is on 2099-06-02 at 15:00.")
    ana = tell(memory, "No, the dentist appointment was moved to 2099-06-02 at 17:00.", "m2")
    assert warnings_of(ana.recall(ASKED, mode="auto", at=NOW)) == []
    (warning,) = warnings_of(ana.recall(ASKED.replace("15:00", "17:15"), mode="auto", at=NOW))
    assert "[m2]" in warning
    assert 'about "dentist appointment"' in warning


def test_two_appointments_of_one_name_are_two(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        day = "09" if "the 9th" in question.split("New messages")[1] else "02"
        return noted({**DENTIST, "when": f"2099-06-{day}T15:30"})

    same = {"decisions": [{"record": "r1", "action": "skip", "targets": ["n1"]}]}
    memory = open_memory(mind(extract, Reconciliation=same))
    tell(memory, "The dentist on the 2nd.")
    tell(memory, "The dentist on the 9th too.", "m2")
    ana = tell(memory, "As I said, the dentist on the 2nd.", "m3")
    assert len(ana.export_records()) == 2
    for day, source in (("02", "[m1, m3]"), ("09", "[m2]")):
        asked = f"Can we set the review for 2099-06-{day} 15:00?"
        (warning,) = warnings_of(ana.recall(asked, mode="auto", at=NOW))
        assert source in warning


def test_two_imported_appointments_of_one_name_are_two(open_memory: Any) -> None:
    ana = _with_dentist(open_memory(None))
    row = {"text": "The user sees the dentist.", "source_message_ids": ["m1"], "facet": "schedule"}
    times = [{"start": "2099-06-02T15:30"}, {"start": "2099-06-09T15:30"}]
    report = ana.add_records([{**row, "event_time": time} for time in times])
    assert (len(report.already_known), len(report.stored)) == (1, 1)
    assert len(warnings_of(ana.recall("Meet on 2099-06-09 at 15:00?", at=NOW))) == 1


def test_a_postponed_item_waits_for_a_new_time(open_memory: Any) -> None:
    memory = open_memory(mind())
    ana = tell(memory, "The dentist.")
    time = {"start": "2099-06-02T15:00", "postponed": True}
    row = {"text": "Dentist.", "source_message_ids": ["m1"], "facet": "schedule"}
    ana.add_records([{**row, "event_time": time}])
    assert warnings_of(ana.recall(ASKED, mode="auto", at=NOW)) == []


# --- without a model ---


def _with_dentist(memory: Memory, user: str = "ana", **time: Any) -> Any:
    ana = memory.user(user)
    said = {"role": "user", "content": "I see the dentist.", "id": "m1", "at": "2099-05-01T10:00"}
    ana.add([said], session_id="s")
    row = {"text": "The user sees the dentist.", "source_message_ids": ["m1"], "facet": "schedule"}
    ana.add_records([{**row, "event_time": {"start": "2099-06-02T15:30", **time}}])
    return ana


def test_a_recall_without_a_model_warns_too(open_memory: Any) -> None:
    ana = _with_dentist(open_memory(None))
    found = ana.recall(ASKED, at=NOW)
    lines = found.context.splitlines()
    assert lines[3] == AGAINST
    assert lines[4] == f"- {WARNING}: Tue 2099-06-02 15:30 to 16:30 UTC [m1]"
    assert lines[5].endswith('[m1]: "The user sees the dentist."')
    assert lines[6] == ALSO
    assert found.reasoning.overlaps == [
        "Tue 2099-06-02 15:30 to 16:30 UTC: The user sees the dentist."
    ]
    assert [fact.message_ids for fact in found.facts] == [["m1"]]
    assert [hit.message_id for hit in found.evidence] == ["m1"]
    assert found.report.llm_calls == 0


def test_a_recall_without_a_model_does_not_warn_without_reason(open_memory: Any) -> None:
    ana = _with_dentist(open_memory(None))
    for asked in ("Can we meet Wednesday 15:30?", "Can we meet soon?", "dentist"):
        found = ana.recall(asked, at=NOW)
        assert AGAINST not in found.context
        assert ALSO not in found.context
        assert (found.reasoning, found.facts) == (None, [])


def test_a_warning_counts_as_part_of_the_budget(open_memory: Any) -> None:
    ana = _with_dentist(open_memory(None))
    whole = ana.recall(ASKED, at=NOW)
    for budget in (1, 60, whole.report.context_tokens - 1, whole.report.context_tokens):
        found = ana.recall(ASKED, at=NOW, max_tokens=budget)
        assert found.report.context_tokens <= budget
        assert bool(found.facts) is (WARNING in found.context)
        assert len(found.reasoning.overlaps) == 1  # the report knows of it all the same


def test_what_is_in_view_is_named_and_not_quoted_again(open_memory: Any) -> None:
    for model in (None, mind()):
        ana = _with_dentist(open_memory(model))
        mode = "auto" if model else "fast"
        found = ana.recall(ASKED, at=NOW, mode=mode, in_view=["m1"])
        assert f"{WARNING}: Tue 2099-06-02 15:30 to 16:30 UTC [m1]" in found.context
        assert "sees the dentist" not in found.context
        assert found.facts == []


def test_nodes_and_graphs_warn(open_memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = _with_dentist(open_memory(mind()))
    memory = open_memory(mind())
    assert ana.id == "ana"
    state: Any = {"messages": [HumanMessage("Can we set the review for 2099-06-02 15:00?")]}
    config: Any = {"configurable": {"user_id": "ana"}}
    graph = create_recall_graph(memory).invoke(state, config)
    assert WARNING in graph["memory_context"]
    plain = create_recall_graph(memory, mode="fast").invoke(state, config)
    assert WARNING in plain["memory_context"]
    node = create_recall_node(memory).invoke(state, config)
    assert WARNING in node["memory_context"]


async def test_the_asynchronous_twin_takes_the_time_of_asking(open_memory: Any) -> None:
    ana = _with_dentist(open_memory(None))
    assert WARNING in (await ana.arecall(ASKED, at=NOW)).context
    assert WARNING not in (await ana.arecall(ASKED, at="2099-06-10T09:00")).context


def test_a_schedule_that_cannot_be_read_costs_the_warning_alone(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = _with_dentist(open_memory(mind()))

    def fail(*_: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.reasoning.conflicts.conflicts_at", fail)
    found = ana.recall(ASKED, at=NOW, mode="auto")
    assert "comparing with the schedule failed: OSError: disk" in found.report.warnings
    assert "I see the dentist." in found.context or "sees the dentist" in found.context


def test_without_the_counterfactual_words_still_count(open_memory: Any) -> None:
    ana = _with_dentist(
        open_memory(mind(), reasoning__use_counterfactual=False, reasoning__use_goals=False)
    )
    found = ana.recall(ASKED, at=NOW, mode="auto")
    assert len(warnings_of(found)) == 1
    assert found.report.llm_calls == 0


def test_what_was_to_come_when_it_was_said_is_planned(open_memory: Any) -> None:
    """A conversation of years ago is read as it was then."""
    past = {**DENTIST, "when": "2020-06-02T15:30"}
    memory = open_memory(mind(noted(past)))
    ana = memory.user("ana")
    said = {"role": "user", "content": "The dentist.", "id": "m1", "at": "2020-05-01T10:00"}
    ana.add([said], session_id="s")
    ana.flush()
    found = ana.recall(ASKED, at="2020-06-01T09:00", mode="fast")
    assert warnings_of(found)
    assert not warnings_of(ana.recall(ASKED, at=NOW, mode="fast"))


def test_what_was_over_when_it_was_said_is_not(open_memory: Any) -> None:
    past = {**DENTIST, "when": "2020-06-02T15:30"}
    memory = open_memory(mind(noted(past)))
    ana = memory.user("ana")
    said = {"role": "user", "content": "The dentist.", "id": "m1", "at": "2020-07-01T10:00"}
    ana.add([said], session_id="s")
    ana.flush()
    (row,) = ana.export_records()
    assert row.get("facet", "none") != "schedule"


def test_what_was_forgotten_meanwhile_collides_no_more(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langmem_graph.reasoning import context

    memory = open_memory(mind())
    ana = _with_dentist(memory)
    read = context._read

    def forgetting(room: Any, *rest: Any) -> Any:
        memory.user("ana").forget(message="m1")
        return read(room, *rest)

    monkeypatch.setattr(context, "_read", forgetting)
    found = ana.recall(ASKED, at=NOW, mode="auto")
    assert WARNING not in found.context
    assert found.reasoning.overlaps == []


# --- the users' clocks ---

MADRID = "Europe/Madrid"


def test_times_that_are_said_are_those_of_the_users_clock(open_memory: Any) -> None:
    memory = open_memory(mind(noted(DENTIST), AT_THREE), time_zone=MADRID)
    ana = tell(memory, "The dentist, 2099-06-02 15:30.")
    (row,) = ana.export_records()
    assert row["event_time"]["start"] == "2099-06-02T13:30:00Z"
    assert row["event_time"]["time_zone"] == MADRID
    for mode in ("auto", "fast"):
        found = ana.recall(ASKED, mode=mode, at=datetime(2099, 6, 1, 9, tzinfo=ZoneInfo(MADRID)))
        (warning,) = warnings_of(found)
        assert "Tue 2099-06-02 15:30 to 16:30 Europe/Madrid [m1]" in warning


def test_an_item_of_another_zone_is_compared_by_the_moment(open_memory: Any) -> None:
    memory = open_memory(mind(), time_zone=MADRID)
    ana = _with_dentist(memory, start="2099-06-02T09:30", time_zone="America/New_York")
    (warning,) = warnings_of(ana.recall(ASKED, mode="auto", at=NOW))
    assert "Tue 2099-06-02 09:30 to 10:30 America/New_York [m1]" in warning
    asked = ASKED.replace("15:00", "09:30")
    assert warnings_of(ana.recall(asked, mode="auto", at=NOW)) == []


def test_an_imported_time_without_a_zone_is_of_the_users_clock(open_memory: Any) -> None:
    memory = open_memory(mind(), time_zone=MADRID)
    ana = _with_dentist(memory)
    (warning,) = warnings_of(ana.recall(ASKED, mode="auto", at=NOW))
    assert "15:30 to 16:30 Europe/Madrid" in warning
    bob = _with_dentist(memory, "bob", start="2099-06-02T15:30Z")
    assert warnings_of(bob.recall(ASKED, mode="auto", at=NOW)) == []
    assert len(warnings_of(bob.recall(ASKED.replace("15:00", "17:30"), mode="auto", at=NOW))) == 1


def test_the_model_is_shown_the_users_clock(open_memory: Any) -> None:
    model = mind(noted(DENTIST), AT_THREE)
    memory = open_memory(model, time_zone=MADRID)
    ana = memory.user("ana")
    said = {"role": "user", "content": "Tomorrow I see the dentist.", "at": "2099-06-01T22:30Z"}
    ana.add([said], session_id="s")
    ana.flush()
    ana.recall(ASKED, mode="auto", at="2099-06-01T22:30Z")
    shown = dict(reversed(model.asked))  # type: ignore[attr-defined]
    assert "2099-06-02 00:30 user: Tomorrow I see" in shown["Extraction"]
    assert "Now: 2099-06-02T00:30+02:00" in shown["Consequences"]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../etc/passwd", ""])
def test_an_unknown_zone_is_no_setting(zone: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        Settings(time_zone=zone)


def test_a_model_is_still_needed_to_reason(open_memory: Any) -> None:
    with pytest.raises(InvalidInputError, match="needs a model"):
        _with_dentist(open_memory(None)).recall(ASKED, mode="auto", at=NOW)
