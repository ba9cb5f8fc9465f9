"""The user and the session of a run.

Both ids come from outside the graph, never from a model's answer. All places that name
a user must agree: a client of a server can set `configurable` and the context, so
neither of them may override the user whom the server authenticated.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime
from langgraph_sdk.auth.types import StudioUser

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.graphs.conversation_messages import question_span, value_in
from langmem_graph.ids_and_times import session_key, user_key
from langmem_graph.messages import text_of

REMOVABLE = 20
"""So many newest messages are remembered as stored; an application may remove some of
them.
"""
UserId = str | int | Callable[[RunnableConfig], str | int] | None
"""A fixed user, a function of the run's config, or None: the config, context or
authentication.
"""
_AUTHENTICATED = "the authenticated user"
_AUTH_USER = "langgraph_auth_user"


def user_of(config: RunnableConfig, user_id: UserId = None) -> str:
    """The user of this run, whom all places name alike that name one.

    What the application fixed as `user_id` is not compared with other places.
    """
    if user_id is not None:
        return user_key(user_id(config) if callable(user_id) else user_id)
    named = _named_users(config)
    if not named:
        raise MissingUserError(
            "No user id: memory does not know whose turn this is. "
            f"{_misnamed(config)}Give it in "
            "one of three places: "
            'config={"configurable": {"user_id": …}}, a runtime context with a user_id '
            "(context={'user_id': …}), or LangGraph Server's authentication. "
            "For a single user, fix it: user_id=… where the node, tool or middleware "
            "is made."
        )
    if len(set(named.values())) > 1:
        raise InvalidInputError(
            f"Different user ids in one run: {', '.join(named)} do not agree. Name "
            "the user once, "
            "or give user_id=… a function of the config that decides."
        )
    return next(iter(named.values()))


def asker_of(config: RunnableConfig) -> str:
    """A hash of whom a run names, without what the application fixed as the user."""
    named = {
        str(value) for value in _places(config).values() if value not in (None, "")
    }
    return hashlib.sha256(
        "\n".join(sorted(named)).encode("utf-8", "replace")
    ).hexdigest()[:16]


def _misnamed(config: RunnableConfig) -> str:
    """Keys of the config that look as if they were meant to name the user; never their
    values.
    """
    seen: dict[str, str] = {}
    configurable = config.get("configurable") or {}
    metadata = config.get("metadata") or {}
    # LangChain copies keys of the former to the latter
    for place, keys in (("configurable", configurable), ("metadata", metadata)):
        for key in keys:
            if "user" in str(key).lower() and not str(key).startswith("langgraph_"):
                seen.setdefault(str(key), f"{place}.{key}")
    return f"It is not read from {', '.join(seen.values())}. " if seen else ""


def _named_users(config: RunnableConfig) -> dict[str, str]:
    places = _places(config)
    authenticated = _present({_AUTHENTICATED: places.pop(_AUTHENTICATED)})
    named = _present(places)
    if named and isinstance(
        (config.get("configurable") or {}).get(_AUTH_USER), StudioUser
    ):
        return named  # a developer in LangGraph Studio, who looks at any user's runs
    return named | authenticated


def _places(config: RunnableConfig) -> dict[str, Any]:
    """What each place says where a user may be named."""
    configurable = config.get("configurable") or {}
    return {
        "configurable.user_id": configurable.get("user_id"),
        "the runtime context": _user_of_context(),
        _AUTHENTICATED: configurable.get(f"{_AUTH_USER}_id"),
    }


def _present(places: dict[str, Any]) -> dict[str, str]:
    return {
        place: user_key(value)
        for place, value in places.items()
        if value not in (None, "")
    }


def _user_of_context() -> Any:
    try:
        return value_in(getattr(get_runtime(), "context", None), "user_id")
    except (RuntimeError, KeyError):  # outside a graph, as for a tool called by hand
        return None


def session_of(config: RunnableConfig, messages: Sequence[BaseMessage]) -> str:
    """The session of this run: `configurable.session_id`, the thread, or a hash of the
    first words.

    By its first words, a client without threads that sends the whole conversation with
    every turn stays in one session.
    """
    configurable = config.get("configurable") or {}
    for name in ("session_id", "thread_id"):
        if configurable.get(name) not in (None, ""):
            return session_key(str(configurable[name]))
    first = next(
        filter(None, (text_of(one) for one in messages if one.type != "system")), ""
    )
    digest = hashlib.sha256(first.encode("utf-8", "replace")).hexdigest()
    return f"conversation-{digest[:16]}"


Owners = dict[str, Mapping[str, Any]]
"""By surface (nodes, or a middleware by its name): whose the thread is for it,
as JSON.
"""


def owned(
    messages: Sequence[BaseMessage], user: str, before: object, surface: str
) -> tuple[Owners, Sequence[BaseMessage]]:
    """Whose thread it is now, for the graph's state, and their part of the
    conversation.

    `before` is what this returned when memory last saw the thread: what was said up to
    then is another user's, and later what stands before their own question. Each
    surface remembers its own user: one may store a turn for the person, another for a
    team. A message without an id is named by its place. Where the messages named so
    were removed from the thread, the user's last message alone is sure to be theirs.
    Where another surface has found already where the user's part begins, it begins
    there.
    """
    owners = owners_in(before)
    owner = _owner_for(surface, owners, messages, user)
    since = owner.get("since")
    changed = owner.get("user") != user
    kept = {} if changed else {name: owner.get(name) for name in ("stored", "refused")}
    if owner and (changed or _place(messages, since, 0 if since is None else -1) == -1):
        start, end = question_span(messages)
        new = _place(messages, owner.get("last"), end - 2) + 1
        same = [
            one.get("since")
            for one in owners.values()
            if changed and one.get("user") == user
        ]
        begins = [_place(messages, one, 0) for one in same]
        since = max(
            start if start < end else 0, new if changed else min(new, end - 1), *begins
        )
    if isinstance(since, int) and since < len(messages):
        since = messages[since].id or since
    last = messages[-1].id or len(messages) - 1 if messages else None
    now = {"user": user, "since": since, "last": last, **kept}
    return {**owners, surface: now}, messages[_place(messages, since, 0) :]


def newest_owners(messages: Sequence[BaseMessage], *known: Owners) -> Owners:
    """Of each surface what is known since the latest message; of equals the one given
    last.

    A graph's state keeps what its own nodes knew of the surfaces of agents within it.
    """
    newest: Owners = {}
    for name, owner in (one for owners in known for one in owners.items()):
        place = _place(messages, owner.get("last"), -1)
        if name not in newest or place >= _place(
            messages, newest[name].get("last"), -1
        ):
            newest[name] = owner
    return newest


def owners_in(given: object) -> Owners:
    """The owners in a graph's state, where a server's client may send anything."""
    known = given if isinstance(given, Mapping) else {}
    if "user" in known:  # one for all surfaces
        known = {"": known}
    return {name: owner for name, owner in known.items() if isinstance(owner, Mapping)}


def _owner_for(
    surface: str, owners: Owners, messages: Sequence[BaseMessage], user: str
) -> Mapping[str, Any]:
    """Its own; for a new surface what the one knows that saw the thread last.

    Where nobody has asked anything since then it is the same turn, seen for somebody
    else too.
    """
    if surface in owners or not owners:
        return owners.get(surface, {})
    latest = max(
        owners.values(), key=lambda owner: _place(messages, owner.get("last"), -1)
    )
    new = messages[_place(messages, latest.get("last"), -1) + 1 :]
    if latest.get("user") == user or any(message.type == "human" for message in new):
        return latest
    return {**latest, "user": user, "stored": None}


def stored_before(
    messages: Sequence[BaseMessage], owner: Mapping[str, Any], memory: str
) -> list[str]:
    """The ids of the messages that were stored in earlier turns, whatever memory holds
    of them now.

    A checkpointer keeps what was forgotten or erased since; it must not come back from
    there. What another branch puts between the newest of them is new. `memory` tells
    memories of a graph apart.
    """
    newest = _names(_by_memory(owner).get(memory))
    refused = _names(owner.get("refused"))
    ids = [message.id for message in messages if message.id]
    places = [n for n, one in enumerate(ids) if one in newest]
    older = ids[: places[0]] if places and len(newest) >= REMOVABLE else []
    return [one for one in (*older, *(ids[n] for n in places)) if one not in refused]


def stored_now(
    messages: Sequence[BaseMessage],
    owner: Mapping[str, Any],
    memory: str,
    refused: Sequence[str],
) -> Mapping[str, Any]:
    """The owner, after these messages were stored, but for those that were
    `refused`.
    """
    newest = [message.id for message in messages if message.id][-REMOVABLE:]
    stored = {**_by_memory(owner), memory: newest}
    return {**owner, "stored": stored, "refused": list(refused)}


def _names(given: object) -> list[Any]:
    return given if isinstance(given, list) else []


def _by_memory(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    stored = owner.get("stored")
    return stored if isinstance(stored, Mapping) else {}


class ThreadOwners:
    """Whose each thread was when this process last saw it.

    The state of an agent that is a node of another graph begins anew with every turn,
    and does not tell. Only a thread in which a message that was seen then is found
    again is the same one.
    """

    SIZE = 4_096

    def __init__(self) -> None:
        self._owners: OrderedDict[str, Owners] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, thread: str, messages: Sequence[BaseMessage]) -> Owners:
        """What `owned` returned for the thread before."""
        with self._lock:
            owners = self._owners.get(thread, {})
        known = [
            owner.get(end) for owner in owners.values() for end in ("last", "since")
        ]
        return owners if any(one.id and one.id in known for one in messages) else {}

    def note(self, thread: str, owners: Owners) -> None:
        """Remember what `owned` returns."""
        with self._lock:
            self._owners[thread] = owners
            self._owners.move_to_end(thread)
            if len(self._owners) > self.SIZE:
                self._owners.popitem(last=False)


THREAD_OWNERS = ThreadOwners()
"""Of the threads of all memories, each by its memory and its name."""


def _place(messages: Sequence[BaseMessage], name: object, otherwise: int) -> int:
    if isinstance(name, int):
        return name if 0 <= name <= len(messages) else otherwise
    return next((n for n, m in enumerate(messages) if name and m.id == name), otherwise)
