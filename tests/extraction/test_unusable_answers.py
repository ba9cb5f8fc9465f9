"""Answers of a model that cannot be used lose and change nothing."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langmem_graph.ids_and_times import folder_name
from tests.support.models import AnswersBySchema
from tests.support.writing import BAD, CHANGES, echo, memories, turn


@pytest.mark.parametrize("name", BAD)
def test_a_bad_extraction_loses_nothing(open_memory: Any, name: str) -> None:
    model = AnswersBySchema(Extraction=BAD[name])
    ana = open_memory(model).user("ana")
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
    model.answers["Extraction"] = echo
    assert ana.flush().stored == (1 if name == "exception" else 0)


def test_a_model_whose_threads_have_ended_gives_up_nothing(open_memory: Any) -> None:
    """So it is with every model of LangChain in a process that is ending."""
    ended = ThreadPoolExecutor()
    ended.shutdown()
    model = AnswersBySchema(
        Extraction=lambda question: ended.submit(echo, question).result()
    )
    ana = open_memory(model).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    reports = [ana.flush() for _ in range(4)]
    assert [(r.status, r.given_up, r.pending) for r in reports] == [
        ("partial", 0, 2)
    ] * 4
    model.answers["Extraction"] = echo
    assert ana.flush().stored == 1


def test_the_log_says_whose_messages_what_went_wrong_and_where_to_look(
    open_memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = AnswersBySchema(
        Extraction=ConnectionError("no route, said I live in Porto.")
    )
    ana = open_memory(model).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    ana.flush()
    (line, *_) = [one for one in caplog.messages if "could be read" in one]
    assert f"user {folder_name('ana')}" in line
    assert "Extraction: ConnectionError" in line
    assert "user.calls()" in line
    assert "Porto" not in line
    assert "ConnectionError" in str(ana.calls()[0].problem)


def test_a_long_batch_whose_answer_is_cut_off_is_read_in_halves(
    open_memory: Any,
) -> None:
    """Many models write no more than 8,000 tokens, which a dense batch may take."""

    def extract(question: str) -> Any:
        return (
            echo(question)
            if len(question) < 15_000
            else '{"memories": [{"text": "The us'
        )

    model = AnswersBySchema(Extraction=extract)
    ana = open_memory(model).user("ana")
    for number in range(4):
        said = f"Fact {number} of mine.".ljust(300, "!")
        ana.add(turn(said, "y" * 5_000, number), session_id="s")
    report = ana.flush()
    assert (report.status, report.read, report.stored) == ("ok", 8, 4)
    assert [name for name, _ in model.asked].count("Extraction") == 4


def test_a_repair_is_shown_the_error_and_counted(open_memory: Any) -> None:
    good = memories({"text": "The user lives in Porto.", "sources": ["m1"]})
    answers = iter(["prose", good])
    model = AnswersBySchema(Extraction=lambda _: next(answers))
    ana = open_memory(model).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    report = ana.flush()
    assert (report.stored, report.llm_calls, report.repairs) == (1, 2, 1)
    assert "could not be used" in str(model.requests[1][-1].content)


def test_a_model_that_runs_out_of_answers_is_told_at_once(open_memory: Any) -> None:
    """A test's model may raise `StopIteration`, which no future can hold."""
    none: Any = iter(())
    ana = open_memory(AnswersBySchema(Extraction=lambda _: next(none))).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    start = time.monotonic()
    report = ana.flush()
    assert time.monotonic() - start < 30  # a call's time limit is 180
    assert (report.status, report.pending) == ("partial", 2)
    assert "StopIteration" in report.problems[0]


def test_a_model_that_never_answers_is_given_up_in_time(open_memory: Any) -> None:
    end = threading.Event()
    model = AnswersBySchema(Extraction=lambda _: end.wait(60) and memories())
    ana = open_memory(model, extraction__call_seconds=0.1).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    start = time.monotonic()
    report = ana.flush()
    assert time.monotonic() - start < 30
    end.set()
    assert (report.status, report.pending) == ("partial", 2)
    assert "no answer within" in report.problems[0]


def known_boat(open_memory: Any, **answers: Any) -> tuple[Any, Any]:
    """A user with a boat, of which the first call of the next talk knows nothing."""
    boat = {"text": "The user owns a red boat.", "sources": ["m1"], "attribute": "boat"}
    model = AnswersBySchema(Extraction=memories(boat))
    ana = open_memory(model, extraction__records_shown=0).user("ana")
    ana.add(turn("I own a red boat."), session_id="s1")
    ana.flush()
    another = {
        "text": "The user owns a blue boat.",
        "sources": ["m1"],
        "attribute": "boat",
    }
    aunt = {
        "text": "Eva paints.",
        "sources": ["m3"],
        "subject": "Eva",
        "attribute": "hobby",
    }
    model.answers |= {"Extraction": memories(another, aunt), **answers}
    talk = [*turn("I own a boat, a blue one."), *turn("My aunt Eva paints.", number=2)]
    ana.add(talk, session_id="s2")
    return ana, model


@pytest.mark.parametrize("name", CHANGES)
def test_a_bad_reconciliation_changes_nothing_that_is_there(
    open_memory: Any, name: str
) -> None:
    ana, model = known_boat(open_memory, Reconciliation=CHANGES[name])
    (before,) = ana.get_records([row["record_id"] for row in ana.export_records()])
    report = ana.flush()
    assert any(step == "Reconciliation" for step, _ in model.asked)
    assert ana.get_records(before.record_id) == [before]
    assert ana.changes(before.record_id) == []
    assert (report.stored, report.updated) == (2, 0)
    told = report.problems + report.reasons + report.dropped
    assert told or name in ("nothing", "nothing changed", "null")
    assert len(ana.export_records()) == 3


@pytest.mark.parametrize("name", CHANGES)
def test_a_bad_change_in_the_first_call_changes_nothing(
    open_memory: Any, name: str
) -> None:
    if not isinstance(CHANGES[name], dict):
        return
    extracted = {"memories": [], **CHANGES[name]}
    ana, _ = known_boat(
        open_memory, Extraction=extracted, Reconciliation={"changes": []}
    )
    before = ana.export_records()
    ana.flush()
    assert ana.export_records() == before
