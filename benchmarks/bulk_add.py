"""Adding in bulk with the default embedder, beside that embedder alone on the same texts.

The two take turns block by block, so that both see the same state of the machine.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks import chatter, common
from langmem_graph import Memory
from langmem_graph.embeddings import MiniLMEmbeddings
from langmem_graph.user import UserMemory

CALL = 500
"""Messages per call of `add`."""
BATCH = 64
"""Texts per call of the embedder, as in `Settings.embed_batch`."""


def measure(count: int) -> str:
    """A table with both rates and their ratio.

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
    user: UserMemory, embeddings: MiniLMEmbeddings, blocks: Sequence[list[dict[str, Any]]]
) -> tuple[float, float]:
    """Seconds of the embedder alone and of adding; who goes first alternates."""
    alone = adding = 0.0
    with common.progress() as bar:
        for number, block in enumerate(bar.track(blocks, description="adding with MiniLM")):
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
    return common.table([f"{count:,} messages, {CALL} per call", "messages per second"], rows)
