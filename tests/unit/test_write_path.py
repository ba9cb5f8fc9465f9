"""Messages become records: extraction, corrections, batches, and a model that misbehaves."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.errors import ClosedMemoryError, InvalidInputError
from langmem_graph.graphs.nodes import create_write_node
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.llm.answer_schemas import Extraction, Reconciliation
from langmem_graph.storage import graph_edges
from tests.support.minds import Mind
from tests.support.writing import (
    BAD,
    BAD_ROUNDS,
    DECISIONS,
    echo,
    line_aliases,
    memories,
    memory_at,
    track,
    turn,
)


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    with memory_at(tmp_path / "m") as opening:
        yield opening


def test_a_turn_becomes_a_record_with_its_source(open_memory: Any) -> None:
    home = {
        "text": "The user lives in Porto since 2021.",
        "sources": ["m1"],
        "attribute": "home",
        "facet": "persona",
        "entities": ["Porto"],
    }
    mind = Mind(Extraction=memories(home))
    ana = open_memory(mind).user("ana")
    ana.add(turn("I live in Porto since 2021."), session_id="s")
    report = ana.flush()
    assert (report.status, report.read, report.stored, report.pending) == ("ok", 2, 1, 0)
    assert [step for step, _ in mind.asked] == ["Extraction", "TopicRound"]
    assert report.llm_calls == 2
    (hit,) = ana.search_records("Where does the user live? Porto")
    assert hit.text == "The user lives in Porto since 2021."
    assert hit.message_ids == ["u0-I live in Porto since 2021."]
    (record,) = ana.get_records(hit.record_id)
    assert (record.kind, record.facet, record.attribute) == ("fact", "persona", "home")
    assert record.confirmation == "confirmed"
    assert [v["raw"] for v in record.values] == ["2021"]
    assert ana.flush().read == 0


def test_a_correction_supersedes_and_can_be_undone(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        place = "Berlin" if "Berlin" in question.split("New messages")[1] else "Porto"
        row = {"text": f"The user lives in {place}.", "sources": ["m1"], "attribute": "home"}
        return memories(row)

    decide = {
        "decisions": [{"record": "r1", "action": "update", "targets": ["n1"], "attribute": "a1"}]
    }
    ana = open_memory(
        Mind(Extraction=extract, Reconciliation=decide), extraction__neighbour_floor=0.1
    ).user("ana")
    ana.add(turn("I live in Porto."), session_id="s1", at="2025-01-01")
    ana.flush()
    ana.add(turn("No, I moved to Berlin."), session_id="s2", at="2025-06-01")
    report = ana.flush()
    assert (report.updated, report.llm_calls) == (1, 3)  # and one for topics
    (now,) = ana.search_records("user lives in", k=5)
    assert now.text == "The user lives in Berlin."
    (then,) = ana.search_records("user lives in", k=5, as_of="2025-03-01")
    assert then.text == "The user lives in Porto."
    old, new = ana.get_records([then.record_id, now.record_id])
    assert old.status == "superseded"
    assert old.superseded_by == [new.record_id]
    assert f"{old.valid_to:%Y-%m-%d}" == "2025-06-01"
    assert new.supersedes == [old.record_id]
    assert [entry.op for entry in ana.history(new.record_id)] == ["create", "create", "supersede"]
    assert ana.history(new.record_id)[-1].reason

    ana.undo(new.record_id)
    (back,) = ana.search_records("user lives in", k=5)
    assert back.text == "The user lives in Porto."
    assert ana.get_records(new.record_id)[0].status == "discarded"
    assert ana.doctor(sample=0).ok
    assert ana.undo(old.record_id)[0].status == "discarded"  # its own creation
    assert ana.undo(old.record_id) == []


def test_without_a_model_messages_wait_and_are_read_when_there_is_one(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    report = ana.flush()
    assert (report.status, report.pending) == ("no_model", 2)
    assert ana.drain(1)
    ana = open_memory(Mind(Extraction=echo)).user("ana")
    assert ana.flush().stored == 1


def test_two_corrections_in_one_batch_leave_the_last_one_true(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        said = line_aliases(question)
        rows = [
            {"text": f"The user lives in {place}.", "sources": [alias], "attribute": "home"}
            for place in ("Porto", "Berlin", "Oslo")
            for alias, text in said.items()
            if place in text
        ]
        return memories(*rows)

    decide = {
        "decisions": [
            {"record": r, "action": "update", "targets": ["n1"], "attribute": "a1"}
            for r in ("r1", "r2")
        ]
    }
    mind = Mind(Extraction=extract, Reconciliation=decide)
    ana = open_memory(mind, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("I live in Porto."), session_id="s1", at="2025-01-01")
    ana.flush()
    ana.add(turn("I moved to Berlin.", number=2), session_id="s2", at="2025-02-01")
    ana.add(turn("Now I have moved to Oslo.", number=3), session_id="s2", at="2025-03-01")
    ana.flush()
    (now,) = ana.search_records("user lives in", k=9)
    assert now.text == "The user lives in Oslo."
    for day, place in (("2025-01-15", "Porto"), ("2025-02-15", "Berlin"), ("2025-04-01", "Oslo")):
        (then,) = ana.search_records("user lives in", k=9, as_of=day)
        assert place in then.text


def test_the_schedule_obeys_its_rules(open_memory: Any) -> None:
    planned = {"facet": "schedule", "kind": "event", "sources": ["m1"]}
    rows = [
        {**planned, "text": "Visit the dentist.", "when": "2099-05-01T09:00"},
        {**planned, "text": "Water the plants.", "when": "2025-01-06", "recurrence": "FREQ=WEEKLY"},
        {**planned, "text": "Call Eva some time."},
        {**planned, "text": "Met Jo.", "when": "2020-01-01T10:00"},
    ]
    ana = open_memory(Mind(Extraction=memories(*rows))).user("ana")
    ana.add(turn("Dentist, plants, Eva, Jo."), session_id="s")
    ana.flush()
    found = {r["text"]: r.get("facet", "none") for r in ana.export_records()}
    assert found == {
        "Visit the dentist.": "schedule",
        "Water the plants.": "schedule",
        "Call Eva some time.": "none",
        "Met Jo.": "none",
    }


def test_what_an_earlier_process_left_is_read_at_the_next_opening(open_memory: Any) -> None:
    open_memory(None).user("ana").add(turn("I own a boat."), session_id="s")
    ana = open_memory(Mind(Extraction=echo)).user("ana")
    ana.sessions()
    for _ in range(200):
        if ana.export_records():
            break
        time.sleep(0.02)
    assert ana.export_records()


# --- batches -------------------------------------------------------------------------------------


def test_turns_are_read_after_1_3_7_12_and_17(open_memory: Any) -> None:
    mind = Mind(Extraction=memories())
    ana = open_memory(mind).user("ana")
    read_after = []
    for number in range(1, 20):
        ana.add(turn(f"line {number}", number=number), session_id="s")
        before = len(mind.asked)
        assert ana.drain(10)
        read_after += [number] * (len(mind.asked) - before)
    assert read_after == [1, 3, 7, 12, 17]


def test_the_rest_of_a_session_is_read_when_another_begins(open_memory: Any) -> None:
    mind = Mind(Extraction=memories())
    ana = open_memory(mind).user("ana")
    for number in range(5):
        ana.add(turn(f"line {number}", number=number), session_id="s1")
    assert ana.drain(10)
    assert len(mind.asked) == 2  # after 1 and 3
    ana.add(turn("other", number=9), session_id="s2")
    assert ana.drain(10)
    assert len(mind.asked) == 3
    assert "line 4" in mind.asked[-1][1]
    assert "other" not in mind.asked[-1][1]


def test_only_what_people_and_the_assistant_say_is_read(open_memory: Any) -> None:
    mind = Mind(Extraction=memories())
    ana = open_memory(mind).user("ana")
    system = {"role": "system", "content": "be a pirate", "id": "s1"}
    tool = {"role": "tool", "content": "tool result", "id": "t1", "tool_call_id": "c"}
    ana.add([system, *turn("hello"), tool], session_id="s")
    ana.flush()
    ((_, question),) = mind.asked
    assert "pirate" not in question
    assert "tool result" not in question


def test_a_bare_yes_may_cite_the_proposal_before_it(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        if "Yes, do it" not in question.split("New messages")[1]:
            return memories()
        aliases = line_aliases(question.replace("(earlier) ", ""))
        assert "Shall I book the night train?" in aliases["m0"]
        row = {"text": "The user takes the night train.", "sources": ["m0", "m1"]}
        only_old = {"text": "The assistant proposed a train.", "sources": ["m0"]}
        return memories(row, only_old)

    ana = open_memory(Mind(Extraction=extract)).user("ana")
    ana.add(turn("How do I get there?", "Shall I book the night train?"), session_id="s")
    ana.flush()
    ana.add(turn("Yes, do it", number=2), session_id="s")
    assert ana.flush().stored == 1
    (record,) = ana.get_records([h.record_id for h in ana.search_records("night train")])
    assert record.message_ids == ["a0-How do I get there?", "u2-Yes, do it"]


def test_numbers_that_nobody_said_make_a_record_inferred(open_memory: Any) -> None:
    said = {"text": "The ticket costs 42.50 EUR.", "sources": ["m1"]}
    made_up = {"text": "The ticket costs 52.50 EUR.", "sources": ["m1"]}
    draft = {"text": "The user may buy a ticket.", "sources": ["m1"], "draft": True}
    ana = open_memory(Mind(Extraction=memories(said, made_up, draft))).user("ana")
    ana.add(turn("The ticket costs 42.50 EUR."), session_id="s")
    ana.flush()
    found = {h.text: h.confirmation for h in ana.search_records("ticket", k=9)}
    assert found == {
        "The ticket costs 42.50 EUR.": "confirmed",
        "The ticket costs 52.50 EUR.": "inferred",
        "The user may buy a ticket.": "draft",
    }


def test_replaying_a_conversation_adds_no_records(open_memory: Any) -> None:
    ana = open_memory(Mind(Extraction=echo)).user("ana")
    for copy in range(2):
        for number in range(6):
            talk = [
                {**m, "id": f"{copy}-{m['id']}"}
                for m in turn(f"I own a boat {number}", number=number)
            ]
            ana.add(talk, session_id=f"s{copy}")
        report = ana.flush()
    assert report.stored == 0
    assert report.known == 6
    assert len(ana.search_records("boat", k=50)) == 6


# --- topics and profile --------------------------------------------------------------------------


def gather(question: str) -> dict[str, Any]:
    """Everything into one track, whose story grows."""
    new = question.split("New records:\n")[1].splitlines()
    old = (
        question.split("## boats\n")[1].split("New records:", maxsplit=1)[0]
        if "## boats" in question
        else ""
    )
    story = old.strip() + " " + " ".join(line.split(") ", 1)[1] for line in new)
    track = {"name": "boats", "title": "Boats", "summary": f"{len(new)} more."}
    return {"tracks": [{**track, "narrative": story, "evidence": [n.split(":")[0] for n in new]}]}


PROFILE = {"text": "Owns boats.", "topics": ["boats"]}


def test_records_are_gathered_into_tracks_and_a_profile(open_memory: Any) -> None:
    ana = open_memory(Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)).user("ana")
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
    mind = Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(mind).user("ana")
    ana.add(turn("I own a boat with a long story behind it."), session_id="s1")
    ana.flush()
    before = {file: ana.read_file(file) for file in ana.files()}
    mind.answers["TopicRound"] = BAD_ROUNDS[name]
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    report = ana.flush()
    assert report.problems
    assert report.stored == 1
    assert {file: ana.read_file(file) for file in ana.files()} == before
    mind.answers["TopicRound"] = gather
    ana.add(turn("hm", number=3), session_id="s2")
    assert ana.flush().topics == 1
    assert "canoe" in ana.read_file("topics/boats.md")


def test_a_flush_without_messages_takes_up_a_round_that_failed(open_memory: Any) -> None:
    mind = Mind(Extraction=echo, TopicRound="prose", ProfileText=PROFILE)
    ana = open_memory(mind).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    assert ana.flush().topics == 0
    mind.answers["TopicRound"] = gather
    report = ana.flush()
    assert (report.read, report.topics) == (0, 1)
    assert ana.flush().llm_calls == 0


def test_a_new_session_makes_a_round_due(open_memory: Any) -> None:
    mind = Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(mind).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    for number in range(2, 6):
        ana.add(turn(f"line {number}", number=number), session_id="s2")
        ana.drain(10)
    assert "line 2" in ana.read_file("topics/boats.md")


def test_a_track_may_absorb_another(open_memory: Any) -> None:
    mind = Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(mind).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    (first,) = ana.export_records()
    mind.answers["TopicRound"] = track(name="water", title="Water", absorbs=["boats"])
    mind.answers["ProfileText"] = {"text": "Likes water.", "topics": ["water"]}
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    ana.flush()
    assert ana.files() == ["index.md", "profile.md", "topics/water.md"]
    assert first["record_id"] in ana.read_file("topics/water.md")
    assert "boats" not in ana.read_file("index.md")


def test_a_bad_profile_leaves_the_old_one(open_memory: Any) -> None:
    mind = Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(mind).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    for number, bad in enumerate(["prose", {"text": "x" * 3_000, "topics": []}, OSError("out")]):
        mind.answers["ProfileText"] = bad
        ana.add(turn(f"I bought canoe {number}.", number=number + 2), session_id=f"s{number + 2}")
        assert ana.flush().problems
        assert "Owns boats." in ana.read_file("profile.md")


# --- links ----------------------------------------------------------------------------------


def test_causes_are_found_at_the_end_of_a_session_and_follow_time(open_memory: Any) -> None:
    backwards = {"pairs": [{"cause": "r2", "effect": "r1"}, {"cause": "r1", "effect": "r9"}]}
    mind = Mind(Extraction=echo, CausalPairs=backwards)
    memory = open_memory(mind, extraction__cluster_max_distance=1.5)
    ana = memory.user("ana")
    ana.add(turn("The boat hit a rock."), session_id="s", at="2025-01-01")
    ana.add(turn("The boat leaks.", number=2), session_id="s", at="2025-01-02")
    assert ana.flush().causes == 1
    with memory._services.room("ana") as room, room.database.read_transaction() as connection:
        edges = [edge for n in (1, 2) for edge in graph_edges.edges_of(connection, n)]
    causal = {edge for edge in edges if edge[2] == "causal"}
    first, _ = ana.export_records()
    assert "hit a rock" in first["text"]
    assert {(source, target) for source, target, *_ in causal} == {(1, 2)}


@pytest.mark.parametrize("start", ["2025-01-03T10:00", "2025-05", "soon", None])
def test_causes_of_what_was_imported_with_a_time_of_any_shape(
    open_memory: Any, start: str | None
) -> None:
    pairs = {"pairs": [{"cause": "r2", "effect": "r1"}]}
    ana = open_memory(
        Mind(Extraction=echo, CausalPairs=pairs), extraction__cluster_max_distance=1.5
    ).user("ana")
    ana.add([{"role": "user", "content": "The boat hit a rock.", "id": "m"}], session_id="r")
    ana.flush()
    row = {"text": "The boat hit a rock.", "source_message_ids": ["m"], "facet": "schedule"}
    ana.add_records([{**row, "event_time": {"start": start}}])
    ana.add(turn("The boat leaks."), session_id="s", at="2025-01-02")
    report = ana.flush()
    assert (report.status, report.causes) == ("ok", 1)


def test_model_calls_per_flush(open_memory: Any) -> None:
    """Two for a plain flush, at most five at a session's end; topics and profile apart."""
    pairs = {"pairs": [{"cause": "r1", "effect": "r2"}]}
    mind = Mind(Extraction=echo, Reconciliation={"decisions": []}, CausalPairs=pairs)
    ana = open_memory(
        mind, extraction__neighbour_floor=0.0, extraction__cluster_max_distance=1.5
    ).user("ana")
    ana.add(turn("I own a boat."), session_id="s")
    ana.drain(10)
    for number in range(2, 8):
        mind.asked.clear()
        ana.add(turn(f"I own boat {number}.", number=number), session_id="s")
        ana.drain(10)
        assert [step for step, _ in mind.asked] in ([], ["Extraction", "Reconciliation"])
    ana.add(turn("The last boat.", number=9), session_id="s")
    mind.asked.clear()
    ana.flush()
    steps = [step for step, _ in mind.asked if step not in ("TopicRound", "ProfileText")]
    assert len(steps) <= 5
    assert steps[:3] == ["Extraction", "Reconciliation", "CausalPairs"]


