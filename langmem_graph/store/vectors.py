"""Chroma: finds candidates among the vectors of one user and layer.

Chroma holds ids (the ledger's vector numbers) and vectors, no text and no metadata. It can always
be rebuilt from the ledger.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from langmem_graph.errors import IndexUnavailableError, InvalidInputError

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

MAX_BATCH = 5_461  # Chroma's own limit for one write
CHUNK_OF_IDS = 5_000


def connect(chroma: object) -> "ClientAPI":
    """A client for `Memory(chroma=...)`: a URL such as `http://localhost:8000`, or a client."""
    if not isinstance(chroma, str):
        return _as_client(chroma)
    import chromadb
    from chromadb.config import Settings

    url = urlsplit(chroma)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidInputError(f"chroma must be http://HOST:PORT or a client, not {chroma!r}.")
    with _explained(chroma):
        return chromadb.HttpClient(
            host=url.hostname,
            port=url.port or (443 if url.scheme == "https" else 8000),
            ssl=url.scheme == "https",
            settings=Settings(anonymized_telemetry=False),
        )


def _as_client(chroma: Any) -> "ClientAPI":
    if not hasattr(chroma, "get_or_create_collection"):
        raise InvalidInputError(f"chroma must be a URL or a Chroma client, not {chroma!r}.")
    client: ClientAPI = chroma
    return client


@contextmanager
def _explained(where: object) -> Iterator[None]:
    """Turn whatever Chroma raises (its own, httpx's, even AttributeError) into one error."""
    try:
        yield
    except (IndexUnavailableError, InvalidInputError):
        raise
    except Exception as error:
        raise IndexUnavailableError(
            f"Chroma ({where}) failed: {type(error).__name__}: {error}. The ledger is untouched; "
            "if the index is damaged, run: langmem-graph rebuild --user USER"
        ) from error


class VectorIndex:
    """The vectors of one collection; opened at first use.

    Args:
        name: the collection's name.
        directory: where Chroma keeps it (embedded mode), or
        client: a client of a server, shared and never closed here.
    """

    def __init__(
        self, name: str, *, directory: Path | None = None, client: "ClientAPI | None" = None
    ) -> None:
        self.name = name
        self._directory = directory
        self._client = client
        self._collection: Any = None

    @property
    def place(self) -> str:
        """The directory's name, or `server`."""
        return self._directory.name if self._directory else "server"

    @property
    def identity(self) -> str:
        """Tells this index from one in another place, so that a change of place is noticed."""
        return f"{self.place}:{self.name}"

    @property
    def embedded(self) -> bool:
        """True when Chroma runs in this process, in the user's folder."""
        return self._directory is not None

    def count(self) -> int:
        """How many vectors Chroma holds."""
        with _explained(self._where):
            return int(self._open().count())

    def upsert(self, ids: Sequence[int], matrix: NDArray[np.float32]) -> None:
        """Add vectors or replace them, in batches within Chroma's limit."""
        with _explained(self._where):
            collection = self._open()
            for start in range(0, len(ids), MAX_BATCH):
                some = slice(start, start + MAX_BATCH)
                collection.upsert(ids=[str(n) for n in ids[some]], embeddings=matrix[some])

    def query(self, vector: NDArray[np.float32], limit: int) -> list[int]:
        """The ids of the nearest vectors by cosine, nearest first."""
        with _explained(self._where):
            answer = self._open().query(
                query_embeddings=vector[None, :], n_results=limit, include=[]
            )
            return [int(found) for found in answer["ids"][0]]

    def delete(self, ids: Sequence[int]) -> None:
        """Remove vectors."""
        with _explained(self._where):
            for start in range(0, len(ids), CHUNK_OF_IDS):
                self._open().delete(ids=[str(n) for n in ids[start : start + CHUNK_OF_IDS]])

    def drop(self) -> None:
        """Delete the collection, if there is one."""
        from chromadb.errors import NotFoundError

        with _explained(self._where):
            self._open_client()
            try:
                self._require_client().delete_collection(self.name)
            except NotFoundError:  # there was none: nothing to delete
                return
            finally:
                self._collection = None

    def close(self) -> None:
        """Release an embedded Chroma's files."""
        self._collection = None
        if self._directory is not None and self._client is not None:
            self._client.close()  # type: ignore[attr-defined]  # on Client, not on ClientAPI
            self._client = None

    @property
    def _where(self) -> str:
        return str(self._directory or "server")

    def _open(self) -> Any:
        if self._collection is None:
            self._open_client()
            self._collection = self._require_client().get_or_create_collection(
                self.name,
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine"}},
            )
            self._check_space()
        return self._collection

    def _open_client(self) -> None:
        if self._client is None:
            import chromadb
            from chromadb.config import Settings

            self._client = chromadb.PersistentClient(
                str(self._directory), settings=Settings(anonymized_telemetry=False)
            )

    def _require_client(self) -> "ClientAPI":
        assert self._client is not None
        return self._client

    def _check_space(self) -> None:
        space = (self._collection.configuration_json.get("hnsw") or {}).get("space")
        if space != "cosine":  # Chroma keeps an existing collection's distance without a word
            self._collection = None
            raise IndexUnavailableError(
                f"Chroma's collection {self.name} measures {space!r}, not cosine. "
                "Run: langmem-graph rebuild --user USER"
            )
