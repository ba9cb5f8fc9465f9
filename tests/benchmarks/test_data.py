"""Loaders on small files in each format, written here, and on the open data where it is present."""

import csv
import json
import os
import re
from pathlib import Path

import pytest

from benchmarks.data import LOADERS
from benchmarks.data.items import BenchDataError
from benchmarks.data.locomo import evidence_ids
from benchmarks.job import fingerprint, limited
from tests.benchmarks import tiny

DATA = Path(
    os.environ.get("LANGMEM_GRAPH_DATA")
    or Path(__file__).parents[3] / "shared" / "data"
)


def test_locomo(tmp_path):
    data = LOADERS["locomo"](tiny.locomo(tmp_path))
    (talk,) = data.conversations
    assert [session.session_id for session in talk.sessions] == [
        "session_1",
        "session_2",
    ]
    (first,) = talk.sessions[0].messages
    assert (first["id"], first["name"]) == ("D1:1", "Mira")
    assert first["content"] == "Look! [shares a red shed]"
    assert talk.sessions[1].records == [
        {
            "text": "Mira planted beans.",
            "subject": "Mira",
            "source_message_ids": ["D2:1"],
        }
    ]
    assert [
        (q.text, q.category, set(q.gold), q.answer, q.rule) for q in talk.questions
    ] == [
        ("Beans?", "1 multi-hop", {"D2:1", "D1:1"}, "yes", "answer"),
        ("When?", "2 temporal", {"D2:1"}, "2024", "answer"),
        ("Nowhere?", "4 single-hop", set(), "x", "answer"),
        ("Who sold it?", "5 adversarial", {"D1:1"}, "", "abstain"),
    ]
    # after all was said
    assert {q.at for q in talk.questions} == {"2024-03-02T09:00:00+00:00"}
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
    # the paper's name of what files call otherwise
    assert first.category == "Static Retrieval"
    assert first.memories == ("memory of s1", "memory of s2", "memory of s3")
    assert (first.answer, person.sessions[0].records[0]["source_message_ids"]) == (
        "Noted.",
        ["s1:1"],
    )
    assert {question.at for question in person.questions} == {
        "2025-12-24T00:00:00+00:00"
    }
    assert [len(asked) for asked, _ in person.steps()] == [0, 1, 2, 0]


def test_longmemeval(tmp_path):
    talks = LOADERS["longmemeval"](tiny.longmemeval(tmp_path)).conversations
    # by date
    assert [session.session_id for session in talks[0].sessions] == ["s1", "s2"]
    assert talks[0].sessions[1].messages == [
        {"id": "s2:1", "role": "user", "content": "My cat is called Pixel.",
         "at": "2023-05-21T00:51:00+00:00"}
    ]  # fmt: skip
    (question,) = talks[0].questions
    assert (question.gold, question.rule, question.answer) == (
        {"s2"},
        "update",
        "Pixel",
    )
    assert question.at == "2023-05-30T09:00:00+00:00"
    (unknown,) = talks[1].questions
    # nothing can be found for it
    assert (unknown.rule, unknown.gold) == ("abstain", set())


def test_ids_of_haystacks_do_not_tell_what_is_gold(tmp_path):
    """LongMemEval's gold sessions are called `answer_…`, and tools show ids to a model."""
    row = tiny.haystack("q1", haystack_session_ids=["answer_1", "noise_1"])
    file = tmp_path / "longmemeval_s.json"
    file.write_text(json.dumps([row | {"answer_session_ids": ["answer_1"]}]))
    (talk,) = LOADERS["longmemeval"](file).conversations
    assert talk.questions[0].gold == {"s2"}
    assert "answer" not in json.dumps(
        [[s.session_id, s.messages] for s in talk.sessions]
    )


def test_a_session_that_is_there_twice_is_two(tmp_path):
    row = tiny.haystack("q1", haystack_session_ids=["x", "x"], answer_session_ids=["x"])
    file = tmp_path / "longmemeval_s.json"
    file.write_text(json.dumps([row]))
    (talk,) = LOADERS["longmemeval"](file).conversations
    assert [session.session_id for session in talk.sessions] == ["s1", "s2"]
    assert talk.questions[0].gold == {"s1", "s2"}
    assert len({m["id"] for session in talk.sessions for m in session.messages}) == 3


def test_versions_of_one_set_are_not_mixed(tmp_path):
    folder = tiny.longmemeval(tmp_path)
    text = (folder / "longmemeval_s.json").read_text()
    (folder / "longmemeval_oracle.json").write_text(text)
    with pytest.raises(BenchDataError, match=r"longmemeval_oracle\.json.*--data"):
        LOADERS["longmemeval"](folder)
    assert len(LOADERS["longmemeval"](folder / "longmemeval_s.json").conversations) == 2


