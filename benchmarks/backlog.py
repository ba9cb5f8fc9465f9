"""The forecast of a flush: how long it takes, and where its figure for the answers
comes from.

Run from the repository root: `python -m benchmarks.backlog`; with `--data DIR` (LoCoMo,
RealMem) it also writes the memories that these data sets publish as answers of our
schema, and counts tokens. No model is called.
"""

import argparse
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import chatter, common
from benchmarks.chatter import CheapEmbeddings
from benchmarks.data.items import DataSet, Session
from benchmarks.data.locomo import load_locomo
from benchmarks.data.realmem import load_realmem
from langmem_graph.llm.answer_schemas import Extraction, NewMemory
from langmem_graph.memory import Memory
from langmem_graph.reports import FlushForecast
from langmem_graph.settings import Settings
from langmem_graph.tokens import TokenCounter, token_counter

SESSION = 20
ATTRIBUTE = "home town"
"""Of every memory, as the data sets name none: two words, as our prompt asks for."""
ROUNDS = 5


def main() -> None:
    """Print the tables."""
    options = common.parser(__doc__)
    options.add_argument("--sizes", type=common.sizes, default=common.sizes("1k,10k"))
    options.add_argument(
        "--data", type=Path, default=os.environ.get("LANGMEM_GRAPH_DATA")
    )
    chosen: argparse.Namespace = options.parse_args()
    parts = [_forecasts(chosen.sizes)]
    if chosen.data:
        counter = token_counter(Settings().encoding)
        sets = [load_locomo(chosen.data), load_realmem(chosen.data)]
        parts.append(
            _answers([_row(data, counter) for data in sets], exact=counter.exact)
        )
    common.save(chosen.output, "backlog.md", "\n\n".join(parts))


def _forecasts(sizes: list[int]) -> str:
    """The median time of a forecast for each size."""
    chat = chatter.make_chat()
    talks, before, rows = (
        enumerate(chatter.sessions(chat, sizes[-1], length=SESSION)),
        0,
        [],
    )
    with (
        TemporaryDirectory() as folder,
        Memory(Path(folder) / "m", embeddings=CheapEmbeddings(chat)) as memory,
    ):
        user = memory.user("backlog")
        for size in sizes:
            for number, messages in islice(talks, (size - before) // SESSION):
                user.add(
                    messages, session_id=f"s{number}", at="2024-05-01T12:00:00+00:00"
                )
            rows.append(_forecast_row([user.flush_forecast() for _ in range(ROUNDS)]))
            before = size
    header = [
        "messages",
        "batches",
        "calls",
        "tokens in",
        "tokens out",
        "seconds (median)",
    ]
    return common.table(header, rows)


def _forecast_row(made: list[FlushForecast]) -> list[str]:
    one = sorted(made, key=lambda forecast: forecast.milliseconds)[len(made) // 2]
    calls = f"{one.calls_low:,} to {one.calls_high:,}"
    counts = (one.input_tokens, one.output_tokens)
    figures = [
        f"{one.messages:,}",
        f"{one.batches:,}",
        calls,
        *(f"{count:,}" for count in counts),
    ]
    return [*figures, f"{one.milliseconds / 1_000:.2f}"]


def _row(data: DataSet, counter: TokenCounter) -> list[str]:
    """What people said in a data set, and its memories as answers: tokens, and their
    share.
    """
    sessions = [
        one for conversation in data.conversations for one in conversation.sessions
    ]
    said = sum(counter.count(text) for text in _by_people(sessions))
    records = [record for session in sessions for record in session.records]
    answered = sum(answer_tokens(record, counter) for record in records)
    figures = (said, len(records), answered)
    return [
        data.title,
        *(f"{figure:,}" for figure in figures),
        f"{answered / max(1, said):.2f}",
    ]


def _by_people(sessions: Iterable[Session]) -> Iterable[str]:
    for session in sessions:
        for message in session.messages:
            if message["role"] == "user" or message.get("name"):
                yield message["content"]


def answer_tokens(record: dict[str, Any], counter: TokenCounter) -> int:
    """Tokens of a published memory as a part of the model's answer, with the fields it
    would have.

    A memory of a whole session cites one message here, as a model would.
    """
    memory = NewMemory(text=record["text"][:400], attribute=ATTRIBUTE, sources=["m101"])
    fields = {"text", "kind", "subject", "attribute", "sources"}
    return counter.count(
        Extraction(memories=[memory]).memories[0].model_dump_json(include=fields)
    )


def _answers(rows: list[list[str]], *, exact: bool) -> str:
    header = ["", "tokens that people said", "memories", "tokens as answers", "share"]
    return (
        f"{common.table(header, rows)}\n\nTokens are "
        f"{'counted' if exact else 'estimated'}."
    )


if __name__ == "__main__":
    main()
