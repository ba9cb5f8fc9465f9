"""The loaders of BEAM, VehicleMemBench and PrefEval."""

from pathlib import Path

import pytest

from benchmarks.data import LOADERS
from benchmarks.data.items import BenchDataError
from tests.benchmarks import tiny


def test_beam_has_its_gold_under_names_of_any_depth(tmp_path: Path) -> None:
    [chat] = LOADERS["beam"](tiny.beam(tmp_path)).conversations
    assert [session.session_id for session in chat.sessions] == ["batch-1", "batch-2"]
    said = [message for session in chat.sessions for message in session.messages]
    assert said[0]["content"] == "The sprint ends on 29 March."
    # a message without a date has that of the one before
    assert {message["at"] for message in said} == {"2024-03-15T00:00:00+00:00"}
    update, abstention = chat.questions
    assert update.gold == {"0", "2"}
    assert update.answer == "5 April\n- states 5 April"
    assert (abstention.gold, abstention.rule) == (frozenset(), "abstain")


def test_vehiclemem_has_the_messages_of_the_gold_minute(tmp_path: Path) -> None:
    [talk] = LOADERS["vehiclemem"](tiny.vehiclemem(tmp_path)).conversations
    assert [len(session.messages) for session in talk.sessions] == [2, 1]
    assert talk.sessions[0].messages[0]["name"] == "Ann Lee"
    [asked] = talk.questions
    assert asked.gold == {"m1", "m2"}
    assert asked.answer == 'set_color(color="green")'


def test_prefeval_has_each_preference_in_three_forms(tmp_path: Path) -> None:
    talks = LOADERS["prefeval"](tiny.prefeval(tmp_path)).conversations
    told = {talk.questions[0].category: talk for talk in talks}
    gold = {form: talk.questions[0].gold for form, talk in told.items()}
    assert gold == {"explicit": {"p0"}, "choice": {"p2"}, "persona": {"p0"}}
    assert {len(talk.sessions[1].messages) for talk in talks} == {2}


@pytest.mark.parametrize("name", ["beam", "vehiclemem", "prefeval"])
def test_what_is_absent_is_said_with_where_it_comes_from(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(BenchDataError, match=r"github\.com"):
        LOADERS[name](tmp_path)


def test_chats_say_whose_words_are_asked_for(tmp_path: Path) -> None:
    [talk] = LOADERS["chats"](tiny.chats(tmp_path)).conversations
    [asked] = talk.questions
    assert (asked.gold, asked.category, asked.kind) == ({"m0"}, "user", "planning")
    assert {m["at"] for m in talk.sessions[0].messages} == {"2026-02-03T19:10:00"}
