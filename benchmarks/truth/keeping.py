"""Keeps judged runs in the repository: outcomes, recorded answers, and those of the
judges.
"""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.common import REPOSITORY
from benchmarks.truth.command import KEPT, outcomes, record
from benchmarks.truth.sheets import KEY, SHEETS

Row = dict[str, Any]
_WORDS = ("user", "answer")
"""Of a call; they are in the recorded answers."""


def keep(judged: Path, to: Path) -> None:
    """Write everything that `truth-judge score` and `--model recorded:FILE` need into
    one folder.

    Args:
        judged: a folder that `truth-judge prepare` has made and that judges have
            filled.
        to: where to, below the repository; it is made anew.
    """
    key: Row = json.loads((judged / KEY).read_text(encoding="utf-8"))
    shutil.rmtree(to, ignore_errors=True)
    (to / SHEETS).mkdir(parents=True)
    names = {run: str(_named(to, run)) for run in key["runs"]}
    for run, about in key["runs"].items():
        folder = REPOSITORY / names[run]
        folder.mkdir(exist_ok=True)
        record(Path(run), folder / "answers.jsonl", about["model"])
        lines = (
            json.dumps(_without_words(row), ensure_ascii=False)
            for row in outcomes(Path(run))
        )
        text = "\n".join(lines).encode()
        (folder / KEPT).write_bytes(gzip.compress(text, mtime=0))
    key["runs"] = {names[run]: about for run, about in key["runs"].items()}
    for sheet in key["sheets"].values():
        sheet["run"] = names[sheet["run"]]
    (to / KEY).write_text(json.dumps(key, ensure_ascii=False), encoding="utf-8")
    for file in sorted((judged / SHEETS).glob("batch-*.json")):
        shutil.copy(file, to / SHEETS / file.name)


def _named(to: Path, run: str) -> Path:
    """Where a run lies in the folder, from the repository on."""
    return (to / Path(run).name).resolve().relative_to(REPOSITORY)


def _without_words(outcome: Row) -> Row:
    calls = [
        {k: v for k, v in call.items() if k not in _WORDS} for call in outcome["calls"]
    ]
    return {**outcome, "calls": calls}
