"""Questions, acts and tool calls with a model that answers: `python -m
benchmarks.unseen`.

    python -m benchmarks.unseen think SET --out DIR --model queue:DIR --record FILE
    python -m benchmarks.unseen calls SET --out DIR --model recorded:FILE
    python -m benchmarks.unseen calls SET --out benchmarks/recorded/calls_2

Without a model it prints the figures of the outcomes that lie in the folder.
A set is a folder: the messages of one invented user (`memory.jsonl`), and what is asked
(`questions.jsonl` and `acts.jsonl`, or `tasks.jsonl`), written by somebody who saw
neither code nor prompts. The messages are added as they are; no model has read them.
Whether the rows of an answer are those of the set is for a judge to say, who is shown
`answers.md` in the folder of outcomes and writes `verdicts.json` beside it: `{"q01":
{"right": true}, …}`; of a list all items are meant.
"""

import argparse
import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import ValidationError

from benchmarks import common
from benchmarks.metrics import tool_calls
from benchmarks.reasoning import share
from benchmarks.truth.cases import read_lines
from benchmarks.truth.command import Models, models_of
from benchmarks.truth.watching import Watched, as_rows, write_recording
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.middleware_tool_calls import GroundedTools
from langmem_graph.results import GroundedCall, Recall
from langmem_graph.settings import ReasoningSettings, Settings
from langmem_graph.testing import ScriptedChatModel

Row = dict[str, Any]
KEPT = "outcomes.json.gz"
ASKED = "2026-03-02T09:00:00+00:00"
_MONTH = 2_592_000.0
PATIENT = Settings(
    embed_seconds=_MONTH,
    reasoning=ReasoningSettings(seconds=_MONTH, call_seconds=_MONTH),
)
"""A person may answer, so nothing has a time limit."""


@dataclass(frozen=True)
class Asking:
    """What all questions of a run have in common."""

    filled: Path
    models: Models
    embeddings: Embeddings

    def run(
        self, item: Row, work: Callable[[UserMemory, Row], Row]
    ) -> tuple[Row, Watched]:
        """One question in a memory of its own, which holds the set's messages."""
        watched = Watched(inner=self.models(item["id"]))
        with TemporaryDirectory() as place:
            folder = Path(shutil.copytree(self.filled, Path(place) / "memory"))
            with Memory(
                folder, model=watched, embeddings=self.embeddings, settings=PATIENT
            ) as memory:
                return {**item, **work(memory.user("user"), item)}, watched


def fill(folder: Path, lines: Sequence[Row], embeddings: Embeddings) -> None:
    """Add the messages, a session a day; they count as read, and nothing was found in
    them.
    """
    with Memory(folder, embeddings=embeddings, model=ScriptedChatModel()) as memory:
        for day, own in groupby(lines, key=lambda line: line["at"][:10]):
            said = [
                {
                    "role": "user",
                    "content": one["message"],
                    "id": one["id"],
                    "at": one["at"],
                }
                for one in own
            ]
            memory.user("user").add(said, session_id=day)
        memory.user("user").flush()


def asked_in(folder: Path, names: Sequence[str]) -> list[Row]:
    """What a set asks; it need not have all of these files, but one."""
    files = [file for name in names if (file := folder / f"{name}.jsonl").exists()]
    if not files:
        wanted = " or ".join(f"{name}.jsonl" for name in names)
        raise SystemExit(f"{folder} has no {wanted}.")
    return [row for file in files for row in read_lines(file)]


def recalled(user: UserMemory, item: Row) -> Row:
    """What a recall that reasons makes of a question or an act."""
    asked = item.get("question") or item["request"]
    plain = user.recall(asked, max_tokens=1_500, at=ASKED)
    found = user.recall(asked, mode="auto", max_tokens=1_500, at=ASKED)
    reasoning = found.reasoning
    assert reasoning is not None, found.report.problems
    return {
        "quoted": sorted({hit.message_id for hit in found.evidence}),
        "plain": sorted({hit.message_id for hit in plain.evidence}),
        "against": sorted(_against(found)),
        "reasoning": reasoning.model_dump(mode="json"),
        "context": found.context,
        "calls": found.report.llm_calls,
        "tokens": found.report.input_tokens,
        "problems": found.report.problems,
    }


