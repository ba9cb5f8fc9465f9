"""erase: one user's folder goes, and with it every word, vector and log of that user."""

import logging

from langmem_graph.errors import ClosedMemoryError, ForkedProcessError, StorageError
from langmem_graph.models import EraseReport
from langmem_graph.services import Services
from langmem_graph.store import lookups
from langmem_graph.store.root import remove_folder

_log = logging.getLogger(__name__)


def erase(services: Services, user_id: str) -> EraseReport:
    """Delete the user's vectors and folder; with a Chroma server, the collection there first."""
    services.check_open()
    if not services.root.folder(user_id).exists():
        return EraseReport(messages=0, files=0, bytes=0)
    messages = _leave_index(services, user_id)
    with services.root.emptied(user_id) as folder:
        files = [file for file in folder.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        remove_folder(folder)
    return EraseReport(messages=messages, files=len(files), bytes=size)


def _leave_index(services: Services, user_id: str) -> int:
    """Drop what a server holds; returns the number of messages, 0 if the ledger is unreadable."""
    try:
        with services.root.room(user_id) as room:
            if not room.index.embedded:
                room.index.drop()
            with room.database.reading() as connection:
                return lookups.counts(connection).messages
    except (ClosedMemoryError, ForkedProcessError):
        raise
    except StorageError as error:
        if services.root.uses_server:  # its collection is known to the ledger alone
            raise
        _log.warning("erasing a ledger that cannot be read: %s", error)
        return 0
