"""Items in the ledger: written with their texts and due work, and read."""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, SearchItem, SearchOp
from sqlalchemy import Connection, Row, delete, func, insert, select, text, update

from langmem_graph.storage.full_text import match_expression
from langmem_graph.storage.sqlite import portions
from langmem_graph.store.item_tables import TEXT_WORDS, items, texts, unembedded, unindexed, vectors
from langmem_graph.store.operations import (
    Namespace,
    Put,
    as_labels,
    as_text,
    known_beginning,
    listed,
    passes,
    under,
)

_LARGEST = 2**63 - 1  # of SQLite's integers
_NEWEST_FIRST = (items.c.updated_at.desc(), items.c.n.desc())


def write(connection: Connection, puts: Iterable[Put]) -> list[int]:
    """Store and delete; returns the numbers of the texts that are now due for embedding."""
    now = datetime.now(UTC).replace(tzinfo=None)
    due: list[int] = []
    for put in puts:
        found = _own_row(put.namespace, put.key)
        number = connection.scalar(select(items.c.n).where(found))
        if put.value is not None:
            due += _store(connection, put, number, now)
        elif number is not None:
            _drop_texts(connection, number)
            connection.execute(delete(items).where(found))
    return due


def _own_row(namespace: str, key: str) -> Any:
    return (items.c.namespace == namespace) & (items.c.key == key)


def _store(connection: Connection, put: Put, number: int | None, now: datetime) -> list[int]:
    """Insert or replace; texts that stay the same keep their vectors."""
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
    return [_add_text(connection, number, one) for one in put.texts]


def _add_text(connection: Connection, item: int, words: str) -> int:
    row = insert(texts).values(item=item, text=words).returning(texts.c.n)
    number: int = connection.scalars(row).one()
    TEXT_WORDS.add(connection, {number: [words]})
    connection.execute(insert(unembedded).values(text=number, failures=0))
    return number


def _drop_texts(connection: Connection, item: int) -> None:
    """What the item was found by goes with it; Chroma is told later."""
    numbers = list(connection.scalars(select(texts.c.n).where(texts.c.item == item)))
    if not numbers:
        return
    gone = select(vectors.c.n).where(vectors.c.text.in_(numbers))
    told = insert(unindexed).prefix_with("OR IGNORE").from_select(["vector"], gone)
    connection.execute(told)
    connection.execute(delete(vectors).where(vectors.c.text.in_(numbers)))
    connection.execute(delete(unembedded).where(unembedded.c.text.in_(numbers)))
    TEXT_WORDS.drop(connection, numbers)
    connection.execute(delete(texts).where(texts.c.item == item))


def get(connection: Connection, op: GetOp) -> Item | None:
    """The item under exactly this namespace and key."""
    found = select(items).where(_own_row(as_text(op.namespace), str(op.key)))
    row = connection.execute(found).one_or_none()
    return None if row is None else Item(**_fields(row))


def list_namespaces(connection: Connection, op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that hold items, as far as they are asked for."""
    found = select(items.c.namespace).where(under(known_beginning(op))).distinct()
    return listed(op, [as_labels(one) for one in connection.scalars(found)])


def newest(connection: Connection, op: SearchOp) -> list[SearchItem]:
    """A search without a query: what was put last comes first."""
    found = select(items).where(under(op.namespace_prefix)).order_by(*_NEWEST_FIRST)
    if not op.filter:
        page = found.limit(min(op.limit, _LARGEST)).offset(min(op.offset, _LARGEST))
        rows = connection.execute(page)
        return [SearchItem(**_fields(row)) for row in rows]
    stop, kept = op.offset + op.limit, list[SearchItem]()
    with connection.execute(found.execution_options(yield_per=500)) as rows:
        for row in rows:
            if len(kept) == stop:
                break
            one = SearchItem(**_fields(row))
            if passes(one.value, op.filter):
                kept.append(one)
    return kept[op.offset :]


def how_many(connection: Connection, prefix: Namespace, at_most: int) -> int:
    """The number of items in and below a namespace, counted no further than `at_most`."""
    some = select(items.c.n).where(under(prefix)).limit(at_most).subquery()
    return connection.scalar(select(func.count()).select_from(some)) or 0


def matching(connection: Connection, op: SearchOp, among: Collection[int] | None) -> list[int]:
    """Numbers of the items that prefix and filter let through, newest first."""
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
    """Whole items, in this order."""
    rows = {}
    for some in portions(numbers):
        for row in connection.execute(select(items).where(items.c.n.in_(some))):
            rows[row.n] = row
    both = zip(numbers, scores, strict=True)
    return [SearchItem(**_fields(rows[n]), score=score) for n, score in both]


def by_words(
    connection: Connection, prefix: Namespace, terms: Sequence[str], limit: int
) -> dict[int, float]:
    """Items below the prefix that hold any of the terms, each with the BM25 of its best text."""
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
    for n, found in connection.execute(joined, {"terms": match_expression(terms)}):
        best.setdefault(n, found)
    return best


def _fields(row: Row[Any]) -> dict[str, Any]:
    return {
        "namespace": as_labels(row.namespace),
        "key": row.key,
        "value": json.loads(row.value),
        "created_at": row.created_at.replace(tzinfo=UTC),
        "updated_at": row.updated_at.replace(tzinfo=UTC),
    }
