"""Hybrid search of a store: candidates by vectors and words, exact cosines, one weighted score."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from langgraph.store.base import SearchItem, SearchOp
from numpy.typing import NDArray
from sqlalchemy import Connection

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.retrieval.search_common import (
    Scores,
    nearest,
    reciprocal_rank_fusion,
    share_of_best,
    weighted_sum,
)
from langmem_graph.settings import Settings
from langmem_graph.storage.full_text import query_terms, telling_terms
from langmem_graph.store import item_tables, items
from langmem_graph.store.item_tables import TEXT_WORDS
from langmem_graph.store.shared_folder import LAYER, SharedFolder

_log = logging.getLogger(__name__)
Vector = NDArray[np.float32]
_WEIGHTS = {"dense": 0.5, "words": 0.5}  # the proportion of messages and records; at most 1 in all
_SMALL = 2_000  # items; comparing all of them takes milliseconds and misses none


@dataclass(frozen=True)
class Search:
    """One search of one store.

    Args:
        folder: the store's ledger and index.
        settings: numbers of candidates, and the ranking method.
        op: LangGraph's search operation.
        vector: the query's vector; None if the embedder failed.
    """

    folder: SharedFolder
    settings: Settings
    op: SearchOp
    vector: Vector | None

    def run(self, connection: Connection) -> list[SearchItem]:
        """The best items of the page; those that cannot be scored come last, without a score."""
        words = self._by_words(connection)
        candidates = self._candidates(connection, words)
        dense = self._cosines(connection, candidates)
        scored = [n for n in candidates if n in dense or n in words]
        scores = self._scores(scored, dense, words)
        order = np.argsort(-scores, kind="stable").tolist()
        ranked: list[tuple[int, float | None]] = [(scored[i], float(scores[i])) for i in order]
        ranked += [(n, None) for n in candidates if n not in dense and n not in words]
        page = ranked[self.op.offset : self._wanted]
        return items.with_scores(connection, [n for n, _ in page], [score for _, score in page])

    @property
    def _wanted(self) -> int:
        return self.op.offset + self.op.limit

    def _by_words(self, connection: Connection) -> dict[int, float]:
        if self.settings.ranking.method == "dense":
            return {}
        counts = TEXT_WORDS.counts(connection, query_terms(str(self.op.query)))
        chosen = telling_terms(counts, item_tables.count(connection, item_tables.texts))
        if not chosen:
            return {}
        depth = max(self.settings.ranking.word_candidates, self._wanted)
        return items.by_words(connection, self.op.namespace_prefix, chosen, depth)

    def _candidates(self, connection: Connection, words: dict[int, float]) -> list[int]:
        """All fitting items of a small namespace; of a large one, those that search finds.

        Chroma does not know namespaces. If most of the nearest items that it finds lie in other
        namespaces, all fitting items are compared.
        """
        depth, prefix = self.settings.ranking.dense_candidates, self.op.namespace_prefix
        if self._wanted <= depth and items.how_many(connection, prefix, _SMALL) == _SMALL:
            near = self._near(connection, depth)
            if near is not None:
                fitting = items.matching(connection, self.op, near)
                if len(fitting) >= self._wanted:
                    return items.matching(connection, self.op, near | set(words))
        return items.matching(connection, self.op, None)

    def _near(self, connection: Connection, depth: int) -> set[int] | None:
        """Items with the nearest vectors, of all namespaces; None without a vector or index."""
        if self.vector is None:
            return None
        try:
            nearest_indexed = self.folder.index.query(LAYER, self.vector, depth)
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            return None
        waiting = nearest([item_tables.waiting(connection)], self.vector, depth)
        return item_tables.items_of(connection, nearest_indexed) | set(waiting)

    def _cosines(self, connection: Connection, candidates: Sequence[int]) -> dict[int, float]:
        """The best cosine among each item's texts; items without vectors are left out."""
        best: dict[int, float] = {}
        if self.vector is None or self.settings.ranking.method == "words":
            return best
        for rows in item_tables.of_items(connection, candidates):
            cosines = (rows.matrix @ self.vector).tolist() if len(rows) else []
            for item, cosine in zip(rows.items.tolist(), cosines, strict=True):
                best[item] = max(cosine, best.get(item, -1.0))
        return best

    def _scores(
        self, scored: Sequence[int], dense: dict[int, float], words: dict[int, float]
    ) -> Scores:
        signals = {
            "dense": np.array([dense.get(n, 0.0) for n in scored], dtype=np.float64),
            "words": np.array([words.get(n, 0.0) for n in scored], dtype=np.float64),
        }
        if self.settings.ranking.method == "rrf":
            return reciprocal_rank_fusion(list(signals.values()), self.settings.ranking.rrf_k)
        signals["words"] = share_of_best(signals["words"])
        if self.settings.ranking.method != "hybrid":
            return signals[self.settings.ranking.method]
        return weighted_sum(signals, _WEIGHTS)
