"""`benchmarks.by_hand`: a sample of LoCoMo, answered and judged by hand."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from benchmarks import by_hand
from benchmarks.data.items import Conversation, DataSet, Question
from benchmarks.queue_model import Queue
from langmem_graph.testing import HashEmbeddings
from tests.benchmarks import tiny


def many(name: str, **counts: int) -> Conversation:
    questions = [
        Question(f"{kind}{n}", "?", category=kind)
        for kind, count in counts.items()
        for n in range(count)
    ]
    return Conversation(name, [], questions)


def test_a_sample_has_of_each_category_its_share_and_is_the_same_again() -> None:
    talks = [many("a", one=40, two=20), many("b", one=20, two=120)]
    data = DataSet("locomo", "LoCoMo", "message", (1,), "judged", talks, [])
    taken = [talk.questions for talk in by_hand.sampled(data, 20, 1).conversations]
    assert [Counter(one.category for one in own) for own in taken] == [
        {"one": 4, "two": 2},
        {"one": 2, "two": 12},
    ]
    assert taken == [
        talk.questions for talk in by_hand.sampled(data, 20, 1).conversations
    ]
    assert taken != [
        talk.questions for talk in by_hand.sampled(data, 20, 2).conversations
    ]


@contextmanager
def somebody(
    queue: Path, seen: dict[str, list[Any]], *, most: int = 99
) -> Iterator[None]:
    """Answers every prompt: of system dense with nothing, all others with "beans"."""

    def work() -> None:
        left = most
        while not over.wait(0.02) and left:
            for folder in queue.glob("*"):
                for one in Queue(folder).claim(1, "ann"):
                    seen.setdefault(folder.name, []).append(one.body)
                    verdict = {
                        "reason": "So.",
                        "correct": '"beans"' in one.body["user"],
                    }
                    plan = {"intent": "lookup", "facts": ["f1"], "sure": True}
                    answers = {"judge": json.dumps(verdict), "plan": json.dumps(plan)}
                    text = answers.get(folder.name, "beans")
                    Queue(folder).answer(one.name, text)
                    left -= 1

    over = Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        yield
        over.set()
        working.result()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command over a small sample."""
    monkeypatch.setattr(by_hand, "MiniLMEmbeddings", HashEmbeddings)
    monkeypatch.setattr(by_hand.common, "OUTPUT", tmp_path)
    data = tiny.locomo(tmp_path / "data")
    words = ["--data", str(data), "--queue", str(tmp_path / "q"), "--limit", "4"]
    return lambda *more: by_hand.main([str(tmp_path / "out"), *words, *more])


def test_every_question_is_answered_once_for_each_system_and_judged(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, list[Any]] = {}
    with somebody(tmp_path / "q", seen):
        run()
    told = capsys.readouterr().out
    assert sorted(seen) == ["1", "2", "judge"]
    for folder in ("1", "2"):
        asked = [
            re.search(r'The user says: "(.*)"', one["user"])[1] for one in seen[folder]
        ]
        assert sorted(asked) == ["Beans?", "Nowhere?", "When?", "Who sold it?"]
    assert len(seen["judge"]) == 4  # both systems said the same
    assert not re.search("ours|dense", json.dumps(seen))
    assert "| all | 4 | 4 | 4 | +0 (+0 to +0) |" in told
    assert "| without category 5 | 3 | 3 | 3 | +0 (+0 to +0) |" in told
    by_hand.main([str(tmp_path / "out")])
    assert capsys.readouterr().out == told


def test_a_model_plans_what_is_recalled_for_each_question(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, list[Any]] = {}
    with somebody(tmp_path / "q", seen):
        run("--systems", "ours-auto,dense")
    assert len(seen["plan"]) == len({one["tag"] for one in seen["plan"]}) == 4
    rows = map(
        json.loads, (tmp_path / "out" / by_hand.ANSWERS).read_text().splitlines()
    )
    shown = [row["shown"] for row in rows if row["system"] == "ours-auto"]
    # what the plan named, and nothing else
    assert [len(ids) for ids in shown] == [1] * 4
    told = capsys.readouterr().out
    assert "model calls of ours-auto, mean per question: 1.0 (4 in all)" in told
    assert "model calls of dense" not in told


def test_another_set_is_asked_with_what_is_recalled_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(by_hand, "MiniLMEmbeddings", HashEmbeddings)
    monkeypatch.setattr(by_hand.common, "OUTPUT", tmp_path)
    data, queue = tiny.beam(tmp_path / "data"), tmp_path / "q"
    words = [str(tmp_path / "out"), "--set", "beam", "--data", str(data)]
    seen: dict[str, list[Any]] = {}
    with somebody(queue, seen):
        by_hand.main([*words, "--queue", str(queue), "--systems", "ours-fast,dense"])
    assert sorted(seen) == ["1", "2", "judge"]
    assert any("<memory>" in one["user"] for one in seen["1"] + seen["2"])
    told = capsys.readouterr().out
    assert "without category 5" not in told
    assert "set: beam" in told


def test_what_is_kept_holds_no_text_of_the_data(run: Any, tmp_path: Path) -> None:
    with somebody(tmp_path / "q", {}):
        run()
    kept = "".join(one.read_text() for one in (tmp_path / "out").iterdir())
    assert "beans" in kept
    for text in ("planted", "Nowhere", "Mira", "shed"):
        assert text not in kept


def test_a_stopped_run_asks_only_what_was_not_answered(
    run: Any, tmp_path: Path
) -> None:
    with somebody(tmp_path / "q", {}):
        run()
    file = tmp_path / "out" / by_hand.ANSWERS
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-1]))
    (tmp_path / "out" / by_hand.VERDICTS).unlink()
    again: dict[str, list[Any]] = {}
    with somebody(tmp_path / "q", again):
        run()
    assert sum(len(again[name]) for name in again if name != "judge") == 1
    assert len(file.read_text().splitlines()) == len(lines)


def test_the_figures_in_the_documents_are_those_of_the_kept_verdicts() -> None:
    repository = Path(__file__).parents[2]
    told = by_hand.report(repository / "benchmarks" / "recorded" / "by_hand_1")
    assert "| all | 100 | 91 | 69 | +22 (+13 to +31) |" in told
    page = (repository / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "| all | 100 | **91** | 69 | **+22** (+13 to +31) |" in page
    assert "model calls of ours-auto, mean per question: 1.5 (149 in all)" in told
    beam = by_hand.report(repository / "benchmarks" / "recorded" / "by_hand_beam")
    all_of_beam = next(row for row in beam.splitlines() if row.startswith("| all "))
    assert all_of_beam.startswith("| all | 100 | 59 | 67 | 49 | ")
    assert all_of_beam.endswith(" +10 (+2 to +19) |")
    assert "| all | 100 | 59 | **67** | 49 | +10 (+2 to +19) |" in page
    preferred = by_hand.report(repository / "benchmarks/recorded/by_hand_prefeval")
    assert "| all | 60 | 59 | 58 | 60 | " in preferred
    assert "59 of 60 with `fast`, 58 with `auto` (70 calls" in page
    assert "91 of 100 | 1.5 |" in (repository / "README.md").read_text(encoding="utf-8")
