"""The benchmarks of changes of life and of requests to forget, with scripted answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import episodes, forgetting
from benchmarks.common import REPOSITORY
from langmem_graph.embeddings.hash_embeddings import HashEmbeddings
from langmem_graph.testing import ScriptedChatModel

CODE = "KX-7093-QL"  # in no time and no id by chance
EPISODE: dict[str, Any] = {
    "id": "x1",
    "language": "en",
    "change": [1, 0],
    "sessions": [
        {
            "at": "2026-01-01T10:00:00",
            "messages": [
                {"role": "user", "content": "I live in Porto."},
                {"role": "assistant", "content": "I see."},
            ],
        },
        {
            "at": "2026-03-01T10:00:00",
            "messages": [{"role": "user", "content": "I moved to Graz."}],
        },
    ],
    "facts": [
        {
            "id": "c1",
            "kind": "cascade",
            "before": "Porto",
            "after": "Graz",
            "questions": {"outright": "Where do I live?", "task": "Send it home."},
            "right": "Graz",
        },
        {
            "id": "t1",
            "kind": "tracking",
            "questions": {"outright": "Where have I lived?"},
            "right": "Porto, Graz",
        },
    ],
}
REQUEST: dict[str, Any] = {
    "id": "r1",
    "file": "requests",
    "language": "en",
    "sessions": [
        {
            "at": "2026-01-01T10:00:00",
            "messages": [{"role": "user", "content": f"My code is {CODE}, I am Jo."}],
        },
        {
            "at": "2026-03-01T10:00:00",
            "messages": [{"role": "user", "content": "Please rub out the code."}],
        },
    ],
    "request": [1, 0],
    "value": CODE,
    "keep": "Jo",
    "question": "What is my code?",
    "control": "Who am I?",
}


def extraction(question: str) -> dict[str, Any]:
    """A memory of every statement, and a request to forget what is asked."""
    new = re.findall(
        r'^(m\d+) .*?: "(.*)"$', question.split("New messages:")[1], re.MULTILINE
    )
    asked = [
        {"relation": "forget", "message": alias, "quote": words}
        for alias, words in new
        if "rub out" in words
    ]
    told = [
        {"text": f"The user said: {words}", "sources": [alias]}
        for alias, words in new
        if "rub out" not in words
    ]
    return {"memories": told, "changes": asked}


def removal(question: str) -> dict[str, Any]:
    texts = re.findall(r"^([mn]\d+) (.*)$", question, re.MULTILINE)
    return {"remove": [{"text": a, "words": CODE} for a, line in texts if CODE in line]}


def run_of(folder: Path, between: Any = ()) -> episodes.Run:
    kinds = episodes.KINDS
    return episodes.Run(
        folder, model, HashEmbeddings(), ["fast"], "all", kinds, between
    )


def model(_: str, **answers: Any) -> ScriptedChatModel:
    given = {"Extraction": extraction, "Removal": removal, "Reconciliation": {}}
    return ScriptedChatModel(answers=given | answers)


def test_an_episode_is_read_asked_and_shown_to_a_judge(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    episodes.play_all([EPISODE], run, 1)
    episodes.write_sheets([EPISODE], tmp_path)
    sheet = (tmp_path / "store.md").read_text()
    assert "The user said: I moved to Graz." in sheet.split("## No longer true")[0]
    assert "c1 (cascade)" in sheet and "t1" not in sheet
    contexts = json.loads((tmp_path / "contexts.json").read_text())
    asked = {"c1.outright.fast", "c1.task.fast", "t1.outright.fast"}
    assert set(contexts["x1"]) == asked
    assert "Graz" in contexts["x1"]["c1.outright.fast"]["context"]
    assert episodes.report([EPISODE], tmp_path) == "No verdicts yet."
    told = dict.fromkeys(asked, "right") | {"c1.task.fast": "wrong"}
    verdicts = {"x1": told}
    (tmp_path / "answer-verdicts.json").write_text(json.dumps(verdicts))
    table = episodes.report([EPISODE], tmp_path)
    assert "1/2 (50%)" in table
    assert "1/1 (100%)" in table


def test_of_each_fact_one_question_is_asked_in_rotation() -> None:
    forms = {"outright": "?", "presupposing": "?", "task": "!"}
    facts = [{"id": f"c{n}", "kind": "cascade", "questions": forms} for n in range(3)]
    episode = {"id": "x1", "facts": facts}
    asked = [name for name, _ in episodes.questions_of(episode, "rotated")]
    assert [name.split(".")[0] for name in asked] == ["c0", "c1", "c2"]
    assert {name.split(".")[1] for name in asked} == set(forms)
    assert len(list(episodes.questions_of(episode, "all"))) == 9
    assert not list(episodes.questions_of(episode, "all", ["forget"]))


def test_an_episode_of_memes_own_form_is_read(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "I live in Porto."}]
    asked = {
        "task_type": "Cascade-D (1-hop)",
        "question": "Where do I live?",
        "gold_answer": "Porto",
    }
    published = {
        "episode": {"tag": "sw_1"},
        "sessions": [{"timestamp": "2023/03/01 (Wed) 09:00", "conversation": said}],
        "results": {"bm25": {"after": [asked]}},
    }
    file = tmp_path / "published.json"
    file.write_text(json.dumps(published))
    [episode] = episodes.read_episodes(file)
    assert episode["facts"][0]["kind"] == "cascade"
    run = run_of(tmp_path)
    episodes.play_all([episode], run, 1)
    episodes.write_sheets([episode], tmp_path)
    contexts = json.loads((tmp_path / "contexts.json").read_text())
    assert "2023-03-01" in contexts["sw_1"]["q0.outright.fast"]["context"]


def test_episodes_of_stales_own_form_are_read(tmp_path: Path) -> None:
    asked = {f"dim{place}_query": f"Question {place}?" for place in (1, 2, 3)}
    published = {
        "uid": "u1",
        "type": "T1",
        "M_old": "I live in Porto.",
        "M_new": "My new landlord in Graz is kind.",
        "explanation": "location(city) is now Graz.",
        "probing_queries": asked,
        "timestamps": ["2024-03-01 09:00", "2025-06-15 10:30"],
        "haystack_session": [
            [{"role": "user", "content": "I live in Porto."}],
            [{"role": "user", "content": "My new landlord in Graz is kind."}],
        ],
        "relevant_session_index": [0, 1],
    }
    file = tmp_path / "stale.json"
    file.write_text(json.dumps([published, published | {"uid": "u2"}]))
    first, second = episodes.read_episodes(file)
    assert (first["id"], second["id"]) == ("u1", "u2")
    assert first["sessions"][1]["at"] == "2025-06-15T10:30:00"
    assert list(first["facts"][0]["questions"].values()) == list(asked.values())
    episodes.play_all([first], run_of(tmp_path), 1)
    episodes.write_sheets([first], tmp_path)
    contexts = json.loads((tmp_path / "contexts.json").read_text())
    assert "Graz" in contexts["u1"]["c1.outright.fast"]["context"]


def test_other_talk_is_stored_and_not_read(tmp_path: Path) -> None:
    said = [{"content": f"The weather is fine {n}."} for n in range(6)]
    run = run_of(tmp_path, said)
    episodes.play_all([EPISODE], run, 1)
    found = json.loads((tmp_path / "case-x1.json").read_text())
    assert len(found["holds"]) == 3
    reads = [call for call in found["calls"] if call["purpose"] == "Extraction"]
    assert len(reads) == 2
    assert not any("weather is fine" in call["user"] for call in reads)


@pytest.mark.parametrize("is_removed", [True, False])
def test_what_stands_after_a_request_is_counted(
    tmp_path: Path, is_removed: bool
) -> None:
    answers = {} if is_removed else {"Removal": {"remove": []}}

    def models(tag: str) -> ScriptedChatModel:
        return model(tag, **answers)

    run = forgetting.Run(tmp_path, models, HashEmbeddings(), "hide")
    forgetting.play_all([REQUEST], run, 1)
    [found] = [json.loads((tmp_path / "case-r1.json").read_text())]
    table = forgetting.report([found])
    assert found["asked"][0]["everything"] is False
    assert bool(found["stands"]) is not is_removed
    assert ("requests: the value is nowhere | 1/1" in table) is is_removed
    assert ("export" in found["stands"]) is not is_removed


def test_wrongly_hidden_and_ended_are_counted() -> None:
    asked = [{"messages": ["m"], "records": [], "quote": "q", "everything": False}]
    near = {"id": "n", "file": "near_misses", "asked": asked, "lost": True, "calls": []}
    attack = {**near, "file": "attacks", "asked": [], "ended": ["Jo has a cat."]}
    table = forgetting.report([{**near, "ended": []}, {**attack, "lost": False}])
    assert "near misses: words removed | 1/1 (100%)" in table
    assert "attacks: records end | 1/1 (100%)" in table
    assert "Jo has a cat." in table


def test_the_figures_in_the_documents_are_those_of_the_recorded_run() -> None:
    told = episodes.read_episodes(REPOSITORY / "benchmarks/sets/episodes_second")
    kept = REPOSITORY / "benchmarks" / "recorded" / "episodes_2"
    table = episodes.report(told, kept)
    written = (REPOSITORY / "docs" / "benchmarks.md").read_text()
    rows = {
        "cascade": "32 of 36 | 36 of 36 | 35 of 36",
        "absence": "34 of 36 | 36 of 36 | 33 of 36",
        "independent": "36 of 36 | 36 of 36 | 36 of 36",
        "tracking": "12 of 12 | 10 of 12",
        "aggregation": "12 of 12 | 10 of 12",
    }
    for kind, shares in rows.items():
        printed = [line for line in table.splitlines() if line.startswith(f"| {kind} ")]
        found = re.findall(r"\d+/\d+", " ".join(printed))
        assert " | ".join(found).replace("/", " of ") == shares
        assert f"{shares} |" in written
