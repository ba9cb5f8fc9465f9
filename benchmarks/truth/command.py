"""The command `python -m benchmarks truth`: from its options to a folder of
outcomes.
"""

import argparse
import gzip
import importlib
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from benchmarks.common import OUTPUT, console, progress
from benchmarks.job import commit
from benchmarks.queue_model import Queue, QueueModel
from benchmarks.truth.cases import (
    FILLER,
    FILLER_RECORDS,
    Case,
    chosen_filler,
    fill,
    read_cases,
)
from benchmarks.truth.cases import read_lines as rows_of
from benchmarks.truth.playing import (
    MODES,
    PATIENT,
    Setup,
    no_session_ends_by_itself,
    play,
)
from benchmarks.truth.scores import FIRST, SECOND
from benchmarks.truth.watching import RecordedModel, read_recording, write_recording
from benchmarks.vectors import cached
from langmem_graph.embeddings.embedder import Embedder, embeddings_by_name
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.errors import ChatModelError, InvalidInputError, LangMemGraphError
from langmem_graph.llm.chat_models import load_chat_model

Row = dict[str, Any]
KEPT = "outcomes.jsonl.gz"
"""In the folder of a run that is kept: its outcomes, without the words of the calls."""
Models = Callable[[str], BaseChatModel]
RUN, RULES = "run.json", "rules"
"""Beside the cases in a run's folder: what the run was, and the system texts of its
calls.
"""


def main(words: Sequence[str]) -> None:
    """The command line.

    Raises:
        LangMemGraphError: an unusable option, or a case that could not be carried out.
    """
    parser = _parser()
    options = parser.parse_args(words)
    if not options.cases:
        console.print(second_calls(options.out))
        return
    if options.model is None:
        parser.error("a run needs --model")
    models, named = models_of(options.model, options.base_url)
    cases = read_cases(options.cases)
    cases = [
        case for case in cases if not options.only or case.id in options.only.split(",")
    ]
    inner = embeddings_of(options.embeddings)
    with_cache = cached(inner, OUTPUT / "vectors.sqlite")
    about = {
        "mode": options.mode,
        "embeddings": Embedder(inner).name,
        "model": options.named or named,
        "filler": options.fillers,
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
    }
    try:
        run(
            cases[: options.limit],
            options.out,
            mode=options.mode,
            models=models,
            embeddings=with_cache,
            filler=rows_of(options.filler),
            fillers=options.fillers,
            threads=options.threads,
            about=about,
        )
    finally:
        with_cache.close()
    if options.record:
        file = record(options.out, options.record, about["model"])
        console.print(f"What was asked and answered is in {file}")
    console.print(f"{len(list(outcomes(options.out)))} cases are in {options.out}")
    console.print(second_calls(options.out))


def second_calls(out: Path) -> str:
    """How many of a run's batches took a second call."""
    played = outcomes(out)
    purposes = Counter(call["purpose"] for found in played for call in found["calls"])
    return f"{purposes[SECOND]} of {purposes[FIRST]} batches took a second call"


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks truth",
        description="Does memory stay true over time?",
    )
    made.add_argument(
        "cases",
        type=Path,
        nargs="*",
        help="files of cases, JSON lines; without any, the calls of the run in OUT are "
        "counted",
    )
    made.add_argument("--out", type=Path, required=True, help="folder for the outcomes")
    made.add_argument("--mode", choices=MODES, default="live")
    made.add_argument(
        "--model",
        help="of a run; queue:DIR (see benchmarks.queue_model), recorded:FILE, a "
        "model's name, or recorded:FILE,queue:DIR, where the queue is asked what is "
        "not recorded",
    )
    made.add_argument("--base-url", help="the model's OpenAI-compatible server")
    made.add_argument("--embeddings", help="embedder: a name, or package.module:Class")
    made.add_argument("--threads", type=int, default=40, help="cases side by side")
    made.add_argument(
        "--record", type=Path, help="write what was asked and answered to this file"
    )
    made.add_argument(
        "--named", default="", help="the name of the model that answers a queue"
    )
    made.add_argument(
        "--filler", type=Path, default=FILLER, help="the user's other records"
    )
    made.add_argument(
        "--fillers", type=int, default=FILLER_RECORDS, help="how many of them"
    )
    made.add_argument("--only", default="", help="ids of cases, with commas")
    made.add_argument("--limit", type=int, help="cases at most")
    return made


