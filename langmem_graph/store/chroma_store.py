"""`ChromaStore`: LangGraph's `BaseStore` on a SQLite ledger and a Chroma index."""

import asyncio
import logging
import os
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakKeyDictionary

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    TTLConfig,
    ensure_embeddings,
)

from langmem_graph.closing import Closing
from langmem_graph.embeddings.embedder import Embedder, load_embedder
from langmem_graph.errors import (
    ClosedMemoryError,
    InvalidInputError,
    LangMemGraphError,
    for_log,
)
from langmem_graph.retrieval.ranking import Vector
from langmem_graph.retrieval.search_common import RoomSearch
from langmem_graph.settings import Settings
from langmem_graph.storage.location import is_database, read_location
from langmem_graph.storage.memory_directory import MemoryDirectory
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.store import item_tables, items
from langmem_graph.store.item_tables import TEXT_WORDS
from langmem_graph.store.items import Reading, Search
from langmem_graph.store.operations import Call, Read, check_paths
from langmem_graph.store.shared_folder import SharedFolder
from langmem_graph.store.writer import Writer, take
from langmem_graph.threads import finish, in_thread, in_thread_of, opened, uninterrupted

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings

_log = logging.getLogger(__name__)


def _embedder_of(
    embeddings: "Embeddings | str | None", index: IndexConfig | None
) -> Embedder:
    """The embedder that `embeddings` or `index["embed"]` names; MiniLM if
    neither does.
    """
    named: Any = (index or {}).get("embed")
    if named is not None and embeddings is not None:
        raise InvalidInputError(
            "Give the embedder once: as embeddings or as index['embed']."
        )
    if named is not None and not isinstance(named, str):
        named = ensure_embeddings(named)
    if hasattr(named, "afunc") and not hasattr(named, "func"):
        raise InvalidInputError(
            "index['embed'] is an async function; the store embeds in worker threads. "
            "Give a "
            "synchronous function or a LangChain Embeddings object."
        )
    embedder = load_embedder(named if embeddings is None else embeddings)
    embedder.size = (index or {}).get("dims")
    return embedder


_Opened = tuple[MemoryDirectory, SharedFolder]


def _open(location: Any, settings: Settings, chroma: Any) -> _Opened:
    """The directory, and the folder of the stores in it: until that is open, the
    directory is kept, also where nobody waits for it any more.
    """
    directory = MemoryDirectory.open(location, settings, chroma=chroma, read_only=False)
    try:
        return directory, SharedFolder.enter(directory, settings)
    except BaseException:
        directory.release(0.0)
        raise


def _release(opened: _Opened) -> None:
    directory, folder = opened
    folder.leave(0.0)
    directory.release(0.0)


