"""The command `python -m benchmarks`: from its options to a job, and to its report."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings

from benchmarks.common import console
from benchmarks.data import LOADERS
from benchmarks.data.by_speaker import by_speaker
from benchmarks.data.distractors import with_distractors
from benchmarks.data.entries import as_entries
from benchmarks.data.general import with_general
from benchmarks.data.items import DataSet
from benchmarks.job import Job, limited
from benchmarks.log import Log
from benchmarks.metrics import statistics
from benchmarks.models import Speaker
from benchmarks.readers import ContextReader, NavigateReader
from benchmarks.report.seeds import write_seeds
from benchmarks.report.write import write_report
from benchmarks.run import run
from benchmarks.systems.catalogue import (
    ANSWER,
    RETRIEVAL,
    Spec,
    ablations,
    catalogue,
    chosen,
    edges,
    offering,
    sweep,
)
from benchmarks.vectors import CachedEmbeddings, cached, warm
from langmem_graph.embeddings.embedder import embeddings_by_name
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.errors import ChatModelError, InvalidInputError
from langmem_graph.llm.chat_models import load_chat_model
from langmem_graph.results import SearchBy

SHOWN = {"message": 20, "session": 5, "entry": 20}
"""What is found and shown to a model, and how many of it; the last two are RealMem's
modes.
"""


SAMPLING = {"temperature": 1.0, "top_p": 0.9}
"""How answers are drawn where several seeds are asked for (NapMem 5.5); judges stay at
0.
"""
UNUSUAL = {"session": ["ours-reason"], "entry": ["ours-reason", "ours+records"]}
"""Systems that have nothing of the kind to show, so that they have to be named."""


@dataclass(frozen=True)
class Options:
    """As the command line gives them."""

    name: str
    data: Path
    out: Path
    model: str | None = None
    judge: str | None = None
    base_url: str | None = None
    judge_base_url: str | None = None
    method: str | None = None
    max_tokens: int = 1_024
    reader: str = "context"
    systems: str = ""
    ablate: str = ""
    depths: str = ""
    breadths: str = ""
    edges: str = ""
    distractors: str = ""
    limit: int | None = None
    unit: str = "message"
    paper_rubrics: bool = False
    by_speaker: bool = False
    seeds: int = 0
    seed: int | None = None
    k: int | None = None
    context_tokens: int | None = None
    full_tokens: int = 100_000
    prices: str = ""
    embeddings: str | None = None
    cold: bool = False
    fresh: bool = False
    retry: bool = False
    database: str | None = None


def bench(options: Options) -> str:
    """Run what is missing, and give the report's text; of several seeds, that over all
    of them.

    Raises:
        LangMemGraphError: an unusable option, missing data, or a model that cannot be
            made.
    """
    if not options.seeds:
        return _measure(options)[2]
    if options.model is None and options.base_url is None:
        raise InvalidInputError("--seeds are of answers: name a --model.")
    runs = [
        _measure(replace(options, seed=seed)) for seed in range(1, options.seeds + 1)
    ]
    return write_seeds([(job, log) for job, log, _ in runs])


def _measure(options: Options) -> tuple[Job, Log, str]:
    """One run, and its report's text."""
    statistics.require()
    start = perf_counter()
    speaker, judge = _speakers(options)
    data = LOADERS[_known(options.name)](options.data)
    embeddings = _embeddings(options)
    data = _as_asked(data, options, embeddings, answering=speaker is not None)
    whole, data = data, limited(data, options.limit, with_gold=speaker is None)
    if speaker is not None and options.reader == NavigateReader.name:
        data = with_general(data, options.limit)
    try:
        job = _job(options, data, embeddings, speaker, judge)
        if speaker is None:
            job = replace(job, left_out=_without_gold(whole))
        if isinstance(embeddings, CachedEmbeddings) and options.embeddings is None:
            warm(data.conversations, embeddings, os.cpu_count() or 1)
        try:
            log = run(job, retry=options.retry, fresh=options.fresh)
        except KeyboardInterrupt:
            console.print(f"Stopped. The same command continues it ({job.folder}).")
            raise
        text = write_report(job, log, perf_counter() - start)
    finally:
        if isinstance(embeddings, CachedEmbeddings):
            embeddings.close()
    console.print(f"Written to {job.folder}")
    return job, log, text


def _without_gold(data: DataSet) -> int:
    return sum(
        not question.gold for talk in data.conversations for question in talk.questions
    )


def _known(name: str) -> str:
    if name not in LOADERS:
        raise InvalidInputError(
            f"No benchmark {name!r}; there are {', '.join(LOADERS)}."
        )
    return name


def _as_asked(
    data: DataSet, options: Options, embeddings: Embeddings, *, answering: bool
) -> DataSet:
    """As a paper's protocol changes it."""
    if options.unit not in SHOWN:
        raise InvalidInputError(
            f"No unit {options.unit!r}; there are {', '.join(SHOWN)}."
        )
    if options.paper_rubrics and (data.task != "scale" or not options.judge):
        raise InvalidInputError("--paper-rubrics are RealMem's, for a --judge.")
    if options.unit == "session" and not answering and data.by != "session":
        raise InvalidInputError(
            f"Gold of {data.title} are messages, so sessions are no unit of it."
        )
    if options.unit == "entry":
        data = as_entries(data)
    if options.by_speaker:
        data = by_speaker(data)
    counts = _whole_numbers(options.distractors)
    return with_distractors(data, embeddings, max(counts)) if counts else data