def _against(found: Recall) -> set[str]:
    """The messages that are shown as speaking against an act, appointments
    among them.
    """
    assert found.reasoning is not None
    ids = {one for risk in found.reasoning.risks for one in risk.facts}
    told = "\n".join(found.reasoning.overlaps)
    return {
        message
        for fact in found.facts
        if fact.id in ids or json.dumps(fact.text, ensure_ascii=False)[1:40] in told
        for message in fact.message_ids
    }


def grounded(user: UserMemory, item: Row) -> Row:
    """The tool call that memory fills; a task may list what the model may choose
    itself.
    """
    chosen = item.get("model_may_choose", ())
    at = item.get("at", ASKED)
    call = user.ground(item["tool"], item["request"], model_may_choose=chosen, at=at)
    return {"call": call.model_dump(mode="json"), "calls": call.llm_calls}


def value_at(arguments: Any, path: str) -> Any:
    """The value at `guests[0].name`; None where there is none."""
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(arguments, list):
            arguments = arguments[int(part)] if int(part) < len(arguments) else None
        else:
            arguments = arguments.get(part) if isinstance(arguments, dict) else None
    return arguments


def report_think(done: Sequence[Row]) -> str:
    """The table of questions and acts."""
    rows = []
    for kind, own in _by_kind(done):
        calls = [one["calls"] for one in own]
        told = (
            [
                share([set(one["evidence"]) <= set(one[name]) for one in own])
                for name in ("quoted", "plain")
            ]
            if "evidence" in own[0]
            else ["", ""]
        )
        shown = [bool(one["against"]) for one in own]
        if own[0].get("conflicts_with"):
            shown = [one["conflicts_with"] in one["against"] for one in own]
        mean = f"{sum(calls) / len(calls):.2f}, at most {max(calls)}"
        judged = [one["verdict"]["right"] for one in own if "verdict" in one]
        right = share(judged) if judged else ""
        rows.append([kind, str(len(own)), *told, right, share(shown), mean])
    header = [
        "kind",
        "asked",
        "evidence quoted",
        "by the look-up alone",
        "judged right",
    ]
    return common.table([*header, "memory held against it", "calls"], rows)


