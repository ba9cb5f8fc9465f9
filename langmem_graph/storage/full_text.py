"""Full-text tables: the words of messages, records and a store's texts, ranked by BM25.

SQLite's FTS5 holds them in a ledger's file; on PostgreSQL they are in
`postgres_words.py`. Both get the words from `words.py`, so that they find the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from langmem_graph.storage import postgres_words
from langmem_graph.storage.words import Passes, TermCounts, is_prefix, words_of_text

_PASSES = "passes(rowid)"


def match_expression(terms: Sequence[str]) -> str:
    """An FTS5 expression that matches any of the terms."""
    return " OR ".join(f'"{term}"{"*" if is_prefix(term) else ""}' for term in terms)


@dataclass(frozen=True)
class WordTable:
    """A full-text table; each row has the number of the item that it indexes.

    Args:
        name: of FTS5's table.
        number: what PostgreSQL's rows have instead of the name.
        columns: one or two; a word in a column counts as much as its weight says.
    """

    name: str
    number: int
    columns: tuple[str, ...] = ("own",)
    weights: tuple[float, float] = (1.0, 1.0)

    def create(self, connection: sa.Connection) -> None:
        """Create the table in a ledger's file, in place of an older one.

        The words are split and stemmed already: FTS5 only has to find the spaces
        between them.
        """
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {self.name}")
        connection.exec_driver_sql(
            f"CREATE VIRTUAL TABLE {self.name} USING"
            f" fts5({', '.join(self.columns)}, tokenize='ascii')"
        )

    def add(self, connection: sa.Connection, rows: Mapping[int, Sequence[str]]) -> None:
        """Index the texts of each number, one per column."""
        words = {
            n: [words_of_text(text) for text in texts] for n, texts in rows.items()
        }
        if not words:
            return
        if _is_postgres(connection):
            postgres_words.add(connection, self.number, words)
            return
        values = [
            {"rowid": n, **dict(zip(self.columns, map(" ".join, columns), strict=True))}
            for n, columns in words.items()
        ]
        connection.execute(sa.insert(self._table), values)

    def drop(self, connection: sa.Connection, numbers: Iterable[int]) -> None:
        """Delete the rows of these numbers."""
        words = self._table
        rows = [{"n": n} for n in numbers]
        if rows and _is_postgres(connection):
            postgres_words.drop(connection, self.number, [row["n"] for row in rows])
        elif rows:
            connection.execute(
                sa.delete(words).where(words.c.rowid == sa.bindparam("n")), rows
            )

    def optimize(self, connection: sa.Connection) -> None:
        """Merge the index into one segment, which removes deleted words from
        the file.
        """
        if not _is_postgres(connection):
            # FTS5 takes commands as rows
            command = sa.table(self.name, sa.column(self.name))
            connection.execute(sa.insert(command).values({self.name: "optimize"}))

    def counts(
        self,
        connection: sa.Connection,
        terms: Iterable[str],
        after: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, int]:
        """In how many rows each term occurs, in any column.

        `after` names terms of which only rows with greater numbers than this are meant.
        """
        asked = {term: after.get(term, 0) for term in terms}
        if _is_postgres(connection):
            return postgres_words.counts(connection, self.number, asked)
        command = (
            f"SELECT count(*) FROM {self.name} WHERE {self.name} MATCH ? AND rowid > ?"  # noqa: S608  # a constant
        )
        plain = _plain(connection)
        return {
            term: plain.execute(command, (match_expression([term]), n)).fetchone()[0]
            for term, n in asked.items()
        }

    def counted(self, connection: sa.Connection, terms: Iterable[str]) -> TermCounts:
        """How many rows there are, and in how many of them each term occurs."""
        if _is_postgres(connection):
            rows: int | None = postgres_words.rows(connection, self.number)
        else:
            rows = connection.exec_driver_sql(
                f"SELECT count(*) FROM {self.name}_docsize"  # noqa: S608  # a constant
            ).scalar()
        return TermCounts(rows or 0, self.counts(connection, terms))

    def search(
        self,
        connection: sa.Connection,
        terms: Sequence[str],
        limit: int | None = None,
        among: sa.Select[tuple[int]] | Passes | None = None,
        counted: TermCounts | None = None,
    ) -> list[tuple[int, float]]:
        """The numbers of the rows that have a term, with their BM25 scores, best
        (highest) first.

        Args:
            connection: of the ledger.
            terms: as `query_terms` gives them.
            limit: the largest number of rows; None is all.
            among: selects the numbers that are meant, or says of each number from 0 on
                whether it is; None is all.
            counted: in how many rows each term occurs, where that is known; pooled
                counts, of several rooms, also tell how rare the terms are.
        """
        if not terms:
            return []
        if _is_postgres(connection):
            counted = (
                TermCounts(0, self.counts(connection, terms))
                if counted is None
                else counted
            )
            meant = self.number, terms, self.weights, limit, among, counted
            return postgres_words.search(connection, *meant)
        with _function_passes(connection, among):
            return self._found(connection, terms, limit, among, counted)

    def _found(
        self,
        connection: sa.Connection,
        terms: Sequence[str],
        limit: int | None,
        among: sa.Select[tuple[int]] | Passes | None,
        counted: TermCounts | None,
    ) -> list[tuple[int, float]]:
        matching = match_expression(terms)
        if not isinstance(among, sa.Select) and not (counted and counted.pooled):
            asked = matching, -1 if limit is None else limit
            statement = self._best.format("" if among is None else f"AND {_PASSES}")
            found: list[tuple[int, float]] = (
                _plain(connection).execute(statement, asked).fetchall()
            )
            return found
        query = self._scores(sa.literal(matching), among)
        if counted is not None and counted.pooled:
            # FTS5 knows this table alone: each term's score is corrected.
            own = self.counted(connection, terms)
            shares = [counted.rarity(term) / own.rarity(term) for term in terms]
            single = [
                self._scores(sa.literal(match_expression([term])), among, share)
                for term, share in zip(terms, shares, strict=True)
            ]
            query = _summed(single) if len(single) > 1 else single[0]
        best = query.order_by(sa.desc("score"), sa.column("rowid")).limit(limit)
        return [(n, bm25) for n, bm25 in connection.execute(best).all()]

    @cached_property
    def _bm25(self) -> str:
        weights = ", ".join(map(str, self.weights[: len(self.columns)]))
        return f"-bm25({self.name}, {weights})"

    @cached_property
    def _best(self) -> str:
        """The statement for the best rows that match one value, as many as another one
        says.
        """
        found = (
            f"SELECT rowid, {self._bm25} AS score FROM {self.name} "  # noqa: S608  # constants
            f"WHERE {self.name} MATCH ?"
        )
        return f"{found} {{}} ORDER BY score DESC, rowid LIMIT ?"

    def _scores(
        self,
        matching: sa.ColumnElement[str],
        among: sa.Select[tuple[int]] | Passes | None = None,
        share: float = 1.0,
    ) -> sa.Select[Any]:
        """Selects the rows that match, with this share of their BM25 scores."""
        bm25 = sa.literal_column(self._bm25, sa.Float)
        score = bm25 if share == 1.0 else bm25 * share
        found = sa.select(sa.column("rowid"), score.label("score")).select_from(
            self._table
        )
        found = found.where(sa.column(self.name).match(matching))
        if among is None:
            return found
        if not isinstance(among, sa.Select):
            return found.where(sa.literal_column(_PASSES, sa.Boolean))
        # With a plain rowid SQLite would search the words once for each number.
        return found.where(sa.literal_column("+rowid", sa.Integer).in_(among))

    @property
    def _table(self) -> sa.TableClause:
        return sa.table(self.name, sa.column("rowid"), *map(sa.column, self.columns))


MESSAGE_WORDS = WordTable("words", 1, ("own", "before"), (2.0, 1.0))
"""Words of messages; `before` holds those of the two preceding messages of the session.

