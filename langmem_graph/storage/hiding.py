"""Hiding records: they are kept with their history, and nobody is shown what they state."""

from sqlalchemy import Connection, select

from langmem_graph.errors import InvalidInputError
from langmem_graph.schemas import Record
from langmem_graph.storage import record_queries, record_writes
from langmem_graph.storage.change_log import HIDE, effective_entries, settle
from langmem_graph.storage.deletion import drop_files
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import BY_HAND, DISCARDED, HIDDEN, Change
from langmem_graph.storage.superseded_labels import labelled_records
from langmem_graph.storage.tables_and_migrations import ACTIVE, records


def hide(services: Services, user_id: str, record: str) -> Record:
    """Hide a record, and drop topic tracks and the profile, which may tell it."""
    return _switch(services, user_id, record, hidden=True)


def unhide(services: Services, user_id: str, record: str) -> Record:
    """Show a record again: as it was, or ended, where something has ended it meanwhile."""
    return _switch(services, user_id, record, hidden=False)


def _switch(services: Services, user_id: str, record: str, *, hidden: bool) -> Record:
    with services.known_room(user_id) as room:
        if room is None:
            raise InvalidInputError(f"There is no record {record!r}.")
        with room.database.write_transaction() as connection:
            n = record_queries.numbers_of(connection, [record]).get(record)
            if n is None:
                raise InvalidInputError(f"There is no record {record!r}.")
            status = connection.scalar(select(records.c.status).where(records.c.n == n))
            if status == DISCARDED:
                raise InvalidInputError(f"The record {record!r} was taken back; nobody sees it.")
            if hidden != (status == HIDDEN):
                _hide(connection, n) if hidden else _show(connection, n)
            return labelled_records(connection, [n])[n]


def _hide(connection: Connection, n: int) -> None:
    drop_files(connection)
    record_writes.change_record(connection, n, HIDE, Change.new(BY_HAND), {"status": HIDDEN})


def _show(connection: Connection, n: int) -> None:
    entries = [one for one in effective_entries(connection, n) if one.op == HIDE]
    former = entries[-1].before["status"] if entries else ACTIVE  # added as hidden
    change = Change.new(BY_HAND)
    record_writes.change_record(connection, n, "unhide", change, {"status": former})
    if former == ACTIVE:
        settle(connection, [n], change, by_links=True)