def _job(
    options: Options,
    data: DataSet,
    embeddings: Embeddings,
    speaker: Speaker | None,
    judge: Speaker | None,
) -> Job:
    return Job(
        data=data,
        specs=_specs(options, answering=speaker is not None),
        embeddings=embeddings,
        out=options.out,
        by=data.by,
        k=options.k or SHOWN[options.unit],
        reader=_reader(options, speaker),
        judge=judge,
        names=(_name(speaker), _name(judge)),
        prices=_prices(options.prices),
        cold=options.cold,
        limit=options.limit,
        full_tokens=options.full_tokens,
        paper_rubrics=options.paper_rubrics,
        extra={"unit": options.unit, "by_speaker": options.by_speaker}
        | (_answering(options) if speaker else {}),
        database=options.database,
    )


def _answering(options: Options) -> dict[str, Any]:
    """How the models are called, which answers depend on."""
    return {
        "server": _address(options.base_url),
        "judge_server": _address(options.judge_base_url),
        "max_tokens": options.max_tokens,
        "method": options.method,
        "paper_rubrics": options.paper_rubrics,
        "seed": options.seed,
    }


def _address(url: str | None) -> str | None:
    """Without what may be secret."""
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _specs(options: Options, *, answering: bool) -> list[Spec]:
    added, counts = _variants(options), _whole_numbers(options.distractors)
    if (added or counts) and not answering:
        raise InvalidInputError(
            "--ablate, --depths, --breadths, --edges and --distractors change "
            "answers: name a "
            "--model."
        )
    names = [one.strip() for one in options.systems.split(",") if one.strip()]
    if added and not names:
        compared = options.ablate or options.depths or options.breadths
        specs = [*([catalogue()["ours-reason"]] if compared else []), *added]
    else:
        if not names and options.unit != "message":
            usual = ANSWER if answering else RETRIEVAL
            names = [name for name in usual if name not in UNUSUAL[options.unit]]
        specs = [*chosen(names, answering=answering, has_model=answering), *added]
    specs += offering(specs, counts) if counts else []
    return list({spec.name: spec for spec in specs}.values())


def _variants(options: Options) -> list[Spec]:
    found = []
    if options.ablate:
        found += ablations([one.strip() for one in options.ablate.split(",")])
    if options.depths or options.breadths:
        found += sweep(
            _whole_numbers(options.depths or "2"),
            _whole_numbers(options.breadths or "1"),
        )
    if options.edges:
        found += edges(_numbers(options.edges))
    return found


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")] if text else []
    except ValueError as error:
        raise InvalidInputError(f"Numbers with commas, not {text!r}.") from error


def _whole_numbers(text: str) -> list[int]:
    numbers = _numbers(text)
    if any(one != int(one) for one in numbers):
        raise InvalidInputError(f"Whole numbers with commas, not {text!r}.")
    return [int(one) for one in numbers]


def _prices(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    try:
        read, written = (float(one) for one in text.split(","))
    except ValueError as error:
        raise InvalidInputError(
            f"--prices wants INPUT,OUTPUT in dollars, not {text!r}."
        ) from error
    return read, written


def _speakers(options: Options) -> tuple[Speaker | None, Speaker | None]:
    """The model that answers and the one that judges; retrieval has neither."""
    if options.model is None and options.base_url is None:
        if options.judge or options.judge_base_url:
            raise InvalidInputError("--judge judges answers: name a --model too.")
        return None, None
    drawn = {} if options.seed is None else {**SAMPLING, "seed": options.seed}
    speaker = _speaker(options.model, options.base_url, options, **drawn)
    if options.judge is None and options.judge_base_url is None:
        return speaker, None
    if options.judge == "same":
        return speaker, _speaker(
            options.model, options.base_url, options
        ) if drawn else speaker
    return speaker, _speaker(options.judge, options.judge_base_url, options)


def _speaker(
    name: str | None, base_url: str | None, options: Options, **drawn: Any
) -> Speaker:
    limits: dict[str, Any] = {"temperature": 0.0, "max_tokens": options.max_tokens}
    model = load_chat_model(name, base_url, **limits | drawn)
    if model is None:
        raise ChatModelError(
            "No chat model: name one with --model, or a server with --base-url."
        )
    return Speaker(model, options.method)


def _name(speaker: Speaker | None) -> str:
    if speaker is None:
        return ""
    found = getattr(speaker.model, "model_name", None) or getattr(
        speaker.model, "model", None
    )
    return str(found or type(speaker.model).__name__)


def _reader(options: Options, speaker: Speaker | None) -> ContextReader | None:
    kinds = {"context": ContextReader, "navigate": NavigateReader}
    if options.reader not in kinds:
        raise InvalidInputError(
            f"No reader {options.reader!r}; there are {', '.join(kinds)}."
        )
    if speaker is None and options.reader != ContextReader.name:
        raise InvalidInputError("--reader says how answers are read: name a --model.")
    if speaker is None:
        return None
    if options.unit == "message":
        return kinds[options.reader](speaker, options.context_tokens or 1_500)
    tokens = options.context_tokens or options.full_tokens
    by: SearchBy = "session" if options.unit == "session" else "message"
    return kinds[options.reader](speaker, tokens, by, longest=None)


def _embeddings(options: Options) -> Embeddings:
    """With their vectors kept in a file, so that a second run need not embed; not when
    cold.
    """
    inner = (
        embeddings_by_name(options.embeddings)
        if options.embeddings
        else MiniLMEmbeddings()
    )
    return inner if options.cold else cached(inner, options.out / "vectors.sqlite")
