"""`langmem-graph move`: copies users' ledgers from one engine to the other, row by row.

A user is copied in one transaction and compared before it is committed, so that a move that was
stopped is begun again where it stopped; what is in the source stays as it is.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from langmem_graph.errors import StorageError
from langmem_graph.room_keys import described
from langmem_graph.storage import outbox_rows, tables_and_migrations
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.outbox_worker import DueWork
from langmem_graph.storage.tables_and_migrations import ALL_TABLES, get_meta, meta, set_meta

OF_PLACE = ("index", "chroma")  # facts about the index, which each engine has its own of
AT_ONCE = 1_000


def move_user(source: Services, target: Services, user_id: str) -> int | None:
    """Copy one user's ledger; returns the number of rows, or None where it was copied before.

    Raises:
        StorageError: the target holds another memory of this user, or a row differs afterwards.
    """
    with (
        source.directory.room(user_id) as old,
        target.directory.room(user_id, create=True) as new,
        old.database.read_transaction() as reading,
    ):
        ledger_id = str(get_meta(reading, "ledger_id"))
        with new.database.write_transaction() as writing:
            if get_meta(writing, "moved_from") == ledger_id:
                return None
            copied = _copy(reading, writing, user_id)
            set_meta(writing, "moved_from", ledger_id)
            last = old.database.last_numbers(reading)
            new.database.note_last_numbers(writing, last)
            outbox_rows.index_everything_again(writing)
        DueWork(new, target.embedder, target.settings).index_all()
        return copied


def _copy(reading: Connection, writing: Connection, user_id: str) -> int:
    """Copy all rows; the target's ledger must be empty, but for the facts about itself."""
    for table in ALL_TABLES:
        if table is not meta and writing.scalar(sa.select(sa.exists().select_from(table))):
            raise StorageError(
                f"The target holds a memory of {described(user_id)} already. Erase it there "
                "first, or move into another directory or database."
            )
    copied = 0
    for table in ALL_TABLES:
        for rows in _portions(reading, table):
            _insert(writing, table, rows)
            copied += len(rows)
        _compare(reading, writing, table)
    tables_and_migrations.index_words(writing)
    return copied


def _insert(writing: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if table is meta:
        for row in rows:
            set_meta(writing, row["key"], row["value"])
    elif rows:
        writing.execute(sa.insert(table), rows)


def _compare(reading: Connection, writing: Connection, table: sa.Table) -> None:
    there = _portions(writing, table)
    if any(rows != next(there, None) for rows in _portions(reading, table)):
        raise StorageError(f"Rows of the table {table.name} differ after copying; nothing is kept.")


def _portions(connection: Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in the order of their keys."""
    query = sa.select(table).order_by(*table.primary_key.columns)
    if table is meta:
        query = query.where(meta.c.key.not_in((*OF_PLACE, "ledger_id", "moved_from")))
    for rows in connection.execute(query).mappings().partitions(AT_ONCE):
        yield [dict(row) for row in rows]
