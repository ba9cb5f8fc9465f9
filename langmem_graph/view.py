"""`View`: whose memory a reading sees, and through which filter."""

from collections.abc import Callable
from dataclasses import dataclass

from langmem_graph.filters import Filter


@dataclass(frozen=True)
class View:
    """What is read: the rooms of one user, through one filter.

    Args:
        rooms: keys; the user's own room first, then shared rooms that are read too.
        where: what all that is read has to pass.
        refused: what a result says of shared rooms that may not be read.
        ask: makes the view as it is now, where the application is asked at every
            reading which shared rooms the user may read.
    """

    rooms: tuple[str, ...]
    where: Filter | None = None
    refused: tuple[str, ...] = ()
    ask: Callable[[], "View"] | None = None

    @property
    def user(self) -> str:
        """The key of the user's own room."""
        return self.rooms[0]

    @property
    def is_shared(self) -> bool:
        """Whether shared rooms are read too."""
        return len(self.rooms) > 1

    def now(self) -> "View":
        """The view with the rooms that may be read at this moment."""
        return self if self.ask is None else self.ask()


def own_view(user: str) -> View:
    """A user's own room, without a filter."""
    return View((user,))