def test_what_is_there_twice_is_refused(tmp_path):
    """Its questions would count once, and nobody would see which."""
    folder = tiny.locomo(tmp_path) / "locomo"
    (folder / "same.json").write_text((folder / "some.json").read_text())
    with pytest.raises(BenchDataError, match=r"'small'.*twice"):
        LOADERS["locomo"](folder)
    file = tiny.mem2actbench(tmp_path / "acts") / "qa_dataset.jsonl"
    file.write_text(file.read_text().replace('"a2"', '"a1"'))
    with pytest.raises(BenchDataError, match=r"'a1'.*twice"):
        LOADERS["mem2actbench"](tmp_path / "acts")


def test_actmemeval(tmp_path):
    (talk,) = LOADERS["actmemeval"](tiny.actmemeval(tmp_path)).conversations
    assert [session.session_id for session in talk.sessions] == ["s1", "s2"]
    # no dates
    assert talk.sessions[0].messages[0]["content"] == "My cat is called Pixel."
    (request,) = talk.questions
    assert (request.rule, request.gold, request.answer) == (
        "act",
        {"s1"},
        "Lilies harm cats.",
    )


def test_personamem(tmp_path):
    data = LOADERS["personamem"](tiny.personamem(tmp_path))
    (talk,) = data.conversations
    (session,) = talk.sessions
    assert [m["content"] for m in session.messages] == [
        "I always take the night train.",
        "Noted.",
    ]
    (question,) = talk.questions
    assert (question.text, question.gold) == ("How do I get to Vienna?", {"m1"})
    assert sorted(question.options) == ["By plane.", "By the night train.", "On foot."]
    again = LOADERS["personamem"](tmp_path).conversations[0].questions[0]
    assert again.options == question.options  # the same shuffle


def _personamem(tmp_path, chat=None, **columns):
    """The tiny set with another chat or other columns."""
    folder = tiny.personamem(tmp_path)
    if chat is not None:
        (folder / "data" / "chat_history_32k" / "p7.json").write_text(json.dumps(chat))
    place = folder / "benchmark" / "text" / "benchmark.csv"
    with place.open(newline="") as file:
        (row,) = csv.DictReader(file)
    with place.open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, list(row | columns))
        lines.writeheader()
        lines.writerow(row | columns)
    return place


def _says(*texts):
    return [{"role": "user", "content": text} for text in texts]


def test_personamems_gold_stands_where_the_whole_snippet_does(tmp_path):
    chat = _says("Thanks!", "I take trains.", "Thanks!", "I like tea.", "Thanks!")
    _personamem(tmp_path, chat, related_conversation_snippet=json.dumps(chat[1:3]))
    (question,) = LOADERS["personamem"](tmp_path).conversations[0].questions
    assert question.gold == {"m2", "m3"}


def test_personamems_histories_are_part_of_the_data(tmp_path):
    _personamem(tmp_path)
    before = fingerprint(LOADERS["personamem"](tmp_path).files)
    (tmp_path / "data" / "chat_history_32k" / "p7.json").write_text(
        json.dumps(_says("Else."))
    )
    assert fingerprint(LOADERS["personamem"](tmp_path).files) != before


def test_personamem_is_the_one_of_texts(tmp_path):
    place = _personamem(tmp_path)
    other = tmp_path / "benchmark" / "multimodal" / "benchmark.csv"
    other.parent.mkdir()
    other.write_text("something,else\n1,2\n")
    assert LOADERS["personamem"](tmp_path).files[0] == place


@pytest.mark.parametrize("form", ["utf-8-sig", "crlf", "long"])
def test_personamems_table_in_other_forms(tmp_path, form):
    place = _personamem(
        tmp_path, pref_type="x" * 200_000 if form == "long" else "travel"
    )
    text = place.read_text()
    if form == "crlf":
        place.write_bytes(text.replace("\n", "\r\n").encode())
    if form == "utf-8-sig":
        place.write_text(text, encoding="utf-8-sig")
    (talk,) = LOADERS["personamem"](tmp_path).conversations
    assert talk.questions[0].gold == {"m1"}


def test_mem2actbench_in_the_papers_layout(tmp_path):
    data = LOADERS["mem2actbench"](tiny.mem2actbench(tmp_path))
    (talk,) = data.conversations
    assert data.by == "session"
    assert [session.session_id for session in talk.sessions] == ["c1", "c2"]
    known, lost = talk.questions
    assert (known.gold, known.kind, known.category) == (
        {"c1"},
        "evidence present",
        "L1",
    )
    assert (lost.gold, lost.kind) == (set(), "evidence absent")
    assert [(s.name, s.value, s.type) for s in known.goal.slots] == [
        ("city", "Rome", "explicit"),
        ("guests", 2, "inferred"),
    ]
    assert known.goal.as_function()["function"]["parameters"]["type"] == "object"


