"""Topic tracks and the profile as they are stored in the ledger: reading and writing them."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import InvalidInputError
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import now
from langmem_graph.storage.tables_and_migrations import files
from langmem_graph.storage.where_conditions import filter_of
from langmem_graph.topics.track_and_profile_files import is_file_name


@dataclass(frozen=True)
class StoredFile:
    """A topic track or the profile, as it is stored."""

    name: str
    body: str
    version: int


def all_files(connection: Connection) -> dict[str, StoredFile]:
    """All files by their names; none under a filter, as nobody knows what each line rests on."""
    if filter_of(connection) is not None:
        return {}
    columns = select(files.c.name, files.c.body, files.c.version).order_by(files.c.name)
    return {row.name: StoredFile(*row) for row in connection.execute(columns)}


def versions(connection: Connection) -> dict[str, int]:
    """How often each file was written, by its name."""
    return {name: file.version for name, file in all_files(connection).items()}


def write_files(connection: Connection, bodies: Mapping[str, str]) -> None:
    """Write these files in the caller's transaction; other files stay as they are."""
    before = versions(connection)
    for name, body in bodies.items():
        row = {"body": body, "version": before.get(name, 0) + 1, "updated_at": now()}
        made = upsert(files).values(name=name, **row)
        connection.execute(made.on_conflict_do_update(index_elements=["name"], set_=row))


def drop_files(connection: Connection, names: list[str]) -> None:
    """Delete topic tracks whose content was merged into another one."""
    connection.execute(delete(files).where(files.c.name.in_(names)))


def tracks_written(connection: Connection) -> dict[str, str]:
    """By the name of each topic track's file, when it was written."""
    query = select(files.c.name, files.c.updated_at).where(files.c.name.startswith("topics/"))
    return {row.name: row.updated_at.isoformat() for row in connection.execute(query)}


def read_file(services: Services, user_id: str, name: object) -> str:
    """The text of one file; the error for an unknown name lists those that exist."""
    stored: dict[str, StoredFile] = services.read(user_id, all_files, {})
    if not is_file_name(name) or str(name) not in stored:
        names = ", ".join(stored) or "none yet"
        raise InvalidInputError(f"There is no file {str(name)[:100]!r}. There are: {names}.")
    return stored[str(name)].body
