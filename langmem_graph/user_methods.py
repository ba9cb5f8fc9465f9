"""`UserMethods`: what the methods of one user's memory work with."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from langmem_graph.errors import InvalidInputError
from langmem_graph.filters import Where, parsed
from langmem_graph.retrieval.joined_search import each_room
from langmem_graph.retrieval.search_common import UserSearch
from langmem_graph.rooms import RoomAccess, described, shared_key
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.view import View

if TYPE_CHECKING:
    from langmem_graph.pipelines import Pipelines

_log = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")


class UserMethods:
    """Base of `UserMemory`: what its methods work with and check."""

    _left_out: tuple[str, ...] = ()
    """What was said so far of shared rooms that might not be read, each once."""

    def __init__(
        self,
        services: Services,
        user_id: str,
        pipelines: "Pipelines | None",
        access: RoomAccess | None = None,
        shared: Sequence[str] = (),
        author: str | None = None,
    ) -> None:
        self._services = services
        self._pipelines = pipelines
        self._access = access
        self._shared = shared
        self._author = author
        """In whose name messages are stored in a shared room."""
        self.id = user_id
        self.settings = services.settings

    @property
    def _read_only(self) -> bool:
        return self._services.read_only

    def _view(self, where: Where | None = None) -> View:
        """What is read now: the user's room, and the shared ones that the user may
        read; the others are named.
        """
        view = View((self.id,), parsed(where))
        if self._access is None or not self._shared:
            return view
        refused = self._access.refusals(self.id, self._shared, "read")
        for reason in refused.values():
            _log.warning("a shared room was left out: %s", reason)
        texts = [
            f"{described(shared_key(r))} was left out: {why}."
            for r, why in refused.items()
        ]
        self._left_out = tuple(dict.fromkeys([*self._left_out, *texts]))
        allowed = [shared_key(room) for room in self._shared if room not in refused]
        return replace(view, rooms=(self.id, *allowed), refused=tuple(texts))

    def _read_along(
        self, where: Where | None, query: Callable[[Reading], list[T]]
    ) -> list[T]:
        """What a query gives in the user's room under a filter, then in the shared
        ones.
        """
        view = self._view(where)
        with self._services.rooms(view) as rooms:
            searches = UserSearch.over(self._services, view, rooms).rooms
            parts = each_room(searches, lambda _, connection: query(connection))
        return [row for _, part in parts for row in part]

    def __repr__(self) -> str:
        return f"UserMemory({self.id!r}, in {self._services.directory.place})"

    def _read(
        self,
        query: Callable[Concatenate[Reading, P], list[T]],
        *args: P.args,
        **options: P.kwargs,
    ) -> list[T]:
        """What a query gives; nothing for a user of whom nothing is stored."""
        return self._read_within(None, lambda c: query(c, *args, **options))

    def _read_within(
        self, where: Where | None, query: Callable[[Reading], list[T]]
    ) -> list[T]:
        """The same under a filter."""
        return self._services.read(self._own_view(where), query, [])

    def _own_view(self, where: Where | None = None) -> View:
        """The user's own room alone, under a filter."""
        return View((self.id,), parsed(where))

    def _with_model(self, what: str, otherwise: str = "") -> "Pipelines":
        if self._pipelines is None:
            raise InvalidInputError(
                f"{what} needs a model: Memory(path, model='openai:…'). "
                f"{otherwise}".strip()
            )
        return self._pipelines
