"""What the public classes are made of: closing them, asynchronous twins, and a user's
base.
"""

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection

from langmem_graph.errors import (
    InvalidInputError,
    LangMemGraphError,
    NotCopied,
    NothingStoredError,
    ReadOnlyError,
    for_log,
)
from langmem_graph.filters import Where, parsed
from langmem_graph.rooms import RoomAccess, described, shared_key
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread, in_thread_of, uninterrupted

if TYPE_CHECKING:
    from langmem_graph.pipelines import Pipelines

_log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


def twin(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The asynchronous twin of a method: it takes the same, and runs in a worker
    thread.

    Of one user's memory so many run at a time as `in_thread_of` lets.
    """

    @wraps(method)
    async def inside(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        own: Any = self
        work = partial(getattr(own, method.__name__), *args, **options)
        return await (
            in_thread_of(own.id, work) if hasattr(own, "id") else in_thread(work)
        )

    inside.__name__ = f"a{method.__name__}"
    inside.__doc__ = f"Async twin of `{method.__name__}`."
    return inside


class Uninterrupted:
    """Base of the public classes: keeps interrupts out of the methods with a `twin`.

    The work goes on in another thread to its end, so that it leaves no transaction,
    lock or file open; only the wait for it is interrupted.
    """

    def __init_subclass__(cls) -> None:
        """Wrap each of these methods of a subclass."""
        super().__init_subclass__()
        for made in list(vars(cls).values()):
            if inspect.iscoroutinefunction(made) and hasattr(made, "__wrapped__"):
                method = made.__wrapped__
                setattr(cls, method.__name__, uninterrupted(method))


class Closing(Uninterrupted, NotCopied, ABC):
    """Base of `Memory` and `ChromaStore`: closed at the end of a `with` or `async with`
    block.
    """

    @abstractmethod
    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call
        twice.
        """

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def no_attribute(owner: object, name: str, of_user: type) -> AttributeError:
    """The error for a name that `Memory` lacks; what one user's memory has is shown
    there.
    """
    text = f"{type(owner).__name__!r} object has no attribute {name!r}."
    if not name.startswith("_") and hasattr(of_user, name):
        text += (
            f" It belongs to the memory of one user: memory.user('alice').{name}(…)."
        )
    return AttributeError(text, name=name, obj=owner)


class UserMethods(Uninterrupted):
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
    ) -> None:
        self._services = services
        self._pipelines = pipelines
        self._access, self._shared = access, shared
        self.id = user_id
        self.settings = services.settings

    def _along(self) -> Services:
        """For reading, with the shared rooms that the user may read now; the others are
        named.
        """
        if self._access is None or not self._shared:
            return self._services
        refused = self._access.refusals(self.id, self._shared, "read")
        for reason in refused.values():
            _log.warning("a shared room was left out: %s", reason)
        texts = [
            f"{described(shared_key(r))} was left out: {why}."
            for r, why in refused.items()
        ]
        self._left_out = tuple(dict.fromkeys([*self._left_out, *texts]))
        allowed = [room for room in self._shared if room not in refused]
        return self._services.along(map(shared_key, allowed), texts)

    def _read_along(
        self, where: Where | None, query: Callable[[Connection], list[T]]
    ) -> list[T]:
        """What a query gives in the user's room under a filter, then in the shared
        ones.
        """
        services = self._along().within(parsed(where))
        found = services.read(self.id, query, list[T]())
        for key in services.shared:
            try:
                with services.room(key) as room:
                    found += room.database.read(query)
            except NothingStoredError:
                services.note_empty(key)
            except LangMemGraphError as error:
                _log.warning("a shared room cannot be read: %s", for_log(error))
        return found

    def __repr__(self) -> str:
        return f"UserMemory({self.id!r}, in {self._services.directory.place})"

    def _read(
        self,
        query: Callable[Concatenate[Connection, P], list[T]],
        *args: P.args,
        **options: P.kwargs,
    ) -> list[T]:
        """What a query gives; nothing for a user of whom nothing is stored."""
        return self._read_within(None, lambda c: query(c, *args, **options))

    def _read_within(
        self, where: Where | None, query: Callable[[Connection], list[T]]
    ) -> list[T]:
        """The same under a filter."""
        return self._services.within(parsed(where)).read(self.id, query, [])

    def _check_writable(self, what: str) -> None:
        if self._services.read_only:
            raise ReadOnlyError(
                f"{what} needs a memory opened for writing, not read_only=True."
            )

    def _with_model(self, what: str, otherwise: str = "") -> "Pipelines":
        if self._pipelines is None:
            raise InvalidInputError(
                f"{what} needs a model: Memory(path, model='openai:…'). "
                f"{otherwise}".strip()
            )
        return self._pipelines
