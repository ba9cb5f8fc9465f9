"""`SharedMemory`: a room of several users, in which every call is made in the name of
one.
"""

import inspect
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.operation import action_of, is_operation, refuse_read_only, twin
from langmem_graph.reports import ForgetReport
from langmem_graph.rooms import Action, RoomAccess, author_name, room_name, shared_key
from langmem_graph.storage import forgetting
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread, uninterrupted
from langmem_graph.user_memory import Id, UserMemory

if TYPE_CHECKING:
    from langmem_graph.pipelines import Pipelines


class SharedMemory(UserMemory):
    """A room of several users, used by one of them; from `memory.shared(room,
    as_user=…)`.

    It has the methods of `UserMemory`, without `ground`. Each asks `authorize` first,
    for `read` or `write`, and raises `RoomRefusedError` where the answer is no. There
    are records and topics, but no profile. Who wrote a message is kept with it
    (`author`).
    """

    def __init__(
        self,
        services: Services,
        pipelines: "Pipelines | None",
        access: RoomAccess,
        room: Id,
        as_user: Id,
    ) -> None:
        # Not those of `UserMemory`: what is not asked for first has nothing to work
        # with.
        self.id, self.as_user, self.settings = (
            room_name(room),
            author_name(as_user),
            services.settings,
        )
        access.check_possible(self.as_user, self.id)
        self._ask = partial(access.check, self.as_user, self.id)
        self._room = UserMemory(
            services, shared_key(self.id), pipelines, author=self.as_user
        )

    def __repr__(self) -> str:
        return f"SharedMemory({self.id!r}, as_user={self.as_user!r})"

    @uninterrupted
    def forget(
        self,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
        author: Id | None = None,
    ) -> ForgetReport:
        """Delete a record, a message, a session, or all that an author wrote; as
        `UserMemory` does.

        Raises:
            RoomRefusedError: the user may not write here.
            InvalidInputError: not exactly one thing is named.
        """
        self._ask("write")
        named = {"record": record, "message": message, "session": session}
        if author is None:
            return self._room.forget(**named)
        refuse_read_only(self._room, "forget")
        return forgetting.forget(
            self._room._services, self._room.id, **named, author=author_name(author)
        )

    aforget = twin(forget)  # type: ignore[arg-type]  # it takes an author, too


def _guarded(name: str, action: Action | None) -> Any:
    """The method of this name for a shared room: the application is asked before it
    runs.
    """
    method = getattr(UserMemory, name)
    if action is None:

        @wraps(method)
        def refused(self: SharedMemory, *_: Any, **__: Any) -> Any:
            raise InvalidInputError(
                f"{name} is for a user's own memory: memory.user(id).{name}."
            )

        return refused
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def inside_async(self: SharedMemory, *args: Any, **options: Any) -> Any:
            await in_thread(self._ask, action)
            return await getattr(self._room, name)(*args, **options)

        return inside_async

    @wraps(method)
    def inside(self: SharedMemory, *args: Any, **options: Any) -> Any:
        self._ask(action)
        return getattr(self._room, name)(*args, **options)

    return inside


for _name in dir(UserMemory):
    _method = getattr(UserMemory, _name)
    if is_operation(_method) and _name not in vars(SharedMemory):
        setattr(SharedMemory, _name, _guarded(_name, action_of(_method)))
