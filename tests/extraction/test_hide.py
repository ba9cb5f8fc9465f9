"""Hidden records: nothing that is shown states them, and they come back."""

from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.evidence_sources import stored_facts
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.tool_answers import Call, get_records
from tests.conftest import said
from tests.support.changes import Talk
from tests.support.models import AnswersBySchema
from tests.support.recalled import good
from tests.support.topic_tracks import BOATS, gathering, tell
from tests.support.writing import turn

SECRET = "nectarines"  # in no message


def told(ana: Any, **fields: Any) -> None:
    ana.add(
        said("No fruit for me, it itches.", id="m0", at="2025-01-01"), session_id="s"
    )
    row = {
        "text": f"Cannot eat {SECRET}.",
        "record_id": "r0",
        "source_message_ids": ["m0"],
    }
    assert ana.add_records({**row, **fields}).stored == ["r0"]


def shown(ana: Any) -> str:
    """All that is shown without a model."""
    recalled = ana.recall("what's next? which fruit itches, May 1 2099 at 9?")
    found = (
        ana.search_records(f"{SECRET} fruit"),
        ana.search_records("fruit", as_of="2025-06-01"),
    )
    lists = ana.export_records(), ana.export_records(as_of="2025-06-01"), ana.files()
    plan = ana.schedule("2099-01-01", "2099-12-31")
    return f"{recalled} {ana.recall(SECRET)} {found} {lists} {plan} {get_records(Call(ana), ['r0'])}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "instruction"},
        {"facet": "schedule", "event_time": {"start": "2099-05-01T09:00"}},
        {"facet": "project_state", "project": "diet"},
    ],
)
def test_what_is_hidden_is_not_shown_and_comes_back(
    open_memory: Any, fields: Any
) -> None:
    ana = open_memory(None).user("ana")
    told(ana, **fields)
    assert SECRET in shown(ana)
    assert ana.hide("r0").status == "hidden"
    assert SECRET not in shown(ana)
    assert ana.recall("fruit").evidence[0].labels == []
    (kept,) = ana.get_records("r0")
    assert (kept.text, kept.status) == (f"Cannot eat {SECRET}.", "hidden")
    assert [one.op for one in ana.history("r0")] == ["create", "hide"]
    assert ana.unhide("r0").status == "active"
    assert SECRET in shown(ana)
    assert ana.doctor(sample=0).problems == []


def test_its_message_is_not_taken_for_outdated(open_memory: Any) -> None:
    memory = open_memory(None)
    told(memory.user("ana"))
    memory.user("ana").hide("r0")
    with memory._services.room("ana") as room:
        state = room.database.read(
            lambda c: stored_facts(c, ["m0"], ["r0"]), EVERYTHING
        )
    assert (state.outdated, state.superseded, state.current) == (set(), {}, set())


def test_it_is_in_no_prompt(open_memory: Any) -> None:
    model = good()
    ana = open_memory(model).user("ana")
    told(ana)
    ana.recall("Which fruit do I eat?", mode="reason")
    assert SECRET in str(model.asked)
    ana.hide("r0")
    model.asked.clear()
    ana.recall("Which fruit do I eat?", mode="reason")
    ana.add(turn("I like fruit."), session_id="s2")
    ana.flush()
    assert len(model.asked) > 2
    assert SECRET not in str(model.asked)


def test_topics_and_profile_are_written_anew_without_it(open_memory: Any) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    told(ana)
    tell(ana, BOATS, "s1")
    ana.flush()
    assert SECRET in ana.read_file("topics/boats.md")
    ana.hide("r0")
    assert ana.files() == []
    model.asked.clear()
    ana.flush()
    assert "I own a boat" in ana.read_file("topics/boats.md")
    assert SECRET not in str(model.asked) + ana.read_file("topics/boats.md")
    ana.unhide("r0")
    tell(ana, ("I paint.", "I dance."), "s2")
    ana.flush()
    assert SECRET in ana.read_file("topics/boats.md")


def test_what_it_superseded_stays_superseded_and_is_told_without_it(
    open_memory: Any,
) -> None:
    talk = Talk(open_memory(AnswersBySchema()))
    for message in ("m0", "m1"):
        talk.say(message)
    talk.record("old", "m0")
    talk.replace("old", "secret", "m1")
    assert "The record secret." in talk.user.recall("the words of m0").context
    talk.user.hide("secret")
    assert talk.status("old") == "superseded"
    assert "The record secret." not in talk.user.recall("the words of m0").context
    assert talk.user.changes("old")[0].by_text is None


def test_it_comes_back_as_it_would_be_now(open_memory: Any) -> None:
    talk = Talk(open_memory(None))
    for message in ("m0", "m1", "m2"):
        talk.say(message)
    for record in ("ended", "held"):
        talk.record(record, "m0")
        talk.user.hide(record)
    talk.record("newer", "m1", supersedes=["ended"])
    assert talk.user.unhide("ended").status == "superseded"
    assert talk.user.unhide("held").status == "active"
    talk.user.hide("ended")
    talk.user.forget(record="newer")
    assert talk.user.unhide("ended").status == "active"


def test_undo_shows_it_again(open_memory: Any) -> None:
    talk = Talk(open_memory(None))
    talk.say("m0")
    talk.record("a", "m0")
    talk.record("past", "m0", status="superseded", valid_to="2025-02-01")
    for record, status in (("a", "active"), ("past", "superseded")):
        talk.user.hide(record)
        assert talk.user.undo(record)[0].status == status
    talk.user.hide("a")
    talk.user.unhide("a")
    assert talk.user.undo("a")[0].status == "hidden"


def test_saying_it_again_does_not_show_it(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    told(ana)
    ana.hide("r0")
    row = {"text": f"Cannot eat {SECRET}.", "source_message_ids": ["m0"]}
    assert len(ana.add_records(row).already_known) == 1
    assert SECRET not in shown(ana)
    assert ana.hide("r0").status == "hidden"
    assert [one.op for one in ana.history("r0")] == ["create", "hide"]


def test_what_cannot_be_hidden_is_refused(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    with pytest.raises(InvalidInputError, match="no record 'r0'"):
        ana.hide("r0")
    told(ana)
    with pytest.raises(InvalidInputError, match="no record 'x'"):
        ana.unhide("x")
    ana.undo("r0")
    with pytest.raises(InvalidInputError, match="taken back"):
        ana.hide("r0")
    told_again = {
        "text": "Eats plums.",
        "record_id": "r1",
        "source_message_ids": ["m0"],
    }
    ana.add_records(told_again)
    ana.hide("r1")
    with pytest.raises(InvalidInputError, match="unhide it first"):
        ana.correct("r1", "Eats pears.")


def test_an_export_keeps_it_hidden(open_memory: Any) -> None:
    memory = open_memory(None)
    ana, copy = memory.user("ana"), memory.user("copy")
    told(ana)
    ana.hide("r0")
    copy.add(ana.export(), session_id="s")
    copy.add_records(ana.export_records(history=True))
    assert SECRET not in shown(copy)
    assert copy.unhide("r0").status == "active"
