"""The benchmark of languages, on two small sets of our own."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import languages
from benchmarks.languages import days, measure
from langmem_graph.testing import HashEmbeddings


def small_set(language: str) -> dict[str, Any]:
    """Twelve messages of two days and a question to each of the first two, one in another language."""
    said = ["the aisle seat", "a trombone in the attic", *map(str, range(10))]
    messages = [
        {"id": f"m{i}", "at": f"2026-01-0{1 + i // 6}T09:{i:02}:00", "content": text}
        for i, text in enumerate(said)
    ]
    asked = [("trombone", language, ["m1"]), ("asiento", "xx", ["m0", "m99"])]
    questions = [
        {"id": f"q{i}", "question": text, "language": one, "evidence": evidence}
        for i, (text, one, evidence) in enumerate(asked)
    ]
    return {"language": language, "messages": messages, "questions": questions}


def test_recall_is_counted_by_the_language_of_the_question() -> None:
    found = measure(small_set("en"), HashEmbeddings())
    assert found.messages == 12
    assert found.same["words"] == [1.0]
    assert found.same["hybrid"] == [1.0]
    assert found.other["words"] == [0.0]
    assert all(len(found.other[method]) == 1 for method in languages.METHODS)


def test_a_session_is_a_day() -> None:
    sessions = dict(days(small_set("en")["messages"]))
    assert list(sessions) == ["2026-01-01", "2026-01-02"]
    assert [one["id"] for one in sessions["2026-01-02"]] == [
        f"m{i}" for i in range(6, 12)
    ]


def test_the_tables_have_a_row_for_each_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for language in ("de", "en"):
        file = tmp_path / f"{language}.json"
        file.write_text(json.dumps(small_set(language)), encoding="utf-8")
    out = ["--output", str(tmp_path / "out")]
    both = "hash,langmem_graph.testing:HashEmbeddings"
    languages.main(["--sets", str(tmp_path), "--embeddings", both, *out])
    printed = capsys.readouterr().out
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if "|" in line]
    assert rows == ["messages in", "---", "de", "en", "all"] * 2


def test_a_folder_without_sets_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"No <code>.json in {tmp_path}"):
        languages.read_sets(tmp_path)
