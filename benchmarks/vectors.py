"""An embedder that keeps its vectors in a file, and filling that file before a run."""

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from benchmarks.common import progress
from benchmarks.data.items import Conversation
from langmem_graph.embeddings.embedder import NAME_FIELDS, Embedder
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.settings import Settings
from langmem_graph.testing import HashEmbeddings

_KEPT = (*NAME_FIELDS, "split")  # what the library asks an embedder for, beside vectors
_ALIKE = (MiniLMEmbeddings, HashEmbeddings)
"""Embed a query as they embed a text, so that one vector serves both."""
_CHUNK = 500
_BATCH = 64


class CachedEmbeddings(Embeddings):
    """Made by `cached`, which gives it the name of the class it wraps.

    Args:
        inner: makes the vectors that are not in the file.
        file: an SQLite file; made when missing.
    """

    def __init__(self, inner: Embeddings, file: Path) -> None:
        self._inner = inner
        for name in _KEPT:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self._prefix = f"{Embedder(inner).name}\0"
        file.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, check_same_thread=False)
        # a lost cache is only made again
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS vectors(key BLOB PRIMARY KEY, v BLOB)"
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, from the file where it is there."""
        keys = [self._key(text) for text in texts]
        known = self._read(keys)
        new = {
            key: text for key, text in zip(keys, texts, strict=True) if key not in known
        }
        if new:
            made = self._inner.embed_documents(list(new.values()))
            known |= self._write(dict(zip(new, made, strict=True)))
        return [_vector(known[key]) for key in keys]

    def embed_query(self, text: str) -> list[float]:
        """The vector of one query."""
        if isinstance(self._inner, _ALIKE):
            return self.embed_documents([text])[0]
        key = self._key(f"query\0{text}")
        known = self._read([key]) or self._write({key: self._inner.embed_query(text)})
        return _vector(known[key])

    def missing(self, texts: Iterable[str]) -> list[str]:
        """The texts that are not in the file."""
        keys = {self._key(text): text for text in texts}
        known = self._read(list(keys))
        return [text for key, text in keys.items() if key not in known]

    def keep(self, texts: Sequence[str], vectors: Sequence[list[float]]) -> None:
        """Put vectors made elsewhere, by an embedder like the wrapped one, into the
        file.
        """
        self._write(
            {self._key(text): v for text, v in zip(texts, vectors, strict=True)}
        )

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _key(self, text: str) -> bytes:
        return hashlib.sha256((self._prefix + text).encode()).digest()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), _CHUNK):
            some = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, v FROM vectors WHERE key IN ({marks})"
            with self._lock:
                found.update(self._database.execute(query, some))
        return found

    def _write(self, made: dict[bytes, list[float]]) -> dict[bytes, bytes]:
        rows = {
            key: np.asarray(vector, np.float32).tobytes()
            for key, vector in made.items()
        }
        with self._lock, self._database:
            self._database.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows.items()
            )
        return rows


def _vector(kept: bytes) -> list[float]:
    vector: list[float] = np.frombuffer(kept, dtype=np.float32).tolist()
    return vector


def cached(inner: Embeddings, file: Path) -> CachedEmbeddings:
    """Wrap an embedder; the wrapper bears its class's name, so the library sees no
    difference.
    """
    kind = type(type(inner).__name__, (CachedEmbeddings,), {})
    made: CachedEmbeddings = kind(inner, file)
    return made


def warm(
    conversations: Sequence[Conversation], embeddings: CachedEmbeddings, threads: int
) -> None:
    """Embed on all processors what the systems will ask for; a replay embeds little at
    a time.

    What this leaves out the systems embed themselves.

    Args:
        conversations: whose messages and questions.
        embeddings: gets the vectors.
        threads: one-threaded embedders at work; faster than one embedder with as many
            threads.
    """
    splitter = MiniLMEmbeddings(1)
    texts = {part for text in _texts(conversations) for part in _pieces(splitter, text)}
    # texts of one length need no padding
    new = sorted(embeddings.missing(texts), key=len)
    batches = [new[start : start + _BATCH] for start in range(0, len(new), _BATCH)]
    with ThreadPoolExecutor(threads) as pool, progress() as bar:
        made = pool.map(MiniLMEmbeddings(1).embed_documents, batches)
        shown = bar.track(made, len(batches), description="embedding")
        for batch, vectors in zip(batches, shown, strict=True):
            embeddings.keep(batch, vectors)


def _texts(conversations: Sequence[Conversation]) -> Iterator[str]:
    """As the library embeds messages (with the speaker) and as peers do (without), and
    queries.
    """
    for conversation in conversations:
        yield from (question.text for question in conversation.questions)
        for session in conversation.sessions:
            for message in session.messages:
                yield message["content"]
                if message.get("name"):
                    yield f"{message['name']}: {message['content']}"


def _pieces(splitter: MiniLMEmbeddings, text: str) -> list[str]:
    spans = splitter.split(text)[: Settings().storage.max_pieces]
    return [text[start:end] for start, end in spans]
