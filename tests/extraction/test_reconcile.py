"""The second call: what new statements change in records that the first one did not show."""

import re
from typing import Any

import pytest

from tests.support.models import AnswersBySchema
from tests.support.writing import change, memories, record_alias, turn

PORTO = {"text": "The user lives in Porto.", "sources": ["m1"], "attribute": "home"}
BERLIN = {"text": "The user lives in Berlin.", "sources": ["m1"], "attribute": "home"}


def asked(model: AnswersBySchema, step: str = "Reconciliation") -> list[str]:
    return [question for name, question in model.asked if name == step]


def told(
    open_memory: Any, answer: Any, new: Any = None, **settings: Any
) -> tuple[Any, Any, Any]:
    """Porto was recorded; the first call of the next talk shows no records at all.

    Returns:
        The user, the model and the report of the second talk.
    """
    model = AnswersBySchema(Extraction=memories(PORTO))
    ana = open_memory(model, **{"extraction__records_shown": 0} | settings).user("ana")
    ana.add(turn("I live in Porto."), session_id="s1", at="2025-01-01")
    ana.flush()
    model.answers |= {"Extraction": memories(BERLIN if new is None else new)}
    model.answers |= {"Reconciliation": answer}
    ana.add(turn("No, I moved to Berlin."), session_id="s2", at="2025-06-01")
    return ana, model, ana.flush()


def test_a_record_that_was_not_shown_is_changed_in_a_second_call(
    open_memory: Any,
) -> None:
    def decide(question: str) -> dict[str, Any]:
        alias = record_alias(question, "Porto")
        return {"changes": [change(alias, "replaces", "I moved to Berlin")]}

    ana, model, report = told(open_memory, decide)
    assert (report.stored, report.updated) == (1, 1)
    (question,) = asked(model)
    assert question.splitlines() == [
        "Records:",
        'n1 2025-01-01 (user / home) "The user lives in Porto."',
        "New memories:",
        '0: (user / home) "The user lives in Berlin."',
        "Messages:",
        'm1 Sun 2025-06-01 00:00 user: "No, I moved to Berlin."',
        'm2 Sun 2025-06-01 00:00 assistant: "I see."',
    ]
    (old,) = [row for row in ana.export_records(history=True) if "Porto" in row["text"]]
    (label,) = ana.changes(old["record_id"])
    assert (label.relation, label.quote) == ("replaces", "I moved to Berlin")
    assert label.by_text == "The user lives in Berlin."


def test_what_the_first_call_showed_needs_no_second_one(open_memory: Any) -> None:
    _, model, report = told(open_memory, {"changes": []}, extraction__records_shown=30)
    assert asked(model) == []
    assert report.stored == 1


def test_without_anything_near_there_is_no_second_call(open_memory: Any) -> None:
    pet = {"text": "A zebrafish swims around.", "sources": ["m1"], "attribute": "pet"}
    _, model, report = told(open_memory, {"changes": []}, pet)
    assert asked(model) == []
    assert report.stored == 1


def test_without_a_new_statement_there_is_no_second_call(open_memory: Any) -> None:
    _, model, report = told(
        open_memory, {"changes": []}, {"text": " ", "sources": ["m1"]}
    )
    assert asked(model) == []
    assert (report.stored, report.refused) == (0, 1)


def test_what_the_model_looks_for_is_shown_in_a_second_call(open_memory: Any) -> None:
    """Though the message has no word of the record, and nothing new is to be stored."""
    cello = {"text": "The user rents a cello from Harcourt's.", "sources": ["m1"]}
    carpet = {"text": "The carpet is green.", "sources": ["m1"]}
    model = AnswersBySchema(Extraction=memories(cello, carpet))
    ana = open_memory(model, extraction__records_shown=1).user("ana")
    ana.add(turn("A cello from Harcourt's."), session_id="s1", at="2025-01-01")
    ana.flush()
    said = "The carpet is green, just four dents since September."
    ana.add(turn(said, number=2), session_id="s2", at="2025-10-01")

    def decide(question: str) -> dict[str, Any]:
        return {
            "changes": [change(record_alias(question, "cello"), "ended", "four dents")]
        }

    model.answers["Extraction"] = memories(look_for=["The user rents a cello."])
    model.answers["Reconciliation"] = decide
    ana.flush()
    assert said in asked(model)[0]
    assert [row["text"] for row in ana.export_records()] == [carpet["text"]]


