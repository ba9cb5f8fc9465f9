"""How fast search and adding are, by number of messages of one user. No model is
called.

Run from the repository root: `python -m benchmarks.speed --sizes 1k,10k,100k`, with
`--peers mem0-chroma` beside mem0 on Chroma in the same run.

Search runs on stored query vectors, in effect: the query's own embedding is taken off.
"Chroma alone" is a query of a collection with the same messages, without this library.
The second part adds messages with the default embedder and compares with what that
embedder alone does.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import chromadb
import numpy as np
from chromadb.api.models.Collection import Collection

from benchmarks import chatter, common
from benchmarks.chatter import CheapEmbeddings
from benchmarks.peers.speed import search_beside
from benchmarks.report import plots
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory, UserMemory

K = 10
SESSION = 20
WARM_UP = 3
SHARES = (2, 10, 100)
"""With `--where`: one message in so many passes."""
CALL = 500
"""Messages per call of `add`, in bulk."""
BATCH = 64
"""Texts per call of the embedder, as in `Settings.embed_batch`."""


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
    measured = measure_search(options.sizes, options.queries, where=options.where)
    parts = ["## Search\n", _table(measured), "\n## Adding, embedder nearly free\n"]
    parts += [_add_table(measured)]
    if options.database:
        there = measure_search(
            options.sizes, options.queries, options.database, options.where
        )
        parts += [
            "\n## The same on PostgreSQL\n",
            _table(there),
            "\n",
            _add_table(there),
        ]
    if options.peers:
        ours = _medians(measured, "search, all")
        beside = {
            "queries": options.queries,
            "session": SESSION,
            "output": options.output,
        }
        parts += [
            "\n## Beside peers\n",
            search_beside(ours, options.peers.split(","), **beside),
        ]
    if options.bulk:
        parts += ["\n## Adding with MiniLM\n", measure_adding(options.bulk)]
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
    made.add_argument("--where", action="store_true", help="also search under a filter")
    made.add_argument(
        "--database", help="URL of a prepared PostgreSQL database, measured as well"
    )
    made.add_argument(
        "--peers",
        help="also search with these, such as mem0-chroma; see "
        "benchmarks/peers/worker.py. The"
        " first run installs benchmarks/peers/requirements.txt into OUTPUT/peers-venv",
    )
    return made.parse_args()


def measure_search(
    sizes: Sequence[int], queries: int, database: str | None = None, where: bool = False
) -> list[Timings]:
    """One user's memory grows from size to size and is searched at each."""
    chat = chatter.make_chat()
    asked = chatter.queries(chat, queries)
    talks = enumerate(chatter.sessions(chat, sizes[-1], length=SESSION))
    embeddings, measured, before = CheapEmbeddings(chat), [], 0
    with (
        TemporaryDirectory() as folder,
        Memory(database or Path(folder) / "memory", embeddings=embeddings) as memory,
    ):
        user = memory.user("speed")
        collection = _collection(Path(folder) / "alone")
        user.erase()
        for size in sizes:
            added = list(islice(talks, (size - before) // SESSION))
            rate = _grow(user, added)
            _fill(collection, added, embeddings)
            timings = _searched(user, embeddings, asked, Timings(size, rate))
            _ask_chroma(collection, embeddings, asked, timings)
            measured.append(
                _filtered(user, embeddings, asked, timings) if where else timings
            )
            before = size
    return measured


def _grow(
    user: UserMemory, talks: Sequence[tuple[int, list[dict[str, object]]]]
) -> float:
    """Adds sessions one by one; returns messages per second."""
    start = perf_counter()
    with common.progress() as bar:
        for number, messages in bar.track(talks, description="adding"):
            about = {f"one_in_{share}": str(number % share) for share in SHARES}
            at = "2024-05-01T12:00:00+00:00"
            user.add(messages, session_id=f"session-{number}", at=at, metadata=about)
    return sum(len(messages) for _, messages in talks) / (perf_counter() - start)


def _collection(folder: Path) -> Collection:
    """An empty collection of Chroma, to be searched without this library."""
    client = chromadb.PersistentClient(folder)
    return client.create_collection("alone", metadata={"hnsw:space": "cosine"})


def _fill(
    collection: Collection,
    talks: Sequence[tuple[int, list[dict[str, object]]]],
    embeddings: CheapEmbeddings,
) -> None:
    """Add the same messages to a collection."""
    texts = [f"{said['content']}" for _, messages in talks for said in messages]
    first = collection.count()
    for start in range(0, len(texts), CALL):
        part = texts[start : start + CALL]
        collection.add(
            ids=[f"{first + start + place}" for place in range(len(part))],
            embeddings=np.array(embeddings.embed_documents(part), dtype=np.float32),
            documents=part,
        )


def _ask_chroma(
    collection: Collection,
    embeddings: CheapEmbeddings,
    asked: Sequence[str],
    timings: Timings,
) -> None:
    """The same questions to Chroma alone: the texts of the nearest messages."""
    vectors = [np.array(embeddings.embed_query(query)) for query in asked]
    for vector in vectors[:WARM_UP]:
        collection.query(vector, n_results=K, include=["documents"])
    for vector in vectors:
        start = perf_counter()
        collection.query(vector, n_results=K, include=["documents"])
        timings.note("Chroma alone", (perf_counter() - start) * 1_000)


def _searched(
    user: UserMemory,
    embeddings: CheapEmbeddings,
    asked: Sequence[str],
    timings: Timings,
) -> Timings:
    for query in asked[:WARM_UP]:
        user.recall(query)
        user.search_conversation(query, K, "session")
    for query in asked:
        for stage, milliseconds in user.recall(query).report.milliseconds.items():
            if stage not in ("embed", "total"):
                timings.note(stage, milliseconds)
        timings.note("search, all", _timed(user, embeddings, query, by_session=False))
        timings.note(
            "search by session, all", _timed(user, embeddings, query, by_session=True)
        )
    return timings


def _filtered(
    user: UserMemory,
    embeddings: CheapEmbeddings,
    asked: Sequence[str],
    timings: Timings,
) -> Timings:
    """Searches under an equality that some share of the messages passes, each after a
    plain one.

    Each was made once before, as the plain one was: what ranking needs of the messages
    is held.
    """
    for query in asked:
        for share in SHARES:
            user.search_conversation(query, K, where={f"one_in_{share}": "0"})
    for query in asked:
        timings.note("plain search beside them", _timed(user, embeddings, query))
        for share in SHARES:
            where = {f"one_in_{share}": "0"}
            passed = _timed(user, embeddings, query, where=where)
            timings.note(f"search where one in {share} passes", passed)
    return timings


def _timed(
    user: UserMemory,
    embeddings: CheapEmbeddings,
    query: str,
    *,
    by_session: bool = False,
    where: dict[str, str] | None = None,
) -> float:
    embedding, start = embeddings.query_seconds, perf_counter()
    user.search_conversation(
        query, K, "session" if by_session else "message", where=where
    )
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


# --- adding in bulk
# ------------------------------------------------------------------------------


def measure_adding(count: int) -> str:
    """A table with the rates of adding and of the embedder alone, and their ratio.

    The two take turns block by block, so that both see the same state of the machine.

    Args:
        count: messages to add.
    """
    talks = chatter.sessions(chatter.make_chat(), count)
    messages = list(chain.from_iterable(talks))
    blocks = [messages[start : start + CALL] for start in range(0, count, CALL)]
    embeddings = MiniLMEmbeddings()
    embeddings.embed_documents(["loads the model"])
    with (
        TemporaryDirectory() as folder,
        Memory(Path(folder) / "memory", embeddings=embeddings) as memory,
    ):
        alone, adding = _take_turns(memory.user("bulk"), embeddings, blocks)
    return _rates(count, alone, adding)


def _take_turns(
    user: UserMemory,
    embeddings: MiniLMEmbeddings,
    blocks: Sequence[list[dict[str, Any]]],
) -> tuple[float, float]:
    """Seconds of the embedder alone and of adding; who goes first alternates."""
    alone = adding = 0.0
    with common.progress() as bar:
        for number, block in enumerate(
            bar.track(blocks, description="adding with MiniLM")
        ):
            if number % 2:
                alone += _embed(embeddings, block)
            adding += _add(user, block, f"session-{number}")
            if not number % 2:
                alone += _embed(embeddings, block)
    return alone, adding


def _embed(embeddings: MiniLMEmbeddings, block: Sequence[dict[str, Any]]) -> float:
    texts = [f"{message['name']}: {message['content']}" for message in block]
    start = perf_counter()
    for first in range(0, len(texts), BATCH):
        embeddings.embed_documents(texts[first : first + BATCH])
    return perf_counter() - start


def _add(user: UserMemory, block: list[dict[str, Any]], session: str) -> float:
    start = perf_counter()
    user.add(block, session_id=session, at="2024-05-01T12:00:00+00:00")
    return perf_counter() - start


def _rates(count: int, alone: float, adding: float) -> str:
    rows = [
        ["embedder alone", f"{count / alone:,.1f}"],
        ["user.add", f"{count / adding:,.1f}"],
        ["ratio", f"{alone / adding:.2f}"],
    ]
    return common.table(
        [f"{count:,} messages, {CALL} per call", "messages per second"], rows
    )


if __name__ == "__main__":
    sys.exit(main())
