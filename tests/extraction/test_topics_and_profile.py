"""Records are gathered into topic tracks and a profile."""

from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from tests.support.models import AnswersBySchema
from tests.support.topic_tracks import PROFILE, active, gather
from tests.support.writing import BAD_ROUNDS, echo, track, turn


def test_records_are_gathered_into_tracks_and_a_profile(open_memory: Any) -> None:
    ana = open_memory(
        AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    assert ana.flush().topics == 1
    assert ana.files() == ["index.md", "profile.md", "topics/boats.md"]
    track, (record,) = ana.read_file("topics/boats.md"), ana.search_records("boat")
    assert record.record_id in track
    assert "I own a boat." in track
    assert "Owns boats." in ana.read_file("profile.md")
    assert "Boats" in ana.read_file("index.md")
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    ana.flush()
    later = ana.read_file("topics/boats.md")
    assert "I own a boat." in later
    assert "canoe" in later
    assert "version: 2" in later
    for name in ("../ledger.db", "topics/../../x", "/etc/passwd", "topics/none.md", "", None):
        with pytest.raises(InvalidInputError, match=r"There are: index\.md"):
            ana.read_file(name)


@pytest.mark.parametrize("name", BAD_ROUNDS)
def test_a_bad_round_leaves_the_files_and_is_due_again(open_memory: Any, name: str) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(model).user("ana")
    ana.add(turn("I own a boat with a long story behind it."), session_id="s1")
    ana.flush()
    before = {file: ana.read_file(file) for file in ana.files()}
    model.answers["TopicRound"] = BAD_ROUNDS[name]
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    report = ana.flush()
    assert report.problems
    assert report.stored == 1
    assert {file: ana.read_file(file) for file in ana.files()} == before
    model.answers["TopicRound"] = gather
    ana.add(turn("hm", number=3), session_id="s2")
    assert ana.flush().topics == 1
    assert "canoe" in ana.read_file("topics/boats.md")


def test_a_flush_without_messages_takes_up_a_round_that_failed(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound="prose", ProfileText=PROFILE)
    ana = open_memory(model).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    assert ana.flush().topics == 0
    model.answers["TopicRound"] = gather
    report = ana.flush()
    assert (report.read, report.topics) == (0, 1)
    assert ana.flush().llm_calls == 0


def test_a_new_session_makes_a_round_due(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(model).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    for number in range(2, 6):
        ana.add(turn(f"line {number}", number=number), session_id="s2")
        ana.drain(10)
    assert "line 2" in ana.read_file("topics/boats.md")


def test_a_track_may_absorb_another(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(model).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    (first,) = ana.export_records()
    model.answers["TopicRound"] = track(name="water", title="Water", absorbs=["boats"])
    model.answers["ProfileText"] = {"text": "Likes water.", "topics": ["water"]}
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    ana.flush()
    assert ana.files() == ["index.md", "profile.md", "topics/water.md"]
    assert first["record_id"] in ana.read_file("topics/water.md")
    assert "boats" not in ana.read_file("index.md")


def test_a_bad_profile_leaves_the_old_one(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(model).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    for number, bad in enumerate(["prose", {"text": "x" * 3_000, "topics": []}, OSError("out")]):
        model.answers["ProfileText"] = bad
        ana.add(turn(f"I bought canoe {number}.", number=number + 2), session_id=f"s{number + 2}")
        assert ana.flush().problems
        assert "Owns boats." in ana.read_file("profile.md")


def test_an_undone_record_does_not_block_its_track(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(model).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    ana.undo(active(ana)[0])
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    assert ana.flush().topics == 1
    assert "canoe" in ana.read_file("topics/boats.md")
