"""Which messages are read, and when."""

import time
from typing import Any

from tests.support.models import AnswersBySchema
from tests.support.writing import echo, memories, turn


def test_without_a_model_messages_wait_and_are_read_when_there_is_one(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    ana.add(turn("I live in Porto."), session_id="s")
    report = ana.flush()
    assert (report.status, report.pending) == ("no_model", 2)
    assert ana.drain(1)
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    assert ana.flush().stored == 1


def test_what_an_earlier_process_left_is_read_at_the_next_opening(open_memory: Any) -> None:
    open_memory(None).user("ana").add(turn("I own a boat."), session_id="s")
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    ana.sessions()
    for _ in range(200):
        if ana.export_records():
            break
        time.sleep(0.02)
    assert ana.export_records()


def test_turns_are_read_after_1_3_7_12_and_17(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    read_after = []
    for number in range(1, 20):
        ana.add(turn(f"line {number}", number=number), session_id="s")
        before = len(model.asked)
        assert ana.drain(10)
        read_after += [number] * (len(model.asked) - before)
    assert read_after == [1, 3, 7, 12, 17]


def test_the_rest_of_a_session_is_read_when_another_begins(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    for number in range(5):
        ana.add(turn(f"line {number}", number=number), session_id="s1")
    assert ana.drain(10)
    assert len(model.asked) == 2  # after 1 and 3
    ana.add(turn("other", number=9), session_id="s2")
    assert ana.drain(10)
    assert len(model.asked) == 3
    assert "line 4" in model.asked[-1][1]
    assert "other" not in model.asked[-1][1]
