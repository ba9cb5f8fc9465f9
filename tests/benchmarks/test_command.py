"""The benchmarks' command line."""

import json

import pytest
from typer.testing import CliRunner

from benchmarks import command
from benchmarks.__main__ import Name, app
from benchmarks.data import LOADERS
from tests.benchmarks import tiny
from tests.benchmarks.scripted import RIGHT, Model, Walker


def invoke(*words, **options):
    return CliRunner().invoke(app, [*map(str, words)], **options)


def test_the_command_measures_retrieval(tmp_path):
    data = tiny.locomo(tmp_path / "data")
    words = [
        "locomo",
        "--data",
        data,
        "--out",
        tmp_path / "runs",
        "--embeddings",
        "hash",
    ]
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert "## LoCoMo: 3 questions with gold" in done.stdout
    assert "- 1 questions without gold are in no figure." in done.stdout
    (folder,) = [one for one in (tmp_path / "runs").iterdir() if one.is_dir()]
    assert (folder / "report.md").read_text() in done.stdout
    again = invoke(*words)
    assert again.exit_code == 0
    assert len((folder / "items.jsonl").read_text().splitlines()) == 7 * (3 + 2 + 1) + 2


def test_a_set_without_gold_is_reported_too(tmp_path):
    folder = tiny.longmemeval(tmp_path / "data")
    file = folder / "longmemeval_s.json"
    file.write_text(json.dumps([tiny.haystack("q_abs")]))
    done = invoke(
        "longmemeval",
        "--data",
        folder,
        "--out",
        tmp_path / "runs",
        "--embeddings",
        "hash",
    )
    assert done.exit_code == 0, done.output
    assert "## LongMemEval: 0 questions with gold" in done.stdout
    assert "- 1 questions without gold are in no figure." in done.stdout
    assert not list((tmp_path / "runs").rglob("*.png"))


def test_the_command_names_every_data_set():
    assert {name.value for name in Name} == set(LOADERS)


def test_without_a_name_the_command_lists_them():
    done = invoke()
    assert done.exit_code == 2
    assert all(name in " ".join(done.output.split()) for name in LOADERS)


def test_several_benchmarks_run_one_after_the_other(tmp_path):
    tiny.realmem(tiny.locomo(tmp_path / "data"))
    rest = [
        "--data",
        tmp_path / "data",
        "--out",
        tmp_path / "runs",
        "--embeddings",
        "hash",
    ]
    done = invoke("locomo", "realmem", *rest, "--systems", "bm25")
    assert done.exit_code == 0, done.output
    assert done.stdout.index("## LoCoMo: 3 questions") < done.stdout.index(
        "## RealMem: 2 questions"
    )


def test_the_command_answers_and_judges(tmp_path, monkeypatch):
    made = []

    def load(name, base_url, **options):
        made.append((name, base_url, options["max_tokens"]))
        return Model("yes", Verdict=RIGHT)

    monkeypatch.setattr(command, "load_chat_model", load)
    data = tiny.locomo(tmp_path / "data")
    done = invoke(
        "locomo", "--data", data, "--out", tmp_path / "runs", "--embeddings", "hash",
        "--model", "openai:a", "--judge", "openai:b", "--systems", "bm25", "--limit", "2",
        "--max-tokens", "99", "--prices", "1,2",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert made == [("openai:a", None, 99), ("openai:b", None, 99)]
    assert "## LoCoMo: 2 questions answered" in done.stdout
    assert "A sample: at most 2 questions" in done.stdout


OPTIONS = [
    ["--max-tokens", "7"],
    ["--base-url", "http://localhost:1/v1"],
    ["--judge-base-url", "http://localhost:2/v1"],
    ["--structured-method", "json_mode"],
    ["-k", "3"],
    ["--context-tokens", "300"],
    ["--full-tokens", "300"],
    ["--reader", "navigate"],
    ["--unit", "session"],
    ["--by-speaker"],
    ["--seeds", "1"],
    ["--limit", "1"],
    ["--cold"],
]


def test_every_option_that_changes_answers_begins_another_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        command, "load_chat_model", lambda *a, **o: Walker(Verdict=RIGHT)
    )
    data = tiny.locomo(tmp_path / "data")
    rest = [
        "--data",
        data,
        "--out",
        tmp_path / "runs",
        "--embeddings",
        "hash",
        "--model",
        "x",
    ]
    rest += ["--systems", "bm25"]
    for words in ([], *OPTIONS, ["--systems", "bm25,ours"], ["--prices", "1,2"]):
        done = invoke("locomo", *rest, *words)
        assert done.exit_code == 0, done.output
    runs = [one for one in (tmp_path / "runs").iterdir() if one.is_dir()]
    assert len(runs) == 1 + len(OPTIONS)


def test_a_password_in_an_address_is_not_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "load_chat_model", lambda *a, **o: Model())
    data = tiny.locomo(tmp_path / "data")
    address = "https://me:secret@example.org/v1?key=secret"
    done = invoke(
        "locomo", "--data", data, "--out", tmp_path / "runs", "--embeddings", "hash",
        "--base-url", address, "--systems", "bm25", "--limit", "1",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (config,) = (tmp_path / "runs").rglob("config.json")
    assert "example.org" in config.read_text()
    assert "secret" not in config.read_text()


def test_a_system_named_twice_is_one(tmp_path):
    data = tiny.locomo(tmp_path / "data")
    done = invoke(
        "locomo", "--data", data, "--out", tmp_path / "runs", "--embeddings", "hash",
        "--systems", "bm25,bm25",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "3/3" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--reader", "navigate"], "name a --model"),
        (["--model", "x", "--depths", "-1"], "ReasoningSettings: depth"),
        (["--model", "x", "--breadths", "0"], "ReasoningSettings: breadth"),
        (["--judge", "x"], "name a --model too"),
        (["--ablate", "all"], "name a --model"),
        (["--edges", "0.3"], "name a --model"),
        (["--model", "x", "--depths", "1.5"], "Whole numbers with commas"),
        (["--model", "x", "--distractors", "1"], "LoCoMo has 0 tools, too few for 1"),
        (["--systems", "nobody"], "No system 'nobody'"),
        (["--model", "x", "--depths", "a"], "Numbers with commas"),
        (["--model", "x", "--prices", "1"], "INPUT,OUTPUT"),
        (["--data", "/nowhere"], "Wanted: LoCoMo"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, monkeypatch, words, expected):
    monkeypatch.setattr(command, "load_chat_model", lambda *a, **o: Model())
    data = tiny.locomo(tmp_path / "data")
    rest = ["--out", tmp_path / "runs", "--embeddings", "hash", *words]
    done = invoke("locomo", "--data", data, *rest)
    assert expected in str(done.exception)