# --- bad answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BAD)
def test_a_bad_extraction_loses_nothing(open_memory: Any, name: str) -> None:
    mind = Mind(Extraction=BAD[name])
    ana = open_memory(mind).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    reports = [ana.flush() for _ in range(4)]
    assert len(ana.export()) == 2
    assert not ana.search_records("Porto")
    if name == "unknown ids":
        assert (reports[0].status, reports[0].read) == ("ok", 2)
        return
    assert reports[0].status == "partial"
    assert reports[0].problems
    assert (reports[0].llm_calls, reports[0].repairs) == (2, 1)
    if name == "exception":
        assert {r.given_up for r in reports} == {0}
        assert reports[-1].pending == 2
    else:
        assert [r.given_up for r in reports] == [0, 0, 2, 0]
        assert reports[-1].pending == 0
    mind.answers["Extraction"] = echo
    assert ana.flush().stored == (1 if name == "exception" else 0)


def test_a_repair_is_shown_the_error_and_counted(open_memory: Any) -> None:
    good = memories({"text": "The user lives in Porto.", "sources": ["m1"]})
    answers = iter(["prose", good])
    mind = Mind(Extraction=lambda _: next(answers))
    ana = open_memory(mind).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    report = ana.flush()
    assert (report.stored, report.llm_calls, report.repairs) == (1, 3, 1)
    assert "could not be used" in str(mind.requests[1][-1].content)


