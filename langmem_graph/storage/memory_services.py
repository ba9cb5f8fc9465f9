"""The dependencies that one `Memory` shares with its users: directory, embedder and
settings.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import (
    ClosedMemoryError,
    InvalidInputError,
    LangMemGraphError,
    NothingStoredError,
    for_log,
)
from langmem_graph.reading import ForgetOnRequest, Readings, Redact
from langmem_graph.reports import CallNote
from langmem_graph.rooms import described, nothing_in, shared_name
from langmem_graph.settings import KeepDays, Settings
from langmem_graph.storage import call_log, pending_messages
from langmem_graph.storage.location import is_database
from langmem_graph.storage.memory_directory import MemoryDirectory
from langmem_graph.storage.outbox_worker import PORTION, Drained, DueWork
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.user_room import Room
from langmem_graph.threads import (
    finish,
    in_thread_of,
    is_ending,
    is_interrupted,
    refuse_abandoned,
    uninterrupted,
)
from langmem_graph.view import View

if TYPE_CHECKING:
    from langmem_graph.storage.postgres_rooms import PostgresRooms

T = TypeVar("T")
_log = logging.getLogger(__name__)
# between two attempts to remove deleted words from a log that is in use
RETRY_SECONDS = 2.0
SECONDS_TO_CLOSE = 0.05  # a room's files, on a machine that is busy


@dataclass
class Services:
    """Gives access to users' rooms, with the embedder and the settings that work there
    needs.

    Args:
        on_opened: called with the user's id when a room is first opened and messages
            are pending.
        on_embedded: called with the number of items after each batch of texts that was
            embedded.
    """

    directory: "MemoryDirectory | PostgresRooms"
    embedder: Embedder
    settings: Settings
    read_only: bool
    redact: Redact | None = None
    """What is stored passes it before."""
    reading: Readings | None = None
    """What the application adds to the rules of reading."""
    forget_on_request: ForgetOnRequest = "hide"
    """What is done with words that the user asks to forget."""
    on_opened: Callable[[str], None] | None = None
    on_embedded: Callable[[int], None] | None = None
    keep_days: KeepDays = field(init=False)
    """How long is kept what is of users without limits of their own."""
    ended_runs: deque[str] = field(default_factory=lambda: deque(maxlen=1_000))
    """Runs of extraction that were interrupted: a thread of one that is left claims
    nothing.
    """
    _with_traces: set[str] = field(default_factory=set)
    _indexed_later: set[str] = field(default_factory=set)
    _refused_before: deque[Any] = field(default_factory=lambda: deque(maxlen=1_000))
    _known_empty: deque[str] = field(default_factory=lambda: deque(maxlen=1_000))
    _closed: threading.Event = field(default_factory=threading.Event)
    _closing: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.directory.on_due = self._do_due_work
        self.keep_days = self.settings.keep_days

    def note_empty(self, key: str, notes: list[str] | None = None) -> None:
        """Note that a shared room holds nothing; it is logged once, as not every result
        says it.
        """
        text = nothing_in(shared_name(key) or key)
        if notes is not None and text not in notes:
            notes.append(text)
        if key not in self._known_empty:
            self._known_empty.append(key)
            _log.warning("%s", text)

    def is_first(self, refused: tuple[str, str, str | None]) -> bool:
        """Whether this user's message was not refused before; True without an id."""
        if refused in self._refused_before:
            return False
        self._refused_before.extend([refused] if refused[-1] is not None else [])
        return True

    @contextmanager
    def room(self, user_id: str, *, create: bool = False) -> Iterator[Room]:
        """Open the user's room; work that an earlier process left due is done the first
        time.

        Raises:
            NothingStoredError: nothing is stored of this user, and `create` is False.
        """
        self.check_open()
        if create:
            refuse_abandoned()
        with self.directory.room(user_id, create=create) as room:
            if not room.healed:
                room.healed = True
                if room.is_due:
                    room.finish_deletion(seconds=0.0)
                    self.drain(room, at_least=1).log(_log)
                if self.on_opened and room.database.read(
                    pending_messages.count_unread, EVERYTHING
                ):
                    self.on_opened(user_id)
            if room.traces_left:
                with suppress(LangMemGraphError):  # it is tried again
                    room.finish_deletion(seconds=0.0)
            yield room
            if room.traces_left and user_id not in self._with_traces:
                self._with_traces.add(user_id)
                text = "deleted words are still in files of %s; that is tried again"
                _log.warning(text, room.name)
                threading.Thread(
                    target=self._empty_log, args=[user_id], daemon=True
                ).start()

    def _empty_log(self, user_id: str) -> None:
        """Enter the room now and then, until no reader keeps deleted words in
        its log.
        """
        left = True
        while left and not self._closed.is_set():
            sleep(RETRY_SECONDS)
            with suppress(LangMemGraphError):
                left = self._in_known_room(
                    user_id, lambda room: bool(room.traces_left), False
                )
        self._with_traces.discard(user_id)

    @contextmanager
    def known_room(self, user_id: str) -> Iterator[Room | None]:
        """Like `room`, but None for a user of whom nothing is stored, except with
        `read_only`.
        """
        with ExitStack() as stack:
            room: Room | None = None
            try:
                room = stack.enter_context(self.room(user_id))
            except NothingStoredError:
                if self.read_only:
                    raise
            yield room

    @contextmanager
    def rooms(
        self,
        view: View,
        problems: list[str] | None = None,
        empty: list[str] | None = None,
    ) -> Iterator[list[Room]]:
        """The view's rooms, as far as something is stored there.

        A shared room that is refused or cannot be opened is left out; the problems then
        say so. What is said of one that holds nothing, which is no fault, is added to
        `empty`.
        """
        now = view.now()
        if problems is not None:
            problems += [reason for reason in now.refused if reason not in problems]
        with ExitStack() as stack:
            found = list[Room]()
            for key in now.rooms:
                try:
                    found.append(stack.enter_context(self.room(key)))
                except NothingStoredError:
                    if self.read_only and not view.is_shared:
                        raise
                    if key != view.user:
                        self.note_empty(key, empty)
                except LangMemGraphError as error:
                    if key == view.user:
                        raise
                    _log.warning("a shared room cannot be opened: %s", for_log(error))
                    if problems is not None:
                        problems.append(f"{described(key)} was left out: {error}")
            yield found

    async def in_rooms(
        self,
        view: View,
        work: Callable[[list[Room]], T],
        problems: list[str] | None = None,
        empty: list[str] | None = None,
    ) -> T:
        """Do the work with these rooms, in a worker thread."""

        def inside() -> T:
            with self.rooms(view, problems, empty) as rooms:
                return work(rooms)

        return await in_thread_of(view.user, inside)

    def read(self, view: View, query: Callable[[Reading], T], nothing: T) -> T:
        """The result of a query of the user's own room, through the view's filter, or
        `nothing` as for `in_known_room`.
        """
        with self.known_room(view.user) as room:
            if room is None:
                return nothing
            return room.database.read(query, view.where)

    async def in_room(self, user_id: str, work: Callable[[Room], T]) -> T:
        """Do the work with the user's room, in a worker thread."""
        return await in_thread_of(user_id, lambda: self._in_room(user_id, work))

    def _in_room(self, user_id: str, work: Callable[[Room], T]) -> T:
        with self.room(user_id) as room:
            return work(room)

    async def in_known_room(
        self, user_id: str, work: Callable[[Room], T], nothing: T
    ) -> T:
        """Like `in_room`, but the result is `nothing` for a user of whom nothing is
        stored.
        """
        return await in_thread_of(
            user_id, lambda: self._in_known_room(user_id, work, nothing)
        )

    def _in_known_room(self, user_id: str, work: Callable[[Room], T], nothing: T) -> T:
        with self.known_room(user_id) as room:
            return nothing if room is None else work(room)

    def log_calls(
        self,
        user_id: str,
        notes: Sequence[CallNote],
        message_numbers: Sequence[int] = (),
    ) -> None:
        """Write notes of model calls into the user's ledger; a failure is only logged.

        The log forgets a call with any of the messages that it read.
        """
        try:
            if notes and not self.read_only and self.directory.has(user_id):
                with (
                    self.room(user_id) as room,
                    room.database.write_transaction() as connection,
                ):
                    call_log.write_calls(connection, notes, message_numbers)
        except Exception as error:  # noqa: BLE001  # the log must not fail what the calls were for
            _log.warning("model calls could not be logged: %s", for_log(error))

    def embed_new(self, room: Room, layer: str, numbers: Iterable[int]) -> Drained:
        """Embed the items just stored, and index their layer if a full batch of vectors
        waits.
        """
        stored = list(numbers)
        rows = range(min(stored, default=0), max(stored, default=-1) + 1)
        batch = self.settings.storage.index_batch
        done = self._portion(room, batch).drain(layer, rows)
        return self._continued(room, done)

    def drain(self, room: Room, *, at_least: int | None = None) -> Drained:
        """Do all due work of a room.

        With `at_least`, only a layer of which so many vectors wait is indexed, and only
        a portion of them now, the rest in the background.
        """
        if at_least is None:
            return self._due_work(room).drain_all()
        return self._continued(room, self._portion(room, at_least).drain_all())

    def _portion(self, room: Room, at_least: int) -> DueWork:
        return replace(self._due_work(room), at_least=at_least, at_most=PORTION)

    def _due_work(self, room: Room) -> DueWork:
        return DueWork(room, self.embedder, self.settings, on_embedded=self.on_embedded)

    def _continued(self, room: Room, done: Drained) -> Drained:
        """What was done; what is left to index is done by a thread of its own."""
        user_id = room.user_id
        if done.is_more_due and user_id not in self._indexed_later:
            self._indexed_later.add(user_id)
            later = threading.Thread(target=self._index_rest, args=[user_id])
            try:
                later.start()
            except RuntimeError:  # the program ends
                self._indexed_later.discard(user_id)
        return done

    def _index_rest(self, user_id: str) -> None:
        """Index what waits, until the memory is closed or the program ends."""
        left = True
        try:
            while left and not (self._closed.is_set() or is_ending()):
                left = self._in_known_room(user_id, self._index_more, False)
        except LangMemGraphError as error:
            _log.warning("due work is left for the next call: %s", for_log(error))
        finally:
            self._indexed_later.discard(user_id)

    def _index_more(self, room: Room) -> bool:
        """Index a batch of each layer; whether there may be more."""
        batch = self.settings.storage.index_batch
        return replace(self._due_work(room), at_most=batch).index_all().is_more_due

    @uninterrupted
    def close(self, until: float = 0.0) -> None:
        """Finish due work as far as there is time, then release the directory, once."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
            try:
                if not (self.read_only or self.directory.is_foreign()):
                    finish(self._finish_due_work, until)
            finally:
                self.directory.release(until)

    def _do_due_work(self, user_id: str) -> None:
        """Do what a process left due that was killed."""
        with self.room(user_id) as room:
            self.drain(room).log(_log)
            if self.on_opened and room.database.read(
                pending_messages.count_unread, EVERYTHING
            ):
                self.on_opened(user_id)

    def _finish_due_work(self) -> None:
        for user_id in self.directory.open_users():
            if is_interrupted():  # the closing goes on without the rest
                return
            try:
                with self.directory.room(user_id) as room:
                    self.drain(room).log(_log)
            # one user's failure must not stop the others' work
            except LangMemGraphError as error:
                _log.warning(
                    "due work is left for the next opening: %s", for_log(error)
                )

    @uninterrupted
    def seconds_to_release(self) -> float:
        """About how long it takes to close what is open."""
        if self.directory.is_foreign():  # its locks may have been held at the fork
            return 0.0
        return SECONDS_TO_CLOSE * len(self.directory.open_users())

    def check_open(self) -> None:
        """Raise if this `Memory` was closed, even while another one shares the
        directory.
        """
        if self._closed.is_set():
            raise ClosedMemoryError(
                "This Memory is closed. Open it again: Memory(path)."
            )


def own_room(rooms: Sequence[Room], user_id: str) -> Room | None:
    """Of several rooms the one with this key."""
    return next((room for room in rooms if room.user_id == user_id), None)


def open_rooms(
    location: Any, settings: Settings, chroma: Any, read_only: bool
) -> "MemoryDirectory | PostgresRooms":
    """Open a directory or a database, as `read_location` gives it."""
    if not is_database(location):
        return MemoryDirectory.open(
            location, settings, chroma=chroma, read_only=read_only
        )
    try:
        from langmem_graph.storage.postgres_rooms import PostgresRooms as Opened
    except ImportError as error:
        text = "PostgreSQL needs an extra: pip install 'langmem-graph[postgres]'."
        raise InvalidInputError(text) from error
    return Opened(location, settings, chroma, read_only=read_only)
