"""Topic tracks and the profile, read by name; a name is never used as a path."""

from langmem_graph.errors import InvalidInputError
from langmem_graph.pyramid.files import is_file_name
from langmem_graph.services import Services
from langmem_graph.store.files import StoredFile, all_files


def stored_files(services: Services, user_id: str) -> dict[str, StoredFile]:
    """Every file of a user by its name."""
    if not services.has(user_id):
        return {}
    with services.room(user_id) as room, room.database.reading() as connection:
        return all_files(connection)


def read_file(services: Services, user_id: str, name: object) -> str:
    """The text of one file."""
    there = stored_files(services, user_id)
    if not is_file_name(name) or str(name) not in there:
        names = ", ".join(there) or "none yet"
        raise InvalidInputError(f"There is no file {str(name)[:100]!r}. There are: {names}.")
    return there[str(name)].body
