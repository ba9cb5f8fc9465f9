"""Changes that are refused: each safety check of `check_changes`, and what is left of them."""

from typing import Any

import pytest

from tests.support.changes_in_talk import BERLIN, HOME, Talk
from tests.support.writing import change, memories, record_alias

PORTO_NOW = [HOME["text"]]


def assert_refused(talk: Talk, report: Any, reason: str) -> None:
    """The record holds on, and the report says why."""
    assert talk.record.status == "active"
    assert talk.record.valid_to is None
    assert report.updated == 0
    assert report.refused_changes == 1
    assert any(reason in one for one in report.reasons), report.reasons
    assert not [one for one in talk.ana.changes(talk.old) if one.relation != "details"]


# --- the quote -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quote", ["I sold my flat", "I moved from Berlin", "Berlin to moved"]
)
def test_an_invented_quote(new_talk: Any, quote: str) -> None:
    talk = new_talk()
    report = talk.tell("No, I moved to Berlin.", "replaces", BERLIN, quote=quote)
    assert_refused(talk, report, "does not stand in the message")
    # What was said is kept beside the record, and linked.
    assert talk.holding() == sorted([HOME["text"], BERLIN["text"]])
    assert (talk.label.relation, talk.label.by_text) == ("details", BERLIN["text"])
    assert talk.label.quote == ""  # what nobody said is not kept as a quote
    assert talk.label.quote == ""  # no label shows words that nobody said


def test_an_invented_quote_without_a_memory_does_nothing_at_all(new_talk: Any) -> None:
    talk = new_talk()
    report = talk.tell("No, I moved to Berlin.", "ended", quote="I sold my flat")
    assert_refused(talk, report, "does not stand in the message")
    assert talk.ana.changes(talk.old) == []
    assert talk.ops() == ["create"]


def test_words_of_another_message(new_talk: Any) -> None:
    talk = new_talk()
    talk.say("My sister moved to Berlin.", id="u2", at="2025-06-01")
    talk.say("She likes it.", id="u3", at="2025-06-01")
    report = talk.flush("ended", "moved to Berlin", message="m2")
    assert_refused(talk, report, "does not stand in the message")


@pytest.mark.parametrize("quote", ["Berlin", "moved", "Berlin."])
def test_one_word_of_a_message(new_talk: Any, quote: str) -> None:
    talk = new_talk()
    report = talk.tell("No, I moved to Berlin.", "ended", quote=quote)
    assert_refused(talk, report, "one word")


def test_a_message_of_one_word_may_be_quoted(new_talk: Any) -> None:
    talk = new_talk()
    assert talk.tell("Moved!", "ended", quote="moved").updated == 1


@pytest.mark.parametrize("quote", ["", "  "])
def test_no_quote(new_talk: Any, quote: str) -> None:
    talk = new_talk()
    talk.say("No, I moved to Berlin.", id="u2", at="2025-06-01")
    assert_refused(talk, talk.flush("ended", quote), "does not stand in the message")


# --- whose words -----------------------------------------------------------------------------


def test_the_assistants_words_alone(new_talk: Any) -> None:
    talk = new_talk()
    talk.say("Where do I live?", id="u2", at="2025-06-01")
    talk.say("You have moved to Berlin.", role="assistant", id="a2", at="2025-06-01")
    report = talk.flush("replaces", "moved to Berlin", BERLIN, message="m2")
    assert_refused(talk, report, "not the user's")


PROPOSAL = "Shall I note that you moved to Berlin?"


def proposed(talk: Talk, answer: str, **fields: Any) -> Any:
    """The assistant proposes a change, the user answers, and the model quotes both."""
    talk.say(PROPOSAL, role="assistant", id="a2", at="2025-06-01T10:00")
    talk.say(answer, **{"id": "u3", "at": "2025-06-01T10:01"} | fields.pop("said", {}))
    given = {"agreed_message": "m2", "agreed_quote": answer, "message": "m1"}
    agreed = {**BERLIN, "sources": ["m1", "m2"]}
    return talk.flush("replaces", "you moved to Berlin", agreed, **(given | fields))


def test_a_proposal_that_the_user_agreed_to(new_talk: Any) -> None:
    talk = new_talk()
    report = proposed(talk, "Yes, please do.")
    assert (report.updated, report.ended_by) == (1, {"u3": 1})
    label = talk.label
    assert (label.message_id, label.quote) == ("a2", "you moved to Berlin")
    assert (label.agreed_message_id, label.agreed_quote) == ("u3", "Yes, please do.")
    talk.ana.undo(message="u3")
    assert talk.record.status == "active"


