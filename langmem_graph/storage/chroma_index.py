"""Chroma: finds candidates among the vectors of one user, a collection per layer.

Chroma holds ids (the ledger's vector numbers) and vectors, no text and no metadata. It can always
be rebuilt from the ledger.
"""

import json
import os
import struct
import threading
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from langmem_graph.errors import IndexUnavailableError, InvalidInputError

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

MAX_BATCH = 5_461  # Chroma's own limit for one write

CHECKSUM_FILE = "langmem-graph.seal"
_BLOCK = 1 << 20

_HEADER = struct.Struct("<iQQQQ")  # version, offset, room for, vectors held, bytes of one
_VERSION = 1  # of a format with other fields nothing is touched
_LENGTH_BYTES = 4  # one float a vector


def check_chroma(chroma: object) -> None:
    """Raise unless it is None, a URL such as `http://localhost:8000`, or a Chroma client."""
    if chroma is None or hasattr(chroma, "get_or_create_collection"):
        return
    url = urlsplit(chroma) if isinstance(chroma, str) else None
    if url is None or url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidInputError(f"chroma must be http://HOST:PORT or a client, not {chroma!r}.")


def connect(chroma: Any) -> "ClientAPI":
    """The client that was given, or one for the URL that was given, with its name and password."""
    if not isinstance(chroma, str):
        client: ClientAPI = chroma
        return client
    import chromadb
    from chromadb.config import Settings

    url = urlsplit(chroma)
    port = url.port or (443 if url.scheme == "https" else 8000)
    with _explained(f"{url.scheme}://{url.hostname}:{port}"):
        return chromadb.HttpClient(
            host=str(url.hostname),
            port=port,
            ssl=url.scheme == "https",
            headers=_authorization(url),
            settings=Settings(anonymized_telemetry=False),
        )


def _authorization(url: SplitResult) -> dict[str, str]:
    if url.username is None:
        return {}
    said = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"Authorization": f"Basic {b64encode(said.encode()).decode()}"}


_REMEDY = "langmem-graph rebuild --user USER"


@contextmanager
def _explained(where: object, remedy: str = _REMEDY) -> Iterator[None]:
    """Turn whatever Chroma raises (its own, httpx's, even AttributeError) into one error."""
    try:
        yield
    except (IndexUnavailableError, InvalidInputError):
        raise
    except Exception as error:
        raise IndexUnavailableError(
            f"Chroma ({where}) failed: {type(error).__name__}: {error}. The ledger is untouched. "
            f"Start the server, or, if the index is damaged, run: {remedy}"
        ) from error


