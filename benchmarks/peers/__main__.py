"""Ours beside LangMem's store and mem0's, with the same vectors, in one run. The longer
command.

Run from the repository root: `python -m benchmarks.peers --data DIR --sizes
1k,10k,100k`

The peers get a virtual environment of their own, installed from the package index at
the first run.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from langchain_core.embeddings import Embeddings

from benchmarks import common
from benchmarks.data.items import BenchDataError, Conversation
from benchmarks.data.locomo import load_locomo
from benchmarks.job import Job, limited
from benchmarks.metrics.ranking import recall
from benchmarks.peers.process import environment, run_all, write_job
from benchmarks.peers.speed import search_beside
from benchmarks.report.retrieval import recall_at
from benchmarks.run import run
from benchmarks.speed import SESSION, measure_search
from benchmarks.systems.catalogue import chosen
from benchmarks.vectors import cached, warm
from langmem_graph.embeddings.minilm import MiniLMEmbeddings

SYSTEMS = ("langmem", "mem0-chroma", "mem0-qdrant", "mem0-qdrant-50")
DESCRIPTIONS = {
    "langmem": "LangGraph's InMemoryStore with an index, which LangMem's tools search",
    "mem0-chroma": "mem0 `Memory`, `infer=False`, on Chroma",
    "mem0-qdrant": (
        "the same on local Qdrant with mem0's BM25 (fastembed, no spaCy), top_k=10"
    ),
    "mem0-qdrant-50": (
        "the same with top_k=50, so that mem0 reads 200 candidates, cut at 10"
    ),
}
SAME_SPEED = {"mem0-qdrant-50"}
"""Left out of the speed part: the same store as another's."""
K = 10


def main() -> int:
    """Both parts, one report; a peer that fails is reported with its error."""
    options = _arguments()
    python = environment(options.output / "peers-venv")
    parts = [
        "## Peers\n",
        *(f"- {name}: {what}" for name, what in DESCRIPTIONS.items()),
        "",
    ]
    parts += _recall_part(options, python)
    if options.sizes:
        parts += _speed_part(options)
    common.save(options.output, "peers.md", "\n".join([*parts, ""]))
    return 0


def _arguments() -> argparse.Namespace:
    made = common.parser(__doc__)
    common.add_data_argument(made)
    made.add_argument("--sizes", type=common.sizes, default=common.sizes("1k,10k,100k"))
    made.add_argument("--queries", type=int, default=15, help="searches per size")
    made.add_argument("--systems", default=",".join(SYSTEMS), help="which peers")
    return made.parse_args()


# --- recall
# --------------------------------------------------------------------------------------


def _recall_part(options: argparse.Namespace, python: Path) -> list[str]:
    try:
        data = limited(load_locomo(options.data), None, with_gold=True)
    except BenchDataError as error:
        return [f"LoCoMo skipped. {error}"]
    conversations = data.conversations
    embeddings = cached(MiniLMEmbeddings(), options.output / "vectors.sqlite")
    warm(conversations, embeddings, os.cpu_count() or 1)
    specs = chosen(["ours"], answering=False, has_model=False)
    ours = run(Job(data, specs, embeddings, options.output, data.by)).rows("asked")
    with TemporaryDirectory() as folder:
        _write_locomo(Path(folder), conversations, embeddings)
        results = run_all(options.systems.split(","), Path(folder), python)
    rows = [["ours", f"{fmean(recall_at(row, K) for row in ours):.3f}"]]
    for system, result in results.items():
        shown = (
            result
            if isinstance(result, str)
            else f"{_recall(conversations, result):.3f}"
        )
        rows.append([system, shown])
    return ["### LoCoMo\n", common.table(["system", f"recall@{K}"], rows), ""]


def _write_locomo(
    folder: Path, conversations: Sequence[Conversation], embeddings: Embeddings
) -> None:
    talks = [
        {
            "messages": [
                message for session in one.sessions for message in session.messages
            ],
            "questions": [question.text for question in one.questions],
        }
        for one in conversations
    ]
    texts = [
        m["content"] for one in conversations for s in one.sessions for m in s.messages
    ]
    texts += [question.text for one in conversations for question in one.questions]
    write_job(folder, {"k": K, "conversations": talks}, texts, embeddings)


def _recall(
    conversations: Sequence[Conversation], answers: list[list[list[str]]]
) -> float:
    values = [
        recall(found, question.gold, K)
        for conversation, own in zip(conversations, answers, strict=True)
        for question, found in zip(conversation.questions, own, strict=True)
    ]
    return fmean(values)


# --- speed
# --------------------------------------------------------------------------------


def _speed_part(options: argparse.Namespace) -> list[str]:
    measured = measure_search(options.sizes, options.queries)
    systems = [name for name in options.systems.split(",") if name not in SAME_SPEED]
    ours = {one.size: median(one.stages["search, all"]) for one in measured}
    beside = {"queries": options.queries, "session": SESSION, "output": options.output}
    return [search_beside(ours, systems, **beside)]


if __name__ == "__main__":
    sys.exit(main())