def test_an_agreement_that_nobody_gave(new_talk: Any) -> None:
    talk = new_talk()
    report = proposed(talk, "No, I did not.", agreed_quote="Yes, please do.")
    assert_refused(talk, report, "the agreement does not stand")


@pytest.mark.parametrize("fragment", ["o", "ever", "!", "' '"])
def test_a_fragment_of_a_word_is_no_agreement(new_talk: Any, fragment: str) -> None:
    talk = new_talk()
    report = proposed(talk, "No, never!", agreed_quote=fragment)
    assert_refused(talk, report, "the agreement does not stand")


def test_an_agreement_of_no_words(new_talk: Any) -> None:
    talk = new_talk()
    assert_refused(
        talk, proposed(talk, "No.", agreed_quote=""), "the agreement does not stand"
    )


def test_an_agreement_of_the_assistants_own(new_talk: Any) -> None:
    talk = new_talk()
    talk.say("I told you about Porto.", id="u0", at="2025-06-01T09:00")
    fields = {"message": "m2", "agreed_message": "m3"}
    report = proposed(talk, "Yes, please do.", said={"role": "assistant"}, **fields)
    assert_refused(talk, report, "no words of the user's agree")


def test_an_agreement_before_the_proposal(new_talk: Any) -> None:
    talk = new_talk()
    report = proposed(talk, "Yes, please do.", said={"at": "2025-05-01"})
    assert_refused(talk, report, "the agreement does not stand")


def test_an_agreement_of_an_earlier_batch(new_talk: Any) -> None:
    """It was read when it was said, and may have meant something else."""
    talk = new_talk()
    talk.say("Yes, please do.", id="u2", at="2025-06-01T10:00")
    talk.model.answers["Extraction"] = memories()
    talk.ana.flush()
    talk.say(PROPOSAL, role="assistant", id="a3", at="2025-06-01T10:00")
    talk.say("I told you about Porto.", id="u3", at="2025-06-01T10:01")
    fields = {"agreed_message": "b1", "agreed_quote": "Yes, please do."}
    report = talk.flush("replaces", "you moved to Berlin", BERLIN, **fields)
    assert_refused(talk, report, "the agreement is not among the new messages")


def test_the_users_words_of_an_earlier_batch(new_talk: Any) -> None:
    talk = new_talk()
    talk.say("I moved to Berlin.", id="u2", at="2025-06-01T10:00")
    talk.model.answers["Extraction"] = memories()
    talk.ana.flush()
    talk.say("hm", id="u3", at="2025-06-01T10:01")
    report = talk.flush("ended", "moved to Berlin", message="b1")
    assert_refused(talk, report, "not among the new ones")


@pytest.mark.parametrize("origin", ["import", "tool"])
def test_words_from_elsewhere(new_talk: Any, origin: str) -> None:
    talk = new_talk()
    talk.say("The user moved to Berlin.", id="u2", at="2025-06-01", origin=origin)
    report = talk.flush("replaces", "moved to Berlin", BERLIN)
    assert_refused(talk, report, "not the user's")


@pytest.mark.parametrize("origin", ["import", "tool"])
def test_words_from_elsewhere_are_nothing_to_agree_to(
    new_talk: Any, origin: str
) -> None:
    talk = new_talk()
    talk.say("The user moved to Berlin.", id="u2", at="2025-06-01T10:00", origin=origin)
    talk.say("Yes, thanks.", id="u3", at="2025-06-01T10:01")
    fields = {"agreed_message": "m2", "agreed_quote": "Yes, thanks."}
    report = talk.flush("replaces", "moved to Berlin", BERLIN, **fields)
    assert_refused(talk, report, "neither the user's nor a proposal")


@pytest.mark.parametrize("origin", ["import", "tool"])
def test_words_from_elsewhere_agree_to_nothing(new_talk: Any, origin: str) -> None:
    talk = new_talk()
    report = proposed(talk, "Yes, please do.", said={"origin": origin})
    assert_refused(talk, report, "no words of the user's agree")


# --- between named people --------------------------------------------------------------------

OF_EVA = {
    "text": "Eva lives in Porto.",
    "sources": ["m1"],
    "subject": "Eva",
    "attribute": "home",
}


def eva_said(new_talk: Any, name: str, **fields: Any) -> Any:
    """A record of Eva's, and what somebody else in the talk says about it."""
    talk = new_talk(OF_EVA, "I live in Porto.", name="Eva")
    talk.say("No longer in Porto.", name=name, id="x2", at="2025-06-01", **fields)
    return talk, talk.flush("ended", "No longer in Porto.")


