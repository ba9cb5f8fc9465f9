"""Storing, deleting, reading and searching the items of a store."""

import json
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Any

import numpy as np
import sqlalchemy as sa
from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from sqlalchemy import Connection

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.retrieval.ranking import (
    Scores,
    Vector,
    best_places,
    reciprocal_rank_fusion,
    share_of_best,
    weighted_sum,
)
from langmem_graph.retrieval.search_common import best_cosines, nearest
from langmem_graph.settings import Settings
from langmem_graph.storage import record_writes
from langmem_graph.storage.full_text import match_expression
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.words import query_terms, telling_terms
from langmem_graph.store import item_tables
from langmem_graph.store.item_tables import TEXT_WORDS, Made, items, texts
from langmem_graph.store.operations import (
    Namespace,
    Put,
    as_labels,
    as_text,
    known_beginning,
    listed,
    passes,
)
from langmem_graph.store.shared_folder import LAYER, SharedFolder

_log = logging.getLogger(__name__)
# the proportion of messages and records; at most 1 in all
_WEIGHTS = {"dense": 0.5, "words": 0.5}
_SMALL = 2_000  # items; comparing all of them takes milliseconds and misses none
_LARGEST = 2**63 - 1  # SQLite's largest integer, and the greatest length in Python
_NEWEST_FIRST = (items.c.updated_at.desc(), items.c.n.desc())

_named = (items.c.namespace == sa.bindparam("namespace")) & (
    items.c.key == sa.bindparam("key")
)
_numbered = items.c.n == sa.bindparam("number")
_NAMED = sa.select(items).where(_named)
_NUMBER = sa.select(items.c.n).where(_named)
_TEXTS = sa.select(texts.c.text).join(items).where(_named).order_by(texts.c.n)
_NEW, _NEW_TEXT = (sa.insert(table).returning(table.c.n) for table in (items, texts))
_CHANGED = sa.update(items).where(_numbered)
# it may be put anew meanwhile
REFRESHED = _CHANGED.where(items.c.ttl.is_not(None)).values(
    expires_at=sa.func.strftime(  # as SQLAlchemy writes times
        "%Y-%m-%d %H:%M:%f000", "now", sa.func.printf("%f minutes", items.c.ttl)
    )
)
_DELETED = sa.delete(items).where(_numbered)


def _texts_of(connection: Connection, put: Put) -> tuple[str, ...]:
    return tuple(
        connection.scalars(_TEXTS, {"namespace": put.namespace, "key": put.key})
    )


def new_texts(connection: Connection, puts: Iterable[Put]) -> list[str]:
    """The distinct texts that have to be embedded for these puts."""
    new = (
        put.texts
        for put in puts
        if put.texts and put.texts != _texts_of(connection, put)
    )
    return list(dict.fromkeys(chain.from_iterable(new)))


def write(connection: Connection, puts: Iterable[Put], made: Made, *, by: str) -> None:
    """Store and delete items; texts of which an embedder made no vectors become due for
    it.
    """
    now = record_writes.now()
    added: dict[int, str] = {}
    for put in puts:
        named = {"namespace": put.namespace, "key": put.key}
        number = connection.scalar(_NUMBER, named)
        if put.value is not None:
            added |= _store(connection, put, number, now)
        elif number is not None:
            item_tables.drop_texts(connection, [number], _DELETED)
    TEXT_WORDS.add(connection, {n: [text] for n, text in added.items()})
    item_tables.store_vectors(connection, added, made, by=by)


def _store(
    connection: Connection, put: Put, number: int | None, now: datetime
) -> dict[int, str]:
    """Insert or replace an item, and return its new texts; those that stay keep their
    vectors.
    """
    expires_at = None if put.ttl is None else now + timedelta(minutes=put.ttl)
    fields = {
        "value": put.value,
        "updated_at": now,
        "ttl": put.ttl,
        "expires_at": expires_at,
    }
    if number is None:
        fields |= {"namespace": put.namespace, "key": put.key, "created_at": now}
        number = connection.scalars(_NEW, fields).one()
    else:
        connection.execute(_CHANGED, fields | {"number": number})
        if _texts_of(connection, put) == put.texts:
            return {}
        item_tables.drop_texts(connection, [number])
    rows = [{"item": number, "text": text} for text in put.texts]
    return {connection.scalars(_NEW_TEXT, row).one(): str(row["text"]) for row in rows}


