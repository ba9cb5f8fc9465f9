"""Due work: texts are embedded, and vectors given to Chroma, once the items are on disk."""

import logging
from collections.abc import Sequence

import numpy as np

from langmem_graph.config import Settings
from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.errors import EmbedderMismatchError, EmbeddingError, IndexUnavailableError
from langmem_graph.lang_store import _vectors
from langmem_graph.lang_store._shelf import LAYER, Shelf
from langmem_graph.store import ledger, outbox

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # of one text while the embedder works for others; then it waits for an opening


def after_put(shelf: Shelf, embedder: Embedder, settings: Settings, own: Sequence[int]) -> None:
    """Embed what was just put; if that works, also what failed before."""
    with shelf.working:
        if own and _embed(shelf, embedder, settings, own):
            with shelf.database.reading() as connection:
                earlier = _vectors.due_texts(connection, _MAX_FAILURES)
            _embed(shelf, embedder, settings, earlier)
        _index(shelf, settings, at_least=settings.index_batch)


def all_due(shelf: Shelf, embedder: Embedder, settings: Settings) -> None:
    """Everything that is due, down to the last vector: on opening, rebuilding and closing."""
    with shelf.working:
        with shelf.database.reading() as connection:
            every = _vectors.due_texts(connection)
        _embed(shelf, embedder, settings, every)
        _index(shelf, settings, at_least=1)


def _embed(shelf: Shelf, embedder: Embedder, settings: Settings, numbers: Sequence[int]) -> bool:
    """False when the embedder is down or is another one; the texts then stay due."""
    try:
        shelf.check_embedder(embedder.name)
        for start in range(0, len(numbers), settings.embed_batch):
            some = numbers[start : start + settings.embed_batch]
            if not _embed_batch(shelf, embedder, settings, some):
                return False
    except EmbedderMismatchError as error:
        _log.warning("%s", error)
        return False
    return True


def _embed_batch(
    shelf: Shelf, embedder: Embedder, settings: Settings, numbers: Sequence[int]
) -> bool:
    with shelf.database.reading() as connection:
        texts = _vectors.read_texts(connection, numbers)
    done = outbox.Drained()
    pieces, failed = outbox.embed_pieces(embedder, texts, settings, done)
    try:
        with shelf.database.writing() as connection:
            ledger.record_embedder(connection, embedder.name, [p.vector.size for p in pieces])
            _vectors.store(connection, pieces)
    except EmbeddingError as error:  # vectors of another size
        done.warn(error)
        failed = list(texts)
    if failed:
        with shelf.database.writing() as connection:
            _vectors.note_failures(connection, failed)
        _log.warning("%d texts are found by their words alone: %s", len(failed), done.logged[-1])
    return len(failed) < len(texts) or not texts


def _index(shelf: Shelf, settings: Settings, *, at_least: int) -> None:
    """Tell Chroma of vectors that are new or gone, if there are enough of them for one write."""
    with shelf.database.reading() as connection:
        if _vectors.count_unindexed(connection) < at_least:
            return
    try:
        with shelf.indexing:
            while _index_batch(shelf, settings.index_batch):
                pass
    except IndexUnavailableError as error:  # searches compare the waiting vectors one by one
        _log.warning("%s", error)


def _index_batch(shelf: Shelf, limit: int) -> int:
    with shelf.database.reading() as connection:
        due = _vectors.some_unindexed(connection, limit)
        rows = _vectors.by_number(connection, due)
    there = rows.ids.tolist()
    gone = sorted(set(due) - set(there))
    shelf.index.upsert(LAYER, there, np.ascontiguousarray(rows.matrix))
    shelf.index.delete(LAYER, gone)
    with shelf.database.writing() as connection:
        _vectors.settle(connection, there, gone)
    return len(due)
