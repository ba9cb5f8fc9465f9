"""Rounds of topics and the profile that fail lose no record, and leave nothing half done."""

from typing import Any

import pytest

from langmem_graph.extraction import update_profile, update_topics
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.storage.call_log import read_calls
from langmem_graph.storage.reading import EVERYTHING
from tests.support.topic_tracks import (
    BOATS,
    CANOES,
    PROFILE,
    active,
    calls,
    gather,
    gathering,
    questions,
    rows,
    tell,
    texts_in,
    user_with_source,
)
from tests.support.writing import BAD_ROUNDS, track


@pytest.mark.parametrize("name", BAD_ROUNDS)
def test_a_bad_round_leaves_the_files_and_its_records_wait(
    open_memory: Any, name: str
) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, ("I own a boat with a long story behind it.", *BOATS[1:]), "s1")
    ana.flush()
    before = {file: ana.read_file(file) for file in ana.files()}
    model.answers["TopicRound"] = BAD_ROUNDS[name]
    tell(ana, CANOES, "s2")
    report = ana.flush()
    assert report.problems or report.reasons
    assert report.stored == 3
    assert {file: ana.read_file(file) for file in ana.files()} == before
    model.answers["TopicRound"] = gather
    tell(ana, ("hm", "well", "so"), "s3")
    assert ana.flush().topics == 1
    asked = texts_in(questions(model, "TopicRound")[-1])
    waited = name not in ("no evidence", "unknown evidence")  # these rest on no record
    assert ("The user said: I bought a canoe." in asked) == waited


def test_a_good_edit_is_stored_beside_a_bad_one(open_memory: Any) -> None:
    good = track(name="boats", narrative="A boat.", evidence=["r1", "r2"])["tracks"]
    bad = track(name="names", narrative="", evidence=["r3"])["tracks"]
    model = gathering(TopicRound={"tracks": [*bad, *good]})
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    report = ana.flush()
    assert report.topics == 1
    assert any("names" in reason for reason in report.reasons)
    model.answers["TopicRound"] = gather
    tell(ana, CANOES, "s2")
    ana.flush()
    asked = texts_in(questions(model, "TopicRound")[-1])
    assert sorted(asked) == sorted(
        f"The user said: {text}" for text in (*CANOES, BOATS[2])
    )


def test_the_records_of_an_edit_that_cannot_be_read_wait(open_memory: Any) -> None:
    good = track(name="boats", narrative="A boat.", evidence=["r1"])["tracks"]
    model = gathering(
        TopicRound={"tracks": [*good, {"title": "No name", "evidence": ["r2"]}]}
    )
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    assert ana.flush().topics == 1
    model.answers["TopicRound"] = {"tracks": []}
    tell(ana, CANOES, "s2")
    ana.flush()
    assert len(texts_in(questions(model, "TopicRound")[-1])) == 5


def test_records_that_no_round_can_use_are_put_aside_after_two_more_tries(
    open_memory: Any,
) -> None:
    model = gathering(TopicRound="prose")
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    for expected in (2, 4, 6, 6):  # a call and its repair
        report = ana.flush()
        assert calls(model)["TopicRound"] == expected
        given_up = any(
            "3 records belong to no track" in reason for reason in report.reasons
        )
        assert given_up == (expected == 6 and report.llm_calls > 0)
    model.answers["TopicRound"] = gather
    tell(ana, CANOES, "s2")
    ana.flush()
    assert len(texts_in(questions(model, "TopicRound")[-1])) == 3


def test_a_server_that_is_down_costs_no_try_and_stops_the_round(
    open_memory: Any,
) -> None:
    model = gathering(TopicRound=ConnectionError("down"))
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    for _ in range(4):
        assert ana.flush().topics == 0
    assert "ProfileText" not in calls(model)
    model.answers["TopicRound"] = gather
    report = ana.flush()
    assert (report.read, report.topics) == (0, 1)
    assert ana.flush().llm_calls == 0


