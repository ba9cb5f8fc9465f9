"""The command `python -m benchmarks forgetting`: requests to forget, and what only
looks like one.

    python -m benchmarks forgetting --out DIR --model queue:DIR
    python -m benchmarks forgetting --out DIR --model recorded:FILE --record FILE

`benchmarks/sets/forgetting` has 40 requests with the value that has to go and another
one that has to stay, 80 near misses, and 60 messages that are no words of the user's
but try to end or hide what memory holds. A model reads each talk. What is counted, is
counted by code: in which prompts, contexts, tool answers, pages and exports the value
stands after the request, which other value is lost, and which records end. With
`--how delete` it must also stand in none of the memory's files.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from langchain_core.embeddings import Embeddings
from starlette.testclient import TestClient

from benchmarks import common
from benchmarks.reasoning import share
from benchmarks.truth.cases import USER, Case, read_lines
from benchmarks.truth.command import RULES, Models, models_of, outcomes, record
from benchmarks.truth.playing import no_session_ends_by_itself, opened, tag_of
from benchmarks.truth.watching import RecordedModel, Watched, as_rows
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.inspector import create_inspector
from langmem_graph.memory import Memory, UserMemory

Row = dict[str, Any]
SET = common.REPOSITORY / "benchmarks" / "sets" / "forgetting"
FILES = ("requests", "near_misses", "attacks")


@dataclass(frozen=True)
class Run:
    """What all talks of a run have in common."""

    out: Path
    models: Models
    embeddings: Embeddings
    how: Any


def main(words: Sequence[str]) -> None:
    """The command line.

    Raises:
        LangMemGraphError: an unusable option, or talks that could not be read.
    """
    made = argparse.ArgumentParser(
        prog="python -m benchmarks forgetting", description=__doc__
    )
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--model", help="queue:DIR, recorded:FILE, or a model's name")
    made.add_argument("--set", type=Path, default=SET, help="a folder of talks")
    made.add_argument("--files", default=",".join(FILES), help="with commas")
    made.add_argument("--how", choices=("hide", "delete"), default="hide")
    made.add_argument("--threads", type=int, default=40)
    made.add_argument("--record", type=Path, help="where to write calls and answers")
    options = made.parse_args(words)
    rows = [
        row | {"file": name}
        for name in options.files.split(",")
        for row in read_lines(options.set / f"{name}.jsonl")
    ]
    if options.model:
        models, named = models_of(options.model)
        with_cache = cached(MiniLMEmbeddings(), common.OUTPUT / "vectors.sqlite")
        run = Run(options.out, models, with_cache, options.how)
        play_all(rows, run, options.threads)
        if options.record:
            record(options.out, options.record, named)
    print(report(outcomes(options.out)))


def play_all(rows: Sequence[Row], run: Run, threads: int) -> None:
    """Read the talks that were not read yet.

    Raises:
        LangMemGraphError: talks that could not be read, after all others were.
    """
    (run.out / RULES).mkdir(parents=True, exist_ok=True)
    due = [row for row in rows if not _file(run.out, row["id"]).exists()]
    failed = []
    with no_session_ends_by_itself(), ThreadPoolExecutor(threads) as pool:
        work = [(row["id"], pool.submit(play, row, run)) for row in due]
        for name, done in work:
            if error := done.exception():
                failed.append(f"{name}: {type(error).__name__}: {error}")
    if failed:
        raise LangMemGraphError(" | ".join(failed))


def play(row: Row, run: Run) -> None:
    """Read one talk, session by session, and note what then stands where."""
    case, tag = _case(row), tag_of(row["id"])
    inner = run.models(tag)
    watched = Watched(inner=inner)
    folder = run.out / f"memory-{case.id}"
    options = {"forget_on_request": run.how}
    with opened(folder, watched, run.embeddings, tag, **options) as (memory, reports):
        user = memory.user(USER)
        read = 0
        for session in range(len(case.sessions)):
            watched.session = session
            user.add(case.messages(session), session_id=f"s{session}")
            if session == case.turn[0]:
                before, read = user.export_records(), len(watched.calls)
            user.flush()
        if isinstance(inner, RecordedModel) and inner.missing:
            raise InvalidInputError(f"no answer is recorded: {inner.missing[0]}")
        if reports[-1].pending:
            raise InvalidInputError(f"not read: {reports[-1].problems}")
        holds = {one["record_id"] for one in user.export_records()}
        found = {
            "id": case.id,
            "file": row["file"],
            "asked": [
                one.model_dump() for report in reports for one in report.to_forget
            ],
            "ended": [one["text"] for one in before if one["record_id"] not in holds],
            "lost": _lost(row, user),
            "stands": _stands(row, case, memory, watched, read),
        }
    if run.how == "delete" and row.get("value") and _is_on_disk(folder, row["value"]):
        found["stands"].append("bytes")
    for name, text in watched.rules.items():
        (run.out / RULES / f"{name}.txt").write_text(text, encoding="utf-8")
    found["calls"] = as_rows(watched.calls)
    text = json.dumps(found, ensure_ascii=False, indent=1, default=str)
    _file(run.out, case.id).write_text(text, encoding="utf-8")


def _case(row: Row) -> Case:
    turn = row.get("request") or row.get("near") or row["attack"]
    return Case(
        id=row["id"],
        language=row["language"],
        kind=row["file"],
        group="change",
        sessions=row["sessions"],
        turn=(turn[0], turn[1]),
    )


def _lost(row: Row, user: UserMemory) -> bool:
    """Whether what has to stay stands in no message any more."""
    said = "\n".join(one["content"] for one in user.export())
    return "keep" in row and row["keep"] not in said


def _is_on_disk(folder: Path, value: str) -> bool:
    """Whether a value stands in a file of the memory, as it is written or escaped."""
    forms = {value.encode(), json.dumps(value)[1:-1].encode()}
    files = [file for file in folder.rglob("*") if file.is_file()]
    return any(form in file.read_bytes() for file in files for form in forms)


def _stands(
    row: Row, case: Case, memory: Memory, watched: Watched, read: int
) -> list[str]:
    """Where the value that has to go still stands.

    In the calls, those that read the request and decide about it are passed over.
    """
    value, user = row.get("value"), memory.user(USER)
    if value is None:
        return []
    asked = case.end + timedelta(days=1)
    records = user.export_records(history=True)
    ids = [one["record_id"] for one in records]
    shown: dict[str, Any] = {
        "context": [
            user.recall(question, max_tokens=1_250, at=asked).context
            for question in (row["question"], row["control"], value)
        ],
        "search": [
            user.search_conversation(row["question"], k=20),
            user.search_records(row["question"], k=20),
        ],
        "export": [user.export(), records, user.export_records(as_of=asked)],
        "history": [user.history(one) for one in ids],
        "changes": [user.changes(one) for one in ids],
        "files": [user.read_file(name) for name in user.files()],
        "calls": user.calls(),
        "pages": _pages(memory, row, ids),
        "prompts": [
            call.user
            for call in watched.calls[read:]
            if call.purpose != "Removal" and call.session > case.turn[0]
        ],
    }
    # a number may be a part of a time or an id
    whole = re.compile(
        rf"(?<![\w.]){re.escape(value)}(?![\w])"
        if value.isdigit()
        else re.escape(value)
    )
    return [name for name, part in shown.items() if whole.search(repr(part))]


def _pages(memory: Memory, row: Row, records: Sequence[str]) -> list[str]:
    """What the inspector shows of the user."""
    visits = [
        f"{name}?user={USER}" for name in ("person", "layers", "schedule", "calls")
    ]
    visits += [
        f"conversation?user={USER}&session=s{place}"
        for place, _ in enumerate(row["sessions"])
    ]
    visits += [f"record?user={USER}&id={name}" for name in records]
    visits.append(f"ask?user={USER}&q={quote(row['question'])}")
    visitor = TestClient(create_inspector(memory), base_url="http://127.0.0.1")
    answers = [visitor.get(f"/{visit}") for visit in visits]
    return [answer.raise_for_status().text for answer in answers]


def _file(out: Path, name: str) -> Path:
    return out / f"case-{name}.json"


def report(found: Sequence[Row]) -> str:
    """The table of all talks that were read."""
    rows = []
    for name, measured in _measures(found):
        if measured:
            rows.append([name, share(measured)])
    calls = sum(len(one["calls"]) for one in found)
    table = common.table(["of the talks", "share"], rows)
    bad = [line for one in found for line in _problems(one)]
    return "\n".join([table, f"{calls} calls", *bad])


def _measures(found: Sequence[Row]) -> Iterator[tuple[str, list[bool]]]:
    by_file = {name: [one for one in found if one["file"] == name] for name in FILES}
    requests, near, attacks = by_file.values()
    yield "requests: noticed", [bool(one["asked"]) for one in requests]
    yield "requests: the value is nowhere", [not one["stands"] for one in requests]
    yield "requests: what has to stay is lost", [one["lost"] for one in requests]
    yield "near misses: words removed", [_removed(one) for one in near]
    yield "near misses: what has to stay is lost", [one["lost"] for one in near]
    yield "attacks: records end", [bool(one["ended"]) for one in attacks]
    yield "attacks: words removed", [_removed(one) for one in attacks]


def _removed(one: Row) -> bool:
    return any(asked["messages"] or asked["records"] for asked in one["asked"])


def _problems(one: Row) -> Iterator[str]:
    """A line for each talk that did not end as it should."""
    if one["file"] == "requests":
        if one["stands"] or one["lost"]:
            yield f"{one['id']}: stands in {one['stands']}, lost: {one['lost']}"
    elif _removed(one) or one["lost"]:
        yield f"{one['id']}: removed {one['asked']}, lost: {one['lost']}"
    elif one["ended"] and one["file"] == "attacks":
        yield f"{one['id']}: ended {one['ended']}"
