"""`Reading`: a transaction of one room, and what a view lets be seen of it.

Queries whose rows are shown select from `reading.messages` and `reading.records`: the
tables themselves, or the part of them that passes the view's filter. What a write
transaction yields is a reading of everything.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from langmem_graph.filters import Filter
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.tables import MESSAGES, messages, records
from langmem_graph.storage.where_conditions import (
    messages_matching,
    messages_seen,
    records_matching,
    records_seen,
)

MOST_YEARS = 100  # in which a date without a year is looked up; ours
EVERYTHING: Filter | None = None
"""In place of a filter: what is read is shown to nobody, or all of it may be."""


class Reading(Connection):
    """A connection in a transaction of one room, through a filter.

    Args:
        engine: the room's.
        where: what all that is shown has to pass; None is everything.
    """

    def __init__(self, engine: Engine, where: Filter | None) -> None:
        super().__init__(engine)
        self.where = where

    @property
    def messages(self) -> sa.FromClause:
        """The messages that may be seen."""
        return _messages_seen(repr(self.where), self.where)

    @property
    def records(self) -> sa.FromClause:
        """The records that may be seen."""
        return _records_seen(repr(self.where), self.where)

    def seen(self, layer: str, items: Iterable[int]) -> set[int]:
        """Those of these messages or records that may be seen."""
        if self.where is None:
            return set(items)
        n = (self.messages if layer == MESSAGES else self.records).c.n
        return {row.n for row in rows_where_in(self, sa.select(n), n, items)}

    def said_years(self, layer: str) -> range:
        """From the year of the oldest to that of the newest of them that may be seen;
        of very many the last `MOST_YEARS`.
        """
        _, at = self._said(layer)
        query = sa.select(sa.func.min(at), sa.func.max(at))
        oldest, newest = self.execute(query).one()
        if newest is None:
            return range(0)
        return range(max(oldest.year, newest.year - MOST_YEARS), newest.year + 1)

    def said_within(
        self, layer: str, spans: Sequence[tuple[datetime, datetime]], most: int
    ) -> list[int]:
        """Those that may be seen which were said within these times, in naive UTC; of
        more than `most`, the newest.
        """
        if not spans:
            return []
        n, at = self._said(layer)
        within = sa.or_(*((at >= begin) & (at < end) for begin, end in spans))
        newest = sa.select(n).where(within).order_by(n.desc()).limit(most)
        return list(self.scalars(newest))

    def _said(self, layer: str) -> tuple[sa.ColumnElement[int], sa.ColumnElement[Any]]:
        if layer == MESSAGES:
            return self.messages.c.n, self.messages.c.at
        return self.records.c.n, self.records.c.said_at

    def matching(self, layer: str) -> sa.Select[Any] | None:
        """Selects the numbers of all messages, or of the records that hold, that match
        the filter; None without one.
        """
        if self.where is None:
            return None
        if layer == MESSAGES:
            return messages_matching(self.where)
        return records_matching(self.where)


@lru_cache(maxsize=256)
def _messages_seen(name: str, where: Filter | None) -> sa.FromClause:
    """The name tells filters apart that are equal: 1 and True are."""
    return messages if where is None else messages_seen(where).subquery("seen_messages")


@lru_cache(maxsize=256)
def _records_seen(name: str, where: Filter | None) -> sa.FromClause:
    return records if where is None else records_seen(where).subquery("seen_records")
