"""Systems that are measured side by side: ours, its parts alone, and plain dense search."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from benchmarks.loaders import Session
from langmem_graph import Memory
from langmem_graph.config import RankingMethod
from langmem_graph.user import By


class System(Protocol):
    """What is measured: it is given sessions and finds ids of messages or of sessions."""

    name: str

    def add(self, session: Session) -> None:
        """Take in a session."""

    def search(self, query: str, k: int, by: By) -> list[str]:
        """The best `k` ids, best first."""

    def close(self) -> None:
        """Release everything."""


class SharedMemory:
    """One memory in a temporary directory that several rankings search; each session goes in once.

    Args:
        embeddings: as `Memory` takes it.
        with_records: also load the data set's own records, which cite the messages.
    """

    def __init__(self, embeddings: Embeddings | str, *, with_records: bool = False) -> None:
        self._with_records = with_records
        self._folder = TemporaryDirectory(prefix="langmem-graph-benchmark-")
        self._memory = Memory(Path(self._folder.name) / "memory", embeddings=embeddings)
        self.user = self._memory.user("benchmark")
        self.rejected = 0
        self._added: set[str] = set()
        self._closed = False

    def add(self, session: Session) -> None:
        """Store a session unless it is there."""
        if session.session_id in self._added:
            return
        self._added.add(session.session_id)
        done = self.user.add(session.messages, session_id=session.session_id)
        self.rejected += len(done.rejected)
        if self._with_records and session.records:
            self.rejected += len(self.user.add_records(session.records).rejected)

    def close(self) -> None:
        """Delete the memory; safe to call twice."""
        if not self._closed:
            self._closed = True
            self._memory.close()
            self._folder.cleanup()


class Ours:
    """The library with one of its rankings."""

    def __init__(self, name: str, ranking: RankingMethod, shared: SharedMemory) -> None:
        self.name = name
        self._ranking = ranking
        self._shared = shared

    def add(self, session: Session) -> None:
        """Store a session."""
        self._shared.add(session)

    def search(self, query: str, k: int, by: By) -> list[str]:
        """Ids of the hits."""
        hits = self._shared.user.search_conversation(query, k, by, ranking=self._ranking)
        return [hit.session_id if by == "session" else hit.message_id for hit in hits]

    def close(self) -> None:
        """Delete the memory."""
        self._shared.close()


class DenseText:
    """Cosine of the text alone, as peers embed it: no speaker, no pieces, no words."""

    name = "dense-text"

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._ids: list[tuple[str, str]] = []
        self._blocks: list[NDArray[np.float32]] = []

    def add(self, session: Session) -> None:
        """Embed a session."""
        spoken = [message for message in session.messages if message["content"].strip()]
        if not spoken:
            return
        vectors = self._embeddings.embed_documents([self._read(m["content"]) for m in spoken])
        self._blocks.append(np.asarray(vectors, dtype=np.float32))
        self._ids += [(session.session_id, message["id"]) for message in spoken]

    def _read(self, text: str) -> str:
        """What the embedder reads of a text: its first piece, whose vector may be cached by now."""
        split = getattr(self._embeddings, "split", None)
        return text[: split(text)[0][1]] if split else text

    def search(self, query: str, k: int, by: By) -> list[str]:
        """Ids in the order of cosine; a session stands where its best message does."""
        if not self._ids:
            return []
        vector = np.asarray(self._embeddings.embed_query(query), dtype=np.float32)
        order = np.argsort(-(np.concatenate(self._blocks) @ vector), kind="stable")
        ids = (self._ids[place][0 if by == "session" else 1] for place in order.tolist())
        return list(dict.fromkeys(ids))[:k]

    def close(self) -> None:
        """Nothing is held."""


def all_systems(embeddings: Embeddings) -> Sequence[System]:
    """Ours first; those on messages alone share one memory, since adding is what costs."""
    shared = SharedMemory(embeddings)
    return [
        Ours("ours", "hybrid", shared),
        Ours("ours+records", "hybrid", SharedMemory(embeddings, with_records=True)),
        Ours("rrf", "rrf", shared),
        Ours("dense", "dense", shared),
        Ours("bm25", "words", shared),
        DenseText(embeddings),
    ]
