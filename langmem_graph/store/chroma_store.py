"""`ChromaStore`: LangGraph's `BaseStore` on a SQLite ledger and a Chroma index."""

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    Result,
    SearchOp,
    ensure_embeddings,
)
from sqlalchemy import Connection

from langmem_graph.async_methods import Closing
from langmem_graph.embeddings.embedder import Embedder, Vectors, load_embedder
from langmem_graph.errors import (
    ClosedMemoryError,
    EmbedderMismatchError,
    EmbeddingError,
    InvalidInputError,
    for_log,
)
from langmem_graph.settings import Settings
from langmem_graph.storage.directory_and_lock import MemoryDirectory
from langmem_graph.store import item_tables, items
from langmem_graph.store.item_embedding import DueWork
from langmem_graph.store.item_search import Search, Vector
from langmem_graph.store.item_tables import TEXT_WORDS
from langmem_graph.store.operations import Batch, check_batch, check_paths
from langmem_graph.store.shared_folder import SharedFolder

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings

_log = logging.getLogger(__name__)


class _Sized(Embedder):
    """An embedder that checks its vectors for the size given as `index["dims"]`."""

    def __init__(self, embedder: Embedder, size: int) -> None:
        super().__init__(embedder._embeddings)
        self._size = size

    def _checked(self, answer: object, expected: int) -> Vectors:
        vectors = super()._checked(answer, expected)
        if vectors.shape[1] != self._size:
            raise EmbeddingError(
                f"{self.name} returned {vectors.shape[1]} numbers per text; index['dims'] says "
                f"{self._size}. Correct or leave out dims."
            )
        return vectors


def embedder_of(embeddings: "Embeddings | str | None", index: IndexConfig | None) -> Embedder:
    """The embedder that `embeddings` or `index["embed"]` names; MiniLM if neither does.

    Raises:
        InvalidInputError: both name one, or the one named cannot be used.
    """
    named = (index or {}).get("embed")
    if named is not None and embeddings is not None:
        raise InvalidInputError("Give the embedder once: as embeddings or as index['embed'].")
    embedder = load_embedder(_as_embeddings(named) if embeddings is None else embeddings)
    size = (index or {}).get("dims")
    return embedder if size is None else _Sized(embedder, size)


def _as_embeddings(named: Any) -> "Embeddings | str | None":
    if named is None or isinstance(named, str):
        return named
    wrapped = ensure_embeddings(named)
    if hasattr(wrapped, "afunc") and not hasattr(wrapped, "func"):
        raise InvalidInputError(
            "index['embed'] is an async function; the store embeds in worker threads. Give a "
            "synchronous function or a LangChain Embeddings object."
        )
    return wrapped


