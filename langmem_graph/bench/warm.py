"""Fills the vector cache on all processors before a run, since a replay embeds little at a time."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from langmem_graph.bench.console import progress
from langmem_graph.bench.items import Conversation
from langmem_graph.bench.vector_cache import CachedEmbeddings
from langmem_graph.config import Settings
from langmem_graph.embeddings import MiniLMEmbeddings

_BATCH = 64


def warm(conversations: Sequence[Conversation], embeddings: CachedEmbeddings, threads: int) -> None:
    """Embed what the systems will ask for; what this leaves out they embed themselves.

    Args:
        conversations: whose messages and questions.
        embeddings: gets the vectors.
        threads: one-threaded embedders at work; faster than one embedder with as many threads.
    """
    splitter = MiniLMEmbeddings(1)
    texts = {part for text in _texts(conversations) for part in _pieces(splitter, text)}
    new = sorted(embeddings.missing(texts), key=len)  # texts of one length need no padding
    batches = [new[start : start + _BATCH] for start in range(0, len(new), _BATCH)]
    with ThreadPoolExecutor(threads) as pool, progress() as bar:
        made = pool.map(MiniLMEmbeddings(1).embed_documents, batches)
        shown = bar.track(made, len(batches), description="embedding")
        for batch, vectors in zip(batches, shown, strict=True):
            embeddings.keep(batch, vectors)


def _texts(conversations: Sequence[Conversation]) -> Iterator[str]:
    """As the library embeds messages (with the speaker) and as peers do (without), and queries."""
    for conversation in conversations:
        yield from (question.text for question in conversation.questions)
        for session in conversation.sessions:
            for message in session.messages:
                yield message["content"]
                if message.get("name"):
                    yield f"{message['name']}: {message['content']}"


def _pieces(splitter: MiniLMEmbeddings, text: str) -> list[str]:
    spans = splitter.split(text)[: Settings().max_pieces]
    return [text[start:end] for start, end in spans]
