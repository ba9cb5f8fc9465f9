"""Full-text search in PostgreSQL: BM25 over our own postings, with the scores of
SQLite's FTS5.

PostgreSQL's own ranking knows nothing of how rare a word is, so postings are kept: how
often each item has each term.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, UUID, insert

from langmem_graph.storage.words import LEAST, Passes, TermCounts, is_prefix

SCHEMA = "langmem_graph"
OWN_ROOM = "current_setting('app.room')::uuid"
K1, B = 1.2, 0.75  # BM25's constants, as in FTS5
TABLES = sa.MetaData(schema=SCHEMA)


def room_column() -> sa.Column[Any]:
    """The room, first in every key; it is the transaction's own where none is given."""
    own = sa.text(OWN_ROOM)
    return sa.Column("room", UUID, primary_key=True, server_default=own, nullable=False)


_KEY = "room", "words", "term", "item"
_COUNTED = ["own", "before", "size"]
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
    # All that a search reads is in the index: the rows of a term lie in as many pages
    # as sessions.
    sa.PrimaryKeyConstraint(*_KEY, name="postings_pkey", postgresql_include=_COUNTED),
    # The item first: else PostgreSQL, not knowing a new room, reads all its postings
    # for a term.
    sa.Index("postings_by_item", "item", "room", "words"),
)
"""How often each item has a term, in the two columns of its full-text table; and its
words.
"""

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

COVERED = (
    f"ALTER TABLE {SCHEMA}.postings DROP CONSTRAINT IF EXISTS postings_pkey,"
    f" ADD PRIMARY KEY ({', '.join(_KEY)}) INCLUDE ({', '.join(_COUNTED)})"
)
"""What version 4 keeps in the index of words."""
_NUMBERS = ("items", "own", "before", "sizes")
_ADD = sa.text(
    # a constant
    f"INSERT INTO {SCHEMA}.postings (words, term, item, own, before, size)"
    " SELECT :words, * FROM unnest(string_to_array(:terms, ' '),"
    f" {', '.join(f'CAST(:{name} AS bigint[])' for name in _NUMBERS)})"
).bindparams(*(sa.bindparam(name, type_=sa.Text()) for name in ("terms", *_NUMBERS)))
"""Each column is one text, which takes a fraction of the time that psycopg needs for a
list.
"""


def add(
    connection: Connection, words: int, rows: Mapping[int, Sequence[Sequence[str]]]
) -> None:
    """Index items: the words of one or two columns of each.

    Postings are stored term by term: those of a term then lie together, where they are
    looked up.
    """
    sizes = {item: sum(map(len, columns)) for item, columns in rows.items()}
    made = list[tuple[str, int, int, int, int]]()
    for item, columns in rows.items():
        own, before = (Counter(column) for column in (*columns, ())[:2])
        made += (
            (term, item, own[term], before[term], sizes[item]) for term in own | before
        )
    terms, *columns = (
        zip(*sorted(made), strict=True) if made else [()] * (1 + len(_NUMBERS))
    )
    arrays = (f"{{{','.join(map(str, column))}}}" for column in columns)
    values = dict(zip(_NUMBERS, arrays, strict=True))
    connection.execute(_ADD, {"words": words, "terms": " ".join(terms), **values})
    listed = [
        {"words": words, "item": item, "size": size} for item, size in sizes.items()
    ]
    connection.execute(sa.insert(indexed), listed)
    _count(connection, words, len(sizes), sum(sizes.values()))


def _count(connection: Connection, words: int, items: int, size: int) -> None:
    """Add to the totals; nobody else writes in this room meanwhile."""
    new = insert(totals).values(words=words, total_items=items, total_size=size)
    sums = {
        name: totals.c[name] + new.excluded[name]
        for name in ("total_items", "total_size")
    }
    connection.execute(
        new.on_conflict_do_update(index_elements=["room", "words"], set_=sums)
    )


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


_OWN = f"p.room = {OWN_ROOM} AND p.words = :words"
# the last character: all that begins with a prefix is before prefix + _LAST
_LAST = "\U0010ffff"
_COUNTS = sa.text(
    "SELECT q.term, CASE WHEN q.prefix THEN"
    f" (SELECT count(DISTINCT p.item) FROM {SCHEMA}.postings p WHERE {_OWN}"
    f" AND p.term >= q.term AND p.term <= q.term || '{_LAST}' AND p.item > q.after)"
    f" ELSE (SELECT count(*) FROM {SCHEMA}.postings p WHERE {_OWN}"
    " AND p.term = q.term AND p.item > q.after) END"
    ' FROM (SELECT term COLLATE "C" AS term, after, prefix'
    " FROM unnest(:terms, :afters, :prefixes) AS a(term, after, prefix)) q"
).bindparams(
    sa.bindparam("terms", type_=ARRAY(sa.Text())),
    sa.bindparam("afters", type_=ARRAY(sa.BigInteger())),
    sa.bindparam("prefixes", type_=ARRAY(sa.Boolean())),
)