def test_mem2actbench_reads_the_version_that_is_meant(tmp_path):
    folder = tiny.mem2actbench(tmp_path)
    small = folder / "toolmem_conversation-small.jsonl"
    small.write_text(
        (folder / "toolmem_conversation.jsonl").read_text().replace("Rome", "Oslo")
    )

    def said(data):
        found = LOADERS["mem2actbench"](data)
        return found.conversations[0].sessions[0].messages[0]["content"], {
            file.name for file in found.files
        }

    plain = {"qa_dataset.jsonl", "toolmem_conversation.jsonl"}
    assert said(folder) == ("I live in Rome.", plain)
    assert said(small) == ("I live in Oslo.", {"qa_dataset.jsonl", small.name})
    (folder / "toolmem_conversation.jsonl").rename(
        folder / "toolmem_conversation_other.jsonl"
    )
    with pytest.raises(BenchDataError, match="Which one"):
        LOADERS["mem2actbench"](folder)


def test_mem2actbench_in_our_layout(tmp_path):
    data = LOADERS["mem2actbench"](tiny.acting(tmp_path))
    (talk,) = data.conversations
    assert data.by == "message"
    assert [session.session_id for session in talk.sessions] == [
        "2024-03-07",
        "2024-03-08",
    ]
    assert talk.sessions[1].records == [
        {"text": "Home: Oslo", "source_message_ids": ["m2"]}
    ]
    (task,) = talk.questions
    assert (task.gold, task.kind, task.category) == ({"m2"}, "update", "2")
    assert (task.goal.absent, task.goal.slots[0].complex) == (("guests",), False)


@pytest.mark.parametrize("name", LOADERS)
def test_missing_data_is_told_with_its_origin(name, tmp_path):
    with pytest.raises(BenchDataError, match="Wanted: "):
        LOADERS[name](tmp_path)


@pytest.mark.parametrize(
    "name", ["locomo", "realmem", "longmemeval", "actmemeval", "mem2actbench"]
)
def test_another_layout_is_refused_by_name(name, tmp_path):
    file = tmp_path / ("acting_x.jsonl" if name == "mem2actbench" else "x.json")
    file.write_text(json.dumps({"hello": 1}))
    with pytest.raises(BenchDataError, match="layout"):
        LOADERS[name](file)


@pytest.mark.parametrize("name", LOADERS)
def test_bytes_that_are_no_text_are_refused_by_name(name, tmp_path):
    getattr(tiny, name)(tmp_path)
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    for one in files:
        one.write_bytes(b"\xff\xfe\x00" + one.read_bytes())
    with pytest.raises(
        BenchDataError, match="|".join(re.escape(str(one)) for one in files)
    ):
        LOADERS[name](tmp_path)


@pytest.mark.parametrize("field", ["message", "request"])
def test_what_is_no_text_is_refused(tmp_path, field):
    for file in tiny.acting(tmp_path).iterdir():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rows = [row | {field: 7} if field in row else row for row in rows]
        file.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(BenchDataError, match="7 is no text"):
        LOADERS["mem2actbench"](tmp_path)


def test_half_a_sign_is_replaced(tmp_path):
    """JSON can hold one half of a pair, which no database takes."""
    sample = tiny.locomo_sample()
    sample["conversation"]["session_2"][0]["text"] = "beans \ud83d and \ud83c\udf31"
    file = tmp_path / "x.json"
    file.write_text(json.dumps([sample]))
    (talk,) = LOADERS["locomo"](file).conversations
    assert talk.sessions[1].messages[0]["content"] == "beans ? and \U0001f331"


def test_lines_end_at_line_ends_alone(tmp_path):
    file = tiny.actmemeval(tmp_path) / "ActMemEval.jsonl"
    row = json.loads(file.read_text()) | {"question": "One\u2028two\x85?"}
    file.write_bytes(json.dumps(row, ensure_ascii=False).encode() + b"\r\n\r\n")
    (talk,) = LOADERS["actmemeval"](file).conversations
    assert talk.questions[0].text == "One\u2028two\x85?"


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


def test_a_person_with_two_histories_is_two_memories(tmp_path):
    place = _personamem(tmp_path)
    other = tmp_path / "data" / "chat_history_32k" / "p8.json"
    other.write_text(json.dumps(_says("I fly.")))
    header, line = place.read_text().splitlines()
    place.write_text("\n".join([header, line, line.replace("p7.json", "p8.json")]))
    data = LOADERS["personamem"](tmp_path)
    held = [talk.sessions[0].messages[0]["content"] for talk in data.conversations]
    assert held == ["I always take the night train.", "I fly."]
    assert other in data.files