class ChromaStore(Closing, BaseStore):
    """A LangGraph store that keeps items in SQLite and searches them by meaning and by
    words.

    Examples:
        ```python
        with ChromaStore("./memory") as store:
            graph = builder.compile(store=store)
            store.put(("users", "alice"), "diet", {"text": "Alice eats no nuts."})
            store.search(("users", "alice"), query="What must she not eat?")
        ```

    Args:
        path: the directory, created if missing. A `Memory` of this process may use the
            same one.
        chroma: None keeps the vectors in the directory. A URL such as
            `http://localhost:8000`, or a Chroma client, uses that server; then several
            processes may share the directory.
        embeddings: None is MiniLM on this machine (English). A LangChain `Embeddings`
            object, or a name that `Memory` takes, uses that one.
        index: LangGraph's index configuration: `fields` are the paths that are indexed
            (default `["$"]`, the whole value), `embed` may stand in for `embeddings`,
            `dims` is checked.
        ttl: LangGraph's configuration of times to live: `default_ttl` (minutes),
            `omit_expired`, `refresh_on_read`, and `sweep_interval_minutes` for
            `start_ttl_sweeper`.
        settings: depths, batch sizes and ranking, see `Settings`.

    Raises:
        MemoryLockedError: another process writes to this directory.
        StorageError: the directory cannot be used.
        InvalidInputError: an argument cannot be used.
    """

    supports_ttl = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        chroma: "str | ClientAPI | None" = None,
        embeddings: "Embeddings | str | None" = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        settings: Settings | None = None,
    ) -> None:
        location = read_location(path)
        if is_database(location):
            text = (
                "ChromaStore needs a directory; in a database use LangGraph's "
                "AsyncPostgresStore."
            )
            raise InvalidInputError(text)
        self._settings = settings or Settings()
        self._fields = check_paths((index or {}).get("fields") or ["$"])
        self._embedder = _embedder_of(embeddings, index)
        self._embedder.seconds = self._settings.embed_seconds
        self.embeddings = self._embedder.embeddings
        own = {"fields": [*self._fields], "embed": self.embeddings}
        self.index_config = cast("IndexConfig", own | dict(index or {}))
        self.ttl_config = ttl
        self._sweeper = Thread()
        self._swept: Future[None] = Future()
        self._swept.set_result(None)
        self._closed = False
        self._closing = Lock()
        self._waiting = WeakKeyDictionary[AbstractEventLoop, dict[str, deque[Call]]]()
        made = None
        try:
            made = opened(partial(_open, location, self._settings, chroma), _release)
            self._directory, self._folder = made
            self._writer = Writer(self._folder, self._embedder, self._settings)
            uninterrupted(self._writer.do_all)()
        except BaseException:
            if made is not None:
                uninterrupted(_release)(made)
            raise

    @classmethod
    def from_environment(cls) -> Self:
        """Open the store that the environment names; for `store.path` in a
        langgraph.json.

        `LANGMEM_GRAPH_DIR` is the directory (default `./memory`),
        `LANGMEM_GRAPH_CHROMA` the URL of a Chroma server, `LANGMEM_GRAPH_EMBEDDINGS`
        the embedder's name.
        """
        return cls(
            os.environ.get("LANGMEM_GRAPH_DIR") or "memory",
            chroma=os.environ.get("LANGMEM_GRAPH_CHROMA") or None,
            embeddings=os.environ.get("LANGMEM_GRAPH_EMBEDDINGS") or None,
        )

    @uninterrupted
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations together: reads see the state before the batch, then all puts
        commit.

        Raises:
            InvalidInputError: one of them cannot be done; then none of them was.
        """
        call = Call(list(ops))
        self._run([call])
        return call.done.result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async twin of `batch`, in a worker thread; calls that wait together share
        one.
        """
        call = Call(list(ops))
        folder = str(self._folder.folder)
        # embedding it may take long
        if any(getattr(op, "query", None) for op in call.ops):
            return await in_thread_of(folder, partial(self.batch, call.ops))
        # What only reads does not wait for a writer that is slow.
        kind = "writing" if any(isinstance(op, PutOp) for op in call.ops) else "reading"
        # No loop does the work of another: that may have been left long ago.
        of_loop = self._waiting.setdefault(asyncio.get_running_loop(), {})
        waiting = of_loop.setdefault(kind, deque())
        waiting.append(call)
        try:
            # it is others' work, too: a caller that is cancelled interrupts none of it
            run = in_thread_of(f"{folder} {kind}", partial(self._run_waiting, waiting))
            await asyncio.shield(run)
            return await asyncio.wrap_future(call.done)
        except BaseException:
            call.done.cancel()  # else the next call would carry it out
            raise

    def _run_waiting(self, kept: deque[Call]) -> None:
        waiting = take(kept)
        calls = [call for call in waiting if call.done.set_running_or_notify_cancel()]
        try:
            self._run(calls)
        except BaseException as error:  # noqa: BLE001  # raised in the callers
            for call in calls:
                if not call.done.done():
                    call.done.set_exception(error)

    def _run(self, calls: Sequence[Call]) -> None:
        """Run calls: first what they read, then all puts in one commit."""
        with self._inside():
            try:
                self._read(calls)
            except Exception as error:  # noqa: BLE001  # raised in the caller
                if len(calls) == 1:
                    calls[0].done.set_exception(error)
                else:  # each has its own error
                    for call in calls:
                        self._run([call])
            if writing := [call for call in calls if not call.done.done()]:
                self._writer.write(writing)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        if self._closed:
            raise ClosedMemoryError(
                "This store is closed. Open it again: ChromaStore(path)."
            )
        with self._folder.inside():
            yield

    def _read(self, calls: Sequence[Call]) -> None:
        """Check calls and answer what they read; those that write nothing are done."""
        for call in calls:
            call.check(self._fields)
        if ops := [op for call in calls for op in call.reads.values()]:
            search = RoomSearch(
                self._folder, self._embedder, self._settings, EVERYTHING
            )
            asked = {getattr(op, "query", None) for op in ops}
            vectors = {query: search.vector(query) for query in asked if query}
            with self._folder.database.read_transaction(EVERYTHING) as connection:
                reading = Reading(connection, self.ttl_config)
                for call in calls:
                    for place, op in call.reads.items():
                        call.results[place] = self._answer(reading, op, vectors)
            if reading.refreshed:
                with self._folder.database.write_transaction() as connection:
                    connection.execute(items.REFRESHED, reading.refreshed)
        for call in calls:
            if not call.puts:
                call.done.set_result(call.results)

    def _answer(
        self, reading: Reading, op: Read, vectors: dict[str, Vector | None]
    ) -> Any:
        if isinstance(op, GetOp):
            return reading.get(op)
        if isinstance(op, ListNamespacesOp):
            return reading.namespaces(op)
        if not op.query:
            return reading.newest(op)
        return Search(
            reading, self._folder, self._settings, op, vectors[op.query]
        ).run()

    @uninterrupted
    def rebuild(self, *, reembed: bool = False) -> None:
        """Fill a new vector index from the ledger, and remove deleted words from the
        files.

        Args:
            reembed: embed everything anew, after a change of the embedder.
        """
        with self._inside():
            with self._folder.working:
                with self._folder.database.write_transaction() as connection:
                    if reembed:
                        item_tables.forget_vectors(connection)
                    TEXT_WORDS.optimize(connection)
                self._folder.renew_index()
            self._writer.do_all()
            self._folder.database.checkpoint()

    async def arebuild(self, *, reembed: bool = False) -> None:
        """Async twin of `rebuild`."""
        await in_thread(self.rebuild, reembed=reembed)

    @uninterrupted
    def sweep_ttl(self) -> int:
        """Delete the items whose time to live has passed, and return how many there
        were.
        """
        with self._inside():
            with (
                self._folder.working,
                self._folder.database.write_transaction() as connection,
            ):
                swept = items.sweep(connection)
            if swept:
                self._writer.index()
        return swept

    async def asweep_ttl(self) -> int:
        """Async twin of `sweep_ttl`."""
        return await in_thread(self.sweep_ttl)

    @uninterrupted
    def start_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> Future[None]:
        """Sweep at intervals (5 minutes, if nothing else is configured), in a thread of
        its own.

        Returns:
            A future that is done when the sweeping is stopped, or was not started as
            there is no `ttl` configuration. Cancelling it stops the sweeping.
        """
        if self.ttl_config is not None and self._swept.done():
            minutes = (
                sweep_interval_minutes
                or self.ttl_config.get("sweep_interval_minutes")
                or 5
            )
            swept = Future[None]()
            given = (swept, minutes * 60)
            sweeper = Thread(target=self._sweep_until, args=given, daemon=True)
            sweeper.start()
            self._swept = swept
            self._sweeper = sweeper
        return self._swept

    def _sweep_until(self, stopped: Future[None], seconds: float) -> None:
        stopping = Event()
        stopped.add_done_callback(lambda _: stopping.set())
        while not stopping.wait(seconds):
            try:
                self.sweep_ttl()
            except LangMemGraphError as error:
                _log.warning("%s", error)

    @uninterrupted
    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping; returns whether a sweep that is running ended within so many
        seconds.
        """
        if not self._swept.done():
            self._swept.set_result(None)
            self._sweeper.join(timeout)
        return not self._sweeper.is_alive()

    @uninterrupted
    def close(self) -> None:
        """Finish due work and release all files and the lock. It may be called
        twice.
        """
        with self._closing:
            if not self._closed:
                self._close()

    def _close(self) -> None:
        closing = self._settings.storage.closing_seconds
        until = monotonic() + closing
        self.stop_ttl_sweeper(closing)
        self._closed = True
        if self._directory.is_foreign():
            return
        try:
            with self._folder.inside():
                finish(self._writer.do_all, until)
        except LangMemGraphError as error:
            _log.warning("due work is left for the next opening: %s", for_log(error))
        finally:
            self._folder.leave(until)
            self._directory.release(until)
