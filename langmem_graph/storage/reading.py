"""`Reading`: a transaction of one room, and what a view lets be seen of it.

Queries whose rows are shown select from `reading.messages` and `reading.records`: the
tables themselves, or the part of them that passes the view's filter. What a write
transaction yields is a reading of everything.
"""

from collections.abc import Iterable
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