class ChromaStore(Closing, BaseStore):
    """A LangGraph store that keeps items in SQLite and searches them by meaning and by words.

    Example:
        ```python
        with ChromaStore("./memory") as store:
            graph = builder.compile(store=store)
            store.put(("users", "alice"), "diet", {"text": "Alice eats no nuts."})
            store.search(("users", "alice"), query="What must she not eat?")
        ```

    Args:
        path: the directory, created if missing. A `Memory` of this process may use the same one.
        chroma: None keeps the vectors in the directory. A URL such as `http://localhost:8000`, or
            a Chroma client, uses that server; then several processes may share the directory.
        embeddings: None is MiniLM on this machine (English). A LangChain `Embeddings` object, or a
            name that `init_embeddings` takes, uses that one.
        index: LangGraph's index configuration: `fields` are the paths that are indexed (default
            `["$"]`, the whole value), `embed` may stand in for `embeddings`, `dims` is checked.
        settings: depths, batch sizes and ranking, see `Settings`.

    Raises:
        MemoryLockedError: another process writes to this directory.
        StorageError: the directory cannot be used.
        InvalidInputError: an argument cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        chroma: "str | ClientAPI | None" = None,
        embeddings: "Embeddings | str | None" = None,
        index: IndexConfig | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings or Settings()
        self._fields = check_paths((index or {}).get("fields") or ["$"])
        self._embedder = embedder_of(embeddings, index)
        self._closed = False
        place = Path(path).expanduser()
        self._directory = MemoryDirectory.open(
            place, self._settings, chroma=chroma, read_only=False
        )
        try:
            self._folder = SharedFolder.enter(self._directory, self._settings)
        except BaseException:
            self._directory.release()
            raise
        self._work = DueWork(self._folder, self._embedder, self._settings)
        try:
            self._work.do_all()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_environment(cls) -> Self:
        """Open the store that the environment names; for `store.path` in a langgraph.json.

        `LANGMEM_GRAPH_DIR` is the directory (default `./memory`), `LANGMEM_GRAPH_CHROMA` the URL of
        a Chroma server, `LANGMEM_GRAPH_EMBEDDINGS` the embedder's name.
        """
        return cls(
            os.environ.get("LANGMEM_GRAPH_DIR") or "memory",
            chroma=os.environ.get("LANGMEM_GRAPH_CHROMA") or None,
            embeddings=os.environ.get("LANGMEM_GRAPH_EMBEDDINGS") or None,
        )

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations together: reads see the state before the batch, then all puts commit.

        Raises:
            InvalidInputError: one of them cannot be done; then none of them was.
        """
        batch = check_batch(ops, self._fields)
        results: list[Result] = [None] * batch.size
        with self._inside():
            self._read(batch, results)
            if batch.puts:
                with self._folder.database.write_transaction() as connection:
                    due = items.write(connection, batch.puts.values())
                self._work.after_put(due)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async twin of `batch`, in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    @contextmanager
    def _inside(self) -> Iterator[None]:
        if self._closed:
            raise ClosedMemoryError("This store is closed. Open it again: ChromaStore(path).")
        with self._folder.inside():
            yield

    def _read(self, batch: Batch, results: list[Result]) -> None:
        if not batch.reads:
            return
        asked = (op.query for op in batch.reads.values() if isinstance(op, SearchOp) and op.query)
        vectors = {query: self._query_vector(query) for query in dict.fromkeys(asked)}
        with self._folder.database.read_transaction() as connection:
            for place, op in batch.reads.items():
                results[place] = self._answer(connection, op, vectors)

    def _answer(
        self,
        connection: Connection,
        op: GetOp | SearchOp | ListNamespacesOp,
        vectors: dict[str, Vector | None],
    ) -> Any:
        if isinstance(op, GetOp):
            return items.get(connection, op)
        if isinstance(op, ListNamespacesOp):
            return items.list_namespaces(connection, op)
        if not op.query:
            return items.newest(connection, op)
        return Search(self._folder, self._settings, op, vectors[op.query]).run(connection)

    def _query_vector(self, query: str) -> Vector | None:
        """The query's vector; None if the embedder fails, and the search goes by words alone."""
        try:
            self._folder.check_embedder(self._embedder.name)
            vector = self._embedder.embed_query(query)
            self._folder.check_dimension(vector.size)
            return vector
        except EmbedderMismatchError:
            raise
        except EmbeddingError as error:
            _log.warning("%s", for_log(error))
            return None

    def rebuild(self, *, reembed: bool = False) -> None:
        """Fill a new vector index from the ledger, and remove deleted words from the files.

        Args:
            reembed: embed everything anew, after a change of the embedder.
        """
        with self._inside(), self._folder.working:
            with self._folder.database.write_transaction() as connection:
                if reembed:
                    item_tables.forget_vectors(connection)
                TEXT_WORDS.optimize(connection)
            self._folder.renew_index()
            self._work.do_all()
            self._folder.database.checkpoint()

    async def arebuild(self, *, reembed: bool = False) -> None:
        """Async twin of `rebuild`."""
        await asyncio.to_thread(self.rebuild, reembed=reembed)

    def close(self) -> None:
        """Finish due work and release all files and the lock. It may be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._directory.is_foreign():
                with self._folder.inside():
                    self._work.do_all()
                self._folder.leave()
        finally:
            self._directory.release()