A message's own words count twice as much.
"""
RECORD_WORDS = WordTable("record_words", 2)


BEFORE = 2
"""How many preceding messages' words also find a message (docs/ranking.md)."""
BEFORE_CHARS = 300
"""Of each of them the end, such as the question that a message answers. With all words
of an assistant's long replies words alone find half as much (docs/ranking.md).
"""


def words_of(
    spoken: Iterable[tuple[int, str | None, str]], earlier: Iterable[str] = ()
) -> dict[int, tuple[str, str]]:
    """What the full-text index holds of messages that follow one another, by number.

    `spoken` is number, speaker's name and text of each, `earlier` the texts before
    them.
    """
    words = dict[int, tuple[str, str]]()
    before = [text[-BEFORE_CHARS:] for text in earlier]
    for n, name, text in spoken:
        own = f"{name}: {text}" if name else text
        words[n] = own, "\n".join(before[-BEFORE:])
        before.append(text[-BEFORE_CHARS:])
    return words


def optimize_words(connection: sa.Connection) -> None:
    """Optimize both full-text tables, which removes deleted words from the file."""
    for words in (MESSAGE_WORDS, RECORD_WORDS):
        words.optimize(connection)


@contextmanager
def _function_passes(
    connection: sa.Connection, among: sa.Select[Any] | Passes | None
) -> Iterator[None]:
    """While it runs, SQLite's function `passes` tells which numbers are meant.

    It is asked before a row's score is computed, so the fewer pass, the less a search
    takes.
    """
    if among is None or isinstance(among, sa.Select):
        yield
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.create_function("passes", 1, among.tobytes().__getitem__, deterministic=True)
    try:
        yield
    finally:
        driver.create_function("passes", 1, None)


def _plain(connection: sa.Connection) -> Any:
    """A cursor of the driver: a SELECT through SQLAlchemy takes longer."""
    return connection.connection.cursor()


def _summed(scores: Sequence[sa.Select[Any]]) -> sa.Select[Any]:
    """Selects each row once, with the sum of its scores; SQLite cannot do that for one
    query.
    """
    every = sa.union_all(*scores).subquery()
    total = sa.func.sum(every.c.score).label("score")
    return sa.select(every.c.rowid, total).group_by(every.c.rowid)


def _is_postgres(connection: sa.Connection) -> bool:
    return connection.dialect.name == "postgresql"
