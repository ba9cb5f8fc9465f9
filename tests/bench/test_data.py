"""Loaders on small files in each format, written here, and on the open data where it is present."""

import json
import os
from pathlib import Path

import pytest

from langmem_graph.bench.data import LOADERS
from langmem_graph.bench.data.locomo import evidence_ids
from langmem_graph.bench.items import BenchDataError
from langmem_graph.bench.job import limited
from tests.bench import tiny

DATA = Path(os.environ.get("LANGMEM_GRAPH_DATA") or Path(__file__).parents[3] / "shared" / "data")


def test_locomo(tmp_path):
    data = LOADERS["locomo"](tiny.locomo(tmp_path))
    (talk,) = data.conversations
    assert [session.session_id for session in talk.sessions] == ["session_1", "session_2"]
    (first,) = talk.sessions[0].messages
    assert (first["id"], first["name"]) == ("D1:1", "Mira")
    assert first["content"] == "Look! [shares a red shed]"
    assert talk.sessions[1].records == [
        {"text": "Mira planted beans.", "subject": "Mira", "source_message_ids": ["D2:1"]}
    ]
    assert [(q.text, q.category, set(q.gold), q.answer, q.rule) for q in talk.questions] == [
        ("Beans?", "1 multi-hop", {"D2:1", "D1:1"}, "yes", "answer"),
        ("When?", "2 temporal", {"D2:1"}, "2024", "answer"),
        ("Nowhere?", "4 single-hop", set(), "x", "answer"),
        ("Who sold it?", "5 adversarial", {"D1:1"}, "", "abstain"),
    ]
    steps = list(talk.steps())
    assert [len(asked) for asked, _ in steps] == [0, 0, 4]
    assert steps[-1][1] is None
    kept = limited(data, None, with_gold=True).conversations[0].questions
    assert [q.text for q in kept] == ["Beans?", "When?", "Who sold it?"]
    two = limited(data, 2, with_gold=False).conversations[0].questions
    assert [q.text for q in two] == ["Beans?", "Nowhere?"]


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (["D8:6; D9:17"], {"D8:6", "D9:17"}),
        (["D1:3 D1:5", "D2:2,D2:3"], {"D1:3", "D1:5", "D2:2", "D2:3"}),
        (["D30:05"], {"D30:5"}),
        (["D:11:26", "D"], {"D11:26"}),
        ([], set()),
    ],
)
def test_evidence_strings(evidence, expected):
    assert evidence_ids(evidence) == expected


def test_realmem_asks_before_the_session_is_added(tmp_path):
    data = LOADERS["realmem"](tiny.realmem(tmp_path))
    (person,) = data.conversations
    assert (person.name, data.by, data.task) == ("Some_One", "session", "scale")
    assert [(q.text, q.kind, set(q.gold), q.before) for q in person.questions] == [
        ("How far is the shed?", "single", {"s1"}, 1),
        ("What else?", "multi", {"s1", "s2"}, 2),
        ("Gold?", "single", set(), 2),
    ]
    first = person.questions[0]
    assert first.category == "Static Retrieval"  # the paper's name of what files call otherwise
    assert first.memories == ("memory of s1", "memory of s2", "memory of s3")
    assert (first.answer, person.sessions[0].records[0]["source_message_ids"]) == (
        "Noted.",
        ["s1:1"],
    )
    assert [len(asked) for asked, _ in person.steps()] == [0, 1, 2, 0]


def test_longmemeval(tmp_path):
    talks = LOADERS["longmemeval"](tiny.longmemeval(tmp_path)).conversations
    assert [session.session_id for session in talks[0].sessions] == ["a", "b"]  # by date
    assert talks[0].sessions[1].messages == [
        {"id": "b:1", "role": "user", "content": "My cat is called Pixel.",
         "at": "2023-05-21T00:51:00+00:00"}
    ]  # fmt: skip
    (question,) = talks[0].questions
    assert (question.gold, question.rule, question.answer) == ({"b"}, "update", "Pixel")
    assert question.at == "2023-05-30T09:00:00+00:00"
    assert talks[1].questions[0].rule == "abstain"


def test_actmemeval(tmp_path):
    (talk,) = LOADERS["actmemeval"](tiny.actmemeval(tmp_path)).conversations
    assert [session.session_id for session in talk.sessions] == ["b", "a"]  # no dates
    (request,) = talk.questions
    assert (request.rule, request.gold, request.answer) == ("act", {"b"}, "Lilies harm cats.")


def test_personamem(tmp_path):
    data = LOADERS["personamem"](tiny.personamem(tmp_path))
    (talk,) = data.conversations
    (session,) = talk.sessions
    assert [m["content"] for m in session.messages] == ["I always take the night train.", "Noted."]
    (question,) = talk.questions
    assert (question.text, question.gold) == ("How do I get to Vienna?", {"m1"})
    assert sorted(question.options) == ["By plane.", "By the night train.", "On foot."]
    again = LOADERS["personamem"](tmp_path).conversations[0].questions[0]
    assert again.options == question.options  # the same shuffle


def test_mem2actbench_in_the_papers_layout(tmp_path):
    data = LOADERS["mem2actbench"](tiny.mem2actbench(tmp_path))
    (talk,) = data.conversations
    assert data.by == "session"
    assert [session.session_id for session in talk.sessions] == ["c1", "c2"]
    known, lost = talk.questions
    assert (known.gold, known.kind, known.category) == ({"c1"}, "evidence present", "L1")
    assert (lost.gold, lost.kind) == (set(), "evidence absent")
    assert [(s.name, s.value, s.type) for s in known.goal.slots] == [
        ("city", "Rome", "explicit"),
        ("guests", 2, "inferred"),
    ]
    assert known.goal.as_function()["function"]["parameters"]["type"] == "object"


def test_mem2actbench_in_our_layout(tmp_path):
    data = LOADERS["mem2actbench"](tiny.acting(tmp_path))
    (talk,) = data.conversations
    assert data.by == "message"
    assert [session.session_id for session in talk.sessions] == ["2024-03-07", "2024-03-08"]
    assert talk.sessions[1].records == [{"text": "Home: Oslo", "source_message_ids": ["m2"]}]
    (task,) = talk.questions
    assert (task.gold, task.kind, task.category) == ({"m2"}, "update", "2")
    assert (task.goal.absent, task.goal.slots[0].complex) == (("guests",), False)


@pytest.mark.parametrize("name", LOADERS)
def test_missing_data_is_told_with_its_origin(name, tmp_path):
    with pytest.raises(BenchDataError, match="Wanted: "):
        LOADERS[name](tmp_path)


@pytest.mark.parametrize("name", ["locomo", "realmem", "longmemeval", "actmemeval", "mem2actbench"])
def test_another_layout_is_refused_by_name(name, tmp_path):
    file = tmp_path / ("acting_x.jsonl" if name == "mem2actbench" else "x.json")
    file.write_text(json.dumps({"hello": 1}))
    with pytest.raises(BenchDataError, match="layout"):
        LOADERS[name](file)


def test_what_is_not_json_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(BenchDataError, match="not JSON"):
        LOADERS["locomo"](tmp_path)


@pytest.mark.parametrize(("name", "asked"), [("locomo", 996), ("realmem", 728)])
def test_the_open_data(name, asked):
    if not (DATA / name).is_dir():
        pytest.skip(f"no open data in {DATA}: set LANGMEM_GRAPH_DATA")
    data = limited(LOADERS[name](DATA), None, with_gold=True)
    assert sum(len(talk.questions) for talk in data.conversations) == asked
    for talk in data.conversations:
        assert len({question.id for question in talk.questions}) == len(talk.questions)
