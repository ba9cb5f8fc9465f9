"""Due work of a room: embeds stored texts, and writes their vectors to Chroma in
batches.

When the embedder or Chroma fails, the work stays due for the next call or the next
opening.
"""

import logging
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from langmem_graph.embeddings.embedder import Embedder, Vectors
from langmem_graph.errors import (
    EmbedderMismatchError,
    EmbeddingError,
    IndexUnavailableError,
    StorageError,
    for_log,
)
from langmem_graph.settings import Settings
from langmem_graph.storage import (
    message_queries,
    outbox_rows,
    record_queries,
    tables,
    vector_rows,
)
from langmem_graph.storage.outbox_rows import Due, Waiting
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.tables import EMBED, INDEX, LAYERS, MESSAGES, RECORDS
from langmem_graph.storage.user_room import Room
from langmem_graph.storage.vector_rows import Piece
from langmem_graph.threads import is_interrupted

_log = logging.getLogger(__name__)
_PROCESS = uuid.uuid4().hex
"""Names this process in the claims of due work."""
_TEXTS = {MESSAGES: message_queries.texts_of, RECORDS: record_queries.texts_of}
PORTION = 2_048
"""Vectors of a layer that a call writes to the index at most; the rest is written in
the background, as each vector takes longer the more there are.
"""
MAX_FAILURES = 3  # single texts in a row; then the embedder itself is taken to be down


@dataclass
class Drained:
    """What could not be done in a round of due work."""

    warnings: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    """The warnings in the form that a log may contain: without anybody's words."""
    is_more_due: bool = False
    """Whether more vectors wait than were to be written."""

    def warn(self, error: Exception) -> None:
        """Note an error."""
        self.warnings.append(str(error))
        self.logged.append(for_log(error))

    def log(self, logger: logging.Logger) -> None:
        """Write the warnings to a log."""
        for problem in self.logged:
            logger.warning("%s", problem)


@dataclass(frozen=True)
class DueWork:
    """One round of due work in one room.

    Args:
        at_least: how many vectors of a layer must wait before they are written to
            Chroma.
        at_most: how many vectors of a layer are then written.
        on_embedded: called with the number of items after each batch that was embedded.
    """

    room: Room
    embedder: Embedder
    settings: Settings
    at_least: int = 1
    at_most: int = sys.maxsize
    on_embedded: Callable[[int], None] | None = None
    done: Drained = field(default_factory=Drained)

    def drain_all(self) -> Drained:
        """Do all that is due in every layer.

        A batch that another call has begun is waited for: if given up, it is due again.
        """
        with self.room.working:
            pass
        return self._drain(dict.fromkeys(LAYERS, range(sys.maxsize)))

    def index_all(self) -> Drained:
        """Write all vectors that wait to the index; nothing is embedded."""
        waiting = self.room.database.read(outbox_rows.waiting, EVERYTHING)
        for layer in LAYERS:
            self._index_due(layer, waiting)
        return self.done

    def drain(self, layer: str, rows: range) -> Drained:
        """Embed the due items of a layer among `rows`, and index if enough vectors
        wait.

        An add embeds its own rows, not those of other threads.
        """
        return self._drain({layer: rows})

    def _drain(self, rows: Mapping[str, range]) -> Drained:
        """What is due is asked first: where nothing is, nothing has to be locked for
        writing.
        """
        waiting = Waiting()
        fits = False
        with (
            self._noting_errors(),
            self.room.database.read_transaction(EVERYTHING) as connection,
        ):
            waiting = outbox_rows.waiting(connection)
            self.room.check_embedder(self.embedder.name, connection)
            fits = True
        for layer, own in rows.items():
            with self._noting_errors():
                if fits:
                    self._embed_due(layer, own, waiting)
            with self._noting_errors():
                self._index_due(layer, waiting)
        return self.done

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except (EmbedderMismatchError, StorageError) as error:
            self.done.warn(error)

    def _embed_due(self, layer: str, rows: range, waiting: Waiting) -> None:
        """First what is new, then what failed before, so that a bad text slows no other
        batch.
        """
        new = Due(
            layer, EMBED, first=rows.start, last=rows.stop - 1, failed_before=False
        )
        for due in (new, Due(layer, EMBED, failed_before=True)):
            first = due.first
            while waiting[due.layer, EMBED, bool(due.failed_before)]:
                batch = self._embed_some(replace(due, first=first))
                if batch is None:
                    break
                items, failed = batch
                waiting[layer, EMBED, True] += len(failed)
                waiting[layer, INDEX, False] += len(items) - len(failed)
                if len(failed) == len(items) or is_interrupted():  # the rest stays due
                    return
                if len(items) < self.settings.storage.embed_batch:
                    break  # there are no more
                first = items[-1] + 1

    def _embed_some(self, due: Due) -> tuple[list[int], list[int]] | None:
        """The items of a batch, and those of them that failed; other threads' come in
        between.
        """
        with self.room.working:
            items = self._claim(due, self.settings.storage.embed_batch)
            if not items:
                return None
            failed = self._embed_batch(due.layer, items)
            if self.on_embedded:
                self.on_embedded(len(items))
            return items, failed

    def _claim(self, due: Due, limit: int) -> list[int]:
        lease = self.settings.storage.lease_seconds
        with self.room.database.write_transaction() as connection:
            return outbox_rows.claim(connection, due, limit, by=_PROCESS, lease=lease)

    def _embed_batch(self, layer: str, items: list[int]) -> list[int]:
        """Embed claimed items and store their vectors; returns the items that
        failed.
        """
        database = self.room.database
        name = self.embedder.name
        with database.read_transaction(EVERYTHING) as connection:
            texts = _TEXTS[layer](connection, items)
        pieces, failed = embed_pieces(self.embedder, texts, self.settings, self.done)
        try:
            with database.write_transaction() as connection:
                vector_rows.record_embedder(
                    connection, name, [p.vector.size for p in pieces]
                )
                vector_rows.store_vectors(connection, layer, pieces, by=_PROCESS)
                outbox_rows.release(connection, layer, failed)
        except EmbeddingError as error:  # vectors of another embedder or size
            self.done.warn(error)
            with database.write_transaction() as connection:
                outbox_rows.release(connection, layer, items)
            return items
        return failed

    def _index_due(self, layer: str, waiting: Waiting) -> None:
        if waiting[layer, INDEX, False] + waiting[layer, INDEX, True] < self.at_least:
            return
        limit = self.settings.storage.index_batch
        try:
            for _ in range(0, self.at_most, limit):
                items = self._index_some(layer, limit)
                if len(items) < limit or is_interrupted():  # the rest stays due
                    return
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            self.done.warn(error)
        else:
            self.done.is_more_due = True

    def _index_some(self, layer: str, limit: int) -> list[int]:
        """The items of a batch that was written; other threads' work comes in
        between.
        """
        with self.room.working, self.room.indexing:
            items = self._claim(Due(layer, INDEX), limit)
            if items:
                _index_batch(self.room, layer, items)
            return items