def _by_kind(done: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for kind in dict.fromkeys(one["kind"] for one in done):
        yield kind, [one for one in done if one["kind"] == kind]


def _is_right(gold: Row, value: Any) -> bool:
    """Whether a value is the set's, or another that it allows."""
    allowed = [gold["value"], *gold.get("or", ())]
    return any(tool_calls.same_value(one, value) for one in allowed)


def _notes(row: Row) -> list[str]:
    """What an agent that gives the set's values itself would be told."""
    tool, arguments = row["tool"], dict[str, Any]()
    for path, gold in row["gold"].items():
        _put(arguments, re.findall(r"[^.\[\]]+", path), gold["value"])
    call = GroundedCall.model_validate(row["call"])
    tools = GroundedTools([tool], "flag")
    return tools.checked(call.name, arguments, call, row["request"]).notes


def _put(inner: Any, path: Sequence[str], value: Any) -> None:
    """Put a value at `guests`, `0`, `name`; what is around it is made."""
    first, *rest = path
    key: Any = int(first) if isinstance(inner, list) else first
    if isinstance(inner, list):
        inner.extend([None] * (int(first) + 1 - len(inner)))
    if not rest:
        inner[key] = value
        return
    there = inner[key] if isinstance(inner, list) else inner.get(key)
    if there is None:
        there = inner[key] = [] if rest[0].isdigit() else {}
    _put(there, rest, value)


def report_calls(done: Sequence[Row]) -> str:
    """The table of tool calls."""
    slots = [
        (gold["from"], _is_right(gold, value), value is None)
        for one in done
        for path, gold in one["gold"].items()
        for value in [value_at(one["call"]["arguments"], path)]
    ]
    rows = []
    for kind in dict.fromkeys(kind for kind, _, _ in slots):
        own = [(right, empty) for name, right, empty in slots if name == kind]
        rows.append([f"values from {kind}, right", share([right for right, _ in own])])
        rows.append(
            [f"values from {kind}, left empty", share([empty for _, empty in own])]
        )
    absent = [
        value_at(one["call"]["arguments"], path) is not None
        for one in done
        for path in one["absent"]
    ]
    calls = [one["calls"] for one in done]
    rows.append(["values that nobody told, sent all the same", share(absent)])
    read = [
        grounding["type"] == "read"
        for one in done
        for grounding in one["call"]["grounding"].values()
    ]
    rows.append(["values read, a call", f"{sum(read) / len(done):.2f}"])
    try:
        notes = str(sum(len(_notes(one)) for one in done))
    except ValidationError:
        notes = "outcomes of a former version"
    rows.append(["right values of an agent that memory contradicts", notes])
    rows.append(["model calls", f"{sum(calls) / len(calls):.2f}, at most {max(calls)}"])
    return common.table([f"{len(done)} tool calls", ""], rows)


def sheet(done: Sequence[Row]) -> str:
    """The answers beside the set's, for a judge."""
    parts = []
    for one in done:
        if "question" in one:
            found = {
                name: one["reasoning"][name] for name in ("status", "complete", "spans")
            }
            rows = [
                " · ".join(row["values"].values()) for row in one["reasoning"]["rows"]
            ]
            gold = {name: one.get(name) for name in ("answer", "rows")}
            parts.append(
                f"## {one['id']} [{one['kind']}] {one['question']}\ngold: "
                f"{json.dumps(gold)}\n"
                f"found: {json.dumps(found)}\nbindings: "
                f"{json.dumps(one['reasoning']['bindings'])}"
                "\nrows: "
                f"{json.dumps(rows, ensure_ascii=False)}\ncontext:\n{one['context']}\n"
            )
    return "\n".join(parts)


PARTS: dict[str, tuple[tuple[str, ...], Any, Callable[[Sequence[Row]], str]]] = {
    "think": (("questions", "acts"), recalled, report_think),
    "calls": (("tasks",), grounded, report_calls),
}
"""By name: the files of what is asked, how it is asked, and the table of what came of
it.
"""


def kept_in(folder: Path) -> list[Row]:
    """The outcomes of a run, with the verdicts of a judge where these lie
    beside them.
    """
    done: list[Row] = json.loads(gzip.decompress((folder / KEPT).read_bytes()))
    file = folder / "verdicts.json"
    verdicts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return [
        one | {"verdict": verdicts[one["id"]]} if one["id"] in verdicts else one
        for one in done
    ]


def keep(folder: Path, done: Sequence[Row], told: str) -> None:
    """Write the outcomes, and the sheet that tells a judge of them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(done, ensure_ascii=False).encode()
    (folder / KEPT).write_bytes(gzip.compress(text, mtime=0))
    (folder / "answers.md").write_text(told, encoding="utf-8")


def record(file: Path, named: str, all_watched: Sequence[Watched]) -> None:
    """Write what was asked and answered, so that the run can be played again."""
    calls = [call for watched in all_watched for call in as_rows(watched.calls)]
    rules = {
        name: text for watched in all_watched for name, text in watched.rules.items()
    }
    write_recording(file, named, calls, rules)


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.unseen", description=__doc__
    )
    made.add_argument("part", choices=list(PARTS))
    made.add_argument("set", type=Path, help="folder of the set")
    made.add_argument("--out", type=Path, required=True, help="folder for the outcomes")
    made.add_argument("--model", help="queue:DIR, recorded:FILE, or a name")
    made.add_argument(
        "--record", type=Path, help="write what was asked and answered to this file"
    )
    made.add_argument(
        "--named", default="unnamed", help="the model that answers a queue"
    )
    made.add_argument("--threads", type=int, default=30, help="questions side by side")
    options = made.parse_args(words)
    files, work, report = PARTS[options.part]
    if options.model is None:
        common.console.print(report(kept_in(options.out)))
        return
    items = asked_in(options.set, files)
    embeddings = cached(MiniLMEmbeddings(), common.OUTPUT / "vectors.sqlite")
    with TemporaryDirectory() as place, ThreadPoolExecutor(options.threads) as pool:
        fill(Path(place), read_lines(options.set / "memory.jsonl"), embeddings)
        asking = Asking(Path(place), models_of(options.model)[0], embeddings)
        played = list(pool.map(lambda item: asking.run(item, work), items))
    done = [row for row, _ in played]
    keep(options.out, done, sheet(done))
    if options.record:
        record(options.record, options.named, [watched for _, watched in played])
    common.console.print(report(done))


if __name__ == "__main__":
    main()
