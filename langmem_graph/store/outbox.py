"""Due work: messages are embedded, and their vectors given to Chroma, after they are safe on disk.

A failing embedder or a failing Chroma leaves the work due; the next call or the next opening of the
room takes it up again. Vectors wait in the ledger, exactly searched, until there are enough of them
for one write to Chroma.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from langmem_graph.config import Settings
from langmem_graph.embeddings._embedder import Embedder, Span
from langmem_graph.errors import EmbeddingError, IndexUnavailableError
from langmem_graph.store import ledger, lookups
from langmem_graph.store.ledger import EMBED, INDEX, Due, Piece
from langmem_graph.store.room import Room

_log = logging.getLogger(__name__)
_ME = uuid.uuid4().hex
MAX_FAILURES = 3  # single texts in a row; then the embedder itself is taken to be down


@dataclass
class Drained:
    """What a round of due work came to."""

    embedded: int = 0
    indexed: int = 0
    warnings: list[str] = field(default_factory=list)


def drain(room: Room, embedder: Embedder, settings: Settings, *, all_vectors: bool) -> Drained:
    """Do the due work of one room.

    Args:
        all_vectors: give Chroma even a few waiting vectors (on opening and closing), not only
            full batches.
    """
    done = Drained()
    with room.working:
        _embed_due(room, embedder, settings, done)
        _index_due(room, settings, done, at_least=1 if all_vectors else settings.index_batch)
    return done


def _embed_due(room: Room, embedder: Embedder, settings: Settings, done: Drained) -> None:
    """Embed what is due now; what other threads add meanwhile is theirs to wait for.

    What failed before comes last and by itself, so that one bad text slows no other batch down.
    """
    with room.database.reading() as connection:
        newest = lookups.newest_message(connection)
    for again in (False, True):
        due = Due(EMBED, last=newest, failed_before=again)
        while items := _claim(room, due, settings.embed_batch, settings):
            due = replace(due, first=items[-1] + 1)
            failed = _embed_batch(room, embedder, settings, items, done)
            done.embedded += len(items) - len(failed)
            if len(failed) == len(items):  # nothing worked: leave the rest for later
                return


def _claim(room: Room, due: Due, limit: int, settings: Settings) -> list[int]:
    with room.database.writing() as connection:
        return ledger.claim(connection, due, limit, by=_ME, lease=settings.lease_seconds)


def _embed_batch(
    room: Room, embedder: Embedder, settings: Settings, items: list[int], done: Drained
) -> list[int]:
    """Embed claimed items and keep their vectors; returns the items that failed."""
    with room.database.reading() as connection:
        texts = lookups.texts_of(connection, items)
    spans = {n: embedder.spans(text, settings.max_pieces) for n, text in texts.items()}
    pieces, failed = _embed_pieces(embedder, texts, spans, done)
    try:
        with room.database.writing() as connection:
            ledger.record_embedder(connection, embedder.name, [p.vector.size for p in pieces])
            ledger.store_vectors(connection, pieces, by=_ME)
            ledger.release(connection, failed)
    except EmbeddingError as error:  # another size than before: keep the words, report, try later
        done.warnings.append(str(error))
        with room.database.writing() as connection:
            ledger.release(connection, items)
        return items
    return failed


def _embed_pieces(
    embedder: Embedder, texts: dict[int, str], spans: dict[int, list[Span]], done: Drained
) -> tuple[list[Piece], list[int]]:
    """All texts at once; if that fails, one by one, so that one bad text blocks no other."""
    try:
        return _pieces(embedder, texts, spans), []
    except EmbeddingError as error:
        done.warnings.append(str(error))
    pieces: list[Piece] = []
    failed: list[int] = []
    for n, text in texts.items():
        if len(failed) >= MAX_FAILURES and not pieces:
            failed.append(n)
            continue
        try:
            pieces += _pieces(embedder, {n: text}, spans)
        except EmbeddingError:
            failed.append(n)
    return pieces, failed


def _pieces(embedder: Embedder, texts: dict[int, str], spans: dict[int, list[Span]]) -> list[Piece]:
    places = [(n, number, span) for n in texts for number, span in enumerate(spans[n])]
    vectors = embedder.embed([texts[n][start:end] for n, _, (start, end) in places])
    return [
        Piece(n, number, start, end, vector)
        for (n, number, (start, end)), vector in zip(places, vectors, strict=True)
    ]


def _index_due(room: Room, settings: Settings, done: Drained, *, at_least: int) -> None:
    with room.database.reading() as connection:
        waiting = lookups.counts_waiting(connection, INDEX)
    if waiting < at_least:
        return
    try:
        with room.indexing:
            while items := _claim(room, Due(INDEX), settings.index_batch, settings):
                _index_batch(room, items)
                done.indexed += len(items)
    except IndexUnavailableError as error:
        _log.warning("%s", error)
        done.warnings.append(str(error))


def _index_batch(room: Room, items: Sequence[int]) -> None:
    with room.database.reading() as connection:
        rows = lookups.vectors_of(connection, items)
    try:
        room.index.upsert(rows.ids.tolist(), np.ascontiguousarray(rows.matrix))
    except IndexUnavailableError:
        with room.database.writing() as connection:
            ledger.release(connection, items)
        raise
    with room.database.writing() as connection:
        if ledger.get_meta(connection, "index") != room.index.identity:
            raise IndexUnavailableError(
                "Another process opened this memory with another Chroma. Use one for all."
            )
        ledger.finish(connection, items)
