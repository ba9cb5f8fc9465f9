"""What a round gathers into topic tracks and the profile."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from tests.support.changes import Talk
from tests.support.topic_tracks import (
    BOATS,
    CANOES,
    PROFILE,
    active,
    calls,
    changed_lines,
    gathering,
    questions,
    rows,
    tell,
    texts_in,
    user_with_source,
)
from tests.support.writing import change, echo, memories, record_alias, track, turn

# --- what a round makes ------------------------------------------------------------------------


def test_records_are_gathered_into_tracks_and_a_profile(open_memory: Any) -> None:
    ana = open_memory(gathering()).user("ana")
    tell(ana, BOATS, "s1")
    assert ana.flush().topics == 1
    assert ana.files() == ["index.md", "profile.md", "topics/boats.md"]
    told = ana.read_file("topics/boats.md")
    assert all(record in told for record in active(ana))
    assert "I own a boat." in told
    assert "Owns boats." in ana.read_file("profile.md")
    assert "Boats" in ana.read_file("index.md")
    tell(ana, CANOES, "s2")
    ana.flush()
    later = ana.read_file("topics/boats.md")
    assert "I own a boat." in later
    assert "I bought a canoe." in later
    assert "version: 2" in later
    for name in (
        "../ledger.db",
        "topics/../../x",
        "/etc/passwd",
        "topics/none.md",
        "",
        None,
    ):
        with pytest.raises(InvalidInputError, match=r"There are: index\.md"):
            ana.read_file(name)


def test_a_track_may_absorb_another_that_was_shown(open_memory: Any) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    first = active(ana)
    story = "Owns the boat Vega and sails on Sundays; bought a red canoe, which is in the shed."
    merged = track(name="water", title="Water", absorbs=["boats"], narrative=story)
    model.answers["TopicRound"] = merged
    model.answers["ProfileText"] = {"text": "Likes water.", "topics": ["water"]}
    tell(ana, CANOES, "s2")
    ana.flush()
    assert ana.files() == ["index.md", "profile.md", "topics/water.md"]
    assert all(record in ana.read_file("topics/water.md") for record in first)
    assert "boats" not in ana.read_file("index.md")


def test_a_record_without_a_track_is_not_asked_about_again(open_memory: Any) -> None:
    model = gathering(TopicRound={"tracks": []})
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    tell(ana, CANOES, "s2")
    ana.flush()
    first, second = questions(model, "TopicRound")
    assert texts_in(first) == [f"The user said: {text}" for text in BOATS]
    assert texts_in(second) == [f"The user said: {text}" for text in CANOES]


def test_an_undone_record_does_not_block_its_track(open_memory: Any) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    undone = active(ana)[0]
    ana.undo(undone)
    tell(ana, CANOES, "s2")
    assert ana.flush().topics == 1
    told = ana.read_file("topics/boats.md")
    assert "canoe" in told
    assert undone not in told
    taken_back = [
        line
        for line in changed_lines(questions(model, "TopicRound")[1]).values()
        if "taken back" in line
    ]
    assert len(taken_back) == 1
    assert BOATS[0] in taken_back[0]


# --- what no longer holds ----------------------------------------------------------------------


def selling(relation: str, *rest: dict[str, Any]) -> Callable[[str], Any]:
    """The message with "sold" ends what the record with "own a boat" says."""

    def extract(question: str) -> Any:
        if "sold" not in question.split("New messages:\n")[1]:
            return echo(question)
        alias = re.findall(r"^(m\d+) .*sold", question, re.MULTILINE)[0]
        older = record_alias(question, "own a boat")
        sold = change(
            older, relation, "I sold the boat", message=alias, since="2025-03-01"
        )
        return memories(*({**row, "sources": [alias]} for row in rest), changes=[sold])

    return extract


@pytest.mark.parametrize(
    ("relation", "rest", "said"),
    [
        ("ended", [], "no longer holds since 2025-03-01: ended"),
        (
            "replaces",
            [{"text": "The user owns a car."}],
            "since 2025-03-01: replaced by r",
        ),
        (
            "corrects",
            [{"text": "The user rents a boat."}],
            "was never right: corrected by r",
        ),
    ],
)
def test_a_round_says_what_no_longer_holds_and_whose_words_say_so(
    open_memory: Any, relation: str, rest: list[dict[str, Any]], said: str
) -> None:
    model = gathering(Extraction=selling(relation, *rest))
    ana = user_with_source(open_memory(model))
    ana.add(turn("I own a boat."), session_id="s1", at="2025-01-01")
    ana.add_records(rows("Vega is blue.", "Vega is old."))
    ana.flush()
    before = active(ana)
    ana.add(
        turn("I sold the boat in March.", number=2), session_id="s2", at="2025-04-01"
    )
    ana.add_records(rows("The shed is empty.", "The user saves money."))
    assert ana.flush().updated == 1
    ended = [
        line
        for line in changed_lines(questions(model, "TopicRound")[-1]).values()
        if "said: I own a boat." in line
    ]
    assert len(ended) == 1
    assert said in ended[0]
    assert '("I sold the boat")' in ended[0]
    told = ana.read_file("topics/boats.md")
    assert all(record in told for record in before)  # what has ended stays, as history


def test_a_round_tells_what_took_a_records_place_before_the_round(
    open_memory: Any,
) -> None:
    model = gathering()
    memory = open_memory(model)
    ana = user_with_source(memory)
    for name in ("boat", "car", "bike"):
        ana.add_records(rows(f"The user owns a {name}.", record_id=name))
    ana.flush()
    Talk(memory, "ana").change("boat", "replaces", "m0", by="car")
    ana.add_records(rows("The shed is empty.", "The user saves money."))
    ana.flush()
    changed = changed_lines(questions(model, "TopicRound")[-1]).values()
    (boat,) = (line for line in changed if "owns a boat" in line)
    assert 'replaced by "The user owns a car."' in boat


def test_a_track_all_of_whose_records_have_ended_stays_as_history(
    open_memory: Any,
) -> None:
    model = gathering(Extraction=selling("ended"))
    ana = user_with_source(open_memory(model))
    ana.add(turn("I own a boat."), session_id="s1", at="2025-01-01")
    ana.add_records(rows("Vega is blue.", "Vega is old."))
    model.answers["TopicRound"] = lambda question: {
        "tracks": [
            {
                "name": "boat",
                "summary": "s",
                "narrative": "A boat.",
                "evidence": [alias],
            }
            for alias, line in changed_lines(question).items()
            if "own a boat" in line
        ]
    }
    ana.flush()
    (boat,) = (
        r["record_id"] for r in ana.export_records() if "own a boat" in r["text"]
    )
    ana.add(
        turn("I sold the boat in March.", number=2), session_id="s2", at="2025-04-01"
    )
    ana.add_records(rows("The shed is empty.", "The user saves money."))
    model.answers["TopicRound"] = track(
        name="shed", narrative="Empty.", evidence=["r1", "r2"]
    )
    ana.flush()
    assert boat not in active(ana)
    assert boat in ana.read_file("topics/boat.md")
    assert "topics/shed.md" in ana.files()


# --- narratives --------------------------------------------------------------------------------


def many_tracks(question: str) -> dict[str, Any]:
    """A track for every record, named by its last word."""
    return {
        "tracks": [
            {
                "name": text.split()[-1],
                "summary": "s",
                "narrative": text,
                "evidence": [alias],
            }
            for alias, text in zip(
                changed_lines(question), texts_in(question), strict=True
            )
        ]
    }


def test_a_round_shows_the_narratives_of_the_tracks_that_its_records_belong_to(
    open_memory: Any,
) -> None:
    model = gathering(TopicRound=many_tracks, ProfileText={"text": "", "topics": []})
    ana = user_with_source(open_memory(model))
    things = ["boat", "bike", "car", "dog", "flat", "garden", "harp", "ink", "jam"]
    ana.add_records(
        [
            rows(f"About a {thing}", subject=f"user's {thing}", attribute="state")[0]
            for thing in things
        ]
    )
    ana.flush()
    # and an index; this model writes no profile
    assert len(ana.files()) == len(things) + 1
    model.answers["TopicRound"] = {"tracks": []}
    ana.add_records(
        [
            *rows("It is broken.", subject="user's jam", attribute="state"),
            *rows("It barks a lot.", subject="user's dog", attribute="state"),
            *rows("It needs rain.", subject="user's garden", attribute="state"),
        ]
    )
    ana.flush()
    question = questions(model, "TopicRound")[-1]
    shown = re.findall(r"^## (\S+)\n    ", question, re.MULTILINE)
    assert set(shown[:3]) == {"jam", "dog", "garden"}
    assert len(shown) == 6
    # a line for each track
    assert len(re.findall(r"^- ", question, re.MULTILINE)) == len(things)


def test_a_narrative_without_room_is_shortened_in_a_second_call(
    open_memory: Any,
) -> None:
    old, short = (
        "An old story of a boat. " * 80,
        "The old story in short, and a canoe. " * 30,
    )
    model = gathering(TopicRound=track(name="boats", narrative=old, evidence=["r1"]))
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    added = track(
        name="boats", narrative="", append="And a canoe. " * 20, evidence=["r1"]
    )
    shortened = track(name="boats", narrative=short, evidence=["r1"])
    model.answers["TopicRound"] = lambda question: (
        shortened if len(questions(model, "TopicRound")) == 3 else added
    )
    tell(ana, CANOES, "s2")
    report = ana.flush()
    assert (report.topics, report.reasons) == (1, [])
    assert short.strip() in ana.read_file("topics/boats.md")
    assert "(1,919 of 2,000 characters)" in questions(model, "TopicRound")[2]


def test_a_narrative_that_is_not_shortened_stays_and_its_records_wait(
    open_memory: Any,
) -> None:
    old = "An old story of a boat. " * 80
    model = gathering(TopicRound=track(name="boats", narrative=old, evidence=["r1"]))
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    before = ana.read_file("topics/boats.md")
    long = track(
        name="boats", narrative="", append="And a canoe. " * 20, evidence=["r1"]
    )
    model.answers["TopicRound"] = long
    tell(ana, CANOES, "s2")
    report = ana.flush()
    assert ana.read_file("topics/boats.md") == before
    assert any("characters" in reason for reason in report.reasons)
    model.answers["TopicRound"] = {"tracks": []}
    tell(ana, ("hm", "well"), "s3")
    ana.flush()
    assert f"The user said: {CANOES[0]}" in texts_in(questions(model, "TopicRound")[-1])


# --- the profile -------------------------------------------------------------------------------


def test_the_profile_sees_narratives_lasting_records_and_the_date(
    open_memory: Any,
) -> None:
    model = gathering()
    ana = user_with_source(open_memory(model))
    lasting = rows("The user eats no meat.", kind="preference")
    lasting += rows("Answer in Spanish.", kind="instruction")
    lasting += rows("The user may move.", facet="persona", confirmation="draft")
    ana.add_records([*rows("The boat has a long story.", "It was sold."), *lasting])
    ana.flush()
    (question,) = questions(model, "ProfileText")
    assert re.match(r"Today: \w+day \d{4}-\d\d-\d\d\n", question)
    assert "    The boat has a long story. It was sold." in question
    settled = question.split("Lasting records:\n")[1]
    assert '(preference) "The user eats no meat."' in settled
    assert '(instruction) "Answer in Spanish."' in settled
    assert "may move" not in settled
    assert "long story" not in settled


def test_the_profile_is_skipped_where_nothing_that_it_tells_has_changed(
    open_memory: Any,
) -> None:
    model = gathering()
    ana = user_with_source(open_memory(model))
    ana.add_records(rows("The boat is old.", "The boat is blue.", "The boat leaks."))
    ana.flush()
    model.answers["TopicRound"] = {"tracks": []}
    ana.add_records(rows("It rained.", "It snowed.", "It hailed."))
    assert ana.flush().topics == 0
    assert calls(model)["ProfileText"] == 1
    ana.add_records(
        [*rows("It thawed.", "It froze."), *rows("No meat.", kind="preference")]
    )
    ana.flush()
    assert calls(model)["ProfileText"] == 2


def test_a_profile_may_rest_on_lasting_records_alone(open_memory: Any) -> None:
    text = {"text": "Eats no meat.", "topics": []}
    model = gathering(TopicRound={"tracks": []}, ProfileText=text)
    ana = user_with_source(open_memory(model))
    ana.add_records(rows("No meat.", "No fish.", "No eggs.", kind="preference"))
    report = ana.flush()
    assert report.problems == []
    assert "Eats no meat." in ana.read_file("profile.md")


@pytest.mark.parametrize("bad", ["prose", {"text": "x" * 3_000, "topics": []}])
def test_a_bad_profile_leaves_the_old_one_and_is_tried_twice_more(
    open_memory: Any, bad: Any
) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    model.answers["ProfileText"] = bad
    tell(ana, CANOES, "s2")
    for expected in (3, 5, 7, 7):
        ana.flush()
        assert calls(model)["ProfileText"] == expected
        assert "Owns boats." in ana.read_file("profile.md")


def test_a_server_that_is_down_costs_the_profile_no_try(open_memory: Any) -> None:
    model = gathering(ProfileText=ConnectionError("down"))
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    for _ in range(4):
        ana.flush()
    model.answers["ProfileText"] = PROFILE
    ana.flush()
    assert "Owns boats." in ana.read_file("profile.md")
