"""Keys of rooms: a user's own room is known by the user's id, a shared one by a key of its own.

The key of a shared room begins with half of a character, which no user's id can hold. So no user
can have the key of a shared room, and no hash of an id is the hash of such a key.
"""

from collections.abc import Collection, Mapping

from langmem_graph.errors import InvalidInputError, StorageError
from langmem_graph.ids_and_times import short_key

_MARK = "\udcff"


def room_name(given: object) -> str:
    """The name of a shared room as text; it is stored with every message there."""
    return short_key(given, "room", 'shared("team-42", as_user="alice") or shared=["team-42"]')


def author_name(given: object) -> str:
    """The user who writes in a shared room, as text."""
    return short_key(given, "as_user", 'shared("team-42", as_user="alice")')


def room_names(given: object) -> tuple[str, ...]:
    """One name of a shared room or several, each once."""
    several = [given] if isinstance(given, str | int) else given
    # An iterator would be used up by the first look, and keys or bytes are no list of names.
    if not isinstance(several, Collection) or isinstance(several, bytes | Mapping):
        example = 'As in shared=["team-42"]'
        raise InvalidInputError(f"shared must be a list of rooms' names, not {given!r}. {example}")
    return tuple(dict.fromkeys(map(room_name, several)))


def shared_key(name: str) -> str:
    """The key of a shared room."""
    return _MARK + name


def shared_name(key: str) -> str | None:
    """The name of the shared room that has this key; None for a user's id."""
    return key[1:] if key.startswith(_MARK) else None


def described(key: str) -> str:
    """Whose room it is, for messages."""
    name = shared_name(key)
    return f"user {key!r}" if name is None else f"the shared room {name!r}"


def nothing_in(room: str) -> str:
    """What is said of a shared room in which nothing is stored; its name may be misspelt."""
    return (
        f"The shared room {room!r} holds nothing: check its name, or store something there: "
        f"memory.shared({room!r}, as_user=…).add(…)."
    )


def left_out(key: str, error: Exception) -> StorageError:
    """What is said of a room that fails, and that a search goes on without."""
    problem = StorageError(f"{described(key)} was left out: {error}")
    problem.__cause__ = error
    return problem
