"""The vector index in Chroma, embedded or on a server, with one collection per layer.

An embedded Chroma is guarded in two ways. When it is closed, the checksums of its files
are written down; a file that differs at the next opening is damaged. After each write,
unused space in its files is overwritten with zeros, since Chroma fills it with
fragments of the process's memory.
"""

import json
import os
import re
import struct
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from httpx import TimeoutException
from numpy.typing import NDArray
from pydantic import ValidationError

from langmem_graph.errors import (
    IndexUnavailableError,
    InvalidInputError,
    NotCopied,
    explain,
)
from langmem_graph.ids_and_times import is_unicode
from langmem_graph.server_urls import as_shown
from langmem_graph.threads import start_thread

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.config import Settings

SERVER_SECONDS = 30.0
REST_SECONDS = 60.0
"""So long a server that has not answered is left alone."""
MAX_BATCH = 5_461  # Chroma's own limit for one write
_SERVERS = "chroma must be http://HOST:PORT (or https://), or a client"
REBUILD = "langmem-graph rebuild --user USER"
"""How a user builds the index anew."""
CHECKSUM_FILE = "langmem-graph.seal"
_BLOCK = 1 << 20
# version, offset, capacity, vectors held, bytes of each
_HEADER = struct.Struct("<iQQQQ")
_VERSION = 1  # files of another version are left alone: their fields are unknown
_PAUSES = (0.05, 0.2, 0.5)  # seconds between two attempts to read from a server
_LENGTH_BYTES = 4  # one float for each vector


_HOST = re.compile(r"[\w.:%-]+")
"""The name or address of a server. What stands behind another sign, such as `;`, may
be a password.
"""


def check_chroma(chroma: object) -> None:
    """Refuse anything but None, a URL such as `http://localhost:8000`, or a client.

    Raises:
        InvalidInputError: it is something else. The error quotes nothing of it, since
            it may hold a password.
    """
    if chroma is None or hasattr(chroma, "get_or_create_collection"):
        return
    if not isinstance(chroma, str):
        raise InvalidInputError(f"{_SERVERS}, not a {type(chroma).__name__}.")
    try:
        url = urlsplit(chroma)
        is_host = _HOST.fullmatch(url.hostname or "") is not None
        is_server = url.scheme in ("http", "https") and is_host and url.port != 0
    except ValueError:  # its text quotes what was given
        is_server = False
    # A password's "/", "?" or "#" ends the host, and what follows counts as a path.
    if not is_server or "@" in unquote(f"{url.hostname}{url.path}{url[3]}{url[4]}"):
        raise InvalidInputError(
            f"{_SERVERS}; the port is a number from 1 to 65535, and a user or password "
            "is percent-encoded. This URL is not shown, as it may hold a password."
        )
    if not is_unicode(chroma):
        raise InvalidInputError(f"{_SERVERS}; this URL is no valid text.")


def connect(chroma: Any) -> "ClientAPI":
    """A Chroma client: the given one, or one for the given URL, with its user and
    password.

    Raises:
        IndexUnavailableError: the server cannot be reached.
    """
    if not isinstance(chroma, str):
        client: ClientAPI = chroma
        return client
    url = urlsplit(chroma)
    credentials = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    login = b64encode(credentials.encode()).decode()
    port = url.port or (443 if url.scheme == "https" else 8000)
    host = f"[{url.hostname}]" if ":" in f"{url.hostname}" else str(url.hostname)
    with _explained(f"{url.scheme}://{host}:{port}"):
        import chromadb

        opening = partial(
            chromadb.HttpClient,
            host=host,
            port=port,
            ssl=url.scheme == "https",
            headers={"Authorization": f"Basic {login}"}
            if url.username is not None
            else {},
            # named, as those of the environment may be another client's
            settings=_settings(chroma_server_host=host, chroma_server_http_port=port),
        )
        client = start_thread(opening).result(SERVER_SECONDS)
        client._server._session.timeout = SERVER_SECONDS  # type: ignore[attr-defined]  # no limit
        return client


def _settings(**given: Any) -> "Settings":
    """Chroma's settings: these, and for the others the environment's.

    A file `.env` of the working directory is not read: it may be another program's, and
    Chroma would run code that it names.
    """
    from chromadb.config import Settings

    return Settings(_env_file=None, anonymized_telemetry=False, **given)


