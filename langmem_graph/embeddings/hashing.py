"""A deterministic embedder for tests: it knows words, not meaning. Ask for it by name."""

import hashlib
import re
from itertools import pairwise

import numpy as np
from langchain_core.embeddings import Embeddings


class HashEmbeddings(Embeddings):
    """Counts hashed words and word pairs; texts that share words are close, and nothing else is.

    Args:
        size: numbers per vector.
    """

    def __init__(self, size: int = 128) -> None:
        self.size = size
        self.model_name = f"hash-{size}"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of one text."""
        words = re.findall(r"\w+", text.lower()) or [""]
        vector = np.zeros(self.size)
        for feature in [*words, *map(" ".join, pairwise(words))]:
            digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest())
            vector[digest % self.size] += 1 if digest >> 63 else -1
        length = float(np.linalg.norm(vector))
        if length == 0:  # opposite words cancelled out
            vector[0] = length = 1.0
        return [float(number) for number in vector / length]