def sweep(connection: Connection) -> int:
    """Delete the items whose time to live has passed, and return how many there
    were.
    """
    expired = sa.select(items.c.n).where(items.c.expires_at <= record_writes.now())
    if numbers := list(connection.scalars(expired)):
        item_tables.drop_texts(connection, numbers, _DELETED)
    return len(numbers)


class Reading:
    """Reads items in one transaction, without those that have expired if `ttl`
    says so.
    """

    def __init__(self, connection: Connection, ttl: TTLConfig | None) -> None:
        self.connection = connection
        self._now = record_writes.now() if (ttl or {}).get("omit_expired") else None
        self.refreshed: list[dict[str, int]] = []
        """Numbers of items that were read, and whose times to live begin anew."""

    def get(self, op: GetOp) -> Item | None:
        """The item with exactly this namespace and key."""
        named = {"namespace": as_text(op.namespace), "key": str(op.key)}
        row = self.connection.execute(_NAMED, named).one_or_none()
        if row is None or (
            self._now and row.expires_at and row.expires_at <= self._now
        ):
            return None
        return Item(**self._fields(row, op))

    def namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """The namespaces that hold items and meet the operation's conditions."""
        stored = (
            sa.select(items.c.namespace)
            .where(self.under(known_beginning(op)))
            .distinct()
        )
        return listed(op, [as_labels(name) for name in self.connection.scalars(stored)])

    def newest(self, op: SearchOp) -> list[SearchItem]:
        """A search without a query: the items put last come first."""
        start, stop = (min(n, _LARGEST) for n in (op.offset, op.offset + op.limit))
        query = (
            sa.select(items)
            .where(self.under(op.namespace_prefix))
            .order_by(*_NEWEST_FIRST)
        )
        if not op.filter:
            query = query.limit(stop - start).offset(start)
        with self.connection.execute(query.execution_options(yield_per=500)) as rows:
            fitting = (row for row in rows if passes(json.loads(row.value), op.filter))
            page = islice(fitting, start, stop) if op.filter else rows
            return [SearchItem(**self._fields(row, op)) for row in page]

    def scored(
        self, op: SearchOp, numbers: Sequence[int], scores: Sequence[float | None]
    ) -> list[SearchItem]:
        """Whole items with their scores, in this order."""
        found = rows_where_in(self.connection, sa.select(items), items.c.n, numbers)
        rows = {row.n: row for row in found}
        both = zip(numbers, scores, strict=True)
        return [
            SearchItem(**self._fields(rows[n], op), score=score) for n, score in both
        ]

    def under(self, prefix: Sequence[str]) -> sa.ColumnElement[bool]:
        """Selects the items in a namespace and below it.

        It compares with a range, since LIKE has wildcards and ignores case: every text
        that begins with `a.b.` sorts after `a.b.` and before `a.b/`, as the slash
        follows the dot.
        """
        name = as_text(prefix)
        column = items.c.namespace
        ends = items.c.expires_at
        below = (column == name) | ((column > f"{name}.") & (column < f"{name}/"))
        alive = sa.true() if self._now is None else ends.is_(None) | (ends > self._now)
        return below & alive if prefix else alive

    def _fields(self, row: sa.Row[Any], op: GetOp | SearchOp) -> dict[str, Any]:
        if op.refresh_ttl and row.ttl is not None:
            self.refreshed.append({"number": row.n})
        return {
            "namespace": as_labels(row.namespace),
            "key": row.key,
            "value": json.loads(row.value),
            "created_at": row.created_at.replace(tzinfo=UTC),
            "updated_at": row.updated_at.replace(tzinfo=UTC),
        }