def counts(
    connection: Connection, words: int, terms: Mapping[str, int]
) -> dict[str, int]:
    """In how many items with greater numbers than its own each term occurs."""
    asked = {"words": words, "terms": list(terms), "afters": list(terms.values())}
    found = connection.execute(
        _COUNTS, asked | {"prefixes": list(map(is_prefix, terms))}
    )
    return {term: count for term, count in found}  # noqa: C416  # rows, not pairs


def rows(connection: Connection, words: int) -> int:
    """How many items there are."""
    return _totals(connection, words)[0]


def _totals(connection: Connection, words: int) -> tuple[int, int]:
    """How many items there are, and how many words they have together."""
    held = sa.select(totals.c.total_items, totals.c.total_size).where(
        _of(totals, words)
    )
    items, size = connection.execute(held).one_or_none() or (0, 0)
    return items, size


def search(
    connection: Connection,
    words: int,
    terms: Sequence[str],
    weights: tuple[float, float],
    limit: int | None,
    among: sa.Select[tuple[int]] | Passes | None,
    counted: TermCounts,
) -> list[tuple[int, float]]:
    """The items that have a term, with their BM25 scores, best first.

    `counted` tells in how many items each term occurs, here or in several rooms
    together.
    """
    having = {term: counted.having[term] for term in terms if counted.having[term]}
    lasts = [term + _LAST if is_prefix(term) else term for term in having]
    asked = {
        "words": words,
        "terms": list(having),
        "lasts": lasts,
        "counts": list(having.values()),
        "items": counted.rows if counted.pooled else None,
    }
    hits = _hits(weights, any(map(is_prefix, having)))
    query = sa.select(hits.c.item, hits.c.score).order_by(
        hits.c.score.desc(), hits.c.item
    )
    if isinstance(among, np.ndarray):
        asked["passes"] = np.packbits(among, bitorder="little").tobytes()
        query = query.where(_PASSES)
    elif among is not None:
        # As a truth value, and no join: PostgreSQL then selects once, whatever it
        # expects.
        query = query.where(hits.c.item.in_(among).is_(sa.true()))
    return [
        (item, score) for item, score in connection.execute(query.limit(limit), asked)
    ]


_PASSES = sa.text("get_bit(:passes, item) = 1").bindparams(
    sa.bindparam("passes", type_=sa.LargeBinary())
)


@lru_cache(maxsize=8)
def _hits(weights: tuple[float, float], prefixed: bool) -> sa.Subquery:
    """Selects the items of the terms with their scores.

    Postings are looked up term by term: PostgreSQL, not knowing how rare a term is,
    might read all.
    """
    often = f"p.own * {weights[0]}::float8 + p.before * {weights[1]}::float8"
    having = (
        f"SELECT p.item, p.size, {often} AS often FROM {SCHEMA}.postings p WHERE {_OWN}"
    )
    if prefixed:
        having = having.replace(often, f"sum({often})")
        having += " AND p.term >= q.term AND p.term <= q.last GROUP BY p.item, p.size"
    else:
        having += " AND p.term = q.term"
    statement = sa.text(
        f"""WITH q AS MATERIALIZED (
          SELECT a.term COLLATE "C" AS term, a.last COLLATE "C" AS last,
            {K1 + 1} * greatest({LEAST},
              ln((coalesce(CAST(:items AS bigint), t.total_items)
                   - a.held + 0.5::float8)
              / (a.held + 0.5::float8))) AS rarity,
            {K1 * B} * t.total_items::float8 / nullif(t.total_size, 0) AS by_size
          FROM {SCHEMA}.totals t, unnest(:terms, :lasts, :counts) AS a(term, last, held)
          WHERE t.room = {OWN_ROOM} AND t.words = :words)
        SELECT h.item,
          sum(q.rarity * h.often
              / (h.often + {K1 * (1 - B)} + h.size * q.by_size)) AS score
        FROM q CROSS JOIN LATERAL ({having} OFFSET 0) h GROUP BY h.item"""  # constants
    ).bindparams(
        *(sa.bindparam(name, type_=ARRAY(sa.Text())) for name in ("terms", "lasts")),
        sa.bindparam("counts", type_=ARRAY(sa.BigInteger())),
    )
    return statement.columns(
        sa.column("item", sa.BigInteger), sa.column("score", sa.Double)
    ).subquery("hits")


def _of(table: sa.Table, words: int) -> sa.ColumnElement[bool]:
    """The rows of a full-text table in the transaction's room."""
    return (table.c.room == sa.literal_column(OWN_ROOM)) & (table.c.words == words)
