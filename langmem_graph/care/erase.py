"""erase: one user's folder goes, and with it every word, vector and log of that user."""

import shutil
from pathlib import Path

from langmem_graph.errors import StorageError
from langmem_graph.models import EraseReport
from langmem_graph.services import Services
from langmem_graph.store import lookups


def erase(services: Services, user_id: str) -> EraseReport:
    """Delete the user's vectors and folder; with a Chroma server, the collection there first."""
    if not services.root.has(user_id):
        return EraseReport(messages=0, files=0, bytes=0)
    with services.root.room(user_id) as room:
        with room.database.reading() as connection:
            messages = lookups.counts(connection).messages
        if not room.index.embedded:
            room.index.drop()
    with services.root.emptied(user_id) as folder:
        files = [file for file in folder.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        _remove(folder)
    return EraseReport(messages=messages, files=len(files), bytes=size)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(
            f"Not everything could be erased: {error}. Close other programs that use {folder} and "
            "erase again."
        ) from error
