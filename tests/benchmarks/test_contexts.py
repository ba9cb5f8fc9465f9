"""`benchmarks.contexts` and `benchmarks.long_replies`."""

import json
from itertools import islice, repeat
from pathlib import Path

import pytest

from benchmarks import contexts
from benchmarks.long_replies import SHORTEST, long_replies, replied
from langmem_graph.testing import HashEmbeddings
from tests.benchmarks import tiny


def test_a_text_counts_by_the_sentences_that_stand_in_the_context() -> None:
    context = f"- me: {json.dumps('Tea at four. Bring a “cake”.')}"
    assert contexts.share_of("Tea at four.", context) == 1
    assert contexts.share_of("Tea at four. Never at ten.", context) == 12 / 25
    assert contexts.share_of("Cake", context) == 0
    assert contexts.share_of("4", "- me: 4") == 1


def test_the_shares_of_a_set_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tiny.beam(tmp_path / "data")
    monkeypatch.setattr(contexts, "MiniLMEmbeddings", HashEmbeddings)
    words = ["contexts", "beam", "--data", str(data), "--output", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    assert contexts.main() == 0
    told = capsys.readouterr().out
    assert "Share of the evidence in a context of 1,500 tokens:" in told
    assert "| user |" in told
    assert "| ours, quoted | ours, in full | cosine, quoted | cosine, in full |" in told


def test_a_long_reply_stands_behind_each_message() -> None:
    assert all(len(text) >= SHORTEST for text in islice(long_replies(), 50))
    said = [{"id": "m1", "role": "user", "content": "a", "at": "2026-01-01"}]
    reply = {"id": "m1-reply", "role": "assistant", "content": "b", "at": "2026-01-01"}
    assert replied(said, repeat("b")) == [said[0], reply]
    assert replied(said, None) == said
