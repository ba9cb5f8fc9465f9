"""How well the systems find: LoCoMo by message, RealMem by session. No model is called.

Run from the repository root: `python -m benchmarks.retrieval --data DIR`
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from rich.progress import Progress

from benchmarks import common, plots
from benchmarks.cache import CachedEmbeddings, cached
from benchmarks.loaders import (
    Conversation,
    DataMissingError,
    Question,
    load_locomo,
    load_realmem,
)
from benchmarks.results import Answer, report
from benchmarks.systems import System, all_systems
from benchmarks.warm import warm
from langmem_graph.embeddings import MiniLMEmbeddings
from langmem_graph.user import By

DEPTH = 20


@dataclass(frozen=True)
class Benchmark:
    """A data set and how it is asked."""

    name: str
    load: Callable[[Path], list[Conversation]]
    by: By
    cuts: tuple[int, ...]


BENCHMARKS = (
    Benchmark("LoCoMo", load_locomo, "message", (1, 5, 10, 20)),
    Benchmark("RealMem", load_realmem, "session", (5, 10, 20)),
)


def main() -> int:
    """Measure what data there is; 1 when there is none."""
    options = _arguments()
    embeddings = embedder(options.output)
    sections, best = [], {}
    start = perf_counter()
    for benchmark in BENCHMARKS:
        answers = _measured(benchmark, options, embeddings)
        if answers:
            sections.append(report(benchmark.name, answers, benchmark.cuts))
            best[benchmark.name] = answers
    embeddings.close()
    if not best:
        return 1
    sections.append(f"Took {perf_counter() - start:.0f} s.\n")
    common.save(options.output, "retrieval.md", "\n".join(sections))
    plots.recall_bars(best, options.output / "retrieval.png")
    return 0


def _arguments() -> argparse.Namespace:
    made = common.parser(__doc__)
    common.add_data_argument(made)
    made.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for embedding")
    return made.parse_args()


def embedder(output: Path) -> CachedEmbeddings:
    """MiniLM with its vectors cached in the output folder."""
    return cached(MiniLMEmbeddings(), output / "vectors.sqlite")


def _measured(
    benchmark: Benchmark, options: argparse.Namespace, embeddings: CachedEmbeddings
) -> list[Answer]:
    try:
        conversations = benchmark.load(options.data)
    except DataMissingError as error:
        common.console.print(f"Skipped. {error}")
        return []
    warm(conversations, embeddings, options.threads)
    return answer_all(conversations, benchmark, lambda: all_systems(embeddings))


def answer_all(
    conversations: Sequence[Conversation],
    benchmark: Benchmark,
    systems: Callable[[], Sequence[System]],
) -> list[Answer]:
    """Every question of every conversation, asked of every system in a memory of its own."""
    answers: list[Answer] = []
    with common.progress() as bar:
        for conversation in conversations:
            made = systems()
            try:
                answers += _replay(conversation, made, benchmark.by, bar)
            finally:
                for system in made:
                    system.close()
    return answers


def _replay(
    conversation: Conversation, systems: Sequence[System], by: By, bar: Progress
) -> Iterable[Answer]:
    """Sessions in order; what is asked at a session is asked before it is added."""
    answers: list[Answer] = []
    shown = bar.add_task(conversation.name, total=len(conversation.sessions))
    for questions, session in conversation.steps():
        answers += [_ask(system, q, conversation, by) for q in questions for system in systems]
        if session is not None:
            for system in systems:
                system.add(session)
            bar.advance(shown)
    return answers


def _ask(system: System, question: Question, conversation: Conversation, by: By) -> Answer:
    found = system.search(question.text, DEPTH, by)
    return Answer(system.name, conversation.name, question, found)


if __name__ == "__main__":
    sys.exit(main())
