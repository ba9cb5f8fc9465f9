"""Due work: messages and records are embedded, and their vectors given to Chroma, once on disk.

A failing embedder or a failing Chroma leaves the work due; the next call or the next opening of the
room takes it up again. Vectors wait in the ledger, exactly searched, until there are enough of them
for one write to Chroma.
"""

import logging
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.embeddings.embedder import Vectors as Vector
from langmem_graph.errors import (
    EmbedderMismatchError,
    EmbeddingError,
    IndexUnavailableError,
    for_log,
)
from langmem_graph.settings import Settings
from langmem_graph.storage import due_work, message_queries, record_queries, stored_vectors, tables
from langmem_graph.storage.due_work import Due
from langmem_graph.storage.room import Room
from langmem_graph.storage.stored_vectors import Piece
from langmem_graph.storage.tables import EMBED, INDEX, LAYERS, MESSAGES, RECORDS

_log = logging.getLogger(__name__)
_ME = uuid.uuid4().hex
_TEXTS = {MESSAGES: message_queries.texts_of, RECORDS: record_queries.texts_of}
MAX_FAILURES = 3  # single texts in a row; then the embedder itself is taken to be down


@dataclass
class Drained:
    """What could not be done in a round of due work."""

    warnings: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    """The same as a log may say it."""

    def warn(self, error: Exception) -> None:
        """Note an error."""
        self.warnings.append(str(error))
        self.logged.append(for_log(error))

    def join(self, other: "Drained") -> None:
        """Add what another round could not do."""
        self.warnings += other.warnings
        self.logged += other.logged


def drain_all(room: Room, embedder: Embedder, settings: Settings, *, at_least: int = 1) -> Drained:
    """Do all due work of a room, down to the last waiting vector: on opening and closing."""
    done = Drained()
    for layer in LAYERS:
        done.join(drain(room, embedder, settings, layer, range(sys.maxsize), at_least=at_least))
    return done


def drain(
    room: Room,
    embedder: Embedder,
    settings: Settings,
    layer: str,
    rows: range,
    *,
    at_least: int,
) -> Drained:
    """Embed the due items of a layer among `rows`, and index if enough vectors wait.

    Args:
        room: whose work it is.
        embedder: makes the vectors.
        settings: batch sizes and lease.
        layer: messages or records.
        rows: numbers of the items meant; an add does its own, not other threads'.
        at_least: how many vectors must wait before Chroma gets them.
    """
    done = Drained()
    try:
        room.check_embedder(embedder.name)
        _embed_due(room, embedder, settings, layer, rows, done)
    except EmbedderMismatchError as error:
        done.warn(error)
    with room.working:
        _index_due(room, settings, layer, done, at_least)
    return done


def _embed_due(
    room: Room, embedder: Embedder, settings: Settings, layer: str, rows: range, done: Drained
) -> None:
    """First what is new; then, by itself, what failed before: a bad text slows no other batch."""
    fresh = Due(layer, EMBED, first=rows.start, last=rows.stop - 1, failed_before=False)
    for due in (fresh, Due(layer, EMBED, failed_before=True)):
        first = due.first
        while batch := _embed_some(room, embedder, settings, replace(due, first=first), done):
            if batch.all_failed:  # nothing worked: leave the rest for later
                return
            first = batch.last + 1


@dataclass(frozen=True)
class _Batch:
    last: int
    all_failed: bool


def _embed_some(
    room: Room, embedder: Embedder, settings: Settings, due: Due, done: Drained
) -> _Batch | None:
    """One batch; other threads' batches may come between two of them."""
    with room.working:
        items = _claim(room, due, settings.storage.embed_batch, settings)
        if not items:
            return None
        failed = _embed_batch(room, embedder, settings, due.layer, items, done)
        return _Batch(items[-1], len(failed) == len(items))


