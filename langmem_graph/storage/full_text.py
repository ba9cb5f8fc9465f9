"""Full-text search with SQLite's FTS5: preparing texts and queries, and the index tables.

FTS5's tokenizer splits at spaces and punctuation. Chinese and Japanese words are not separated by
spaces, so runs of their characters become overlapping pairs, in the index and in queries alike.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sqlalchemy as sa

# Kana, Han (with extensions and compatibility forms) and Hangul.
_CJK_RUN = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_TOKEN = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being
    below between both but by can could d did do does doing don down during each few for from
    further get go got had has have having he her here hers him his how i if in into is it its
    itself just ll m me might more most must my no nor not now of off on once one only or other
    our out over own re s same she should so some such t than that the their them then there
    these they this those through to too under until up us ve very was we were what when where
    which while who whom whose why will with would you your yours
    """.split()
)
MAX_QUERY_TERMS = 48  # the first words of a long query are considered
MAX_TERMS = 12  # terms looked up; with 8 recall is the same, with 4 lower (docs/ranking.md)
COMMON_SHARE, COMMON_FLOOR = 0.2, 20  # a term in more messages than this is left out

# A message's own words count twice as much as those of the messages before it.
_best_words = sa.text(
    "SELECT rowid, -bm25(words, 2.0, 1.0) AS score FROM words"
    " WHERE words MATCH :terms ORDER BY score DESC LIMIT :limit"
)


def searchable(text: str) -> str:
    """The text as it is indexed: runs of CJK characters become pairs of characters."""
    plain = unicodedata.normalize("NFC", text.replace("\0", " "))
    return _CJK_RUN.sub(lambda run: f" {_pairs(run.group())} {run.group()[-1]} ", plain)


def _pairs(run: str) -> str:
    return " ".join(map("".join, pairwise(run)))


def query_terms(query: str) -> list[str]:
    """The query's distinct words without stop words; all its words if it has only stop words."""
    plain = unicodedata.normalize("NFC", query.replace("\0", " "))
    paired = _CJK_RUN.sub(lambda run: f" {_pairs(run.group()) or run.group()} ", plain)
    words = list({word.lower(): word for word in _TOKEN.findall(paired)}.values())
    telling = [word for word in words if word.lower() not in _STOP_WORDS]
    return (telling or words)[:MAX_QUERY_TERMS]


def telling_terms(counts: dict[str, int], messages: int) -> list[str]:
    """The rarest terms of a query; very common ones cost time and do not discriminate.

    `counts` tells in how many of the messages each term occurs.
    """
    known = sorted((term for term, count in counts.items() if count), key=counts.__getitem__)
    common = max(COMMON_FLOOR, COMMON_SHARE * messages)
    rare = [term for term in known if counts[term] <= common]
    return (rare or known[:1])[:MAX_TERMS]


def match_expression(terms: Sequence[str]) -> str:
    """An FTS5 expression that matches any of the terms.

    The terms are quoted, so that none is read as FTS5 syntax. A single CJK character also matches
    the pairs that begin with it.
    """
    return " OR ".join(
        f'"{term}"{"*" if _CJK_RUN.fullmatch(term) and len(term) == 1 else ""}' for term in terms
    )


@dataclass(frozen=True)
class WordTable:
    """A full-text table of a ledger; each row has the number of the item that it indexes."""

    name: str
    columns: tuple[str, ...] = ("own",)

    def create(self, connection: sa.Connection) -> None:
        """Create the table in a new file."""
        connection.exec_driver_sql(
            f"CREATE VIRTUAL TABLE {self.name} USING"
            f" fts5({', '.join(self.columns)}, tokenize='porter unicode61')"
        )

    def add(self, connection: sa.Connection, rows: Mapping[int, Sequence[str]]) -> None:
        """Index the texts of each number, one per column."""
        values = [
            {"rowid": n, **dict(zip(self.columns, map(searchable, texts), strict=True))}
            for n, texts in rows.items()
        ]
        if values:
            connection.execute(sa.insert(self._table), values)

    def drop(self, connection: sa.Connection, numbers: Iterable[int]) -> None:
        """Delete the rows of these numbers."""
        words = self._table
        if rows := [{"n": n} for n in numbers]:
            connection.execute(sa.delete(words).where(words.c.rowid == sa.bindparam("n")), rows)

    def optimize(self, connection: sa.Connection) -> None:
        """Merge the index into one segment, which removes deleted words from the file."""
        command = sa.table(self.name, sa.column(self.name))  # FTS5 takes commands as inserted rows
        connection.execute(sa.insert(command).values({self.name: "optimize"}))

    def counts(self, connection: sa.Connection, terms: Iterable[str]) -> dict[str, int]:
        """In how many rows each term occurs, in any column."""
        matching = sa.column(self.name).match(sa.bindparam("term"))
        count = sa.select(sa.func.count()).select_from(self._table).where(matching)
        return {t: connection.scalar(count, {"term": match_expression([t])}) or 0 for t in terms}

    @property
    def _table(self) -> sa.TableClause:
        return sa.table(self.name, sa.column("rowid"), *map(sa.column, self.columns))


MESSAGE_WORDS = WordTable("words", ("own", "before"))
"""Words of messages; `before` holds those of the two preceding messages of the session."""
RECORD_WORDS = WordTable("record_words")


def optimize_words(connection: sa.Connection) -> None:
    """Optimize both full-text tables, which removes deleted words from the file."""
    for words in (MESSAGE_WORDS, RECORD_WORDS):
        words.optimize(connection)


def words_search(
    connection: sa.Connection, terms: Sequence[str], limit: int
) -> list[tuple[int, float]]:
    """Messages that contain any of the terms, with their BM25 scores, best (highest) first."""
    rows = connection.execute(_best_words, {"terms": match_expression(terms), "limit": limit})
    return [(number, score) for number, score in rows.all()]
