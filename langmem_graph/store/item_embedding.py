"""Due work of a store: embeds the texts of stored items, and writes their vectors to Chroma."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import EmbedderMismatchError, EmbeddingError, IndexUnavailableError
from langmem_graph.settings import Settings
from langmem_graph.storage.outbox_worker import Drained, embed_pieces
from langmem_graph.storage.vector_rows import record_embedder
from langmem_graph.store import item_tables
from langmem_graph.store.shared_folder import LAYER, SharedFolder

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # of one text while others succeed; it is then tried again at the next opening


@dataclass(frozen=True)
class DueWork:
    """The due work of one store.

    Args:
        folder: the store's ledger and index.
        embedder: makes the vectors.
        settings: batch sizes.
    """

    folder: SharedFolder
    embedder: Embedder
    settings: Settings

    def after_put(self, new: Sequence[int]) -> None:
        """Embed the texts that were just put; if that works, also those that failed before."""
        with self.folder.working:
            if new and self._embed(new):
                with self.folder.database.read_transaction() as connection:
                    failed_before = item_tables.due_texts(connection, _MAX_FAILURES)
                self._embed(failed_before)
            self._index(at_least=self.settings.storage.index_batch)

    def do_all(self) -> None:
        """Do all due work: on opening, rebuilding and closing."""
        with self.folder.working:
            with self.folder.database.read_transaction() as connection:
                due = item_tables.due_texts(connection)
            self._embed(due)
            self._index(at_least=1)

    def _embed(self, numbers: Sequence[int]) -> bool:
        """Whether the embedder worked; otherwise it is down or another one, and texts stay due."""
        batch = self.settings.storage.embed_batch
        try:
            self.folder.check_embedder(self.embedder.name)
            starts = range(0, len(numbers), batch)
            return all(self._embed_batch(numbers[start : start + batch]) for start in starts)
        except EmbedderMismatchError as error:
            _log.warning("%s", error)
            return False

    def _embed_batch(self, numbers: Sequence[int]) -> bool:
        database, name = self.folder.database, self.embedder.name
        with database.read_transaction() as connection:
            texts = item_tables.read_texts(connection, numbers)
        done = Drained()
        pieces, failed = embed_pieces(self.embedder, texts, self.settings, done)
        try:
            with database.write_transaction() as connection:
                record_embedder(connection, name, [p.vector.size for p in pieces])
                item_tables.store(connection, pieces)
        except EmbeddingError as error:  # vectors of another size
            done.warn(error)
            failed = list(texts)
        if failed:
            with database.write_transaction() as connection:
                item_tables.note_failures(connection, failed)
            last = done.logged[-1]
            _log.warning("%d texts are found by their words alone: %s", len(failed), last)
        return len(failed) < len(texts) or not texts

    def _index(self, *, at_least: int) -> None:
        """Write new vectors to Chroma and delete those that are gone, if enough of them wait."""
        with self.folder.database.read_transaction() as connection:
            if item_tables.count(connection, item_tables.unindexed) < at_least:
                return
        try:
            with self.folder.indexing:
                while self._index_batch():
                    pass
        except IndexUnavailableError as error:  # searches compare the waiting vectors one by one
            _log.warning("%s", error)

    def _index_batch(self) -> int:
        with self.folder.database.read_transaction() as connection:
            due = item_tables.some_unindexed(connection, self.settings.storage.index_batch)
            rows = item_tables.by_number(connection, due)
        stored = rows.ids.tolist()
        gone = sorted(set(due) - set(stored))
        self.folder.index.upsert(LAYER, stored, np.ascontiguousarray(rows.matrix))
        self.folder.index.delete(LAYER, gone)
        with self.folder.database.write_transaction() as connection:
            item_tables.settle(connection, stored, gone)
        return len(due)
