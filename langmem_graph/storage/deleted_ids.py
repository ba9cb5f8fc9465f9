"""Which messages were deleted, by the hash of their ids: a thread sends them again with every turn.

The thread is kept by the application's checkpointer, where `forget` and `expire` do not reach.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.ids_and_times import is_unique
from langmem_graph.messages import UNNAMED
from langmem_graph.storage.sqlite_database import portions, rows_where_in
from langmem_graph.storage.tables_and_migrations import DELETED_ID, meta

_OF_CONTENT = re.compile(rf"m-[0-9a-f]{{32}}|{UNNAMED}.*", re.DOTALL)
"""Ids that memory gave: the first kind is a hash of the text, of which nothing is to be left."""

_COPY = re.compile(r"~\d+$")
"""Ends the id of a message that was stored beside another one with the id that it came with."""


def note_deleted(connection: Connection, named: Iterable[tuple[str, str]]) -> None:
    """Note that messages of these sessions and ids are deleted, in the transaction that does so."""
    ids = {one for one in named if not _OF_CONTENT.fullmatch(one[1])}
    ids |= {(session, _COPY.sub("", name)) for session, name in ids if not is_unique(name)}
    rows = [{"key": key, "value": ""} for key in {_key(*one) for one in ids}]
    for some in portions(rows):
        connection.execute(upsert(meta).on_conflict_do_nothing(), list(some))


def deleted_among(connection: Connection, session: str, ids: Iterable[str]) -> set[str]:
    """Those of these ids whose messages were deleted."""
    keys = {_key(session, name): name for name in ids}
    return {
        keys[row.key] for row in rows_where_in(connection, select(meta.c.key), meta.c.key, keys)
    }


def _key(session: str, message_id: str) -> str:
    named = message_id if is_unique(message_id) else f"{session}\0{message_id}"
    return f"{DELETED_ID}{sha256(named.encode()).hexdigest()[:32]}"