def _index_batch(room: Room, layer: str, items: Sequence[int]) -> None:
    """Write these items' vectors to Chroma, and delete those of records that do not
    hold.
    """
    with room.database.read_transaction(EVERYTHING) as connection:
        current = (
            set(items)
            if layer == MESSAGES
            else record_queries.active(connection, items)
        )
        rows = vector_rows.vectors_of(connection, current, layer)
        gone = vector_rows.vectors_of(connection, set(items) - current, layer)
    try:
        room.index.upsert(layer, rows.ids.tolist(), np.ascontiguousarray(rows.matrix))
        room.index.delete(layer, gone.ids.tolist())
    except IndexUnavailableError:
        with room.database.write_transaction() as connection:
            outbox_rows.release(connection, layer, items)
        raise
    with room.database.write_transaction() as connection:
        if tables.get_meta(connection, "index") != room.index.identity:
            raise IndexUnavailableError(
                "Another process opened this memory with another Chroma. Use one "
                "for "
                "all."
            )
        outbox_rows.finish(connection, layer, items)


def embed_pieces(
    embedder: Embedder, texts: dict[int, str], settings: Settings, done: Drained
) -> tuple[list[Piece], list[int]]:
    """Embed all texts at once; if that fails, one by one, so that one bad text blocks
    no other. Where nobody waits any more, the rest is not tried.

    The embedded pieces are returned, and the numbers of the texts that failed.
    """
    try:
        return _pieces(embedder, texts, settings), []
    except EmbeddingError as error:
        done.warn(error)
    if len(texts) == 1 or is_interrupted():
        return [], list(texts)
    pieces: list[Piece] = []
    failed: list[int] = []
    for n, text in texts.items():
        if len(failed) >= MAX_FAILURES and not pieces:
            failed.append(n)
            continue
        try:
            pieces += _pieces(embedder, {n: text}, settings)
        except EmbeddingError:
            failed.append(n)
    return pieces, failed


def _pieces(
    embedder: Embedder, texts: dict[int, str], settings: Settings
) -> list[Piece]:
    places = [
        (n, number, span)
        for n, text in texts.items()
        for number, span in enumerate(embedder.spans(text, settings.storage.max_pieces))
    ]
    words = [texts[n][start:end] for n, _, (start, end) in places]
    vectors: list[Vectors] = []
    for first in range(0, len(words), settings.storage.embed_batch):
        vectors += list(
            embedder.embed(words[first : first + settings.storage.embed_batch])
        )
    return [
        Piece(n, number, start, end, vector)
        for (n, number, (start, end)), vector in zip(places, vectors, strict=True)
    ]
