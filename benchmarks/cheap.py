"""A deterministic embedder that costs next to nothing, for measuring everything else."""

from time import perf_counter
from zlib import crc32

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from benchmarks.chatter import Chat

SIZE = 384


class CheapEmbeddings(Embeddings):
    """Sums of word vectors; texts that share rare words, as those of one topic do, are close.

    Args:
        chat: its words get vectors, the rarer the longer; all others are left out.
    """

    model_name = "cheap-384"

    def __init__(self, chat: Chat) -> None:
        self.query_seconds = 0.0
        """Time spent on queries' vectors, to be taken off the time of searching."""
        self._places = {word: place for place, word in enumerate(chat.words)}
        random = np.random.default_rng(3)
        vectors = random.standard_normal((len(chat.words), SIZE)).astype(np.float32)
        self._vectors = vectors * np.sqrt(np.arange(1, len(chat.words) + 1))[:, None]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector per text."""
        return [self._vector(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of one text."""
        start = perf_counter()
        vector: list[float] = self._vector(text).tolist()
        self.query_seconds += perf_counter() - start
        return vector

    def _vector(self, text: str) -> NDArray[np.float32]:
        words = (word.strip(".,!?:").lower() for word in text.split())
        places = [self._places[word] for word in words if word in self._places]
        summed = self._vectors[places].sum(axis=0) + self._trace(text)
        return np.asarray(summed / np.linalg.norm(summed), dtype=np.float32)

    @staticmethod
    def _trace(text: str) -> NDArray[np.float32]:
        """A little of each text's own, so that no two are alike and none is empty."""
        trace = np.zeros(SIZE, dtype=np.float32)
        trace[crc32(text.encode()) % SIZE] = 10.0
        return trace
