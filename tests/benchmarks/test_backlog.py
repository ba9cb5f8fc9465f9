"""The forecast's benchmark, on small files."""

import sys
from pathlib import Path

import pytest

from benchmarks import backlog
from langmem_graph.tokens import token_counter
from tests.benchmarks import tiny


def test_it_times_forecasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LANGMEM_GRAPH_DATA", raising=False)
    monkeypatch.setattr(
        sys, "argv", ["backlog", "--sizes", "40,80", "--output", str(tmp_path)]
    )
    backlog.main()
    rows = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("|")
    ]
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["40", "80"]


def test_published_memories_are_counted_as_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.realmem(tiny.locomo(tmp_path))
    arguments = [
        "--sizes",
        "20",
        "--data",
        str(tmp_path),
        "--output",
        str(tmp_path / "out"),
    ]
    monkeypatch.setattr(sys, "argv", ["backlog", *arguments])
    backlog.main()
    assert "| LoCoMo |" in capsys.readouterr().out
    counter = token_counter("o200k_base")
    answer = '{"text":"Mira planted beans.","kind":"fact","subject":"user",'
    answer += '"attribute":"home town","sources":["m101"]}'
    record = {"text": "Mira planted beans.", "source_message_ids": ["D2:1"]}
    assert backlog.answer_tokens(record, counter) == counter.count(answer)
