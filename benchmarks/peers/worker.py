"""Runs one peer in its own virtual environment; started by process.py.

Usage: `python worker.py JOB_FOLDER SYSTEM`. Reads `job.json` and `vectors.npz`, writes
`SYSTEM.json`. Imports nothing of langmem_graph, which is not installed there.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

os.environ["MEM0_TELEMETRY"] = "False"  # before mem0 is imported
os.environ["ANONYMIZED_TELEMETRY"] = "False"

import numpy as np
from langchain_core.embeddings import Embeddings

USER = "benchmark"
BATCH = 1_000
WARM_UP = 1


class StoredVectors(Embeddings):
    """Looks the vectors of known texts up, so that no peer's time contains
    embedding.
    """

    def __init__(self, file: Path) -> None:
        stored = np.load(file, allow_pickle=False)
        texts = json.loads(str(stored["texts"]))
        # mem0 strips queries
        self._places = {text.strip(): n for n, text in enumerate(texts)}
        self._matrix = stored["matrix"]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The stored vectors of these texts."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The stored vector of this text."""
        vector: list[float] = self._matrix[self._places[text.strip()]].tolist()
        return vector


class Peer(Protocol):
    """What is measured here."""

    def add(self, messages: list[dict[str, Any]]) -> None:
        """Take in messages the way the peer's users do."""

    def add_bulk(self, messages: list[dict[str, Any]]) -> None:
        """The same contents by the fastest way there is, to fill a large memory."""

    def search(self, query: str, k: int) -> list[str]:
        """Ids of messages, best first."""


class LangMemStore:
    """LangGraph's in-memory store with an index, which LangMem's search tool asks."""

    def __init__(self, vectors: StoredVectors, folder: Path) -> None:
        del folder  # it keeps nothing on disk
        from langgraph.store.memory import InMemoryStore

        self._store = InMemoryStore(
            index={"dims": 384, "embed": vectors, "fields": ["content"]}
        )

    def add(self, messages: list[dict[str, Any]]) -> None:
        """As LangMem's tool puts a memory: `{"content": text}`."""
        self.add_bulk(messages)

    def add_bulk(self, messages: list[dict[str, Any]]) -> None:
        """In batches."""
        from langgraph.store.base import PutOp

        space = ("memories", USER)
        for some in _batches(messages):
            self._store.batch(
                [PutOp(space, m["id"], {"content": m["content"]}) for m in some]
            )

    def search(self, query: str, k: int) -> list[str]:
        """As LangMem's tool searches."""
        return [
            item.key
            for item in self._store.search(("memories", USER), query=query, limit=k)
        ]


class Mem0:
    """mem0's `Memory` with raw adding (`infer=False`), on one of its vector stores.

    Args:
        store: `chroma` or `qdrant`.
        read: asks for this many and keeps the first `k`; mem0 reads four times as many
            candidates.
        words: give mem0's Qdrant store its BM25 encoder, with stop words of our own.
    """

    def __init__(
        self,
        vectors: StoredVectors,
        folder: Path,
        store: str,
        read: int = 0,
        words: bool = False,
    ) -> None:
        os.environ["MEM0_DIR"] = str(folder / "mem0")
        from mem0 import Memory

        self._read, self._vectors = read, vectors
        self._memory = Memory.from_config(_mem0_config(vectors, folder, store))
        if words:
            self._memory.vector_store._bm25_encoder = _bm25_encoder(folder / "bm25")

    def add(self, messages: list[dict[str, Any]]) -> None:
        """Message by message, as `add` does it anyway."""
        for message in messages:
            spoken = [
                {
                    key: message[key]
                    for key in ("role", "content", "name")
                    if key in message
                }
            ]
            metadata = {"message_id": message["id"]}
            self._memory.add(spoken, user_id=USER, infer=False, metadata=metadata)

    def add_bulk(self, messages: list[dict[str, Any]]) -> None:
        """The payloads that `add` writes, given to mem0's vector store in batches."""
        import uuid

        for some in _batches(messages):
            self._memory.vector_store.insert(
                vectors=self._vectors.embed_documents([m["content"] for m in some]),
                payloads=[_mem0_payload(message) for message in some],
                ids=[str(uuid.uuid4()) for _ in some],
            )

    def search(self, query: str, k: int) -> list[str]:
        """As its users search."""
        found = self._memory.search(
            query, top_k=self._read or k, filters={"user_id": USER}
        )
        return [hit["metadata"]["message_id"] for hit in found["results"]][:k]


