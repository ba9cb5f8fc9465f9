"""Full-text search in PostgreSQL: BM25 over our own postings, with the scores of SQLite's FTS5.

PostgreSQL's own ranking knows nothing of how rare a word is, so postings are kept: how often each
item has each term.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from langmem_graph.storage.words import is_prefix

SCHEMA = "langmem_graph"
OWN_ROOM = "current_setting('app.room')::uuid"
K1, B = 1.2, 0.75  # BM25's constants, as in FTS5
LEAST = 1e-6  # what a term counts that most items have, as in FTS5
TABLES = sa.MetaData(schema=SCHEMA)


def room_column() -> sa.Column[Any]:
    """The room, first in every key; it is the transaction's own where none is given."""
    own = sa.text(OWN_ROOM)
    return sa.Column("room", UUID, primary_key=True, server_default=own, nullable=False)


postings = sa.Table(
    "postings",
    TABLES,
    room_column(),
    sa.Column("words", sa.SmallInteger, primary_key=True),
    sa.Column("term", sa.Text(collation="C"), primary_key=True),
    sa.Column("item", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("own", sa.Integer, nullable=False),
    sa.Column("before", sa.Integer, nullable=False),
    sa.Index("postings_by_item", "room", "words", "item"),
)
"""How often each item has a term, in the two columns of its full-text table."""

indexed = sa.Table(
    "indexed",
    TABLES,
    room_column(),
    sa.Column("words", sa.SmallInteger, primary_key=True),
    sa.Column("item", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("size", sa.Integer, nullable=False),
)
"""The items of each full-text table, and how many words each has."""

_ADD = sa.text(
    f"INSERT INTO {SCHEMA}.postings (words, term, item, own, before)"  # a constant
    " SELECT :words, * FROM unnest(:terms, :items, :own, :before)"
).bindparams(
    sa.bindparam("terms", type_=ARRAY(sa.Text())),
    *(sa.bindparam(name, type_=ARRAY(sa.BigInteger())) for name in ("items", "own", "before")),
)


def add(connection: Connection, words: int, rows: Mapping[int, Sequence[Sequence[str]]]) -> None:
    """Index items: the words of one or two columns of each."""
    made: dict[str, list[object]] = {"terms": [], "items": [], "own": [], "before": []}
    for item, columns in rows.items():
        own, before = (Counter(column) for column in (*columns, ())[:2])
        terms = list(own | before)
        made["terms"] += terms
        made["items"] += [item] * len(terms)
        made["own"] += [own[term] for term in terms]
        made["before"] += [before[term] for term in terms]
    connection.execute(_ADD, {"words": words, **made})
    sizes = [{"words": words, "item": n, "size": sum(map(len, c))} for n, c in rows.items()]
    connection.execute(sa.insert(indexed), sizes)


def drop(connection: Connection, words: int, items: Iterable[int]) -> None:
    """Delete items."""
    numbers = list(items)
    for table in (postings, indexed):
        gone = _of(table, words) & table.c.item.in_(numbers)
        connection.execute(sa.delete(table).where(gone))


def counts(connection: Connection, words: int, terms: Iterable[str]) -> dict[str, int]:
    """In how many items each term occurs."""
    known = dict.fromkeys(terms, 0)
    found = _hits(words, list(known), (1.0, 1.0)).subquery()
    query = sa.select(found.c.term, sa.func.count()).group_by(found.c.term)
    return known | {term: count for term, count in connection.execute(query)} if known else {}  # noqa: C416


def search(
    connection: Connection,
    words: int,
    terms: Sequence[str],
    weights: tuple[float, float],
    limit: int | None,
    among: sa.Select[tuple[int]] | None,
) -> list[tuple[int, float]]:
    """The items that have a term, with their BM25 scores, best first."""
    sizes = sa.select(sa.func.count().label("n"), sa.func.avg(indexed.c.size).label("size"))
    whole = sizes.where(_of(indexed, words)).subquery()
    hits = _hits(words, terms, weights).subquery()
    having = sa.cast(sa.func.count().over(partition_by=hits.c.term), sa.Double)
    rare = sa.func.ln((whole.c.n - having + 0.5) / (having + 0.5))
    rarity = sa.case((rare <= 0, LEAST), else_=rare)
    long = K1 * (1 - B + B * indexed.c.size / sa.cast(whole.c.size, sa.Double))
    score = rarity * (hits.c.often * (K1 + 1)) / (hits.c.often + long)
    same = _of(indexed, words) & (indexed.c.item == hits.c.item)
    joined = hits.join(indexed, same).join(whole, sa.true())
    single = sa.select(hits.c.item, score.label("score")).select_from(joined).subquery()
    total = sa.func.sum(single.c.score)
    query = sa.select(single.c.item, total).group_by(single.c.item)
    if among is not None:
        query = query.where(single.c.item.in_(among))
    rows = connection.execute(query.order_by(total.desc(), single.c.item).limit(limit))
    return [(item, float(score)) for item, score in rows]


def _hits(words: int, terms: Sequence[str], weights: tuple[float, float]) -> sa.CompoundSelect[Any]:
    """How often each item has each term, weighted by column."""
    p = postings.c
    often = sa.cast(sa.func.sum(p.own * weights[0] + p.before * weights[1]), sa.Double)
    plain = [term for term in terms if not is_prefix(term)]
    each: list[tuple[sa.ColumnElement[str], Any]] = [(p.term, p.term.in_(plain))]
    each += [(sa.literal(t), p.term.startswith(t)) for t in terms if is_prefix(t)]
    return sa.union_all(
        *(
            sa.select(p.item, name.label("term"), often.label("often"))
            .where(_of(postings, words), matches)
            .group_by(p.item, name)
            for name, matches in each
        )
    )


def _of(table: sa.Table, words: int) -> sa.ColumnElement[bool]:
    """The rows of a full-text table in the transaction's room."""
    return (table.c.room == sa.literal_column(OWN_ROOM)) & (table.c.words == words)
