"""Secure deletion: what was forgotten is also removed from the files on disk.

The transaction that deletes rows also notes that files still hold their contents. If the process is
killed or Chroma fails before these are removed, the next opening of the room removes them.
"""

from sqlalchemy import Connection, delete

from langmem_graph.storage import full_text, outbox_rows, tables_and_migrations
from langmem_graph.storage.tables_and_migrations import meta
from langmem_graph.storage.user_room import Room

_UNFINISHED = "traces_left"


def note_deletion(connection: Connection) -> None:
    """Note, in the transaction that deletes, that the files must be cleaned."""
    tables_and_migrations.set_meta(connection, _UNFINISHED, "1")


def finish_deletion(room: Room) -> None:
    """Clean the files if a deletion was noted, by this call or by an earlier one that failed."""
    with room.working:
        with room.database.read_transaction() as connection:
            if tables_and_migrations.get_meta(connection, _UNFINISHED) is None:
                return
        _clean_files(room)


def _clean_files(room: Room) -> None:
    """Merge the full-text indexes, start a new vector index, and truncate the write-ahead log."""
    with room.database.write_transaction() as connection:
        full_text.optimize_words(connection)
    room.renew_index()
    with room.database.write_transaction() as connection:
        outbox_rows.index_everything_again(connection)
    if room.database.checkpoint():
        with room.database.write_transaction() as connection:
            connection.execute(delete(meta).where(meta.c.key == _UNFINISHED))