def models_of(name: str, base_url: str | None = None) -> tuple[Models, str]:
    """A function that makes the model of each case, and the model's name.

    Raises:
        ChatModelError: no model of this name can be made.
    """
    kind, _, place = name.partition(":")
    if kind == "queue":
        queue = Queue(Path(place))
        return lambda tag: QueueModel(queue=queue, tag=tag), "unnamed"
    if kind == "recorded":
        file, _, rest = place.partition(",")
        recording = read_recording(Path(file))
        others = models_of(rest, base_url)[0] if rest else lambda _: None
        return (
            lambda tag: RecordedModel(recording=recording, otherwise=others(tag)),
            recording.named,
        )
    model = load_chat_model(name, base_url)
    if model is None:
        raise ChatModelError(f"No chat model {name!r}.")
    return lambda _: model, name


def embeddings_of(name: str | None) -> Embeddings:
    """The embedder of a name; a class or function is named as
    `package.module:Class`.
    """
    if name is None:
        return MiniLMEmbeddings()
    module, _, maker = name.partition(":")
    if "." not in module or not maker:
        return embeddings_by_name(name)
    made = getattr(importlib.import_module(module), maker)()
    if not isinstance(made, Embeddings):
        raise InvalidInputError(f"{name} makes no LangChain Embeddings object.")
    return made


def run(
    cases: Sequence[Case],
    out: Path,
    *,
    mode: Any,
    models: Models,
    embeddings: Embeddings,
    filler: Sequence[Row],
    fillers: int = FILLER_RECORDS,
    threads: int = 1,
    about: Row | None = None,
) -> None:
    """Carry out the cases that have no outcome in the folder yet.

    Raises:
        LangMemGraphError: cases that could not be carried out, after all others were.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / RULES).mkdir(exist_ok=True)
    _keep(out / RUN, about or {"mode": mode})
    due = [case for case in cases if not file_of(out, case.id).exists()]
    with TemporaryDirectory() as place, no_session_ends_by_itself():
        filled = {}
        for language in sorted({case.language for case in due}):
            filled[language] = Path(place) / language
            fill(
                filled[language],
                chosen_filler(filler, language, fillers),
                embeddings,
                PATIENT,
            )
        failed = _play_all(due, Setup(mode, models, embeddings, filled), out, threads)
    if failed:
        raise LangMemGraphError(f"{len(failed)} cases failed. {' | '.join(failed)}")


def _play_all(
    cases: Sequence[Case], setup: Setup, out: Path, threads: int
) -> list[str]:
    failed = []
    with ThreadPoolExecutor(threads) as pool, progress() as bar:
        task = bar.add_task(setup.mode, total=len(cases))
        work = {pool.submit(_play_one, case, setup, out): case for case in cases}
        for done in as_completed(work):
            bar.advance(task)
            if error := done.exception():
                failed.append(
                    f"{work[done].id}: {type(error).__name__}: {str(error)[:400]}"
                )
    return failed


def _play_one(case: Case, setup: Setup, out: Path) -> None:
    found, rules = play(case, setup)
    for name, text in rules.items():
        _write(out / RULES / f"{name}.txt", text)
    _write(file_of(out, case.id), json.dumps(found, ensure_ascii=False, indent=1))


def file_of(out: Path, case: str) -> Path:
    """Where the outcome of a case lies."""
    return out / f"case-{case}.json"


def outcomes(out: Path) -> list[Row]:
    """The outcomes of a run, by their cases' names; kept ones are in one compressed
    file.
    """
    if (out / KEPT).exists():
        lines = gzip.decompress((out / KEPT).read_bytes()).decode().splitlines()
        return [json.loads(line) for line in lines]
    files = sorted(out.glob("case-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def about_run(out: Path) -> Row:
    """What a run was."""
    told: Row = json.loads((out / RUN).read_text(encoding="utf-8"))
    return told


def record(out: Path, file: Path, named: str) -> Path:
    """Write what was asked and answered in a run, so that the run can be repeated."""
    rules = {
        one.stem: one.read_text(encoding="utf-8") for one in (out / RULES).glob("*.txt")
    }
    calls = [call for found in outcomes(out) for call in found["calls"]]
    return write_recording(file, named, calls, rules)


def _keep(file: Path, about: Row) -> None:
    """Say what the run is.

    Raises:
        InvalidInputError: the folder holds another run.
    """
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        for name in ("mode", "embeddings", "model", "filler"):
            if known.get(name) != about.get(name):
                raise InvalidInputError(
                    f"{file.parent} holds a run with {name} {known.get(name)!r}, not "
                    f"{about.get(name)!r}: give another --out."
                )
    else:
        _write(file, json.dumps(about, indent=1))


def _write(file: Path, text: str) -> None:
    """Whole or not at all, also when the process is killed."""
    part = file.with_name(f"{file.name}.{os.getpid()}-{id(text)}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
