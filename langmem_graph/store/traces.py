"""What was forgotten leaves the disk too, not only the tables.

It is noted in the transaction that deletes. What a killed process, or a Chroma that failed, has
left of it is removed when the room is opened next.
"""

from sqlalchemy import Connection, delete

from langmem_graph.store import ledger
from langmem_graph.store.room import Room
from langmem_graph.store.schema import meta

_LEFT = "traces_left"


def note(connection: Connection) -> None:
    """Something is deleted in this transaction."""
    ledger.set_meta(connection, _LEFT, "1")


def are_left(room: Room) -> bool:
    """True when something was deleted whose traces may still be there."""
    with room.database.reading() as connection:
        return ledger.get_meta(connection, _LEFT) is not None


def remove(room: Room) -> None:
    """Merge the full-text indexes, make Chroma's anew, fold and cut the write-ahead log."""
    with room.database.writing() as connection:
        ledger.optimize_words(connection)
    room.renew_index()
    with room.database.writing() as connection:
        ledger.index_everything_again(connection)
    if room.database.checkpoint():
        with room.database.writing() as connection:
            connection.execute(delete(meta).where(meta.c.key == _LEFT))
