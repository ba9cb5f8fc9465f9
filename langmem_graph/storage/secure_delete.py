"""What was forgotten leaves the disk too, not only the tables.

It is noted in the transaction that deletes. What a killed process, or a Chroma that failed, has
left of it is removed when the room is opened next.
"""

from sqlalchemy import Connection, delete

from langmem_graph.storage import due_work, full_text, tables
from langmem_graph.storage.room import Room
from langmem_graph.storage.tables import meta

_LEFT = "traces_left"


def note_deletion(connection: Connection) -> None:
    """Something is deleted in this transaction."""
    tables.set_meta(connection, _LEFT, "1")


def is_unfinished(room: Room) -> bool:
    """True when something was deleted whose traces may still be there."""
    with room.database.read_transaction() as connection:
        return tables.get_meta(connection, _LEFT) is not None


def wipe_deleted(room: Room) -> None:
    """Merge the full-text indexes, make Chroma's anew, fold and cut the write-ahead log."""
    with room.database.write_transaction() as connection:
        full_text.optimize_words(connection)
    room.renew_index()
    with room.database.write_transaction() as connection:
        due_work.index_everything_again(connection)
    if room.database.checkpoint():
        with room.database.write_transaction() as connection:
            connection.execute(delete(meta).where(meta.c.key == _LEFT))