def test_what_was_shown_is_not_looked_for_again(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories(PORTO))
    ana = open_memory(model).user("ana")
    ana.add(turn("I live in Porto."), session_id="s1")
    ana.flush()
    model.answers["Extraction"] = memories(look_for=["The user lives in Porto."])
    ana.add(turn("The sea is far away now.", number=2), session_id="s2")
    ana.flush()
    assert asked(model) == []


def test_what_is_unlike_what_the_model_looks_for_needs_no_second_call(
    open_memory: Any,
) -> None:
    names = "ash birch cedar elm fir gum hazel ivy juniper kapok larch maple".split()
    owned = [
        f"The user has a {one} in the {place}."
        for one in names
        for place in ("yard", "hall")
    ]
    trees = [
        {"text": text, "sources": ["m1"], "attribute": text[15:25]} for text in owned
    ]
    model = AnswersBySchema(Extraction=memories(*trees))
    ana = open_memory(model, extraction__records_shown=1).user("ana")
    ana.add(turn("I have trees everywhere."), session_id="s1")
    ana.flush()
    shown = change("n1", "confirms", "were sold")
    model.answers["Extraction"] = memories(
        changes=[shown], look_for=["Sergio rents out seven kayaks on Sundays"]
    )
    ana.add(turn("Seven were sold.", number=2), session_id="s2")
    ana.flush()
    assert asked(model) == []
    shown = change("n1", "confirms", "was felled")
    model.answers["Extraction"] = memories(
        changes=[shown], look_for=["The user has a larch in the yard."]
    )
    ana.add(turn("It was felled.", number=3), session_id="s3")
    ana.flush()
    assert owned[20] in asked(model)[0]


@pytest.mark.parametrize(("ended", "calls"), [(2, 0), (3, 1)])
def test_after_a_large_change_what_is_roughly_meant_is_shown(
    open_memory: Any, ended: int, calls: int
) -> None:
    """What rested on the old state is not said as the model asks for it."""
    names = "ash birch cedar elm fir gum".split()
    trees = [
        f"The user has a {name} in the {place}."
        for name in names
        for place in ("yard", "hall")
    ]
    unlike = [
        "Vera bakes rye.", "Two goats escaped!", "Rain fell all June.", "Otto sings bass.",
        "Ink stains wool.", "My uncle fished.", "No bus ran today.", "Seven ships left.",
        "Cousin Bo limps.", "Jazz bores Lena.", "Exams start soon.", "Piet paints doors.",
    ]  # fmt: skip
    owned = [{"text": text, "sources": ["m1"]} for text in [*unlike, *trees]]
    model = AnswersBySchema(Extraction=memories(*owned))
    ana = open_memory(model, extraction__records_shown=4).user("ana")
    ana.add(turn("There is much to tell."), session_id="s1")
    ana.flush()
    changes = [change(f"n{n}", "ended", "sold the house") for n in range(1, ended + 1)]
    model.answers["Extraction"] = memories(
        changes=changes, look_for=["The user has an old gum in the hall."]
    )
    ana.add(turn("We sold the house.", number=2), session_id="s2")
    ana.flush()
    assert len(asked(model)) == calls


