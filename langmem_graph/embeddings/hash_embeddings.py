"""The embedder of tests, without what `testing.py` needs for its chat model."""

import hashlib
import itertools
import re

import numpy as np
from langchain_core.embeddings import Embeddings

from langmem_graph.embeddings.cosine_scale import PLAIN


class HashEmbeddings(Embeddings):
    """A deterministic embedder: a hashed bag of words and word pairs, for tests.

    Texts that share words are similar; meaning does not count. `Memory(path,
    embeddings="hash")` uses it.

    Args:
        size: numbers per vector.

    Examples:
        >>> from langmem_graph.testing import HashEmbeddings
        >>> embedder = HashEmbeddings(size=64)
        >>> len(embedder.embed_query("an aisle seat"))
        64
        >>> embedder.embed_query("A seat!") == embedder.embed_query("a seat")
        True
    """

    cosine_scale = PLAIN

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
        for feature in [*words, *map(" ".join, itertools.pairwise(words))]:
            digest = int.from_bytes(
                hashlib.blake2b(feature.encode(), digest_size=8).digest()
            )
            vector[digest % self.size] += 1 if digest >> 63 else -1
        length = float(np.linalg.norm(vector))
        if length == 0:  # opposite words cancelled out
            vector[0] = length = 1.0
        return [float(number) for number in vector / length]
