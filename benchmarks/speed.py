"""How fast search and adding are, by number of messages of one user. No model is called.

Run from the repository root: `python -m benchmarks.speed --sizes 1k,10k,100k`

Search runs on stored query vectors, in effect: the query's own embedding is taken off. The second
part adds messages with the default embedder and compares with what that embedder alone does.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks import bulk_add, chatter, common
from benchmarks.cheap import CheapEmbeddings
from langmem_graph import Memory
from langmem_graph.bench.report import plots
from langmem_graph.user import UserMemory

K = 10
SESSION = 20
WARM_UP = 3


@dataclass
class Timings:
    """What was measured at one size; times in milliseconds, one per query."""

    size: int
    add_rate: float
    """Messages per second, in sessions, while the memory grew to this size."""
    stages: dict[str, list[float]] = field(default_factory=dict)

    def note(self, stage: str, milliseconds: float) -> None:
        """Add one time."""
        self.stages.setdefault(stage, []).append(milliseconds)


def main() -> int:
    """Both parts, one report."""
    options = _arguments()
    measured = measure_search(options.sizes, options.queries)
    parts = ["## Search\n", _table(measured), "\n## Adding, embedder nearly free\n"]
    parts += [_add_table(measured)]
    if options.bulk:
        parts += ["\n## Adding with MiniLM\n", bulk_add.measure(options.bulk)]
    common.save(options.output, "speed.md", "\n".join([*parts, ""]))
    lines = {stage: _medians(measured, stage) for stage in measured[-1].stages}
    plots.time_lines(lines, "Search, per stage", options.output / "speed.png")
    return 0


def _arguments() -> argparse.Namespace:
    made = common.parser(__doc__)
    made.add_argument("--sizes", type=common.sizes, default=common.sizes("1k,10k,100k"))
    made.add_argument("--queries", type=int, default=50)
    made.add_argument(
        "--bulk", type=int, default=10_000, help="messages added with MiniLM; 0: none"
    )
    return made.parse_args()


def measure_search(sizes: Sequence[int], queries: int) -> list[Timings]:
    """One user's memory grows from size to size and is searched at each."""
    chat = chatter.make_chat()
    asked = chatter.queries(chat, queries)
    talks = enumerate(chatter.sessions(chat, sizes[-1], length=SESSION))
    embeddings, measured, before = CheapEmbeddings(chat), [], 0
    with (
        TemporaryDirectory() as folder,
        Memory(Path(folder) / "memory", embeddings=embeddings) as memory,
    ):
        user = memory.user("speed")
        for size in sizes:
            rate = _grow(user, list(islice(talks, (size - before) // SESSION)))
            measured.append(_searched(user, embeddings, asked, Timings(size, rate)))
            before = size
    return measured


def _grow(user: UserMemory, talks: Sequence[tuple[int, list[dict[str, object]]]]) -> float:
    """Adds sessions one by one; returns messages per second."""
    start = perf_counter()
    with common.progress() as bar:
        for number, messages in bar.track(talks, description="adding"):
            user.add(messages, session_id=f"session-{number}", at="2024-05-01T12:00:00+00:00")
    return sum(len(messages) for _, messages in talks) / (perf_counter() - start)


def _searched(
    user: UserMemory, embeddings: CheapEmbeddings, asked: Sequence[str], timings: Timings
) -> Timings:
    for query in asked[:WARM_UP]:
        user.recall(query)
        user.search_conversation(query, K, "session")
    for query in asked:
        for stage, milliseconds in user.recall(query).report.milliseconds.items():
            if stage not in ("embed", "total"):
                timings.note(stage, milliseconds)
        timings.note("search, all", _timed(user, embeddings, query, by_session=False))
        timings.note("search by session, all", _timed(user, embeddings, query, by_session=True))
    return timings


def _timed(user: UserMemory, embeddings: CheapEmbeddings, query: str, *, by_session: bool) -> float:
    embedding, start = embeddings.query_seconds, perf_counter()
    user.search_conversation(query, K, "session" if by_session else "message")
    passed = perf_counter() - start
    return (passed - (embeddings.query_seconds - embedding)) * 1_000


def _table(measured: Sequence[Timings]) -> str:
    """Median and 95th percentile per stage and size."""
    header = ["ms (median / p95)", *(f"{timings.size:,}" for timings in measured)]
    rows = []
    for stage in measured[-1].stages:
        pairs = (np.percentile(timings.stages[stage], [50, 95]) for timings in measured)
        rows.append([stage, *(f"{middle:.1f} / {high:.1f}" for middle, high in pairs)])
    return common.table(header, rows)


def _add_table(measured: Sequence[Timings]) -> str:
    rows = [[f"up to {one.size:,}", f"{one.add_rate:,.0f}"] for one in measured]
    return common.table([f"sessions of {SESSION}", "messages per second"], rows)


def _medians(measured: Sequence[Timings], stage: str) -> dict[int, float]:
    return {one.size: float(np.median(one.stages[stage])) for one in measured}


if __name__ == "__main__":
    sys.exit(main())
