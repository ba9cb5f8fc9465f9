"""Due work: texts are embedded, and vectors given to Chroma, once the items are on disk."""

import logging
from collections.abc import Sequence

import numpy as np

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import EmbedderMismatchError, EmbeddingError, IndexUnavailableError
from langmem_graph.settings import Settings
from langmem_graph.storage import embed_and_index, stored_vectors
from langmem_graph.store import item_tables
from langmem_graph.store.shared_folder import LAYER, SharedFolder

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # of one text while the embedder works for others; then it waits for an opening


def after_put(
    shelf: SharedFolder, embedder: Embedder, settings: Settings, own: Sequence[int]
) -> None:
    """Embed what was just put; if that works, also what failed before."""
    with shelf.working:
        if own and _embed(shelf, embedder, settings, own):
            with shelf.database.read_transaction() as connection:
                earlier = item_tables.due_texts(connection, _MAX_FAILURES)
            _embed(shelf, embedder, settings, earlier)
        _index(shelf, settings, at_least=settings.storage.index_batch)


def all_due(shelf: SharedFolder, embedder: Embedder, settings: Settings) -> None:
    """Everything that is due, down to the last vector: on opening, rebuilding and closing."""
    with shelf.working:
        with shelf.database.read_transaction() as connection:
            every = item_tables.due_texts(connection)
        _embed(shelf, embedder, settings, every)
        _index(shelf, settings, at_least=1)


def _embed(
    shelf: SharedFolder, embedder: Embedder, settings: Settings, numbers: Sequence[int]
) -> bool:
    """False when the embedder is down or is another one; the texts then stay due."""
    try:
        shelf.check_embedder(embedder.name)
        for start in range(0, len(numbers), settings.storage.embed_batch):
            some = numbers[start : start + settings.storage.embed_batch]
            if not _embed_batch(shelf, embedder, settings, some):
                return False
    except EmbedderMismatchError as error:
        _log.warning("%s", error)
        return False
    return True


def _embed_batch(
    shelf: SharedFolder, embedder: Embedder, settings: Settings, numbers: Sequence[int]
) -> bool:
    with shelf.database.read_transaction() as connection:
        texts = item_tables.read_texts(connection, numbers)
    done = embed_and_index.Drained()
    pieces, failed = embed_and_index.embed_pieces(embedder, texts, settings, done)
    try:
        with shelf.database.write_transaction() as connection:
            stored_vectors.record_embedder(
                connection, embedder.name, [p.vector.size for p in pieces]
            )
            item_tables.store(connection, pieces)
    except EmbeddingError as error:  # vectors of another size
        done.warn(error)
        failed = list(texts)
    if failed:
        with shelf.database.write_transaction() as connection:
            item_tables.note_failures(connection, failed)
        _log.warning("%d texts are found by their words alone: %s", len(failed), done.logged[-1])
    return len(failed) < len(texts) or not texts


def _index(shelf: SharedFolder, settings: Settings, *, at_least: int) -> None:
    """Tell Chroma of vectors that are new or gone, if there are enough of them for one write."""
    with shelf.database.read_transaction() as connection:
        if item_tables.count_unindexed(connection) < at_least:
            return
    try:
        with shelf.indexing:
            while _index_batch(shelf, settings.storage.index_batch):
                pass
    except IndexUnavailableError as error:  # searches compare the waiting vectors one by one
        _log.warning("%s", error)


def _index_batch(shelf: SharedFolder, limit: int) -> int:
    with shelf.database.read_transaction() as connection:
        due = item_tables.some_unindexed(connection, limit)
        rows = item_tables.by_number(connection, due)
    there = rows.ids.tolist()
    gone = sorted(set(due) - set(there))
    shelf.index.upsert(LAYER, there, np.ascontiguousarray(rows.matrix))
    shelf.index.delete(LAYER, gone)
    with shelf.database.write_transaction() as connection:
        item_tables.settle(connection, there, gone)
    return len(due)
