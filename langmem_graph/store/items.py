"""Storing, deleting and reading the items of a store, with the words that find them."""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, SearchItem, SearchOp
from sqlalchemy import Connection, Row, delete, func, insert, select, text, update

from langmem_graph.storage.full_text import match_expression
from langmem_graph.storage.sqlite_database import rows_where_in
from langmem_graph.store.item_tables import TEXT_WORDS, items, texts, unembedded, unindexed, vectors
from langmem_graph.store.namespaces_and_filters import (
    Namespace,
    as_labels,
    as_text,
    known_beginning,
    listed,
    passes,
    under,
)
from langmem_graph.store.operations import Put

_LARGEST = 2**63 - 1  # SQLite's largest integer
_NEWEST_FIRST = (items.c.updated_at.desc(), items.c.n.desc())


def write(connection: Connection, puts: Iterable[Put]) -> list[int]:
    """Store and delete items; returns the numbers of the texts that are now due for embedding."""
    now = datetime.now(UTC).replace(tzinfo=None)
    due: list[int] = []
    for put in puts:
        same = _has_name(put.namespace, put.key)
        number = connection.scalar(select(items.c.n).where(same))
        if put.value is not None:
            due += _store(connection, put, number, now)
        elif number is not None:
            _drop_texts(connection, number)
            connection.execute(delete(items).where(same))
    return due


def _has_name(namespace: str, key: str) -> Any:
    return (items.c.namespace == namespace) & (items.c.key == key)


def _store(connection: Connection, put: Put, number: int | None, now: datetime) -> list[int]:
    """Insert or replace an item; texts that stay the same keep their vectors."""
    fields = {"value": put.value, "updated_at": now}
    if number is None:
        fields |= {"namespace": put.namespace, "key": put.key, "created_at": now}
        number = connection.scalars(insert(items).values(fields).returning(items.c.n)).one()
    else:
        connection.execute(update(items).where(items.c.n == number).values(fields))
        before = select(texts.c.text).where(texts.c.item == number).order_by(texts.c.n)
        if tuple(connection.scalars(before)) == put.texts:
            return []
        _drop_texts(connection, number)
    return [_add_text(connection, number, words) for words in put.texts]


def _add_text(connection: Connection, item: int, words: str) -> int:
    row = insert(texts).values(item=item, text=words).returning(texts.c.n)
    number: int = connection.scalars(row).one()
    TEXT_WORDS.add(connection, {number: [words]})
    connection.execute(insert(unembedded).values(text=number, failures=0))
    return number


def _drop_texts(connection: Connection, item: int) -> None:
    """Delete an item's texts and vectors, and mark the vectors to be deleted from Chroma."""
    numbers = list(connection.scalars(select(texts.c.n).where(texts.c.item == item)))
    if not numbers:
        return
    gone = select(vectors.c.n).where(vectors.c.text.in_(numbers))
    marks = insert(unindexed).prefix_with("OR IGNORE").from_select(["vector"], gone)
    connection.execute(marks)
    connection.execute(delete(vectors).where(vectors.c.text.in_(numbers)))
    connection.execute(delete(unembedded).where(unembedded.c.text.in_(numbers)))
    TEXT_WORDS.drop(connection, numbers)
    connection.execute(delete(texts).where(texts.c.item == item))


def get(connection: Connection, op: GetOp) -> Item | None:
    """The item with exactly this namespace and key."""
    named = select(items).where(_has_name(as_text(op.namespace), str(op.key)))
    row = connection.execute(named).one_or_none()
    return None if row is None else Item(**_fields(row))


def list_namespaces(connection: Connection, op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that hold items and meet the operation's conditions."""
    stored = select(items.c.namespace).where(under(known_beginning(op))).distinct()
    return listed(op, [as_labels(name) for name in connection.scalars(stored)])


def newest(connection: Connection, op: SearchOp) -> list[SearchItem]:
    """A search without a query: the items put last come first."""
    ordered = select(items).where(under(op.namespace_prefix)).order_by(*_NEWEST_FIRST)
    if not op.filter:
        page = ordered.limit(min(op.limit, _LARGEST)).offset(min(op.offset, _LARGEST))
        return [SearchItem(**_fields(row)) for row in connection.execute(page)]
    stop, kept = op.offset + op.limit, list[SearchItem]()
    with connection.execute(ordered.execution_options(yield_per=500)) as rows:
        for row in rows:
            if len(kept) == stop:
                break
            item = SearchItem(**_fields(row))
            if passes(item.value, op.filter):
                kept.append(item)
    return kept[op.offset :]


def how_many(connection: Connection, prefix: Namespace, at_most: int) -> int:
    """The number of items in and below a namespace, or `at_most` if there are more."""
    some = select(items.c.n).where(under(prefix)).limit(at_most).subquery()
    return connection.scalar(select(func.count()).select_from(some)) or 0


def matching(connection: Connection, op: SearchOp, among: Collection[int] | None) -> list[int]:
    """Numbers of the items, of all or `among` some, that match prefix and filter, newest first."""
    columns = (items.c.n, items.c.value) if op.filter else (items.c.n,)
    wanted = select(*columns).where(under(op.namespace_prefix)).order_by(*_NEWEST_FIRST)
    if among is not None:
        wanted = wanted.where(items.c.n.in_(list(among)))
    rows = connection.execute(wanted)
    if not op.filter:
        return [row.n for row in rows]
    return [row.n for row in rows if passes(json.loads(row.value), op.filter)]


def with_scores(
    connection: Connection, numbers: Sequence[int], scores: Sequence[float | None]
) -> list[SearchItem]:
    """Whole items with their scores, in this order."""
    rows = {row.n: row for row in rows_where_in(connection, select(items), items.c.n, numbers)}
    both = zip(numbers, scores, strict=True)
    return [SearchItem(**_fields(rows[n]), score=score) for n, score in both]


def by_words(
    connection: Connection, prefix: Namespace, terms: Sequence[str], limit: int
) -> dict[int, float]:
    """Items below the prefix that contain a term, each with the BM25 score of its best text."""
    score = text("-bm25(text_words)")
    joined = (
        select(items.c.n, score)
        .select_from(text("text_words"))
        .join(texts, texts.c.n == text("text_words.rowid"))
        .join(items, items.c.n == texts.c.item)
        .where(text("text_words MATCH :terms"), under(prefix))
        .order_by(text("bm25(text_words)"))
        .limit(limit)
    )
    best: dict[int, float] = {}
    for n, bm25 in connection.execute(joined, {"terms": match_expression(terms)}):
        best.setdefault(n, bm25)
    return best


def _fields(row: Row[Any]) -> dict[str, Any]:
    return {
        "namespace": as_labels(row.namespace),
        "key": row.key,
        "value": json.loads(row.value),
        "created_at": row.created_at.replace(tzinfo=UTC),
        "updated_at": row.updated_at.replace(tzinfo=UTC),
    }