def _claim(room: Room, due: Due, limit: int, settings: Settings) -> list[int]:
    with room.database.write_transaction() as connection:
        return due_work.claim(connection, due, limit, by=_ME, lease=settings.storage.lease_seconds)


def _embed_batch(
    room: Room,
    embedder: Embedder,
    settings: Settings,
    layer: str,
    items: list[int],
    done: Drained,
) -> list[int]:
    """Embed claimed items and keep their vectors; returns the items that failed."""
    with room.database.read_transaction() as connection:
        texts = _TEXTS[layer](connection, items)
    pieces, failed = embed_pieces(embedder, texts, settings, done)
    try:
        with room.database.write_transaction() as connection:
            stored_vectors.record_embedder(
                connection, embedder.name, [p.vector.size for p in pieces]
            )
            stored_vectors.store_vectors(connection, layer, pieces, by=_ME)
            due_work.release(connection, layer, failed)
    except EmbeddingError as error:  # another embedder or size: keep the words, report, try later
        done.warn(error)
        with room.database.write_transaction() as connection:
            due_work.release(connection, layer, items)
        return items
    return failed


def embed_pieces(
    embedder: Embedder, texts: dict[int, str], settings: Settings, done: Drained
) -> tuple[list[Piece], list[int]]:
    """All texts at once; if that fails, one by one, so that one bad text blocks no other."""
    try:
        return _pieces(embedder, texts, settings), []
    except EmbeddingError as error:
        done.warn(error)
    pieces: list[Piece] = []
    failed: list[int] = []
    for n, words in texts.items():
        if len(failed) >= MAX_FAILURES and not pieces:
            failed.append(n)
            continue
        try:
            pieces += _pieces(embedder, {n: words}, settings)
        except EmbeddingError:
            failed.append(n)
    return pieces, failed


def _pieces(embedder: Embedder, texts: dict[int, str], settings: Settings) -> list[Piece]:
    places = [
        (n, number, span)
        for n, text in texts.items()
        for number, span in enumerate(embedder.spans(text, settings.storage.max_pieces))
    ]
    words = [texts[n][start:end] for n, _, (start, end) in places]
    vectors: list[Vector] = []
    for first in range(0, len(words), settings.storage.embed_batch):
        vectors += list(embedder.embed(words[first : first + settings.storage.embed_batch]))
    return [
        Piece(n, number, start, end, vector)
        for (n, number, (start, end)), vector in zip(places, vectors, strict=True)
    ]


def _index_due(room: Room, settings: Settings, layer: str, done: Drained, at_least: int) -> None:
    with room.database.read_transaction() as connection:
        waiting = message_queries.counts_waiting(connection, layer, INDEX)
    if waiting < at_least:
        return
    try:
        with room.indexing:
            while items := _claim(room, Due(layer, INDEX), settings.storage.index_batch, settings):
                _index_batch(room, layer, items)
    except IndexUnavailableError as error:
        _log.warning("%s", error)
        done.warn(error)


def _index_batch(room: Room, layer: str, items: Sequence[int]) -> None:
    """Make Chroma agree with the ledger about these items: what is true now is in it."""
    with room.database.read_transaction() as connection:
        current = set(items) if layer == MESSAGES else record_queries.active(connection, items)
        rows = stored_vectors.vectors_of(connection, current, layer)
        gone = stored_vectors.vectors_of(connection, set(items) - current, layer)
    try:
        room.index.upsert(layer, rows.ids.tolist(), np.ascontiguousarray(rows.matrix))
        room.index.delete(layer, gone.ids.tolist())
    except IndexUnavailableError:
        with room.database.write_transaction() as connection:
            due_work.release(connection, layer, items)
        raise
    with room.database.write_transaction() as connection:
        if tables.get_meta(connection, "index") != room.index.identity:
            raise IndexUnavailableError(
                "Another process opened this memory with another Chroma. Use one for all."
            )
        due_work.finish(connection, layer, items)