@dataclass(frozen=True)
class Search:
    """One search of one store."""

    reading: Reading
    folder: SharedFolder
    settings: Settings
    op: SearchOp
    vector: Vector | None
    """Of the query; None if the embedder failed."""

    def run(self) -> list[SearchItem]:
        """The best items of the page; those that cannot be scored come last, without a
        score.
        """
        words = self._by_words()
        candidates = self._candidates(words)
        dense = self._cosines(candidates)
        scored = [n for n in candidates if n in dense or n in words]
        scores = self._scores(scored, dense, words)
        ranked: list[tuple[int, float | None]]
        ranked = [(scored[i], float(scores[i])) for i in best_places(scores)]
        ranked += [(n, None) for n in candidates if n not in dense and n not in words]
        page = ranked[self.op.offset : self._wanted]
        return self.reading.scored(
            self.op, [n for n, _ in page], [score for _, score in page]
        )

    @property
    def _under(self) -> sa.ColumnElement[bool]:
        return self.reading.under(self.op.namespace_prefix)

    @property
    def _wanted(self) -> int:
        return min(self.op.offset + self.op.limit, _LARGEST)

    def _by_words(self) -> dict[int, float]:
        """Items that contain a term of the query, each with the BM25 score of its best
        text.
        """
        if self.settings.ranking.method == "dense":
            return {}
        connection = self.reading.connection
        counts = TEXT_WORDS.counts(connection, query_terms(str(self.op.query)))
        chosen = telling_terms(counts, item_tables.count(connection, texts))
        if not chosen:
            return {}
        joined = (
            sa.select(items.c.n, sa.text("-bm25(text_words)"))
            .select_from(sa.text("text_words"))
            .join(texts, texts.c.n == sa.text("text_words.rowid"))
            .join(items, items.c.n == texts.c.item)
            .where(sa.text("text_words MATCH :terms"), self._under)
            .order_by(sa.text("bm25(text_words)"))
            .limit(max(self.settings.ranking.word_candidates, self._wanted))
        )
        best: dict[int, float] = {}
        for n, bm25 in connection.execute(joined, {"terms": match_expression(chosen)}):
            best.setdefault(n, bm25)
        return best

    def _candidates(self, words: dict[int, float]) -> list[int]:
        """All fitting items of a small namespace; of a large one, those that search
        finds.

        Chroma does not know namespaces. If most of the nearest items that it finds lie
        in other namespaces, all fitting items are compared.
        """
        depth = self.settings.ranking.dense_candidates
        some = sa.select(items.c.n).where(self._under).limit(_SMALL)
        if (
            self._wanted <= depth
            and len(self.reading.connection.execute(some).all()) == _SMALL
        ):
            near = self._near(depth)
            if near is not None:
                fitting = self._matching(near)
                if len(fitting) >= self._wanted:
                    return self._matching(near | set(words))
        return self._matching(None)

    def _matching(self, among: Collection[int] | None) -> list[int]:
        """Numbers of all fitting items, or of those `among` some, newest first."""
        columns = (items.c.n, items.c.value) if self.op.filter else (items.c.n,)
        wanted = sa.select(*columns).where(self._under).order_by(*_NEWEST_FIRST)
        if among is not None:
            wanted = wanted.where(items.c.n.in_(list(among)))
        rows = self.reading.connection.execute(wanted)
        if not self.op.filter:
            return [row.n for row in rows]
        return [row.n for row in rows if passes(json.loads(row.value), self.op.filter)]

    def _near(self, depth: int) -> set[int] | None:
        """Items with the nearest vectors, of all namespaces; None without a vector or
        index.
        """
        if self.vector is None:
            return None
        try:
            nearest_indexed = self.folder.index.query(LAYER, self.vector, depth)
        except IndexUnavailableError as error:
            _log.warning("%s", error)
            return None
        waiting = nearest(
            [item_tables.waiting(self.reading.connection)], self.vector, depth
        )
        return item_tables.items_of(self.reading.connection, nearest_indexed) | set(
            waiting
        )

    def _cosines(self, candidates: Sequence[int]) -> dict[int, float]:
        """The best cosine among each item's texts; items without vectors are
        left out.
        """
        if self.vector is None or self.settings.ranking.method == "words":
            return {}
        return best_cosines(
            item_tables.of_items(self.reading.connection, candidates), self.vector
        )

    def _scores(
        self, scored: Sequence[int], dense: dict[int, float], words: dict[int, float]
    ) -> Scores:
        both = {"dense": dense, "words": words}
        signals = {
            k: np.array([found.get(n, 0.0) for n in scored])
            for k, found in both.items()
        }
        if self.settings.ranking.method == "rrf":
            return reciprocal_rank_fusion(
                list(signals.values()), self.settings.ranking.rrf_k
            )
        signals["words"] = share_of_best(signals["words"])
        if self.settings.ranking.method != "hybrid":
            return signals[self.settings.ranking.method]
        return weighted_sum(signals, _WEIGHTS)
