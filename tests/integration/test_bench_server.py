"""Answer mode against a real OpenAI-compatible server (llama.cpp, SmolLM2 135M) as model and judge.

It proves the way from data to report, not quality: the model is far too small to answer or judge.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.causal.local_server import NEEDED, started, weights
from benchmarks.log import Log
from tests.benchmarks import tiny
from tests.support.loopback import loopback_alone

pytest.importorskip(
    "xllamacpp", reason=f"no local model server: {NEEDED}", exc_type=ImportError
)
if weights() is None:
    pytest.skip(f"no local model: {NEEDED}", allow_module_level=True)
pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(280), pytest.mark.stress]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with loopback_alone(), started() as address:
        yield f"{address}/v1"


@pytest.fixture(autouse=True)
def loopback_only(socket_enabled: None) -> Iterator[None]:
    with loopback_alone():
        yield


def bench(tmp_path: Path, url: str, name: str, *words: str) -> tuple[str, Log]:
    data = getattr(tiny, name)(tmp_path / "data")
    given = [name, "--data", str(data), "--out", str(tmp_path / "runs")]
    given += ["--embeddings", "hash", "--base-url", url, "--max-tokens", "48", *words]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    (folder,) = [one for one in (tmp_path / "runs").iterdir() if one.is_dir()]
    return done.stdout, Log(folder / "items.jsonl")


def test_questions_are_answered_and_judged(tmp_path, url):
    words = ("--judge", "same", "--systems", "bm25", "--limit", "2")
    text, log = bench(tmp_path, url, "locomo", *words)
    rows = log.rows("asked")
    assert len(rows) == 2
    for row in rows:
        assert row["reply"]["text"] or row["failures"]
        assert 0 <= row["scores"]["score"] <= 1
        assert row["reply"]["spent"]["input_tokens"] > 50  # the server's own count
        assert row["judged"]["calls"] + row["reply"]["failed"] >= 1
    assert "The judge is the model itself" in text
    assert "answers failed" in text


def test_a_choice_is_one_of_the_options(tmp_path, url):
    _, log = bench(tmp_path, url, "personamem", "--systems", "ours")
    (row,) = log.rows("asked")
    assert bool(row["failures"]) != (row["reply"]["choice"] in tiny_options())
    assert row["scores"]["score"] in (0, 1)


def tiny_options() -> list[str]:
    return ["By the night train.", "By plane.", "On foot."]


def test_a_call_that_cannot_be_read_is_counted(tmp_path, url):
    text, log = bench(
        tmp_path, url, "mem2actbench", "--systems", "bm25", "--limit", "1"
    )
    (row,) = log.rows("asked")
    assert bool(row["failures"]) == (row["reply"]["tool"] is None)
    assert "Why slots are wrong" in text


def test_memory_is_navigated(tmp_path, url):
    """The model may well call nothing; whatever it does is measured."""
    words = ("--systems", "ours", "--reader", "navigate", "--limit", "1")
    text, log = bench(tmp_path, url, "locomo", *words)
    rows = log.rows("asked")
    assert [row["category"] == "needs no memory" for row in rows] == [False, True]
    for row in rows:
        done = row["reply"]["navigation"]
        assert done["input_tokens"] > 50
        assert bool(done["answer"]) != bool(row["failures"])
    assert "How memory was navigated" in text
