"""The command `python -m benchmarks truth-judge`: sheets for a judge, and what the
answers say.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from benchmarks.common import console, save
from benchmarks.truth.cases import read_cases
from benchmarks.truth.command import outcomes
from benchmarks.truth.keeping import keep
from benchmarks.truth.report import costs, report
from benchmarks.truth.scores import Judged
from benchmarks.truth.sheets import KEY, NEXT, NO_LONGER, NOW, SHEETS, STILL, prepare
from langmem_graph.errors import InvalidInputError

Row = dict[str, Any]
_LISTS = {"now": NOW, "no_longer": NO_LONGER, "still": STILL}


def main(words: Sequence[str]) -> None:
    """The command line.

    Raises:
        LangMemGraphError: an unusable option or answer.
    """
    options = _parser().parse_args(words)
    if options.verb == "prepare":
        count = prepare(
            options.runs, read_cases(options.cases), options.out, size=options.size
        )
        console.print(
            f"{count} sheets are in {options.out / SHEETS}; the key is {KEY} "
            "beside "
            "them"
        )
        return
    if options.verb == "costs":
        typer.echo(costs([Judged({}, row, {}, {}) for row in outcomes(options.folder)]))
        return
    if options.verb == "keep":
        keep(options.folder, options.to)
        return
    judged, unjudged = read_judged(options.folder)
    save(options.folder, "report.md", report(judged, unjudged))


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks truth-judge", description=__doc__
    )
    verbs = made.add_subparsers(dest="verb", required=True)
    first = verbs.add_parser("prepare", help="write sheets for a judge")
    first.add_argument(
        "runs", type=Path, nargs="+", help="folders that `truth --out` has filled"
    )
    first.add_argument(
        "--cases", type=Path, nargs="+", required=True, help="the files of cases"
    )
    first.add_argument(
        "--out", type=Path, required=True, help="folder for sheets and key"
    )
    first.add_argument("--size", type=int, default=20, help="sheets of a batch")
    second = verbs.add_parser("score", help="the figures from the answers")
    second.add_argument(
        "folder", type=Path, help="the folder that `prepare` has filled"
    )
    costly = verbs.add_parser("costs", help="what a run cost, without a judge")
    costly.add_argument(
        "folder", type=Path, help="a folder that `truth --out` has filled"
    )
    third = verbs.add_parser(
        "keep", help="write the runs and their judgement into the repository"
    )
    third.add_argument("folder", type=Path, help="the folder that `prepare` has filled")
    third.add_argument("to", type=Path, help="a folder below benchmarks/recorded")
    return made


def read_judged(folder: Path) -> tuple[list[Judged], int]:
    """The outcomes with their answers, and how many sheets have none yet.

    Raises:
        InvalidInputError: an answer does not fit its sheet.
    """
    key = json.loads((folder / KEY).read_text(encoding="utf-8"))
    answers: dict[str, Row] = {}
    for file in sorted((folder / SHEETS).glob("batch-*.json")):
        answers |= json.loads(file.read_text(encoding="utf-8"))
    found = {
        (run, one["id"]): one for run in key["runs"] for one in outcomes(Path(run))
    }
    judged = []
    for name, own in key["sheets"].items():
        if name in answers:
            outcome = found[own["run"], own["case"]]
            _check(name, answers[name], own)
            judged.append(Judged(key["runs"][own["run"]], outcome, answers[name], own))
    return judged, len(key["sheets"]) - len(judged)


def _check(name: str, answer: Row, own: Row) -> None:
    for field, allowed in _LISTS.items():
        given = answer.get(field, [])
        if len(given) != own["gold"][field] or not set(given) <= set(allowed):
            wanted = f"{own['gold'][field]} of {', '.join(allowed)}"
            raise InvalidInputError(f"{name}: {field} must be {wanted}, not {given}.")
    if answer.get("next", "none") not in NEXT:
        raise InvalidInputError(f"{name}: next must be one of {', '.join(NEXT)}.")
    numbers = {*answer.get("wrong", []), *filter(None, answer.get("stated_by", []))}
    lines = {*answer.get("lines", {}), *answer.get("mislabelled", [])}
    if strange := sorted((numbers - set(own["records"])) | (lines - set(own["lines"]))):
        raise InvalidInputError(f"{name}: the sheet has no {', '.join(strange)}.")
