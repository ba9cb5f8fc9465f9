"""`Memory`: the memories of many users in one directory."""

import os
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, get_args

from langmem_graph.closing import Closing
from langmem_graph.embeddings.embedder import load_embedder
from langmem_graph.errors import InvalidInputError, check_function, quoted
from langmem_graph.ids_and_times import to_utc, user_key
from langmem_graph.operation import operation, twin
from langmem_graph.reading import ForgetOnRequest, Readings, Redact, check_reading
from langmem_graph.reports import ExpiryReport, Usage, UserSummary
from langmem_graph.rooms import Authorize, RoomAccess, room_names
from langmem_graph.settings import KeepDays, Settings
from langmem_graph.storage import call_log, expiry, inspection_queries
from langmem_graph.storage.location import is_database, read_location
from langmem_graph.storage.memory_services import Services, open_rooms
from langmem_graph.threads import MOMENT, opened, uninterrupted
from langmem_graph.tracing import observe_due
from langmem_graph.user_memory import Id, UserMemory

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings
    from psycopg_pool import ConnectionPool

    from langmem_graph.causal import CausalScorer
    from langmem_graph.pipelines import Pipelines
    from langmem_graph.shared_memory import SharedMemory

__all__ = ["Memory", "UserMemory"]


class Memory(Closing):
    """Long-term memory of many users in one directory.

    Examples:
        ```python
        with Memory("./memory") as memory:
            alice = memory.user("alice")
            alice.add([("user", "My flight is on Friday.")], session_id="1")
            print(alice.recall("When do I fly?").context)
        ```

    Args:
        path: the directory; made when missing. Or a PostgreSQL database for several
            hosts (`postgresql://USER@HOST/NAME`, prepared by `langmem-graph migrate`),
            or a `psycopg_pool.ConnectionPool` of it.
        chroma: None keeps the vectors in the directory. A URL (`http://localhost:8000`)
            or a Chroma client uses that server; several processes of this host may then
            share `path`.
        model: for extraction and reasoning: a LangChain chat model, or a name that
            `init_chat_model` takes (`openai:gpt-4o-mini`). None keeps and finds
            messages only.
        embeddings: None is MiniLM on this machine (English); or a LangChain
            `Embeddings` object, or a name: `multilingual`, `onnx:owner/name` for a
            sentence-transformers model that has ONNX files, or one that
            `init_embeddings` takes. Always give the same for one directory.
        causal_scorer: `verifier` (the model judges), `none`, or one of
            `langmem_graph.causal`.
        settings: everything else, see `Settings`.
        redact: takes a text and returns what of it may be stored; see docs/scopes.md.
        authorize: a function of user, room and action (`read`, `write`), sync or async,
            which says who may use which shared room; it is asked at every call. None:
            nobody.
        reading: what the model looks for beside what its own rules say, forms that it
            fills, and what it must never write down: a `Reading`, or a function that
            gives one for a user's id; see docs/scopes.md.
        forget_on_request: what is done with the words that tell what a user asks to
            forget: `hide` takes them out of everything that is read, until `undo`;
            `delete` leaves nothing of them.
        read_only: read beside a process that writes, without Chroma: searches compare
            every vector.

    Raises:
        MemoryLockedError: when another process writes to this directory.
        StorageError: when the directory cannot be used.
        InvalidInputError: when an argument cannot be used.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | ConnectionPool",
        *,
        chroma: "str | ClientAPI | None" = None,
        model: Any = None,
        embeddings: "Embeddings | str | None" = None,
        causal_scorer: "CausalScorer | str" = "verifier",
        settings: Settings | None = None,
        read_only: bool = False,
        redact: Redact | None = None,
        authorize: Authorize | None = None,
        reading: Readings | None = None,
        forget_on_request: ForgetOnRequest = "hide",
    ) -> None:
        if not isinstance(settings, Settings | None):
            raise InvalidInputError(
                f"settings must be a Settings() object, not a "
                f"{type(settings).__name__}."
            )
        if redact is not None:
            check_function(
                "redact", redact, "text", 'redact=lambda text: CARD.sub("…", text)'
            )
        check_reading(reading)
        if forget_on_request not in get_args(ForgetOnRequest):
            raise InvalidInputError(
                f"forget_on_request must be 'hide' or 'delete', not "
                f"{quoted(forget_on_request)}."
            )
        read_only = bool(read_only)  # a part of the key of what is open
        self.settings = settings or Settings()
        self.has_model = model is not None
        location = read_location(path)
        self.path: Path | None = None if is_database(location) else location
        self._access = RoomAccess(authorize, self.settings.authorize_seconds)
        embedder = load_embedder(embeddings)
        embedder.seconds = self.settings.embed_seconds
        self._pipelines: Pipelines | None = None
        self._closed = False
        self._closing = RLock()  # a signal handler may close it inside of a closing
        rooms = None
        try:
            rooms = opened(
                partial(open_rooms, location, self.settings, chroma, read_only),
                lambda rooms: rooms.release(0.0),
            )
            self._services = Services(
                rooms,
                embedder,
                self.settings,
                read_only,
                redact,
                reading,
                forget_on_request,
            )
            observe_due(self)
            if model is not None:  # LangChain's models are slow to import
                from langmem_graph.pipelines import Pipelines as Opened

                self._pipelines = Opened.open(self._services, model, causal_scorer)
        except BaseException:  # an interrupt, too, must not keep the lock
            if rooms is not None:
                uninterrupted(rooms.release)(0.0)
            raise

    @property
    def _read_only(self) -> bool:
        return self._services.read_only

    def __repr__(self) -> str:
        return f"Memory({self._services.directory.place})"

    if not TYPE_CHECKING:  # type checkers go on naming what is not there

        def __getattr__(self, name: str) -> Any:
            text = f"'Memory' object has no attribute {name!r}."
            if not name.startswith("_") and hasattr(UserMemory, name):
                text += (
                    " It belongs to the memory of one user: "
                    f"memory.user('alice').{name}(…)."
                )
            raise AttributeError(text, name=name, obj=self)

    @classmethod
    def from_environment(cls) -> Self:
        """The memory that `LANGMEM_GRAPH_DIR` or else `POSTGRES_URI` names (default
        `./memory`).

        `LANGMEM_GRAPH_CHROMA`, `_EMBEDDINGS` and `_MODEL` stand for the arguments of
        these names.
        """
        names = ("CHROMA", "EMBEDDINGS", "MODEL", "DIR")
        chroma, embeddings, model, path = (
            os.getenv(f"LANGMEM_GRAPH_{n}") or None for n in names
        )
        path = path or os.getenv("POSTGRES_URI") or "memory"
        return cls(path, chroma=chroma, model=model, embeddings=embeddings)

    def user(self, user_id: Id, *, shared: Sequence[Id] = ()) -> "UserMemory":
        """The memory of one user. `7` and `"7"` are the same user.

        With `shared` it also recalls and searches in these shared rooms, as far as the
        user may read them; what it changes is the user's own room alone.

        Raises:
            MissingUserError: the id is empty or missing.
            StorageError: with `read_only`, when nothing is stored of this user.
        """
        rooms = (self._access, room_names(shared))
        return UserMemory(self._services, user_key(user_id), self._pipelines, *rooms)

    def shared(self, room: Id, *, as_user: Id) -> "SharedMemory":
        """A room of several users, used by one of them, who is the author of what is
        added.

        Every method asks `authorize`, and raises RoomRefusedError where the answer is
        no.

        Raises:
            RoomRefusedError: this memory has no `authorize`.
            InvalidInputError: a name that cannot be stored.
        """
        from langmem_graph.shared_memory import SharedMemory

        return SharedMemory(
            self._services, self._pipelines, self._access, room, as_user
        )

    @operation("read")
    def users(self) -> list[UserSummary]:
        """All users of whom something is stored, with what their memories hold and what
        is due.

        Then all shared rooms (`is_shared`). Without a model no message is ever read:
        `to_read` then counts every message, and only `to_embed` is work that is due.
        """
        return self._summaries()

    ausers = twin(users)

    @uninterrupted
    def _summaries(self) -> list[UserSummary]:
        """The same without a span: OpenTelemetry's gauges ask for it every minute."""
        read = self._services.directory.read_each
        return [
            *read(inspection_queries.summary),
            *read(inspection_queries.summary, shared=True),
        ]

    @operation("read")
    def usage(self, since: object = None) -> Usage:
        """What the model calls for all users and in shared rooms cost, by day and
        purpose.
        """
        start = None if since is None else to_utc(since)
        both = (False, True)
        read = self._services.directory.read_each
        found = [
            read(lambda c, _: call_log.usage(c, start), shared=one) for one in both
        ]
        return call_log.sum_of(chain.from_iterable(found))

    ausage = twin(usage)

    @operation("read")
    def keep_days(
        self, *, messages: int | None = None, records: int | None = None
    ) -> None:
        """Set how long messages and records are kept, for users and rooms without own
        limits.

        It replaces `Settings.keep_days` and is not stored: call it at every start. With
        a model, the background worker applies it once a day to all users; else call
        `expire`.

        Raises:
            InvalidInputError: no whole number above 0, or records for longer than
                messages.
        """
        self._services.keep_days = KeepDays(messages=messages, records=records)
        if self._pipelines is not None and not self._services.read_only:
            self._pipelines.expire_daily()

    akeep_days = twin(keep_days)

    @operation("write")
    def expire(self) -> list[ExpiryReport]:
        """Apply the limits to all users and shared rooms; a report where something was
        deleted.

        Raises:
            ReadOnlyError: the memory was opened with `read_only`.
        """
        return expiry.expire_all(self._services)

    aexpire = twin(expire)

    @uninterrupted
    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call
        twice.
        """
        with self._closing:
            if not self._closed:
                self._close()

    def _close(self) -> None:
        seconds = self.settings.storage.closing_seconds
        until = monotonic() + seconds
        try:
            if self._pipelines is not None:
                spare = min(seconds / 2, MOMENT + self._services.seconds_to_release())
                self._pipelines.close(until - spare)
        finally:
            self._services.close(until)
        self._closed = True
