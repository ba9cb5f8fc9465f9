"""Full-text search in PostgreSQL: BM25 over our own postings, with the scores of SQLite's FTS5.

PostgreSQL's own ranking knows nothing of how rare a word is, so postings are kept: how often each
item has each term.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, UUID, insert

from langmem_graph.storage.words import TermCounts, is_prefix

SCHEMA = "langmem_graph"
OWN_ROOM = "current_setting('app.room')::uuid"
K1, B = 1.2, 0.75  # BM25's constants, as in FTS5
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
    sa.Column("size", sa.Integer, nullable=False),
    # The item first: else PostgreSQL, not knowing a new room, reads all its postings for a term.
    sa.Index("postings_by_item", "item", "room", "words"),
)
"""How often each item has a term, in the two columns of its full-text table; and its words."""

indexed = sa.Table(
    "indexed",
    TABLES,
    room_column(),
    sa.Column("words", sa.SmallInteger, primary_key=True),
    sa.Column("item", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("size", sa.Integer, nullable=False),
)
"""The items of each full-text table, and how many words each has."""

totals = sa.Table(
    "totals",
    TABLES,
    room_column(),
    sa.Column("words", sa.SmallInteger, primary_key=True),
    sa.Column("total_items", sa.BigInteger, nullable=False),
    sa.Column("total_size", sa.BigInteger, nullable=False),
)
"""How many items each full-text table has, and how many words these have together."""

_NUMBERS = ("items", "own", "before", "sizes")
_ADD = sa.text(
    f"INSERT INTO {SCHEMA}.postings (words, term, item, own, before, size)"  # a constant
    " SELECT :words, * FROM unnest(:terms, :items, :own, :before, :sizes)"
).bindparams(
    sa.bindparam("terms", type_=ARRAY(sa.Text())),
    *(sa.bindparam(name, type_=ARRAY(sa.BigInteger())) for name in _NUMBERS),
)


def add(connection: Connection, words: int, rows: Mapping[int, Sequence[Sequence[str]]]) -> None:
    """Index items: the words of one or two columns of each."""
    made: dict[str, list[object]] = {name: [] for name in ("terms", *_NUMBERS)}
    sizes = {item: sum(map(len, columns)) for item, columns in rows.items()}
    for item, columns in rows.items():
        own, before = (Counter(column) for column in (*columns, ())[:2])
        terms = list(own | before)
        made["terms"] += terms
        made["items"] += [item] * len(terms)
        made["own"] += [own[term] for term in terms]
        made["before"] += [before[term] for term in terms]
        made["sizes"] += [sizes[item]] * len(terms)
    connection.execute(_ADD, {"words": words, **made})
    listed = [{"words": words, "item": item, "size": size} for item, size in sizes.items()]
    connection.execute(sa.insert(indexed), listed)
    _count(connection, words, len(sizes), sum(sizes.values()))


def _count(connection: Connection, words: int, items: int, size: int) -> None:
    """Add to the totals; nobody else writes in this room meanwhile."""
    new = insert(totals).values(words=words, total_items=items, total_size=size)
    sums = {name: totals.c[name] + new.excluded[name] for name in ("total_items", "total_size")}
    connection.execute(new.on_conflict_do_update(index_elements=["room", "words"], set_=sums))


def drop(connection: Connection, words: int, items: Iterable[int]) -> None:
    """Delete items."""
    numbers = list(items)
    listed = sa.select(sa.func.count(), sa.func.sum(indexed.c.size))
    gone = listed.where(_of(indexed, words), indexed.c.item.in_(numbers))
    count, size = connection.execute(gone).one()
    _count(connection, words, -count, -(size or 0))
    for table in (postings, indexed):
        own = _of(table, words) & table.c.item.in_(numbers)
        connection.execute(sa.delete(table).where(own))


def counts(connection: Connection, words: int, terms: Iterable[str]) -> dict[str, int]:
    """In how many items each term occurs."""
    known = dict.fromkeys(terms, 0)
    p, own = postings.c, _of(postings, words)
    plain = p.term.in_([term for term in known if not is_prefix(term)])  # one row for each item
    parts: list[Any] = [sa.select(p.term, sa.func.count()).where(own, plain).group_by(p.term)]
    for term in filter(is_prefix, known):
        having = sa.select(sa.literal(term), sa.func.count(p.item.distinct()))
        parts.append(having.where(own, p.term.startswith(term)))
    return known | {term: count for term, count in connection.execute(sa.union_all(*parts))}  # noqa: C416


def rows(connection: Connection, words: int) -> int:
    """How many items there are."""
    return _totals(connection, words)[0]


def _totals(connection: Connection, words: int) -> tuple[int, int]:
    """How many items there are, and how many words they have together."""
    held = sa.select(totals.c.total_items, totals.c.total_size).where(_of(totals, words))
    items, size = connection.execute(held).one_or_none() or (0, 0)
    return items, size


def search(
    connection: Connection,
    words: int,
    terms: Sequence[str],
    weights: tuple[float, float],
    limit: int | None,
    among: sa.Select[tuple[int]] | None,
    counted: TermCounts | None = None,
) -> list[tuple[int, float]]:
    """The items that have a term, with their BM25 scores, best first."""
    items, size = _totals(connection, words)
    counted = counted or TermCounts(items, counts(connection, words, terms))
    rarity = {term: counted.rarity(term) for term in terms if counted.having[term]}
    if not rarity or not size:
        return []
    hits = _hits(words, rarity, weights).subquery()
    long = K1 * (1 - B) + hits.c.size * (K1 * B * items / size)
    score = hits.c.rarity * (K1 + 1) * hits.c.often / (hits.c.often + long)
    total = sa.func.sum(score)
    query = sa.select(hits.c.item, total).group_by(hits.c.item)
    if among is not None:
        query = query.where(hits.c.item.in_(among))
    rows = connection.execute(query.order_by(total.desc(), hits.c.item).limit(limit))
    return [(item, float(score)) for item, score in rows]


def _hits(
    words: int, terms: Mapping[str, float], weights: tuple[float, float]
) -> sa.CompoundSelect[Any]:
    """How often each item has each term, weighted by column, with what the term counts."""
    p = postings.c
    own, before = (sa.cast(column, sa.Double) for column in (p.own, p.before))
    often = own * weights[0] + before * weights[1]
    plain = {term: rarity for term, rarity in terms.items() if not is_prefix(term)}
    rarity = sa.case(plain, value=p.term, else_=0.0) if plain else sa.literal(0.0)
    single = sa.select(p.item, p.size, rarity.label("rarity"), often.label("often"))
    parts: list[Any] = [single.where(_of(postings, words), p.term.in_(list(plain)))]
    for term in filter(is_prefix, terms):
        rarity = sa.literal(terms[term], sa.Double)
        whole = sa.select(p.item, p.size, rarity.label("rarity"), sa.func.sum(often).label("often"))
        one = whole.where(_of(postings, words), p.term.startswith(term))
        parts.append(one.group_by(p.item, p.size))
    return sa.union_all(*parts)


def _of(table: sa.Table, words: int) -> sa.ColumnElement[bool]:
    """The rows of a full-text table in the transaction's room."""
    return (table.c.room == sa.literal_column(OWN_ROOM)) & (table.c.words == words)