def test_a_longer_batch_is_shown_more_records(open_memory: Any) -> None:
    facts = [{"text": f"Fact {n} on boats.", "sources": ["m1"]} for n in range(40)]
    model = AnswersBySchema(Extraction=memories(*facts))
    ana = open_memory(model, extraction__records_shown=5).user("ana")
    ana.add(turn("Forty facts on boats."), session_id="s1")
    ana.flush()
    model.answers["Extraction"] = memories()
    for number in range(3):
        said = turn(f"Boats, {number}.", "boats " * 1_200, number=number)
        ana.add(said, session_id="s2")
    ana.flush()
    assert (
        len(re.findall(r"^n\d+ ", asked(model, "Extraction")[-1], re.MULTILINE)) == 14
    )


def test_what_no_longer_holds_is_not_asked_about(open_memory: Any) -> None:
    ended = {"changes": [change("n1", "replaces", "I moved to Berlin")]}
    ana, model, _ = told(open_memory, ended)
    ana.add(turn("I do live in Berlin.", number=3), session_id="s3", at="2025-07-01")
    again = {**BERLIN, "text": "Berlin is where the user lives."}
    model.answers |= {"Extraction": memories(again), "Reconciliation": {"changes": []}}
    ana.flush()
    assert "Porto" not in asked(model)[-1]
    assert "The user lives in Berlin." in asked(model)[-1]


def test_a_record_that_says_all_of_a_memory_is_confirmed(open_memory: Any) -> None:
    same = {**PORTO, "text": "Porto is the user's home."}
    confirmed = {"changes": [change("n1", "confirms", "I moved to Berlin", by=0)]}
    ana, _, report = told(open_memory, confirmed, same)
    assert report.stored == 0
    (row,) = ana.export_records()
    assert len(row["supporting_ids"]) == 1


def test_the_second_call_is_checked_as_the_first_one_is(open_memory: Any) -> None:
    invented = {"changes": [change("n1", "ended", "I left for good")]}
    ana, _, report = told(open_memory, invented)
    assert (report.updated, report.refused_changes) == (0, 1)
    assert len(ana.export_records()) == 2


def test_at_most_so_many_records_are_shown_in_it(open_memory: Any) -> None:
    homes = [{**PORTO, "text": f"The user lives in place {n}."} for n in range(8)]
    model = AnswersBySchema(Extraction=memories(*homes))
    settings = {"extraction__records_shown": 0, "extraction__records_reconciled": 3}
    ana = open_memory(model, **settings).user("ana")
    ana.add(turn("I live in eight places."), session_id="s1")
    ana.flush()
    model.answers["Extraction"] = memories(BERLIN)
    ana.add(turn("I moved to Berlin.", number=2), session_id="s2")
    ana.flush()
    (question,) = asked(model)
    shown = question.split("New memories:")[0].splitlines()[1:]
    assert [line.split()[0] for line in shown] == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    "answer", ["prose", None, ConnectionError("down"), {"changes": "none"}]
)
def test_without_an_answer_the_statement_is_stored(
    open_memory: Any, answer: Any
) -> None:
    ana, _, report = told(open_memory, answer)
    assert (report.stored, report.updated, report.pending) == (1, 0, 0)
    assert len(ana.export_records()) == 2


def test_what_is_forgotten_during_the_call_does_not_come_back(open_memory: Any) -> None:
    holder: list[Any] = []

    def decide(question: str) -> dict[str, Any]:
        holder[0].forget(session="s1")
        return {"changes": [change("n1", "replaces", "I moved to Berlin")]}

    model = AnswersBySchema(Extraction=memories(PORTO))
    ana = open_memory(model, extraction__records_shown=0).user("ana")
    holder.append(ana)
    ana.add(turn("I live in Porto."), session_id="s1")
    ana.flush()
    model.answers |= {"Extraction": memories(BERLIN), "Reconciliation": decide}
    ana.add(turn("No, I moved to Berlin.", number=2), session_id="s2")
    report = ana.flush()
    assert "Porto" not in str(ana.export_records(history=True))
    assert report.updated == 0
