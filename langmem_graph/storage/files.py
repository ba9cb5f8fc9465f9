"""Topic tracks and the profile in the ledger: a round is written whole or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import InvalidInputError
from langmem_graph.storage.record_writes import now
from langmem_graph.storage.services import Services
from langmem_graph.storage.tables import ACTIVE, files, records
from langmem_graph.topics.files import is_file_name


@dataclass(frozen=True)
class StoredFile:
    """One file as it is kept."""

    name: str
    body: str
    version: int


def all_files(connection: Connection) -> dict[str, StoredFile]:
    """Every file by its name."""
    found = select(files.c.name, files.c.body, files.c.version).order_by(files.c.name)
    return {row.name: StoredFile(*row) for row in connection.execute(found)}


def versions(connection: Connection) -> dict[str, int]:
    """How often each file was written, by its name."""
    return {
        row.name: row.version for row in connection.execute(select(files.c.name, files.c.version))
    }


def write_files(connection: Connection, bodies: Mapping[str, str]) -> None:
    """Write these files, in the caller's transaction; others stay."""
    before = versions(connection)
    for name, body in bodies.items():
        row = {"body": body, "version": before.get(name, 0) + 1, "updated_at": now()}
        made = upsert(files).values(name=name, **row)
        connection.execute(made.on_conflict_do_update(index_elements=["name"], set_=row))


def drop_files(connection: Connection, names: list[str]) -> None:
    """Tracks that another one has absorbed."""
    connection.execute(delete(files).where(files.c.name.in_(names)))


def records_after(connection: Connection, checkpoint: int) -> list[int]:
    """Records that are true now and were stored after the checkpoint, oldest first."""
    found = select(records.c.n).where(records.c.n > checkpoint, records.c.status == ACTIVE)
    return list(connection.scalars(found.order_by(records.c.n)))


def stored_files(services: Services, user_id: str) -> dict[str, StoredFile]:
    """Every file of a user by its name."""
    if not services.has(user_id):
        return {}
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        return all_files(connection)


def read_file(services: Services, user_id: str, name: object) -> str:
    """The text of one file."""
    there = stored_files(services, user_id)
    if not is_file_name(name) or str(name) not in there:
        names = ", ".join(there) or "none yet"
        raise InvalidInputError(f"There is no file {str(name)[:100]!r}. There are: {names}.")
    return there[str(name)].body