def test_a_model_that_never_answers_is_given_up_in_time(open_memory: Any) -> None:
    mind = Mind(Extraction=lambda _: time.sleep(2) or memories())
    ana = open_memory(mind, extraction__call_seconds=0.1).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    start = time.monotonic()
    report = ana.flush()
    assert time.monotonic() - start < 2
    assert (report.status, report.pending) == ("partial", 2)
    assert "no answer within" in report.problems[0]


@pytest.mark.parametrize("name", DECISIONS)
def test_a_bad_reconciliation_changes_nothing_that_is_there(open_memory: Any, name: str) -> None:
    mind = Mind(Extraction=echo, Reconciliation=DECISIONS[name])
    ana = open_memory(mind, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("I own a red boat."), session_id="s1")
    ana.flush()
    (before,) = ana.get_records([h.record_id for h in ana.search_records("boat")])
    ana.add([*turn("I sold my blue car."), *turn("My aunt Eva paints.", number=2)], session_id="s2")
    report = ana.flush()
    assert any(step == "Reconciliation" for step, _ in mind.asked)
    assert ana.get_records(before.record_id) == [before]
    assert report.stored == 2
    assert len(ana.search_records("user said", k=9)) == 3


# --- background ----------------------------------------------------------------------------------


def test_two_users_at_once_and_a_restart_in_the_middle(open_memory: Any) -> None:
    seen: list[str] = []

    def extract(question: str) -> dict[str, Any]:
        seen.extend(line_aliases(question).values())
        return echo(question)

    memory = open_memory(Mind(Extraction=extract))

    def talk(user: str, numbers: range) -> None:
        for n in numbers:
            memory.user(user).add(turn(f"{user} says {n}", number=n), session_id="s")
            memory._pipelines.worker.notify(user)

    for numbers in (range(25), range(25, 50)):
        threads = [threading.Thread(target=talk, args=(u, numbers)) for u in ("ana", "bob")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        memory = open_memory(Mind(Extraction=extract))
    for user in ("ana", "bob"):
        memory.user(user).flush()
        assert sorted(t for t in seen if t.startswith(f"{user} says")) == sorted(
            f"{user} says {n}" for n in range(50)
        )
        assert len(memory.user(user).search_records("says", k=99)) == 50


async def test_the_async_face_does_not_block(open_memory: Any) -> None:
    from blockbuster import blockbuster_ctx

    ana = open_memory(Mind(Extraction=echo)).user("ana")
    ana.add(turn("warm up"), session_id="s")
    await ana.aflush()
    with blockbuster_ctx():
        await ana.aadd(turn("I own a boat.", number=2), session_id="s")
        report = await ana.aflush()
        assert await ana.adrain(5)
        found = await ana.asearch_records("boat")
    assert report.stored == 1
    assert found


def test_closing_reads_what_waits_and_leaves_the_rest_due(open_memory: Any) -> None:
    slow = Mind(Extraction=lambda q: time.sleep(1) or echo(q))
    memory = open_memory(slow, storage__closing_seconds=0.1)
    memory.user("ana").add(turn("I own a boat."), session_id="s")
    memory._pipelines.worker.notify("ana")
    ana = open_memory(Mind(Extraction=echo)).user("ana")
    assert ana.flush().stored == 1


# --- by hand, and forgetting -----------------------------------------------------------------


def test_remember_by_hand(open_memory: Any) -> None:
    mind = Mind(Extraction=echo)
    ana = open_memory(mind).user("ana")
    record = ana.remember("My locker code is 4711.")
    assert record.made_by == "user"
    assert ana.get_conversation(record.message_ids)[0].text == "My locker code is 4711."
    assert ana.flush().read == 0
    assert [step for step, _ in mind.asked] == ["TopicRound"]
    assert ana.search_records("locker code")[0].record_id == record.record_id


CANARIES = ("quokka9931", "zebrafish7742", "okapi5513")


def test_forgetting_a_message_takes_everything_made_of_it(open_memory: Any, tmp_path: Path) -> None:
    ana = open_memory(Mind(Extraction=echo)).user("ana")
    talk = [{"role": "user", "content": f"I keep a {c} at home.", "id": c} for c in CANARIES]
    ana.add(talk, session_id="s", at="2025-01-01")
    ana.flush()
    report = ana.forget(message="zebrafish7742")
    assert (report.messages, report.records) == (1, 1)
    assert not any("zebrafish" in h.text for h in ana.search_records("keep at home", k=9))
    assert [m["id"] for m in ana.export()] == ["quokka9931", "okapi5513"]
    assert ana.search_conversation("quokka9931")[0].message_id == "quokka9931"
    assert ana.doctor(sample=0).ok
    files = [f.read_bytes() for f in (tmp_path / "m").rglob("*") if f.is_file()]
    assert any(b"okapi" in content for content in files)
    assert not any(b"zebrafish" in content for content in files)


def test_forgetting_what_took_a_place_gives_it_back(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    ana.add(
        [{"role": "user", "content": f"home {n}", "id": str(n)} for n in range(2)], session_id="s"
    )
    rows = [
        {"text": f"Lives at {n}.", "source_message_ids": [str(n)], "record_id": f"r{n}"}
        for n in range(2)
    ]
    ana.add_records([rows[0], {**rows[1], "supersedes": ["r0"]}])
    assert ana.get_records("r0")[0].status == "superseded"
    assert ana.forget(record="r1").restored == 1
    assert ana.get_records("r0")[0].status == "active"
    assert ana.get_records("r1") == []
    assert ana.forget(session="s").messages == 2
    assert not ana.search_records("lives")
    assert ana.export() == []


def chain(ana: Any, length: int) -> None:
    """r0 ← r1 ← r2 …, each superseding the one before."""
    numbers = range(length)
    said = [{"role": "user", "content": f"home {n}", "id": str(n)} for n in numbers]
    ana.add(said, session_id="s")
    for n in numbers:
        row = {"text": f"Lives at {n}.", "source_message_ids": [str(n)], "record_id": f"r{n}"}
        row |= {"valid_from": f"2025-0{n + 1}-01", "supersedes": [f"r{n - 1}"] if n else []}
        assert ana.add_records(row).stored == [f"r{n}"]


def active(ana: Any) -> list[str]:
    return [row["record_id"] for row in ana.export_records()]


def test_forgetting_the_middle_of_a_chain(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    chain(ana, 3)
    ana.forget(record="r1")
    assert active(ana) == ["r2"]
    ana.forget(record="r2")
    assert active(ana) == ["r0"]


def test_undoing_and_forgetting_in_any_order(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    chain(ana, 3)
    ana.undo("r2")
    assert active(ana) == ["r1"]
    newer = {"text": "Lives at 9.", "source_message_ids": ["2"], "record_id": "r9"}
    ana.add_records({**newer, "supersedes": ["r1"]})
    ana.forget(record="r9")
    assert active(ana) == ["r1"]
    ana.forget(record="r2")
    fresh = ana.remember("The gate is green.")
    assert ana.undo(fresh.record_id)
    again = ana.remember("The gate is green.")
    assert again.status == "active"
    assert ana.search_records("gate green")[0].record_id == again.record_id


def test_an_export_after_an_undo_is_imported_as_it_was(open_memory: Any) -> None:
    memory = open_memory(None)
    chain(memory.user("ana"), 3)
    memory.user("ana").undo("r2")
    bob = memory.user("bob")
    for row in memory.user("ana").export():
        bob.add({k: v for k, v in row.items() if k != "session_id"}, session_id=row["session_id"])
    assert not bob.add_records(memory.user("ana").export_records(history=True)).rejected
    assert active(bob) == active(memory.user("ana")) == ["r1"]


MERGES = {
    "another attribute": ("I sold my blue car.", "car", "I sold my blue car."),
    "drops the old half": ("The boat is fast.", "boat", "The boat is fast."),
    "denies": ("The boat is fast.", "boat", "I own no red boat and the boat is fast."),
    "adds": ("The boat is fast.", "boat", "I own a red boat and the boat is fast in Oslo."),
}


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_cannot_hide_a_true_record(open_memory: Any, name: str) -> None:
    said, attribute, merged = MERGES[name]

    def extract(question: str) -> dict[str, Any]:
        own = "boat" if "red boat" in question.split("New messages")[1] else attribute
        (alias, text), *_ = line_aliases(question).items()
        return memories({"text": text, "sources": [alias], "attribute": own})

    decide = {"record": "r1", "action": "merge", "targets": ["n1"], "text": merged}
    mind = Mind(Extraction=extract, Reconciliation={"decisions": [decide]})
    ana = open_memory(mind, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("I own a red boat."), session_id="s1")
    ana.flush()
    ana.add(turn(said, number=2), session_id="s2")
    report = ana.flush()
    assert (report.merged, report.stored) == (0, 1)
    assert {row["text"] for row in ana.export_records()} == {"I own a red boat.", said}


def test_a_merge_of_two_halves(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        (alias, text), *_ = line_aliases(question).items()
        return memories({"text": text, "sources": [alias], "attribute": "boat"})

    both = "The boat is red and the boat is fast."
    decide = {"record": "r1", "action": "merge", "targets": ["n1"], "text": both}
    mind = Mind(Extraction=extract, Reconciliation={"decisions": [decide]})
    ana = open_memory(mind, extraction__neighbour_floor=0.0).user("ana")
    ana.add(turn("The boat is red."), session_id="s1")
    ana.flush()
    ana.add(turn("The boat is fast.", number=2), session_id="s2")
    assert ana.flush().merged == 1
    (row,) = ana.export_records()
    assert row["text"] == both
    assert len(row["source_message_ids"]) == 2


@pytest.mark.parametrize("step", ["Extraction", "TopicRound", "ProfileText"])
@pytest.mark.parametrize("how", ["forget", "erase"])
def test_what_is_forgotten_during_a_flush_does_not_come_back(
    open_memory: Any, tmp_path: Path, step: str, how: str
) -> None:
    answers: dict[str, Any] = {"Extraction": echo, "TopicRound": gather, "ProfileText": PROFILE}
    usual = answers[step]

    def meddle(question: str) -> Any:
        answer = usual(question) if callable(usual) else usual
        if how == "erase":
            ana.erase()
        else:
            ana.forget(message="m1")
        return answer

    ana = open_memory(Mind(**{**answers, step: meddle})).user("ana")
    said, answered = turn("I keep a zebrafish7742 at home.")
    ana.add([{**said, "id": "m1"}, {**answered, "id": "m2"}], session_id="s")
    ana.flush()
    assert not any("topics" in name for name in ana.files())
    ana.add(turn("Something else.", number=2), session_id="s2")
    files = [f for f in (tmp_path / "m").rglob("*") if f.is_file()]
    assert [f.name for f in files if b"zebrafish" in f.read_bytes()] == []


def test_an_undone_record_does_not_block_its_track(open_memory: Any) -> None:
    mind = Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    ana = open_memory(mind).user("ana")
    ana.add(turn("I own a boat."), session_id="s1")
    ana.flush()
    ana.undo(active(ana)[0])
    ana.add(turn("I bought a canoe.", number=2), session_id="s2")
    assert ana.flush().topics == 1
    assert "canoe" in ana.read_file("topics/boats.md")


def test_reading_is_no_part_of_the_callers_run(open_memory: Any) -> None:
    mind = Mind(Extraction=echo, TopicRound=gather, ProfileText=PROFILE)
    memory = open_memory(mind)
    builder = StateGraph(MessagesState)
    builder.add_node("write", create_write_node(memory, extraction="inline"))
    builder.add_edge(START, "write")
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    where = {"configurable": {"user_id": "ana", "thread_id": "t"}, "recursion_limit": 2}
    said = {"messages": [("user", "I own a boat."), ("assistant", "Nice.")]}
    modes = ["messages", "updates", "custom"]
    parts = list(graph.stream(said, where, stream_mode=modes, subgraphs=True))
    assert memory.user("ana").search_records("boat")
    assert not [part for part in parts if part[1] == "messages"]
    assert {namespace for namespace, *_ in parts} == {()}
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) <= 3


async def test_the_write_graph(open_memory: Any) -> None:
    memory = open_memory(Mind(Extraction=echo))
    graph = create_write_graph(memory)
    where = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    done = await graph.ainvoke({"messages": [("user", "I own a boat.")]}, where)
    assert done["memory_report"]["read"]["stored"] == 1
    done = await asyncio.to_thread(graph.invoke, {"messages": [("user", "And a car.")]}, where)
    assert done["memory_report"]["write"]["stored"] == 1
    with pytest.raises(InvalidInputError, match="with a model"):
        create_write_graph(open_memory(None))


async def test_giving_up_waiting_leaves_nothing_claimed(open_memory: Any) -> None:
    mind = Mind(Extraction=lambda q: time.sleep(0.5) or echo(q))
    ana = open_memory(mind).user("ana")
    await ana.aadd(turn("I own a boat."), session_id="s")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ana.aflush(), 0.1)
    report = await ana.aflush()
    assert report.stored + len(ana.export_records()) >= 1
    assert report.pending == 0


def test_a_closed_memory_says_so(open_memory: Any) -> None:
    memory = open_memory(
        Mind(Extraction=lambda q: time.sleep(1) or echo(q)), storage__closing_seconds=0
    )
    ana = memory.user("ana")
    ana.add(turn("I own a boat."), session_id="s")
    closer = threading.Timer(0.2, memory.close)
    closer.start()
    with pytest.raises(ClosedMemoryError):
        ana.flush()
    closer.join()
    for call in (ana.flush, ana.drain, ana.flush_soon):
        with pytest.raises(ClosedMemoryError):
            call()


def test_a_monologue_is_read_in_parts(open_memory: Any) -> None:
    mind = Mind(Extraction=memories())
    ana = open_memory(mind).user("ana")
    long = [{"role": "user", "content": f"{n} " + "word " * 300, "id": str(n)} for n in range(100)]
    ana.add(long, session_id="s")
    assert ana.flush().read == 100
    sizes = [len(question) for step, question in mind.asked if step == "Extraction"]
    assert len(sizes) > 2
    assert max(sizes) < 60_000


@pytest.mark.long
def test_the_prompts_stay_small(open_memory: Any) -> None:
    """Tokens beyond the turns' own words, schemas included, over 200 turns."""
    from langmem_graph.llm.structured_calls import prompt_tokens
    from langmem_graph.tokens import TokenCounter, estimate

    mind = Mind(Extraction=echo, Reconciliation={"decisions": []})
    ana = open_memory(mind, extraction__neighbour_floor=0.2).user("ana")
    own = 0
    counter = TokenCounter(estimate, exact=False)
    for number in range(200):
        text = f"Today number {number} I walked with my dog around lake {number % 17} and met Eva."
        ana.add(turn(text, "That sounds like a fine walk.", number), session_id=f"s{number // 20}")
        own += counter.count(text) + counter.count("That sounds like a fine walk.")
        ana.drain(20)
    ana.flush()
    schemas = {"Extraction": Extraction, "Reconciliation": Reconciliation}
    total = sum(
        prompt_tokens(counter, schemas[name], request[:2])
        for (name, _), request in zip(mind.asked, mind.requests, strict=True)
        if name in schemas
    )
    per_turn = (total - own) / 200
    assert per_turn <= 900
