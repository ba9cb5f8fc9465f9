"""Loaders on small files in each format, written here."""

import json

import pytest

from benchmarks.loaders import DataMissingError, evidence_ids, load_locomo, load_realmem


def turn(dia_id, text, speaker="Mira", **more):
    return {"dia_id": dia_id, "speaker": speaker, "text": text, **more}


def locomo_sample():
    return {
        "sample_id": "small",
        "conversation": {
            "session_2_date_time": "9:00 am on 2 March, 2024",
            "session_2": [turn("D2:1", "We planted beans."), turn("D2:2", "Nice.", "Olek")],
            "session_1_date_time": "1:30 pm on 1 March, 2024",
            "session_1": [turn("D1:1", "Look!", blip_caption="a red shed")],
        },
        "qa": [
            {"question": "Beans?", "evidence": ["D2:01; D1:1"], "category": 1},
            {"question": "When?", "evidence": ["D2:1", "D9:9"], "category": 2},
            {"question": "Nowhere?", "evidence": ["D9:9"], "category": 4},
            {"question": "None?", "category": 5},
        ],
    }


def test_locomo(tmp_path):
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo" / "some.json").write_text(json.dumps([locomo_sample()]))
    (conversation,) = load_locomo(tmp_path)
    assert [session.session_id for session in conversation.sessions] == ["session_1", "session_2"]
    (first,) = conversation.sessions[0].messages
    assert (first["id"], first["name"]) == ("D1:1", "Mira")
    assert first["content"] == "Look! [shares a red shed]"
    assert [(q.text, q.category, q.gold) for q in conversation.questions] == [
        ("Beans?", "1 multi-hop", {"D2:1", "D1:1"}),
        ("When?", "2 temporal", {"D2:1"}),
    ]
    steps = list(conversation.steps())
    assert [len(asked) for asked, _ in steps] == [0, 0, 2]
    assert steps[-1][1] is None


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


def session(uuid, *turns):
    return {"session_uuid": uuid, "current_time": "2025-12-24 (Wednesday)", "dialogue_turns": turns}


def query(text, kind="single"):
    return {
        "speaker": "User",
        "content": text,
        "is_query": True,
        "category_name": "Dynamic Updating",
        "session_type": kind,
    }


def answer(*uuids):
    return {"speaker": "Assistant", "content": "Noted.", "memory_session_uuids": list(uuids)}


def test_realmem(tmp_path):
    dialogues = [
        session("s1", {"speaker": "User", "content": "I plan a shed."}, answer()),
        session("s2", query("How far is it?"), answer("s1", "s2", "s3")),
        session("s3", query("What else?", "multi"), answer("s2", "s1"), query("Gold?"), answer()),
    ]
    (tmp_path / "realmem").mkdir()
    (tmp_path / "realmem" / "Some_One.json").write_text(json.dumps({"dialogues": dialogues}))
    (person,) = load_realmem(tmp_path)
    assert person.name == "Some_One"
    assert [(q.text, q.kind, q.gold, q.before) for q in person.questions] == [
        ("How far is it?", "single", {"s1"}, 1),
        ("What else?", "multi", {"s1", "s2"}, 2),
    ]
    assert [len(asked) for asked, _ in person.steps()] == [0, 1, 1, 0]


def test_missing_data_is_told(tmp_path):
    with pytest.raises(DataMissingError, match="LoCoMo"):
        load_locomo(tmp_path)