def _mem0_config(vectors: StoredVectors, folder: Path, store: str) -> dict[str, Any]:
    where: dict[str, Any] = {"collection_name": "peer", "path": str(folder / store)}
    if store == "qdrant":
        where |= {"embedding_model_dims": 384, "on_disk": True}
    return {
        "vector_store": {"provider": store, "config": where},
        "embedder": {"provider": "langchain", "config": {"model": vectors}},
        "llm": {"provider": "openai", "config": {"api_key": "unused"}},  # never called
        "history_db_path": str(folder / "history.db"),
    }


def _mem0_payload(message: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {
        "message_id": message["id"],
        "user_id": USER,
        "role": "user",
        "actor_id": message.get("name", USER),
        "data": message["content"],
        "text_lemmatized": message["content"],
        "created_at": now,
        "updated_at": now,
    }


def _bm25_encoder(folder: Path) -> Any:
    """BM25 of fastembed with a stop word file of ours, since its own is fetched from
    the hub.
    """
    from fastembed import SparseTextEmbedding

    words = (
        "a an and are as at be by for from has he in is it of on that the to was "
        "were will with"
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "english.txt").write_text("\n".join(words.split()), encoding="utf-8")
    return SparseTextEmbedding("Qdrant/bm25", specific_model_path=str(folder))


PEERS: dict[str, Callable[[StoredVectors, Path], Peer]] = {
    "langmem": LangMemStore,
    "mem0-chroma": lambda vectors, folder: Mem0(vectors, folder, "chroma"),
    "mem0-qdrant": lambda vectors, folder: Mem0(vectors, folder, "qdrant", words=True),
    "mem0-qdrant-50": lambda vectors, folder: Mem0(
        vectors, folder, "qdrant", 50, words=True
    ),
}


def _batches(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(messages), BATCH):
        yield messages[start : start + BATCH]


def _found(
    job: dict[str, Any], system: str, vectors: StoredVectors, folder: Path
) -> list[Any]:
    """Per conversation, per question: the ids found."""
    answers = []
    for number, conversation in enumerate(job["conversations"]):
        peer = PEERS[system](vectors, folder / f"{system}-{number}")
        peer.add(conversation["messages"])
        answers.append(
            [peer.search(text, job["k"]) for text in conversation["questions"]]
        )
    return answers


def _times(
    job: dict[str, Any], system: str, vectors: StoredVectors, folder: Path
) -> dict[str, list[float]]:
    """Per size: the milliseconds of each search."""
    peer, times, before = PEERS[system](vectors, folder / f"{system}-speed"), {}, 0
    for size in job["sizes"]:
        peer.add_bulk(job["messages"][before:size])
        before = size
        for query in job["queries"][:WARM_UP]:
            peer.search(query, job["k"])
        times[str(size)] = [
            _milliseconds(peer, query, job["k"]) for query in job["queries"]
        ]
    return times


def _milliseconds(peer: Peer, query: str, k: int) -> float:
    start = perf_counter()
    peer.search(query, k)
    return (perf_counter() - start) * 1_000


def main(folder: Path, system: str) -> None:
    """One peer, both parts."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    vectors = StoredVectors(folder / "vectors.npz")
    part = _times if "sizes" in job else _found
    result = part(job, system, vectors, folder)
    (folder / f"{system}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