@pytest.mark.parametrize("name", ["Eva", "eva ", "EVA"])
def test_a_speaker_changes_what_is_recorded_of_herself(
    new_talk: Any, name: str
) -> None:
    talk, report = eva_said(new_talk, name, role="assistant")
    assert (report.updated, talk.label.relation) == (1, "ended")


def test_another_speaker_does_not(new_talk: Any) -> None:
    talk, report = eva_said(new_talk, "Ben", role="assistant")
    assert_refused(talk, report, "not the user's")


def test_a_name_makes_no_words_of_elsewhere_her_own(new_talk: Any) -> None:
    talk, report = eva_said(new_talk, "Eva", origin="import")
    assert_refused(talk, report, "not the user's")


# --- what is settled, and instructions -------------------------------------------------------


def test_a_draft_does_not_replace_what_is_confirmed(new_talk: Any) -> None:
    talk = new_talk()
    draft = {**BERLIN, "draft": True}
    report = talk.tell("I may move to Berlin.", "replaces", draft)
    assert_refused(talk, report, "a draft does not take the place")
    assert talk.label.relation == "details"


def test_a_draft_may_replace_a_draft(new_talk: Any) -> None:
    talk = new_talk({**HOME, "draft": True}, "I may move to Porto.")
    assert (
        talk.tell(
            "Or to Berlin, rather.", "replaces", {**BERLIN, "draft": True}
        ).updated
        == 1
    )


RULE = {
    "text": "The assistant shall answer in French.",
    "kind": "instruction",
    "subject": "Bot",
    "attribute": "language",
    "sources": ["m1"],
}


def test_an_instruction_is_changed_by_the_user_alone(new_talk: Any) -> None:
    """The assistant has the name of the record's subject, and still may not."""
    talk = new_talk(RULE, "Answer in French.")
    talk.say(
        "I answer in English now.",
        role="assistant",
        name="Bot",
        id="a2",
        at="2025-06-01",
    )
    assert_refused(talk, talk.flush("ended", "in English now"), "only the user changes")
    talk.say("English again, please.", id="u3", at="2025-06-02", session="s3")
    assert talk.flush("ended", "English again, please.").updated == 1


def test_the_user_agrees_to_another_instruction(new_talk: Any) -> None:
    talk = new_talk(RULE, "Answer in French.")
    talk.say("Shall I drop French?", role="assistant", id="a2", at="2025-06-01T10:00")
    talk.say("Yes, drop it.", id="u3", at="2025-06-01T10:01")
    fields = {"agreed_message": "m2", "agreed_quote": "Yes, drop it."}
    assert talk.flush("ended", "Shall I drop French?", **fields).updated == 1


@pytest.mark.parametrize(("origin", "stored"), [("import", 0), ("user", 1)])
def test_an_instruction_rests_on_the_users_words(
    new_talk: Any, origin: str, stored: int
) -> None:
    talk = new_talk()
    talk.model.answers["Extraction"] = memories(RULE)
    talk.say("Answer in French from now on.", id="u2", at="2025-06-01", origin=origin)
    report = talk.ana.flush()
    assert (report.stored, report.refused) == (stored, 1 - stored)
    rules = [row.get("kind") for row in talk.ana.export_records()]
    assert rules.count("instruction") == stored
    if not stored:
        assert any("rests on no message of the user's" in one for one in report.reasons)


def test_the_assistants_words_make_no_instruction(new_talk: Any) -> None:
    talk = new_talk()
    talk.model.answers["Extraction"] = memories(RULE)
    talk.say("I shall answer in French.", role="assistant", id="a2", at="2025-06-01")
    assert talk.ana.flush().refused == 1


# --- many at once ----------------------------------------------------------------------------


def boats(count: int) -> list[dict[str, Any]]:
    return [
        {
            "text": f"The user owns boat {n} indeed.",
            "sources": ["m1"],
            "attribute": f"boat {n}",
        }
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [1, 5, 6, 12])
def test_a_message_lets_any_number_of_records_end(new_talk: Any, count: int) -> None:
    talk = new_talk()
    talk.say(f"Boats {' '.join(map(str, range(count)))}.", id="u2", at="2025-02-01")
    talk.model.answers["Extraction"] = memories(*boats(count))
    assert talk.ana.flush().stored == count

    def extract(question: str) -> dict[str, Any]:
        shown = [record_alias(question, one["text"]) for one in boats(count)]
        ended = [change(alias, "ended", "sold them all") for alias in shown]
        berlin = change(
            record_alias(question, HOME["text"]), "replaces", "moved here", message="m2"
        )
        return memories({**BERLIN, "sources": ["m2"]}, changes=[*ended, berlin])

    talk.say("I sold them all, all boats.", id="u3", at="2025-03-01", session="s3")
    talk.say("And moved here, to Berlin.", id="u4", at="2025-03-02", session="s3")
    talk.model.answers["Extraction"] = extract
    report = talk.ana.flush()
    assert (report.updated, report.reasons) == (count + 1, [])
    assert report.ended_by == {"u3": count, "u4": 1}
    assert talk.holding() == [BERLIN["text"]]


