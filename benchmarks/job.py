"""What a run is, and the hash that names it, so that a stopped run is continued."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

import langmem_graph
from benchmarks.data.items import Conversation, DataSet, Question
from benchmarks.models import Speaker
from benchmarks.readers import ContextReader
from benchmarks.systems.catalogue import Spec
from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.results import SearchBy

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Job:
    """A data set, systems, and how they are measured.

    Attributes:
        data: what is asked.
        specs: who is asked.
        embeddings: of all systems.
        out: where runs lie.
        by: whether messages or sessions are searched for.
        k: how many passages a model may be shown, at most.
        reader: answers; None measures retrieval.
        judge: judges the answers; None leaves them unjudged.
        names: of the model and the judge, for the report.
        prices: dollars for a million input tokens, and output tokens.
        cold: vectors were not made before, so the seconds contain embedding.
        limit: questions asked at most.
        full_tokens: what `full-context` may show.
        paper_rubrics: judge RealMem's answers a second time, by the paper's criteria.
        left_out: questions without gold, which retrieval cannot score.
        extra: anything else that results depend on.
        database: a PostgreSQL URL, where memories lie instead of folders.
    """

    data: DataSet
    specs: list[Spec]
    embeddings: Embeddings
    out: Path
    by: SearchBy
    k: int = 20
    reader: ContextReader | None = None
    judge: Speaker | None = None
    names: tuple[str, str] = ("", "")
    prices: tuple[float, float] | None = None
    cold: bool = False
    limit: int | None = None
    full_tokens: int = 100_000
    paper_rubrics: bool = False
    left_out: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    database: str | None = None

    @property
    def mode(self) -> str:
        """What is measured."""
        return "answer" if self.reader else "retrieval"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything that a result depends on; systems are told apart inside a run."""
        return {
            "data": self.data.name,
            "files": fingerprint(self.data.files),
            "mode": self.mode,
            "by": self.by,
            "k": self.k,
            "reader": self.reader.name if self.reader else "",
            "context_tokens": self.reader.tokens if self.reader else 0,
            "model": self.names[0],
            "judge": self.names[1],
            "embeddings": Embedder(self.embeddings).name,
            "cold": self.cold,
            "limit": self.limit,
            "full_tokens": self.full_tokens if self.reader else 0,
            "version": langmem_graph.__version__,
            "commit": commit(),
            **({"engine": "postgresql"} if self.database else {}),
            **self.extra,
        }

    @cached_property
    def folder(self) -> Path:
        """Where this run's files lie."""
        plain = json.dumps(self.settings, sort_keys=True)
        short = hashlib.sha256(plain.encode()).hexdigest()[:10]
        return self.out / f"{self.data.name}-{self.mode}-{short}"


def fingerprint(files: Iterable[Path]) -> str:
    """A hash of the files' bytes."""
    done = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while part := content.read(_CHUNK):
                done.update(part)
    return done.hexdigest()[:16]


def commit(*folders: Path) -> str:
    """The commit of the checkout that holds this code; empty where there is none.

    What is not committed is told by a hash behind a `+`, as other code is another run.

    Args:
        folders: of the code, in one checkout; the library's and the benchmarks' by
            default.
    """
    place, *others = folders or (
        Path(langmem_graph.__file__).parent,
        Path(__file__).parent,
    )
    paths = (".", *map(str, others))
    if not _git(place, "ls-files", *paths):
        return ""
    changed = _git(place, "diff", "HEAD", "--", *paths) or ""
    new = _git(place, "ls-files", "--others", "--exclude-standard", *paths) or ""
    short = _git(place, "rev-parse", "--short", "HEAD") or ""
    if not changed and not new:
        return short
    added = fingerprint(place / name for name in new.splitlines())
    return f"{short}+{hashlib.sha256(f'{changed}{added}'.encode()).hexdigest()[:6]}"


def _git(place: Path, *words: str) -> str | None:
    """What git says, or None where it is not there or refuses."""
    command = ["git", "-C", str(place), "-c", "core.quotePath=false", *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (
        done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None
    )


def machine() -> str:
    """What ran it."""
    import os

    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} cores, Python {platform.python_version()}"


def limited(data: DataSet, limit: int | None, *, with_gold: bool) -> DataSet:
    """At most so many questions, evenly spread over the data set, and what they need.

    Args:
        data: all of it.
        limit: None keeps all.
        with_gold: only questions with gold.
    """
    places = [
        (talk.name, question.id)
        for talk in data.conversations
        for question in talk.questions
        if question.gold or not with_gold
    ]
    if limit is not None and limit < len(places):
        places = [places[n * len(places) // limit] for n in range(limit)]
    kept = set(places)
    talks = [
        _only(talk, [q for q in talk.questions if (talk.name, q.id) in kept])
        for talk in data.conversations
    ]
    return replace(data, conversations=[talk for talk in talks if talk.questions])


def _only(talk: Conversation, questions: list[Question]) -> Conversation:
    return replace(talk, questions=questions)
