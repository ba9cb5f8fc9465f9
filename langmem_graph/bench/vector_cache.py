"""An embedder that remembers its vectors in a file, so that a second run need not embed."""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from langmem_graph.embeddings import HashEmbeddings, MiniLMEmbeddings
from langmem_graph.embeddings._embedder import NAME_FIELDS, Embedder

_KEPT = (*NAME_FIELDS, "split")  # what the library asks an embedder for, beside vectors
_ALIKE = (MiniLMEmbeddings, HashEmbeddings)
"""Embed a query as they embed a text, so that one vector serves both."""
_CHUNK = 500


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
        self._database = sqlite3.connect(file, check_same_thread=False)
        self._database.execute("PRAGMA synchronous = OFF")  # a lost cache is only made again
        self._database.execute("CREATE TABLE IF NOT EXISTS vectors(key BLOB PRIMARY KEY, v BLOB)")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, from the file where it is there."""
        keys = [self._key(text) for text in texts]
        known = self._read(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
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
        """Put vectors made elsewhere, by an embedder like the wrapped one, into the file."""
        self._write({self._key(text): v for text, v in zip(texts, vectors, strict=True)})

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
            found.update(
                self._database.execute(
                    f"SELECT key, v FROM vectors WHERE key IN ({marks})",  # noqa: S608  # marks
                    some,
                )
            )
        return found

    def _write(self, made: dict[bytes, list[float]]) -> dict[bytes, bytes]:
        rows = {key: np.asarray(vector, np.float32).tobytes() for key, vector in made.items()}
        with self._database:
            self._database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows.items())
        return rows


def _vector(kept: bytes) -> list[float]:
    vector: list[float] = np.frombuffer(kept, dtype=np.float32).tolist()
    return vector


def cached(inner: Embeddings, file: Path) -> CachedEmbeddings:
    """Wrap an embedder; the wrapper bears its class's name, so the library sees no difference."""
    kind = type(type(inner).__name__, (CachedEmbeddings,), {})
    made: CachedEmbeddings = kind(inner, file)
    return made
