"""What a model writes by a tool is the assistant's word, and changes nothing that the user said."""

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.tools import create_memory_tools
from tests.conftest import said
from tests.support.tool_words import (
    calls,
    check_that_hostile_mail_changes_nothing,
    held,
    known,
    run,
)


def test_hostile_mail_changes_nothing_of_the_users(memory: Memory) -> None:
    check_that_hostile_mail_changes_nothing(memory)


def test_what_the_user_asks_to_remember_is_there_and_shows_whose_words_it_is(
    memory: Memory,
) -> None:
    user = known(memory)
    wish = {"text": "Ana has the locker 4711.", "quote": "my locker is 4711"}
    (answer,) = run(
        memory, user, "Remember that my locker is 4711.", calls(("remember", wish))
    )
    assert answer.startswith("Remembered as r-")
    assert "note" not in answer
    (found,) = [one for one in user.records() if "4711" in one.text]
    told = (found.origin, found.confirmation, found.made_by)
    assert told == ("assistant", "confirmed", "assistant")
    said = {one.text: one.id for one in user.get_conversation(found.message_ids)}
    assert said.keys() == {
        "Ana has the locker 4711.",
        "Remember that my locker is 4711.",
    }
    context = user.recall("Which locker?").context
    assert "assistant [noted-" in context
    user.forget(
        message=said["Remember that my locker is 4711."]
    )  # it rests on the user's message, too
    assert user.get_records(found.record_id) == []


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("", "Ana has the locker 4711."),
        ("my locker is 4712", "Ana has the locker 4711."),
        ("locker", "Ana has the locker 4711."),
        ("my locker is 4711", "Ana has the locker 9999."),
    ],
)
def test_without_words_of_the_users_it_is_a_draft(
    memory: Memory, quote: str, text: str
) -> None:
    user = known(memory)
    wish = {"text": text, "quote": quote}
    (answer,) = run(
        memory, user, "Remember that my locker is 4711.", calls(("remember", wish))
    )
    assert "It counts as your note" in answer
    (found,) = [one for one in user.records() if one.text == text]
    assert (found.origin, found.confirmation) == ("assistant", "draft")
    rule = {"text": text, "quote": quote, "kind": "instruction"}
    (refused,) = run(
        memory, user, "Remember that my locker is 4711.", calls(("remember", rule))
    )
    assert "An instruction needs words of the user's own" in refused


def test_words_in_the_users_turn_that_an_assistant_wrote_bear_nothing_out(
    memory: Memory,
) -> None:
    user = known(memory)
    handed_on = said("My locker is 4711.", id="handed on", origin="assistant")
    user.add([handed_on], session_id="s", at="2025-01-02")
    quoted = {"quote": "My locker is 4711", "session_id": "s"}
    note = user.remember("Ana has the locker 4711.", origin="assistant", **quoted)
    assert (note.origin, note.confirmation) == ("assistant", "draft")


def test_the_user_corrects_by_an_agent(memory: Memory) -> None:
    user = known(memory)
    right = {"record_id": "bank", "text": "Ana's bank account is PT50 0003."}
    asked = "No, my account is PT50 0003 now."
    (answer,) = run(memory, user, asked, calls(("correct", right)))
    assert "Not corrected: bank rests on the user's words and still holds" in answer
    assert held(user)[0][1] == "active"
    quoted = {**right, "quote": "my account is PT50 0003"}
    (answer,) = run(memory, user, asked, calls(("correct", quoted)))
    assert answer.endswith("holds instead of bank.")
    (change,) = user.changes("bank")
    assert (change.relation, change.quote) == ("corrects", quoted["quote"])
    assert [one.text for one in user.get_conversation(change.message_id)] == [asked]
    user.undo("bank")
    assert user.get_records("bank")[0].status == "active"


def test_a_model_may_correct_its_own_note_and_the_user_takes_it_up(
    memory: Memory,
) -> None:
    user = known(memory)
    note = user.remember("Ana likes tea.", origin="assistant")
    right = user.correct(note.record_id, "Ana likes green tea.", origin="assistant")
    assert right.supersedes == [note.record_id]
    assert (right.confirmation, right.origin) == ("draft", "assistant")
    taken = user.remember("Ana likes green tea.")
    assert (taken.record_id, taken.confirmation) == (right.record_id, "confirmed")
    beside = user.correct(taken.record_id, "Ana likes coffee.", origin="assistant")
    assert beside.supersedes == []
    assert user.get_records(taken.record_id)[0].status == "active"
    with pytest.raises(
        InvalidInputError, match="origin must be one of user, assistant"
    ):
        user.remember("x", origin="tool")


def test_explicit_trust(memory: Memory) -> None:
    user = known(memory)
    right = {"record_id": "bank", "text": "Ana's bank account is PT50 0003."}
    run(memory, user, "Correct it.", calls(("correct", right)), trust="user")
    assert user.get_records("bank")[0].status == "superseded"
    with pytest.raises(InvalidInputError, match="trust must be one of user, assistant"):
        create_memory_tools(memory, trust="tool")  # type: ignore[arg-type]