@contextmanager
def _explained(where: object, remedy: str = REBUILD) -> Iterator[None]:
    """Turn any error that Chroma raises (its own, httpx's, even AttributeError) into
    ours.
    """
    try:
        yield
    except (IndexUnavailableError, InvalidInputError):
        raise
    except (ValidationError, UnicodeDecodeError) as error:
        # a setting's value may be a secret, which pydantic quotes
        why = explain(error) if isinstance(error, ValidationError) else str(error)
        raise IndexUnavailableError(
            f"Chroma ({where}) cannot read its settings: {why}. The ledger is "
            "whole. It takes them from the environment and, when it is imported, "
            "from the file .env of the working directory: correct them there, or "
            "start elsewhere."
        ) from None
    except Exception as error:  # noqa: BLE001  # of several libraries
        why, cause = as_shown(error)
        raise IndexUnavailableError(
            f"Chroma ({where}) failed: {why}. The ledger is whole. "
            f"Start the server, or, if the index is damaged, run: {remedy}"
        ) from cause


class ChromaServer:
    """A Chroma server, given as a URL or a client, which all rooms share.

    One that has not answered in time is left alone for a while: else every call would
    wait for it anew.
    """

    def __init__(self, chroma: "str | ClientAPI") -> None:
        self._chroma = chroma
        self._client: ClientAPI | None = None
        self._connecting = threading.Lock()
        self._rests_until = 0.0

    def client(self) -> "ClientAPI":
        """The server's client, created at its first use, since a server may start
        later.
        """
        with self._connecting:
            self._check_rest()
            if self._client is None:
                with self._noting_silence():
                    self._client = connect(self._chroma)
            return self._client

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Ask the server inside, unless it is left alone.

        Raises:
            IndexUnavailableError: it has not answered a short while ago.
        """
        self._check_rest()
        with self._noting_silence():
            yield

    def close(self) -> None:
        """Close the client, where it is not the application's own."""
        if self._client is not None and isinstance(self._chroma, str):
            self._client.close()  # type: ignore[attr-defined]  # on Client, not on ClientAPI

    def _check_rest(self) -> None:
        left = self._rests_until - time.monotonic()
        if left > 0:
            raise IndexUnavailableError(
                f"Chroma (server) did not answer within {SERVER_SECONDS:.0f} s and is "
                f"left alone for {left:.0f} s more. The ledger is whole, and what "
                "is due is done later. See whether the server still runs."
            )

    @contextmanager
    def _noting_silence(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            causes = (error, error.__cause__)
            if any(isinstance(one, TimeoutError | TimeoutException) for one in causes):
                self._rests_until = time.monotonic() + REST_SECONDS
            raise


class VectorIndex(NotCopied):
    """The vector index of one ledger; opened at first use, by one thread at a time.

    Args:
        name: ends the collections' names, which begin with the layer.
        directory: the directory of an embedded Chroma, or
        server: a server, which is shared and never closed here.
        remedy: how a user rebuilds a damaged index.
    """

    def __init__(
        self,
        name: str,
        *,
        directory: Path | None = None,
        server: ChromaServer | None = None,
        remedy: str = REBUILD,
    ) -> None:
        self.name = name
        self._remedy = remedy
        self._directory = directory
        self._server = server
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
        """A text that differs for an index in another place, so that a change is
        noticed.
        """
        # older ledgers hold it in this form
        return f"{self.place}:messages-{self.name}"

    @property
    def embedded(self) -> bool:
        """Whether Chroma runs in this process, with its files in the folder; else on a
        server.
        """
        return self._directory is not None

    def count(self, layer: str) -> int:
        """How many vectors of a layer Chroma holds."""
        return int(self._with_collection(layer, methodcaller("count")))

    def upsert(
        self, layer: str, ids: Sequence[int], matrix: NDArray[np.float32]
    ) -> None:
        """Add or replace vectors, in batches within Chroma's limit."""
        for start in range(0, len(ids), MAX_BATCH):
            some = slice(start, start + MAX_BATCH)
            batch = {"ids": [str(n) for n in ids[some]], "embeddings": matrix[some]}
            self._with_collection(layer, methodcaller("upsert", **batch), writes=True)

    def delete(self, layer: str, ids: Sequence[int]) -> None:
        """Delete vectors; unknown ids are ignored."""
        for start in range(0, len(ids), MAX_BATCH):
            batch = [str(n) for n in ids[start : start + MAX_BATCH]]
            self._with_collection(layer, methodcaller("delete", ids=batch), writes=True)

    def query(
        self,
        layer: str,
        vector: NDArray[np.float32],
        limit: int,
        connection: object = None,
    ) -> list[int]:
        """The ids of the nearest vectors by cosine, nearest first."""
        asked = {"query_embeddings": vector[None, :], "n_results": limit, "include": []}
        answer = self._with_collection(layer, methodcaller("query", **asked))
        return [int(number) for number in answer["ids"][0]]

    def drop(self) -> None:
        """Delete the collections of all layers, where they exist."""
        with _explained(self._where, self._remedy), self._asked(), self._opening:
            self._collections.clear()
            client = self._open_client()
            for collection in client.list_collections():
                if collection.name.endswith(f"-{self.name}"):
                    client.delete_collection(collection.name)

    def close(self) -> None:
        """Release the files of an embedded Chroma; a closed index cannot be
        used again.
        """
        self._closed = True
        if self._directory is None:
            return
        with self._opening, self._blanking:  # not while another thread writes
            self._collections.clear()
            if self._client is not None:
                self._client.close()  # type: ignore[attr-defined]  # on Client, not on ClientAPI
                write_checksums(self._directory)
            self._client = None

    @property
    def _where(self) -> str:
        return str(self._directory or "server")

    def _with_collection(
        self, layer: str, work: Callable[[Any], Any], *, writes: bool = False
    ) -> Any:
        """Do the work; repeat it where Chroma's error is one that passes.

        Another process may just have replaced the collection, and a server that writes
        a collection's first file answers reads with an internal error for a moment.
        """
        with _explained(self._where, self._remedy), self._asked():
            # an import may fail, too
            from chromadb.errors import InternalError, NotFoundError

            for pause in _PAUSES[:1] if self.embedded else _PAUSES:
                try:
                    return self._do(layer, work, writes)
                except NotFoundError:
                    with self._opening:
                        self._collections.pop(layer, None)
                except InternalError:
                    if writes or self.embedded:
                        raise
                    time.sleep(pause)
            return self._do(layer, work, writes)

    def _do(self, layer: str, work: Callable[[Any], Any], writes: bool) -> Any:
        """Do the work; alone, and blanking the files after it, if it may create or
        extend them.
        """
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
                collection: Any = self._open_client().get_or_create_collection(
                    f"{layer}-{self.name}",
                    embedding_function=None,
                    configuration={"hnsw": {"space": "cosine"}},
                )
                space = (collection.configuration_json.get("hnsw") or {}).get("space")
                # Chroma silently keeps an existing collection's distance
                if space != "cosine":
                    raise IndexUnavailableError(
                        f"Chroma's collection {collection.name} measures {space!r}, "
                        "not cosine. "
                        f"Run: {self._remedy}"
                    )
                self._collections[layer] = collection
            return self._collections[layer]

    def _open_client(self) -> "ClientAPI":
        if self._closed:
            raise IndexUnavailableError(
                f"The index {self.name} was closed or rebuilt meanwhile."
            )
        if self._client is None:
            server = self._server
            self._client = server.client() if server else self._start_embedded()
        return self._client

    def _asked(self) -> AbstractContextManager[None]:
        return self._server.asked() if self._server else nullcontext()

    def _start_embedded(self) -> "ClientAPI":
        import chromadb

        assert self._directory is not None
        remove_checksums(self._directory, self._remedy)
        return chromadb.PersistentClient(str(self._directory), settings=_settings())


def write_checksums(directory: Path) -> None:
    """Write down the checksums of all index files, which Chroma must have closed."""
    try:
        if directory.is_dir():
            (directory / CHECKSUM_FILE).write_text(
                json.dumps(_sums(directory)), encoding="utf-8"
            )
    except OSError:  # a full disk: without checksums the files are used unchecked
        (directory / CHECKSUM_FILE).unlink(missing_ok=True)


def remove_checksums(directory: Path, remedy: str = REBUILD) -> None:
    """Compare the index files with their checksums, and delete these, since Chroma
    writes now.

    Raises:
        IndexUnavailableError: a file has changed since it was closed; the checksums are
            kept.
    """
    try:
        expected = json.loads((directory / CHECKSUM_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except ValueError:  # the process was killed while it wrote them
        expected = None
    if expected is not None and expected != _sums(directory):
        raise IndexUnavailableError(
            f"The index files in {directory} are damaged. Run: {remedy}"
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
    """Overwrite the unused space behind the last vector in all index files of a
    directory.

    Nothing may write to the files meanwhile, since the number of vectors is read first.
    """
    for header in directory.glob("*/header.bin"):
        fields = header.read_bytes()[: _HEADER.size]
        if len(fields) < _HEADER.size:
            continue  # damaged; Chroma reports it on opening
        version, _, _, held, size = _HEADER.unpack(fields)
        if version == _VERSION:
            _blank_after(header.with_name("data_level0.bin"), held * size)
            _blank_after(header.with_name("length.bin"), held * _LENGTH_BYTES)


def _blank_after(file: Path, used: int) -> None:
    """Truncate the file and extend it to its former size, which fills the space with
    zeros.
    """
    size = file.stat().st_size if file.exists() else 0
    if size > used:
        os.truncate(file, used)
        os.truncate(file, size)
