"""What applications ask for, read by a model that answers: `python -m
benchmarks.forms`.

    python -m benchmarks.forms SET --out DIR --model queue:DIR --record FILE
    python -m benchmarks.forms SET --out DIR --model recorded:FILE
    python -m benchmarks.forms --out benchmarks/recorded/forms_1

Without a model it prints the figures of the outcomes that lie in the folder.
A set is a folder, written by somebody who saw neither code nor prompts:
`applications.json` (what each application looks for, what it never keeps, and its
forms), `conversations.jsonl` (a session a line), and `gold.jsonl`: which forms hold at
the end (`form`), no longer hold (`ended`), rest on these messages in no case
(`no_form`), and what no record may say (`never`). Sessions are added and read one after
another. Whether a text says the same is for a judge, who is shown `answers.md` in the
folder of outcomes and writes `verdicts.json` beside it: `{"g001": {"right": true}, …}`.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, Field, create_model

from benchmarks import common
from benchmarks.reasoning import share
from benchmarks.truth.cases import read_lines
from benchmarks.truth.command import Models, models_of
from benchmarks.truth.playing import (
    CaseFailedError,
    no_session_ends_by_itself,
    opened,
    tag_of,
)
from benchmarks.truth.watching import Watched
from benchmarks.unseen import Row, keep, kept_in, record
from benchmarks.vectors import cached
from langmem_graph import Reading, TypedRecord
from langmem_graph.embeddings.minilm import MiniLMEmbeddings

TYPES: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "date": date
}  # fmt: skip
COST = "cost"
SAYS = {
    "form": "forms that were told, kept as they hold",
    "ended": "forms that no longer hold, and are kept as holding",
    "no_form": "forms that were not told, filled all the same",
    "never": "things never to be kept, kept in a record",
}


def reading_of(application: Row) -> Reading:
    """What an application asks for."""
    forms = tuple(_form(one) for one in application["forms"])
    told = {name: application.get(name, "") for name in ("instructions", "never")}
    return Reading(schemas=forms, **told)


def _form(told: Row) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for one in told["fields"]:
        kind = one["type"]
        made = Literal[tuple(kind)] if isinstance(kind, list) else TYPES[kind]
        field = Field(... if one["required"] else None, description=one["description"])
        fields[one["name"]] = (made if one["required"] else made | None, field)
    return create_model(told["name"], __doc__=told["description"], **fields)


def play(
    user: str,
    sessions: Sequence[Row],
    reading: Reading,
    models: Models,
    embeddings: Embeddings,
) -> tuple[Row, Watched]:
    """Add and read a user's sessions; what memory holds then."""
    tag = tag_of(user)
    watched = Watched(inner=models(tag))
    with (
        TemporaryDirectory() as place,
        opened(Path(place), watched, embeddings, tag, reading=reading) as (
            memory,
            reports,
        ),
    ):
        own = memory.user(user)
        for number, one in enumerate(sessions):
            watched.session = number
            said = [{"role": m["role"], "content": m["text"], "id": m["id"],
                     "at": one["at"]}
                    for m in one["messages"]]  # fmt: skip
            own.add(said, session_id=one["session"])
            own.flush()
        records = [one.model_dump(mode="json") for one in own.records(limit=1_000)]
        holds = {form.__name__: [_filled(one) for one in own.records_of(form)]
                 for form in reading.schemas}  # fmt: skip
    problems = [problem for one in reports for problem in one.problems]
    if problems:
        raise CaseFailedError(f"{user}: {problems[0]}")
    return {"user": user, "records": records, "holds": holds}, watched


def _filled(one: TypedRecord[BaseModel]) -> Row:
    return {"data": one.data.model_dump(mode="json"), "id": one.record.record_id}


def report(done: Sequence[Row]) -> str:
    """The table of what is kept and what is not, where a judge has said so."""
    rows = []
    for kind, says in SAYS.items():
        right = [
            one["verdict"]["right"]
            for one in done
            if one["kind"] == kind and "verdict" in one
        ]
        counted = right if kind == "form" else [not one for one in right]
        rows.append([says, share(counted) if counted else "not judged"])
    cost = next(one for one in done if one["kind"] == COST)
    rows.append(
        ["model calls for a session", f"{cost['calls'] / cost['sessions']:.2f}"]
    )
    return common.table(
        [f"{cost['users']} users, {cost['sessions']} sessions", ""], rows
    )


def sheet(played: Sequence[Row], gold: Sequence[Row]) -> str:
    """What memory holds of each user beside the set's gold, for a judge."""
    parts = []
    for found in played:
        lines = [f"# {found['user']}", "## Forms that hold at the end"]
        lines += [
            (
                f"- {name} {json.dumps(one['data'], ensure_ascii=False)} from record "
                f"{one['id'][:8]}"
            )
            for name, kept in found["holds"].items()
            for one in kept
        ]
        lines.append("## All records")
        lines += [
            f"- {one['record_id'][:8]} [{one['status']}] {one['text']} "
            f"(from {', '.join(one['message_ids'])})"
            for one in found["records"]
        ]
        lines.append("## Gold")
        lines += [
            f"- {json.dumps(one, ensure_ascii=False)}"
            for one in gold
            if one["user"] == found["user"]
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def run(
    folder: Path, models: Models, embeddings: Embeddings
) -> tuple[list[Row], str, list[Watched]]:
    """All conversations of a set, users side by side.

    Returns:
        The gold and a row of what it cost, the sheet for a judge, and the calls of each
        user.
    """
    applications = json.loads(
        (folder / "applications.json").read_text(encoding="utf-8")
    )
    readings = {one["id"]: reading_of(one) for one in applications}
    lines = read_lines(folder / "conversations.jsonl")
    told = {
        user: list(own) for user, own in groupby(lines, key=lambda line: line["user"])
    }
    gold = [
        {"id": f"g{number:03}", **one}
        for number, one in enumerate(read_lines(folder / "gold.jsonl"), start=1)
    ]

    def played(user: str) -> tuple[Row, Watched]:
        return play(
            user, told[user], readings[told[user][0]["app"]], models, embeddings
        )

    with no_session_ends_by_itself(), ThreadPoolExecutor(len(told)) as pool:
        found = list(pool.map(played, told))
    calls = sum(len(watched.calls) for _, watched in found)
    cost = {
        "id": COST,
        "kind": COST,
        "calls": calls,
        "sessions": len(lines),
        "users": len(told),
    }
    return (
        [*gold, cost],
        sheet([one for one, _ in found], gold),
        [one for _, one in found],
    )


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.forms", description=__doc__
    )
    made.add_argument("set", type=Path, nargs="?", help="folder of the set")
    made.add_argument("--out", type=Path, required=True, help="folder for the outcomes")
    made.add_argument("--model", help="queue:DIR, recorded:FILE, or a name")
    made.add_argument(
        "--record", type=Path, help="write what was asked and answered to this file"
    )
    made.add_argument(
        "--named", default="unnamed", help="the model that answers a queue"
    )
    options = made.parse_args(words)
    if options.model is not None and options.set is not None:
        embeddings = cached(MiniLMEmbeddings(), common.OUTPUT / "vectors.sqlite")
        done, told, watched = run(options.set, models_of(options.model)[0], embeddings)
        keep(options.out, done, told)
        if options.record:
            record(options.record, options.named, watched)
    common.console.print(report(kept_in(options.out)))


if __name__ == "__main__":
    main()
