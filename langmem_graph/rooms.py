"""Rooms: a user's own is known by the user's id, a shared one by a key; who may use a
shared room.

The key of a shared room begins with half of a character, which no user's id can hold.
So no user can have the key of a shared room, and no hash of an id is the hash of such a
key.

The application is asked at every call who may use a shared room, and waited for so
long. Without an answer that is exactly True the answer is no.
"""

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Literal

from langmem_graph.errors import (
    InvalidInputError,
    NotCopied,
    RoomRefusedError,
    StorageError,
    check_function,
    quoted,
)
from langmem_graph.ids_and_times import short_key
from langmem_graph.threads import CALLERS_LOOP, Begun, result_of, start_thread

_MARK = "\udcff"
Action = Literal["read", "write"]
Authorize = Callable[[str, str, Action], bool | Awaitable[bool]]
"""An application's function of user, room and action: whether this user may do that
there.
"""
# questions about a room at a time, and of one memory; the others wait as long as for an
# answer
MOST_ASKED = 64
MOST_ASKED_IN_ALL = 1_024
_NOBODY = "the memory has no authorize function: Memory(path, authorize=…)"


def room_name(given: object) -> str:
    """The name of a shared room as text; it is stored with every message there."""
    return short_key(
        given, "room", 'shared("team-42", as_user="alice") or shared=["team-42"]'
    )


def author_name(given: object) -> str:
    """The user who writes in a shared room, as text."""
    return short_key(given, "as_user", 'shared("team-42", as_user="alice")')


def room_names(given: object) -> tuple[str, ...]:
    """One name of a shared room or several, each once."""
    several = [given] if isinstance(given, str | int) else given
    # An iterator would be used up by the first look, and keys or bytes are no list of
    # names.
    if not isinstance(several, Collection) or isinstance(several, bytes | Mapping):
        example = 'As in shared=["team-42"]'
        raise InvalidInputError(
            f"shared must be a list of rooms' names, not {quoted(given)}. {example}"
        )
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
    """What is said of a shared room in which nothing is stored; its name may be
    misspelt.
    """
    return (
        f"The shared room {room!r} holds nothing: check its name, or store something "
        "there: "
        f"memory.shared({room!r}, as_user=…).add(…)."
    )


def left_out(key: str, error: Exception) -> StorageError:
    """What is said of a room that fails, and that a search goes on without."""
    problem = StorageError(f"{described(key)} was left out: {error}")
    problem.__cause__ = error
    return problem


class RoomAccess(NotCopied):
    """Asks the application's `authorize`, each time in a thread that may be abandoned.

    What it returns to be awaited runs on the event loop of the asynchronous call that
    asks, where there is one: it may use what is bound to that loop, such as a pool of
    connections.
    """

    def __init__(self, authorize: Authorize | None, seconds: float) -> None:
        if authorize is not None:
            example = "authorize=lambda user, room, action: user in MEMBERS[room]"
            check_function(
                "authorize", authorize, "user, room, action", example, waits=True
            )
        self._authorize = authorize
        self._seconds = seconds
        self._asked = Counter[str]()
        self._changed = threading.Condition()

    def refusals(
        self, user: str, rooms: Sequence[str], action: Action
    ) -> dict[str, str]:
        """Of these shared rooms those that the user may not use so, each with the
        reason.
        """
        if self._authorize is None:
            return dict.fromkeys(rooms, _NOBODY)
        ask = partial(self._ask, CALLERS_LOOP.get(), user)
        until = monotonic() + self._seconds
        asked = {room: start_thread(partial(ask, room, action)) for room in rooms}
        reasons = {room: self._reason(answer, until) for room, answer in asked.items()}
        return {room: reason for room, reason in reasons.items() if reason}

    def check(self, user: str, room: str, action: Action) -> None:
        """Raise RoomRefusedError unless the user may do that in the shared room."""
        for reason in self.refusals(user, [room], action).values():
            raise _refused(user, room, action, reason)

    def check_possible(self, user: str, room: str) -> None:
        """Raise RoomRefusedError where there is nobody to ask."""
        if self._authorize is None:
            raise _refused(user, room, "use", _NOBODY)

    def _ask(
        self,
        loop: asyncio.AbstractEventLoop | None,
        user: str,
        room: str,
        action: Action,
    ) -> object:
        self._wait_for_slot(room)
        try:
            ask = self._authorize
            answer: object = ask(user, room, action) if ask else False
            if not inspect.isawaitable(answer):
                return answer
            bounded = _within(answer, self._seconds)
            if loop is None or loop.is_closed():
                return asyncio.run(bounded)
            return asyncio.run_coroutine_threadsafe(bounded, loop).result(self._seconds)
        finally:
            with self._changed:
                self._asked[room] -= 1
                self._asked += Counter()  # without rooms that nobody asks about
                self._changed.notify_all()

    def _wait_for_slot(self, room: str) -> None:
        """Count a question about a room, once there are few enough: a room about which
        the application does not answer keeps no other one waiting.
        """

        def is_free() -> bool:
            few = self._asked.total() < MOST_ASKED_IN_ALL
            return few and self._asked[room] < MOST_ASKED

        with self._changed:
            if not self._changed.wait_for(is_free, self._seconds):
                raise TimeoutError
            self._asked[room] += 1

    def _reason(self, answer: Begun[object], until: float) -> str:
        """Why the answer is no; empty where it is yes."""
        try:
            said = result_of(answer, max(0.0, until - monotonic()))
        except TimeoutError:
            return f"authorize gave no answer in {self._seconds:g} seconds"
        except Exception as error:  # noqa: BLE001  # the application's own
            return f"authorize failed: {type(error).__name__}"
        if said is True:
            return ""
        what = (
            "said no"
            if said is False
            else f"returned {type(said).__name__}, not True or False"
        )
        return f"authorize {what}"


def _refused(user: str, room: str, action: str, reason: str) -> RoomRefusedError:
    whose = described(shared_key(room))
    return RoomRefusedError(f"User {user!r} may not {action} {whose}: {reason}.")


async def _within(answer: Awaitable[object], seconds: float) -> object:
    return await asyncio.wait_for(answer, seconds)
