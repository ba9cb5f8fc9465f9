"""Search in several languages: messages of one, questions in the same and in others.

Run from the repository root: `python -m benchmarks.languages --sets DIR`. A file
`<code>.json` of the folder holds one language:
`{"language", "messages": [{"id", "at", "content"}],
"questions": [{"id", "question", "language", "evidence": [ids]}]}`.
No model is called. Sets are not in this repository.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks import common
from benchmarks.truth.command import embeddings_of
from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.memory import Memory
from langmem_graph.settings import RankingMethod
from langmem_graph.user_memory import UserMemory

K = 10
METHODS: tuple[RankingMethod, ...] = ("hybrid", "dense", "words")
_MINILM = "minilm"


@dataclass(frozen=True)
class Recalls:
    """Of one language: recall for questions in it and in others, by ranking method."""

    same: dict[RankingMethod, list[float]]
    other: dict[RankingMethod, list[float]]
    messages: int
    seconds: float


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    made = common.parser(__doc__)
    made.add_argument("--sets", type=Path, required=True, help="folder of <code>.json")
    made.add_argument(
        "--embeddings",
        default=_MINILM,
        help=f"{_MINILM}, a name, or package.module:Class; several with commas between",
    )
    chosen: argparse.Namespace = made.parse_args(arguments)
    sets = read_sets(chosen.sets)
    parts = [
        _report(embeddings_of(None if name == _MINILM else name), sets)
        for name in chosen.embeddings.split(",")
    ]
    common.save(chosen.output, "languages.md", "\n\n".join(parts))


def read_sets(folder: Path) -> list[dict[str, Any]]:
    """The sets of a folder, in the order of their languages.

    Raises:
        SystemExit: there are none.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise SystemExit(f"No <code>.json in {folder}: give --sets its folder.")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _report(embeddings: Embeddings, sets: list[dict[str, Any]]) -> str:
    """The table of one embedder."""
    embeddings.embed_query("loaded before anything is timed")
    found = {}
    with common.progress() as bar:
        name = Embedder(embeddings).name
        for one in bar.track(sets, description=name):
            found[str(one["language"])] = measure(one, embeddings)
    kinds = [f"{kind}, {method}" for method in METHODS for kind in ("same", "other")]
    rows = [_row(language, [one]) for language, one in found.items()]
    rows.append(_row("all", list(found.values())))
    header = ["messages in", *kinds, "messages a second"]
    return f"{name}: recall@{K}\n\n{common.table(header, rows)}"


def _row(title: str, found: list[Recalls]) -> list[str]:
    cells = []
    for method in METHODS:
        cells.append(_mean([value for one in found for value in one.same[method]]))
        cells.append(_mean([value for one in found for value in one.other[method]]))
    messages = sum(one.messages for one in found)
    seconds = sum(one.seconds for one in found)
    return [title, *cells, f"{messages / seconds:,.0f}"]


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.0%}" if values else ""


def measure(one: dict[str, Any], embeddings: Embeddings) -> Recalls:
    """Add a language's messages to a fresh memory, and ask every question."""
    same: dict[RankingMethod, list[float]] = {method: [] for method in METHODS}
    other: dict[RankingMethod, list[float]] = {method: [] for method in METHODS}
    with (
        TemporaryDirectory() as folder,
        Memory(Path(folder) / "m", embeddings=embeddings) as memory,
    ):
        user = memory.user("ana")
        seconds = _add(user, one["messages"])
        for question in one["questions"]:
            kind = same if question["language"] == one["language"] else other
            for method in METHODS:
                kind[method].append(_recall(user, question, method))
    return Recalls(same, other, len(one["messages"]), seconds)


def _add(user: UserMemory, messages: list[dict[str, Any]]) -> float:
    """Add the messages in sessions of one day; the seconds it took, embedding among
    them.
    """
    start = perf_counter()
    for day, said in days(messages):
        report = user.add(said, session_id=day)
        if report.not_yet_embedded or report.rejected:
            raise SystemExit(f"Not all was stored and embedded: {report.warnings}")
    return perf_counter() - start


def days(messages: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each day with its messages, as a user said them."""
    by_day = defaultdict(list)
    for message in messages:
        by_day[str(message["at"])[:10]].append({"role": "user", **message})
    return iter(by_day.items())


def _recall(user: UserMemory, question: dict[str, Any], method: RankingMethod) -> float:
    """The share of the evidence that is among the first hits."""
    hits = user.search_conversation(question["question"], K, ranking=method)
    evidence = set(question["evidence"])
    return len(evidence & {hit.message_id for hit in hits}) / len(evidence)


if __name__ == "__main__":
    main()