# --- what was shown, and what holds ----------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "message"),
    [("n99", "m1"), ("x", "m1"), ("n1", "m99"), ("n1", "u2"), ("n1", "")],
)
def test_what_was_not_shown_is_not_changed(
    new_talk: Any, record: str, message: str
) -> None:
    talk = new_talk()
    talk.say("I moved to Berlin.", id="u2", at="2025-06-01")
    ended = change(record, "ended", "I moved to Berlin.", message=message)
    talk.model.answers["Extraction"] = memories(changes=[ended])
    report = talk.ana.flush()
    assert talk.holding() == PORTO_NOW
    assert talk.ana.changes(talk.old) == []
    assert any("was not shown" in one for one in report.reasons)


@pytest.mark.parametrize("written", ["[n1]", "N1", "n1:", "record n1"])
def test_an_alias_may_be_written_otherwise(new_talk: Any, written: str) -> None:
    talk = new_talk()
    talk.say("I moved away.", id="u2", at="2025-06-01")
    ended = change(written, "ended", "I moved away.", message="[m1]")
    talk.model.answers["Extraction"] = memories(changes=[ended])
    assert talk.ana.flush().updated == 1


def test_another_users_records_are_never_shown(new_talk: Any) -> None:
    talk = new_talk()
    bob = talk.memory.user(f"not {talk.ana.id}")
    bob.add([{"role": "user", "content": "I live in Porto no more."}], session_id="s")
    ended = change("n1", "ended", "I live in Porto no more.")
    talk.model.answers["Extraction"] = memories(changes=[ended])
    assert bob.flush().updated == 0
    assert "none" in talk.model.asked[-1][1]
    assert talk.holding() == PORTO_NOW


def meanwhile(talk: Talk, act: Any, *new: dict[str, Any]) -> Any:
    """A change of the record, which something else changes while the model is asked."""

    def extract(question: str) -> dict[str, Any]:
        alias = record_alias(question, HOME["text"])
        act()
        return memories(*new, changes=[change(alias, "replaces", "I moved to Berlin.")])

    talk.model.answers["Extraction"] = extract
    talk.say("I moved to Berlin.", id="u2", at="2025-06-01")
    return talk.ana.flush()


def test_what_has_ended_meanwhile_does_not_end_again(new_talk: Any) -> None:
    talk = new_talk()
    report = meanwhile(
        talk, lambda: talk.ana.correct(talk.old, "I live in Lisbon."), BERLIN
    )
    assert (report.refused_changes, report.updated) == (1, 0)
    assert any("no longer holds" in one for one in report.reasons)
    assert talk.holding() == sorted(["I live in Lisbon.", BERLIN["text"]])
    assert talk.label.by_text == "I live in Lisbon."


def test_what_was_undone_meanwhile_is_not_changed(new_talk: Any) -> None:
    talk = new_talk()
    report = meanwhile(talk, lambda: talk.ana.undo(talk.old), BERLIN)
    assert report.refused_changes == 1
    assert talk.record.status == "discarded"
    assert talk.holding() == [BERLIN["text"]]


def test_what_was_forgotten_meanwhile_leaves_the_batch_to_be_read_again(
    new_talk: Any,
) -> None:
    talk = new_talk()
    report = meanwhile(talk, lambda: talk.ana.forget(record=talk.old), BERLIN)
    assert (report.stored, report.updated) == (0, 0)
    talk.model.answers["Extraction"] = memories(BERLIN)
    talk.ana.flush()
    assert talk.holding() == [BERLIN["text"]]


def test_the_reasons_are_in_the_log_of_calls(new_talk: Any) -> None:
    """What the model wrote can be looked up beside what became of it."""
    talk = new_talk()
    report = talk.tell("No, I moved to Berlin.", "ended", quote="I sold my flat")
    assert report.reasons == ["ended: the quote does not stand in the message"]
    (call,) = [one for one in talk.ana.calls() if "u2" in one.message_ids]
    assert call.refused == report.reasons


def test_a_successor_that_cannot_be_used_ends_nothing(new_talk: Any) -> None:
    talk = new_talk()
    uncited = {**BERLIN, "sources": ["m99"]}
    report = talk.tell("No, I moved to Berlin.", "replaces", uncited)
    assert_refused(talk, report, "cannot be used")
    assert talk.holding() == PORTO_NOW