class VectorIndex:
    """The vectors of one user; opened at first use, by one thread at a time.

    Args:
        name: the end of the collections' names, which begin with the layer.
        directory: where Chroma keeps it (embedded mode), or
        connect: gives the client of a server, which is shared and never closed here.
        remedy: what to run when the index is damaged.
    """

    def __init__(
        self,
        name: str,
        *,
        directory: Path | None = None,
        connect: "Callable[[], ClientAPI] | None" = None,
        remedy: str = _REMEDY,
    ) -> None:
        self.name = name
        self._remedy = remedy
        self._directory = directory
        self._connect = connect or self._start_embedded
        self._client: ClientAPI | None = None
        self._collections: dict[str, Any] = {}
        self._opening = threading.RLock()
        self._blanking = threading.RLock()
        self._blanked: set[str] = set()
        self._closed = False

    @property
    def place(self) -> str:
        """The directory's name, or `server`."""
        return self._directory.name if self._directory else "server"

    @property
    def identity(self) -> str:
        """Tells this index from one in another place, so that a change of place is noticed."""
        return f"{self.place}:messages-{self.name}"  # as the first version wrote it

    @property
    def embedded(self) -> bool:
        """True when Chroma runs in this process, in the user's folder."""
        return self._directory is not None

    def count(self, layer: str) -> int:
        """How many vectors of the layer Chroma holds."""
        return int(self._with_collection(layer, methodcaller("count")))

    def upsert(self, layer: str, ids: Sequence[int], matrix: NDArray[np.float32]) -> None:
        """Add vectors or replace them, in batches within Chroma's limit."""
        for start in range(0, len(ids), MAX_BATCH):
            some = slice(start, start + MAX_BATCH)
            batch = {"ids": [str(n) for n in ids[some]], "embeddings": matrix[some]}
            self._with_collection(layer, methodcaller("upsert", **batch), writes=True)

    def delete(self, layer: str, ids: Sequence[int]) -> None:
        """Take vectors out; unknown ids are no error."""
        for start in range(0, len(ids), MAX_BATCH):
            batch = [str(n) for n in ids[start : start + MAX_BATCH]]
            self._with_collection(layer, methodcaller("delete", ids=batch), writes=True)

    def query(self, layer: str, vector: NDArray[np.float32], limit: int) -> list[int]:
        """The ids of the nearest vectors by cosine, nearest first."""
        asked = {"query_embeddings": vector[None, :], "n_results": limit, "include": []}
        answer = self._with_collection(layer, methodcaller("query", **asked))
        return [int(found) for found in answer["ids"][0]]

    def drop(self) -> None:
        """Delete the collections of all layers, where they exist."""
        with _explained(self._where, self._remedy), self._opening:
            self._collections.clear()
            client = self._open_client()
            for collection in client.list_collections():
                if collection.name.endswith(f"-{self.name}"):
                    client.delete_collection(collection.name)

    def close(self) -> None:
        """Release an embedded Chroma's files; a closed index cannot be used again."""
        with self._opening:
            self._closed = True
            self._collections.clear()
            if self._directory is not None and self._client is not None:
                self._client.close()  # type: ignore[attr-defined]  # on Client, not on ClientAPI
                write_checksums(self._directory)
            self._client = None

    @property
    def _where(self) -> str:
        return str(self._directory or "server")

    def _with_collection(
        self, layer: str, work: Callable[[Any], Any], *, writes: bool = False
    ) -> Any:
        """Do it; once more if another process dropped and made the collection anew meanwhile."""
        from chromadb.errors import NotFoundError

        with _explained(self._where, self._remedy):
            try:
                return self._blanked_after(layer, work, writes)
            except NotFoundError:
                with self._opening:
                    self._collections.pop(layer, None)
                return self._blanked_after(layer, work, writes)

    def _blanked_after(self, layer: str, work: Callable[[Any], Any], writes: bool) -> Any:
        """Do it; what may make Chroma's files, any write and the first call, is done alone."""
        collection = self._open(layer)
        if self._directory is None or (layer in self._blanked and not writes):
            return work(collection)
        with self._blanking:
            try:
                return work(collection)
            finally:
                blank_unused(self._directory)
                self._blanked.add(layer)

    def _open(self, layer: str) -> Any:
        with self._opening:
            if layer not in self._collections:
                self._collections[layer] = self._checked(
                    self._open_client().get_or_create_collection(
                        f"{layer}-{self.name}",
                        embedding_function=None,
                        configuration={"hnsw": {"space": "cosine"}},
                    )
                )
            return self._collections[layer]

    def _open_client(self) -> "ClientAPI":
        if self._closed:
            raise IndexUnavailableError(f"The index {self.name} was closed or rebuilt meanwhile.")
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _start_embedded(self) -> "ClientAPI":
        import chromadb
        from chromadb.config import Settings

        assert self._directory is not None
        remove_checksums(self._directory)
        quiet = Settings(anonymized_telemetry=False)
        return chromadb.PersistentClient(str(self._directory), settings=quiet)

    def _checked(self, collection: Any) -> Any:
        space = (collection.configuration_json.get("hnsw") or {}).get("space")
        if space != "cosine":  # Chroma keeps an existing collection's distance without a word
            raise IndexUnavailableError(
                f"Chroma's collection {collection.name} measures {space!r}, not cosine. "
                f"Run: {self._remedy}"
            )
        return collection


def write_checksums(directory: Path) -> None:
    """Note every index file; called when Chroma has let go of them."""
    if directory.is_dir():
        try:
            (directory / CHECKSUM_FILE).write_text(json.dumps(_sums(directory)), encoding="utf-8")
        except OSError:  # a full disk: without a seal the files are taken as they are
            (directory / CHECKSUM_FILE).unlink(missing_ok=True)


def remove_checksums(directory: Path) -> None:
    """Take the seal away, since Chroma will change the files.

    Raises:
        IndexUnavailableError: a file is not what it was; the seal stays.
    """
    try:
        sealed = json.loads((directory / CHECKSUM_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except ValueError:  # written by half
        sealed = None
    if sealed is not None and sealed != _sums(directory):
        raise IndexUnavailableError(
            f"The index files in {directory} are damaged. Run: langmem-graph rebuild --user USER"
        )
    (directory / CHECKSUM_FILE).unlink(missing_ok=True)


def _sums(directory: Path) -> dict[str, int]:
    files = sorted(file for file in directory.glob("*/*") if file.is_file())
    return {str(file.relative_to(directory)): _sum(file) for file in files}


def _sum(file: Path) -> int:
    total = 0
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total


def blank_unused(directory: Path) -> None:
    """Blank what lies behind the last vector in every index below a Chroma directory.

    Nobody may write there meanwhile: the number of vectors is read first.
    """
    for header in directory.glob("*/header.bin"):
        fields = header.read_bytes()[: _HEADER.size]
        if len(fields) < _HEADER.size:
            continue  # damaged; Chroma will say so
        version, _, _, held, size = _HEADER.unpack(fields)
        if version == _VERSION:
            _blank_behind(header.with_name("data_level0.bin"), held * size)
            _blank_behind(header.with_name("length.bin"), held * _LENGTH_BYTES)


def _blank_behind(file: Path, used: int) -> None:
    """Cut the file and give it its size again: what comes back is zeros."""
    size = file.stat().st_size if file.exists() else 0
    if size > used:
        os.truncate(file, used)
        os.truncate(file, size)
