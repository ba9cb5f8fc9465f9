"""Takes deleted rows out of the pages of PostgreSQL's tables and indexes.

A plain `VACUUM` frees the place of a deleted row and leaves its bytes there until
another row needs it. So tables are rewritten, one by one, each only while nobody uses
it; whoever comes meanwhile waits. Rewriting a large table would make everybody wait for
long: these are vacuumed plainly, and `langmem-graph migrate URL --rewrite` does the
rest.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from langmem_graph.storage.postgres_words import SCHEMA

REWRITTEN_BYTES = 64 * 2**20
"""A table of this size, with its indexes, is rewritten in a second or two."""
_TABLES = sa.text(
    "SELECT oid::regclass::text, pg_relation_filenode(oid), "
    "pg_total_relation_size(oid),"
    " pg_has_role(relowner, 'USAGE')"
    f" FROM pg_class WHERE relkind = 'r' AND relnamespace = '{SCHEMA}'::regnamespace"
    # no words, much used
    " AND relname NOT IN ('work', 'version', 'numbers', 'outbox', 'unread')"
)
_KEPT = sa.text("""
    SELECT EXISTS (SELECT FROM pg_stat_activity
                   WHERE pid <> pg_backend_pid()
                     AND coalesce(datname, '') IN ('', current_database())
                     AND greatest(age(backend_xid), age(backend_xmin))
                         >= age(:deleted ::xid))
        OR EXISTS (SELECT FROM pg_prepared_xacts
                   WHERE age(transaction) >= age(:deleted ::xid))
        OR EXISTS (SELECT FROM pg_replication_slots
                   WHERE age(xmin) >= age(:deleted ::xid))
""")
"""Whether somebody may still see what that transaction deleted, so that it has to be
kept.
"""
_HIDDEN = sa.text(
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
    " AND query = '<insufficient privilege>')"
)
"""Whether there are sessions of which this login is not told what they may see."""


class _Table(NamedTuple):
    name: str
    file: int
    """Another one after it was rewritten. A table in use, or of another owner, is only
    skipped.
    """
    size: int
    ours: bool


def remove_deleted(
    engine: Engine,
    deleted: str,
    waited: Callable[[], bool],
    largest: float = REWRITTEN_BYTES,
) -> bool:
    """Remove what was deleted up to a transaction from all pages.

    Args:
        engine: connects to the database.
        deleted: the id of the transaction that deleted.
        waited: waits a moment while tables are in use; False where there is no use in
            trying again.
        largest: bytes of the largest table that is rewritten.

    Returns:
        False where bytes of deleted rows may still be in a page.
    """
    while True:
        with _connected(engine) as connection:
            if not connection.scalar(_KEPT, {"deleted": deleted}):
                hidden = connection.scalar(_HIDDEN)
                left = _tables(connection)
                break
        if not waited():
            return False
    return _rewritten(engine, left, waited, largest) and not hidden


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    """A connection for one try; between two tries others have it."""
    with engine.connect() as bare:
        yield bare.execution_options(isolation_level="AUTOCOMMIT")


def _rewritten(
    engine: Engine, left: list[_Table], waited: Callable[[], bool], largest: float
) -> bool:
    """Rewrite each table as soon as nobody uses it; False where one was not."""
    while True:
        with _connected(engine) as connection:
            for table in left:
                how = "FULL, SKIP_LOCKED" if table.size <= largest else "SKIP_LOCKED"
                connection.exec_driver_sql(f"VACUUM ({how}) {table.name}")
            files = {table.name: table.file for table in _tables(connection)}
        left = [table for table in left if files.get(table.name) == table.file]
        in_use = left and all(table.ours and table.size <= largest for table in left)
        if not in_use or not waited():
            return not left


def _tables(connection: Connection) -> list[_Table]:
    return [_Table(*row) for row in connection.execute(_TABLES)]
