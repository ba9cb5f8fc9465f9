"""A visit to a page: the memory it shows, what its address and form say, and what it
changes.

Whoever owns the inspector looks into shared rooms without `authorize`, which is about
the application's users.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from langmem_graph.errors import InvalidInputError, ReadOnlyError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.reports import UserSummary
from langmem_graph.rooms import room_name, shared_key

ROOM_IS_READ_ONLY = (
    "A shared room is only shown here: a change in it is made in the name of one of "
    "its users, "
    "with memory.shared(room, as_user=…)."
)
Where = tuple[str, dict[str, str]]
"""The page that is shown next, and what its address says."""


class RoomName(str):
    """The name of a shared room, where otherwise a user's id stands; links name
    it so.
    """

    __slots__ = ()


def memory_of(memory: Memory, name: str) -> UserMemory:
    """The memory of a user, or a shared room's, which nobody is asked about."""
    if not isinstance(name, RoomName):
        return memory.user(name)
    # same package
    own = memory._services, shared_key(room_name(name)), memory._pipelines
    return UserMemory(*own)


class NotFoundError(InvalidInputError):
    """There is nothing under this address."""


@dataclass
class Visit:
    """What a page is made from."""

    memory: Memory
    fields: dict[str, str]
    csrf: str
    allow_changes: bool

    def get(self, name: str, otherwise: str = "") -> str:
        """A field of the address or the form."""
        return self.fields.get(name) or otherwise

    def number(self, name: str, otherwise: int, most: int) -> int:
        """A whole number of the address, from 0 to `most`."""
        given = self.get(name)
        return (
            min(int(given[:18]), most)
            if given.isascii() and given.isdigit()
            else otherwise
        )

    @property
    def of(self) -> str:
        """The shared room or the user whom the address names."""
        room = self.get("room")
        return RoomName(room) if room else self.get("user")

    def check_no_room(self) -> None:
        """Raise ReadOnlyError for a shared room, in which nothing is changed here."""
        if isinstance(self.of, RoomName):
            raise ReadOnlyError(ROOM_IS_READ_ONLY)

    @cached_property
    def overview(self) -> UserSummary:
        """How much is stored of the user or in the shared room that the address
        names.
        """
        return memory_of(self.memory, self.of).overview()

    @cached_property
    def user(self) -> UserMemory:
        """The memory of the user or the shared room that the address names.

        Raises:
            NotFoundError: nothing is stored of this user, or in this room.
        """
        if not (self.overview.messages or self.overview.records):
            whose = "in a shared room" if self.get("room") else "of a user"
            raise NotFoundError(f"Nothing is stored {whose} {str(self.of)[:100]!r}.")
        return memory_of(self.memory, self.of)


def carry_out(visit: Visit) -> Where:
    """Do what the form asks for; which page is shown next.

    Raises:
        ReadOnlyError: the inspector was opened without changes, or shows a shared room.
        InvalidInputError: there is no such change, or it cannot be made.
    """
    visit.check_no_room()
    if not visit.allow_changes:
        raise ReadOnlyError(
            "This inspector only shows. To change something open it with "
            "--allow-changes, or "
            "create_inspector(memory, allow_changes=True)."
        )
    action = _ACTIONS.get(visit.get("action"))
    if action is None:
        raise InvalidInputError("There is no such change.")
    page, query = action(visit)
    return page, {"user": visit.user.id, **query, "done": visit.get("action")}


def _correct(visit: Visit) -> Where:
    right = visit.user.correct(visit.get("record"), visit.get("text"))
    return "record", {"id": right.record_id}


def _undo(visit: Visit) -> Where:
    if message := visit.get("message"):
        visit.user.undo(message=message)
        return "message", {"id": message}
    touched = visit.user.undo(visit.get("record"))
    if not touched:
        raise InvalidInputError("There is nothing to undo.")
    return "record", {"id": visit.get("record")}


def _forget(visit: Visit) -> Where:
    named = {kind: visit.get(kind) or None for kind in ("record", "message", "session")}
    visit.user.forget(**named)
    return "person", {}


_ACTIONS: dict[str, Callable[[Visit], Where]] = {
    "correct": _correct,
    "undo": _undo,
    "forget": _forget,
}
