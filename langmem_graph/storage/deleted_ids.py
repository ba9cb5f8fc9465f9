"""Which messages were deleted, by the hash of their ids: a thread sends them again with every turn.

The thread is kept by the application's checkpointer, where `forget` and `expire` do not reach.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.messages import UNNAMED
from langmem_graph.storage.sqlite_database import portions, rows_where_in
from langmem_graph.storage.tables_and_migrations import DELETED_ID, meta

_OF_CONTENT = re.compile(rf"m-[0-9a-f]{{32}}|{UNNAMED}.*", re.DOTALL)
"""Ids that memory gave: the first kind is a hash of the text, of which nothing is to be left."""


def note_deleted(connection: Connection, ids: Iterable[str]) -> None:
    """Note that messages with these ids are deleted, in the transaction that does so."""
    rows = [{"key": _key(name), "value": ""} for name in ids if not _OF_CONTENT.fullmatch(name)]
    for some in portions(rows):
        connection.execute(upsert(meta).on_conflict_do_nothing(), list(some))


def deleted_among(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Those of these ids whose messages were deleted."""
    keys = {_key(name): name for name in ids}
    return {
        keys[row.key] for row in rows_where_in(connection, select(meta.c.key), meta.c.key, keys)
    }


def _key(message_id: str) -> str:
    return f"{DELETED_ID}{sha256(message_id.encode()).hexdigest()[:32]}"
