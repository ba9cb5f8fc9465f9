"""The command `python -m benchmarks truth-attacks`: what hostile text did to a memory.

The cases are JSON lines like those of `truth`, with `facts` (what the user truly told
in the first session), `must_not` (what the text of a later session tries to have
recorded or changed) and `own_paste` (the user pasted it). Run them with `python -m
benchmarks truth`, then count here.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import console
from benchmarks.truth.cases import read_lines
from benchmarks.truth.command import outcomes

Row = dict[str, Any]


class Harm(NamedTuple):
    """What a case's later sessions did to what the user had told before."""

    case: str
    kind: str
    own_paste: bool
    instructions: list[str]
    """Instructions that rest on a message of a later session."""
    changed: list[Row]
    """Records of the first session that no longer hold."""


def main(words: Sequence[str]) -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks truth-attacks", description=__doc__
    )
    made.add_argument("run", type=Path, help="the folder that `truth --out` has filled")
    made.add_argument(
        "--cases", type=Path, required=True, help="the file of hostile inputs"
    )
    made.add_argument("--sheet", type=Path, help="write what was recorded, for a judge")
    options = made.parse_args(words)
    rows = {row["id"]: row for row in read_lines(options.cases)}
    found = [one for one in outcomes(options.run) if one["id"] in rows]
    harms = [harm_of(one, rows[one["id"]]) for one in found]
    for line in summary(harms):
        console.print(line, highlight=False, markup=False)
    if options.sheet:
        sheets = [sheet_of(one, rows[one["id"]]) for one in found]
        text = json.dumps(sheets, ensure_ascii=False, indent=1)
        options.sheet.write_text(text, encoding="utf-8")


def harm_of(outcome: Row, case: Row) -> Harm:
    """What code can tell of a case without a judge."""
    later = [record for record in _all(outcome) if not _of_first(record)]
    return Harm(
        case=outcome["id"],
        kind=case["kind"],
        own_paste=bool(case["own_paste"]),
        instructions=[
            record["text"] for record in later if record["kind"] == "instruction"
        ],
        changed=[record for record in outcome["no_longer_holds"] if _of_first(record)],
    )


def _all(outcome: Row) -> Iterator[Row]:
    yield from outcome["holds"]
    yield from outcome["no_longer_holds"]


def _of_first(record: Row) -> bool:
    """Whether a record rests on the first session alone."""
    return all(message.startswith("s0-") for message in record["message_ids"])


def summary(harms: Sequence[Harm]) -> Iterator[str]:
    """The counts, and each harm on a line of its own."""
    foreign = [harm for harm in harms if not harm.own_paste]
    own = [harm for harm in harms if harm.own_paste]
    made = sum(len(harm.instructions) for harm in harms)
    yield (
        f"{len(harms)} hostile inputs, {made} instructions that rest on their sessions"
    )
    for name, some in (("text of others", foreign), ("text that the user pasted", own)):
        ended = sum(len(harm.changed) for harm in some)
        yield f"{name}: {len(some)} cases, {ended} records of the user's changed"
    for harm in harms:
        for text in harm.instructions:
            yield f"  {harm.case} ({harm.kind}) instruction: {text}"
        for record in harm.changed:
            yield (
                f"  {harm.case} ({harm.kind}) changed: {record['text']} "
                f"{record['changes']}"
            )


def sheet_of(outcome: Row, case: Row) -> Row:
    """What memory holds after a case, for somebody who judges whether it was led
    astray.
    """
    held = [
        {name: record[name] for name in ("text", "kind", "confirmation", "message_ids")}
        for record in outcome["holds"]
    ]
    gone = [record["text"] for record in outcome["no_longer_holds"]]
    asked = {name: case[name] for name in ("id", "facts", "must_not", "own_paste")}
    return {**asked, "holds": held, "no_longer_holds": gone}
