"""Sheets for judging blind: what a case's author wrote down, beside what a memory
holds.

A sheet does not tell which run it comes from, and the runs' sheets are shuffled.
Statements that hold and statements that no longer hold are listed each in an order by
chance.
"""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.models import prompt_text
from benchmarks.truth.cases import SCHEDULE_KINDS, Case, message_id
from benchmarks.truth.command import about_run, outcomes
from langmem_graph.errors import InvalidInputError
from langmem_graph.retrieval.quoted_context import as_data

Row = dict[str, Any]
KEY, SHEETS = "key.json", "sheets"
NOW = ("held", "partly", "missing")
NO_LONGER = ("not current", "still current", "never recorded")
STILL = ("held", "lost", "never recorded")
NEXT = ("right", "wrong", "none")


def prepare(
    runs: Sequence[Path], cases: Sequence[Case], folder: Path, *, size: int = 20
) -> int:
    """Write sheets in batches, and a key that tells whose they are; returns how many
    there are.

    Args:
        runs: folders of outcomes.
        cases: those that the runs were made of.
        folder: gets the key, and the sheets in a folder of their own.
        size: sheets of a batch.

    Raises:
        InvalidInputError: an outcome belongs to none of the cases, or the folder is in
            use.
    """
    if (folder / KEY).exists():
        raise InvalidInputError(f"{folder} holds other sheets: give another --out.")
    known = {case.id: case for case in cases}
    found = [(str(run), outcome) for run in runs for outcome in outcomes(run)]
    if strange := sorted({row["id"] for _, row in found} - set(known)):
        raise InvalidInputError(
            f"No case has the id {', '.join(strange[:5])}: give its file."
        )
    random.Random(f"{sorted(known)} {len(found)}").shuffle(found)
    (folder / SHEETS).mkdir(parents=True, exist_ok=True)
    key: dict[str, Row] = {}
    for start in range(0, len(found), size):
        texts = []
        for place, (run, outcome) in enumerate(found[start : start + size], start + 1):
            name = f"S{place:03d}"
            text, own = sheet(name, known[outcome["id"]], outcome)
            texts.append(text)
            key[name] = {"run": run, "case": outcome["id"], **own}
        _write_batch(folder / SHEETS, start // size + 1, texts)
    about = {str(run): about_run(run) for run in runs}
    text = json.dumps({"runs": about, "sheets": key}, indent=1, ensure_ascii=False)
    (folder / KEY).write_text(text, encoding="utf-8")
    return len(found)


def _write_batch(folder: Path, number: int, texts: Iterable[str]) -> None:
    name = f"batch-{number:02d}"
    last = f"Write the answers to `{name}.json` beside this file.\n"
    (folder / f"{name}.md").write_text(
        "\n".join([prompt_text("judge_truth"), *texts, last]), encoding="utf-8"
    )


def sheet(name: str, case: Case, outcome: Row) -> tuple[str, Row]:
    """One sheet, and what its numbers stand for.

    Args:
        name: of the sheet.
        case: what was said, and its author's sentences.
        outcome: what the memory holds.
    """
    by_chance = random.Random(name)
    current, past = list(outcome["holds"]), list(outcome["no_longer_holds"])
    by_chance.shuffle(current)
    by_chance.shuffle(past)
    lines = list(
        dict.fromkeys(q["text"] for r in outcome["recalls"] for q in r["quotes"])
    )
    listed = [(f"c{n}", row) for n, row in enumerate(current, 1)]
    listed += [(f"p{n}", row) for n, row in enumerate(past, 1)]
    quoted = {f"q{n}": text for n, text in enumerate(lines, 1)}
    numbered = {
        "gold": {
            part: len(getattr(case, part)) for part in ("now", "no_longer", "still")
        },
        "turn": case.turn,
        "records": {number: row["record_id"] for number, row in listed},
        "lines": quoted,
    }
    asked = ["", "NEXT: is the next time right?"] if case.kind in SCHEDULE_KINDS else []
    parts = [
        f"## {name} · today is {case.end:%A %Y-%m-%d}",
        *_talk(case),
        *_listed("NOW", enumerate(case.now, 1)),
        *_listed("NO LONGER", enumerate(case.no_longer, 1)),
        *_listed("STILL", enumerate(case.still, 1)),
        *asked,
        *_listed(
            "Current in memory", ((f"c{n}", _told(r)) for n, r in enumerate(current, 1))
        ),
        *_listed(
            "No longer true in memory",
            ((f"p{n}", _ended(r)) for n, r in enumerate(past, 1)),
        ),
        *_listed("Quoted to the assistant", quoted.items()),
        "",
    ]
    return "\n".join(parts), numbered


def _talk(case: Case) -> list[str]:
    lines = []
    for place, session in enumerate(case.sessions):
        lines += ["", f"Session of {session['at'][:16].replace('T', ' ')}"]
        for number, said in enumerate(session["messages"]):
            mark = message_id(place, number)
            lines.append(f"- {mark} {said['role']}: {as_data(said['content'])}")
    return lines


def _listed(title: str, items: Iterable[tuple[object, str]]) -> list[str]:
    rows = [f"- {number}: {text}" for number, text in items]
    return ["", f"{title}:", *(rows or ["- nothing"])]


def _told(record: Row) -> str:
    """A statement with its times; a plan that was not settled says so."""
    notes = ["only a plan so far"] if record["confirmation"] == "draft" else []
    notes += (
        ["how the assistant should behave"] if record["kind"] == "instruction" else []
    )
    event = record.get("event_time") or {}
    if event:
        kept = ("start", "end", "recurrence", "skipped")
        notes.append(
            ", ".join(f"{name} {event[name]}" for name in kept if event.get(name))
        )
        notes.append(
            f"next {record['next']}" if record["next"] else "not to come again"
        )
    return f"{record['text']}{''.join(f' [{note}]' for note in notes if note)}"


def _ended(record: Row) -> str:
    return f"{_told(record)} [until {(record.get('valid_to') or 'unknown')[:16]}]"
