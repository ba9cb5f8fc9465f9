"""Answers with slips in their JSON cost nothing but what was not finished."""

import json
import time
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from langmem_graph.llm.answer_schemas import Extraction, ToolFill
from langmem_graph.llm.forgiving_answers import REPAIRED, read_reply
from langmem_graph.llm.repaired_json import repaired_object
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel

MEMORIES = [
    {"text": "Ana lives in Porto.", "sources": ["m1"]},
    {"text": "Ana has a cat.", "sources": ["m2"]},
]
GOOD = json.dumps({"memories": MEMORIES})
SLIPS = {
    "trailing commas": GOOD.replace('["m2"]}]', '["m2"],},]'),
    "single quotes": GOOD.replace('"', "'"),
    "Python's values": GOOD.replace('["m2"]}', '["m2"], "draft": False, "x": None}'),
    "an unescaped quote": GOOD.replace("a cat.", 'a "cat" now.'),
    "a comment": GOOD.replace("[{", "[ // a list\n{", 1),
    "no last bracket": GOOD[:-1],
    "a raw line break": GOOD.replace("has a cat", "has\na cat"),
    "bare keys": GOOD.replace('"memories"', "memories").replace('"text"', "text"),
    "thoughts before it": f"<think>{{maybe}} hm</think>{GOOD[:-1]},}}",
    "prose around it": f"Here: {GOOD[:-2]},]}} I hope it helps.",
    "a fence": f"```json\n{GOOD[:-2]},]}}\n```",
}


@pytest.mark.parametrize("text", SLIPS.values(), ids=SLIPS)
def test_slips_are_repaired(text: str) -> None:
    reply = read_reply(Extraction, {"raw": _said(text)})
    assert reply.answer is not None, reply.problem
    assert [one.sources for one in reply.answer.memories] == [["m1"], ["m2"]]
    assert reply.refused[0] == REPAIRED


def test_what_was_cut_off_is_left_out() -> None:
    for end in range(GOOD.index("Porto") + 30, len(GOOD) - 12):
        reply = read_reply(Extraction, {"raw": _said(GOOD[:end])})
        if reply.answer is not None:
            assert reply.answer.is_cut_off
            assert [one.text for one in reply.answer.memories] == [MEMORIES[0]["text"]]


def test_valid_answers_are_not_repaired() -> None:
    reply = read_reply(Extraction, {"raw": _said(GOOD)})
    assert reply.answer is not None and not reply.answer.is_cut_off
    assert reply.refused == []


@pytest.mark.parametrize(
    "text",
    [
        "", "no JSON here", "[1, 2]", "{" * 50_000, "{}",
        "{“```json0```'",  # json_repair fails by an assertion
        '{"a":[1,' + "'a" * 25_000,
        "{" + "(" * 59_000,
    ],
)  # fmt: skip
def test_what_holds_no_object_is_none(text: str) -> None:
    assert repaired_object(text) is None


def test_a_batch_with_a_slip_is_read_in_one_call(tmp_path: Path) -> None:
    text = '{"memories": [{"text": "Ana lives in Porto.", "sources": ["m1"]},]}'
    model = ScriptedChatModel(answers={"Extraction": text})
    with Memory(tmp_path / "m", embeddings=HashEmbeddings(), model=model) as memory:
        user = memory.user("ana")
        user.add([("user", "I live in Porto.")], session_id="s")
        report = user.flush()
    assert (report.llm_calls, report.stored) == (1, 1)
    assert f"Extraction: {REPAIRED}" in report.dropped


def test_arguments_nested_too_deep_are_no_answer() -> None:
    for depth in range(900, 1_000, 2):
        nested = "[" * depth + "1" + "]" * depth
        reply = read_reply(
            ToolFill, {"raw": _said(f'{{"arguments": {{"x": {nested}}}}}')}
        )
        assert (reply.answer is None) == (reply.problem is not None)


def _said(text: str) -> AIMessage:
    return AIMessage(text)


@pytest.mark.parametrize("part", ['"a":', '"a" b "c" ', "'a':\""])
def test_many_quotation_marks_take_no_long(part: str) -> None:
    begun = time.process_time()
    assert repaired_object('{"memories": ["' + part * 5_000) is None
    assert time.process_time() - begun < 2
    assert repaired_object('{"memories": ["' + part * 50 + '"]') is not None
