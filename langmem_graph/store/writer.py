"""Writing in a store: group commits, embedding, and the vectors' way to Chroma."""

import logging
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from langmem_graph.embeddings.embedder import Embedder, Vectors
from langmem_graph.errors import IndexUnavailableError, StorageError
from langmem_graph.settings import Settings
from langmem_graph.storage.outbox_worker import PORTION, Drained, embed_pieces
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.tables import get_meta
from langmem_graph.store import item_tables, items
from langmem_graph.store.item_tables import Made
from langmem_graph.store.operations import Call, Put
from langmem_graph.store.shared_folder import LAYER, SharedFolder
from langmem_graph.threads import for_others, is_interrupted

_log = logging.getLogger(__name__)
# of one text while others succeed; it is then tried again at the next opening
_MAX_FAILURES = 3


class _Due(NamedTuple):
    """What is due after a commit: texts that failed before, and how many vectors."""

    texts: Sequence[int] = ()
    vectors: int = 0


def take(waiting: deque[Call]) -> list[Call]:
    """Take all calls that wait; other threads may take some meanwhile."""
    taken: list[Call] = []
    with suppress(IndexError):
        while True:
            taken.append(waiting.popleft())
    return taken


@dataclass(frozen=True)
class Writer:
    """Does the writing of one store: the thread whose turn it is writes for all that
    wait.

    A commit waits for the disk, so that many small ones cost far more than a large one.
    What is due is done batch by batch; who writes comes in between.
    """

    folder: SharedFolder
    embedder: Embedder
    settings: Settings
    _waiting: deque[Call] = field(default_factory=deque)

    def write(self, calls: Sequence[Call]) -> None:
        """Return when the puts of these calls are on disk, or their errors are
        known.
        """
        self._waiting.extend(calls)
        due = _Due()
        with self.folder.working:
            taken = take(self._waiting)
            # A thread that was interrupted may have taken some of these calls and not
            # done them.
            missed = [
                call
                for call in calls
                if not call.done.done() and call not in set(taken)
            ]
            if group := missed + taken:
                with self.folder.database.read_transaction(EVERYTHING) as connection:
                    new = items.new_texts(connection, _merged(group))
                    made_by = get_meta(connection, "embedder")
                embed = partial(self._vectors_of, new, made_by)
                is_shared = not set(group) <= set(calls)
                made = for_others(embed) if is_shared else embed()
                due = self._commit(group, made)
        self._do_some(due)

    def _commit(self, group: Sequence[Call], made: Made) -> _Due:
        """One transaction for all; if it fails, one for each, so that each has its own
        error.
        """
        due = _Due()
        try:
            with self.folder.database.write_transaction() as connection:
                failed_before = (
                    item_tables.due_texts(connection, _MAX_FAILURES) if made else []
                )
                items.write(connection, _merged(group), made, by=self.embedder.name)
                waiting = item_tables.count(connection, item_tables.unindexed)
        except Exception as error:  # noqa: BLE001  # raised in the caller
            if len(group) == 1:
                group[0].done.set_exception(error)
            else:
                for call in group:
                    due = self._commit([call], made)
            return due
        for call in group:
            call.done.set_result(call.results)
        return _Due(failed_before, waiting)

    def _do_some(self, due: _Due) -> None:
        """Do a portion of what is due; what fails stays due, and the puts are
        stored.
        """
        try:
            self._embed(due.texts[: self.settings.storage.embed_batch])
            if due.vectors >= self.settings.storage.index_batch:
                self.index(PORTION)
        except StorageError as error:
            _log.warning("%s", error)

    def do_all(self) -> None:
        """Do all due work: on opening, rebuilding and closing."""
        with self.folder.database.read_transaction(EVERYTHING) as connection:
            due = item_tables.due_texts(connection)
        self._embed(due)
        self.index()

    def _vectors_of(self, words: Sequence[str], made_by: str | None) -> Made:
        """The vectors of those texts that could be embedded; why others could not is
        logged.
        """
        made: dict[str, list[Vectors]] = {}
        if words and made_by not in (None, self.embedder.name):
            _log.warning(
                "the vectors were made by %s, not by %s", made_by, self.embedder.name
            )
            return made
        done = Drained()
        batch = self.settings.storage.embed_batch
        for start in range(0, len(words), batch):
            some = dict(enumerate(words[start : start + batch]))
            pieces, _ = embed_pieces(self.embedder, some, self.settings, done)
            for piece in pieces:
                made.setdefault(some[piece.item], []).append(piece.vector)
            if not pieces:
                break  # the embedder is down
        if len(made) < len(words):
            left = len(words) - len(made)
            last = done.logged[-1]
            _log.warning("%d texts are found by their words alone: %s", left, last)
        return made

    def _embed(self, numbers: Sequence[int]) -> None:
        """Embed texts that are due; if none of a batch can be embedded, the rest stays
        due.
        """
        batch = self.settings.storage.embed_batch
        for start in range(0, len(numbers), batch):
            is_done = self._embed_batch(numbers[start : start + batch])
            if not is_done or is_interrupted():  # the rest stays due
                return

    def _embed_batch(self, numbers: Sequence[int]) -> bool:
        """Embed those of these texts that are still due; False where none could be."""
        database = self.folder.database
        with self.folder.working:
            with database.read_transaction(EVERYTHING) as connection:
                due = item_tables.read_texts(connection, numbers)
                made_by = get_meta(connection, "embedder")
            made = self._vectors_of(list(dict.fromkeys(due.values())), made_by)
            with database.write_transaction() as connection:
                still_due = item_tables.read_texts(connection, list(due))
                item_tables.store_vectors(
                    connection, still_due, made, by=self.embedder.name
                )
        return bool(made or not due)

    def index(self, at_most: int = sys.maxsize) -> None:
        """Write new vectors to Chroma and delete those that are gone."""
        batch = self.settings.storage.index_batch
        try:
            for _ in range(0, at_most, batch):
                with self.folder.working, self.folder.indexing:
                    done = self._index_batch(batch)
                if done < batch or is_interrupted():  # the rest stays due
                    return
        # waiting vectors are compared one by one
        except IndexUnavailableError as error:
            _log.warning("%s", error)

    def _index_batch(self, limit: int) -> int:
        with self.folder.database.read_transaction(EVERYTHING) as connection:
            due = item_tables.some_unindexed(connection, limit)
            rows = item_tables.by_number(connection, due)
        if due:
            stored = rows.ids.tolist()
            gone = sorted(set(due) - set(stored))
            self.folder.index.upsert(LAYER, stored, np.ascontiguousarray(rows.matrix))
            self.folder.index.delete(LAYER, gone)
            with self.folder.database.write_transaction() as connection:
                item_tables.settle(connection, stored, gone)
        return len(due)


def _merged(group: Sequence[Call]) -> list[Put]:
    """The puts of all calls; of several to one item the last one counts."""
    return list(
        {name: put for call in group for name, put in call.puts.items()}.values()
    )