@pytest.mark.parametrize("module", [update_topics, update_profile])
def test_a_round_that_a_killed_process_left_is_finished_by_the_next(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    def killed(*_: Any) -> Any:
        raise RuntimeError("killed")

    ana = open_memory(gathering()).user("ana")
    tell(ana, BOATS, "s1")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        patch.setattr(module, "_finish", killed)
        ana.flush()
    model = gathering()
    ana = open_memory(model).user("ana")
    ana.flush()
    assert ana.files() == ["index.md", "profile.md", "topics/boats.md"]
    repeated = {"TopicRound"} if module is update_topics else set()
    assert set(calls(model)) == {"ProfileText"} | repeated


@pytest.mark.parametrize("schema", ["TopicRound", "ProfileText"])
def test_what_was_forgotten_meanwhile_is_not_written(
    open_memory: Any, schema: str
) -> None:
    """The answer may tell it, and no file may be left that does."""
    model = gathering()
    ana = open_memory(model).user("ana")

    def forgetting(question: str) -> Any:
        if len(active(ana)) == 3:
            ana.forget(record=active(ana)[0])
        return gather(question) if schema == "TopicRound" else PROFILE

    model.answers[schema] = forgetting
    tell(ana, BOATS, "s1")
    ana.flush()
    assert ana.files() == []


def test_the_log_of_a_round_keeps_no_words_of_what_was_forgotten(
    open_memory: Any,
) -> None:
    model = gathering(ProfileText={"text": "Sails (topics/vega.md).", "topics": []})
    memory = open_memory(model)
    ana = memory.user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()

    def words() -> str:
        with (
            memory._services.room("ana") as room,
            room.database.read_transaction(EVERYTHING) as connection,
        ):
            calls = read_calls(connection)
        assert "profile" in {call.purpose for call in calls}
        return " ".join(f"{call.problem} {call.refused}" for call in calls)

    assert "vega" in words()
    ana.forget(record=active(ana)[0])
    assert "vega" not in words()


def test_what_is_forgotten_again_and_again_meanwhile_is_not_written(
    open_memory: Any,
) -> None:
    model = gathering()
    ana = user_with_source(open_memory(model))

    def forgetting(question: str) -> Any:
        ana.forget(record=active(ana)[0])
        return (
            {"tracks": []}
            if "Changed records:" in question
            else {"text": "No meat, no fish."}
        )

    model.answers |= {"TopicRound": forgetting, "ProfileText": forgetting}
    ana.add_records(
        rows("No meat.", "No fish.", "No eggs.", "No milk.", kind="preference")
    )
    ana.flush()
    assert {"TopicRound", "ProfileText"} <= calls(model).keys()
    assert ana.files() == []


@pytest.mark.parametrize("schema", ["TopicRound", "ProfileText"])
def test_a_round_does_not_overwrite_that_of_another_run(
    open_memory: Any, schema: str
) -> None:
    model = gathering()
    memory = open_memory(model)
    ana, first = memory.user("ana"), list[str]()

    def overtaken(question: str) -> Any:
        if not first:
            first.append(question)
            tell(ana, CANOES, "s2")
            ana.flush()
            return (
                gather(question)
                if schema == "TopicRound"
                else {**PROFILE, "text": "Older."}
            )
        return (
            gather(question)
            if schema == "TopicRound"
            else {**PROFILE, "text": "Newer."}
        )

    model.answers[schema] = overtaken
    said = [("user", text) for text in BOATS]
    config = {"configurable": {"user_id": "ana", "thread_id": "s1"}}
    create_write_graph(memory).invoke({"messages": said}, config)
    told = ana.read_file("topics/boats.md")
    assert all(record in told for record in active(ana))
    assert len(active(ana)) == 6
    if schema == "ProfileText":
        assert "Newer." in ana.read_file("profile.md")


def test_an_empty_profile_leaves_the_old_one(open_memory: Any) -> None:
    model = gathering()
    ana = open_memory(model).user("ana")
    tell(ana, BOATS, "s1")
    ana.flush()
    before = ana.read_file("profile.md")
    model.answers["ProfileText"] = {"text": " ", "topics": ["boats"]}
    tell(ana, CANOES, "s2")
    report = ana.flush()
    assert ana.read_file("profile.md") == before
    assert any("ProfileText" in problem for problem in report.problems)
