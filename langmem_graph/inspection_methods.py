"""The methods of `UserMemory` with which people look around in a memory, page by page."""

import logging
from collections.abc import Sequence
from itertools import chain

from pydantic import ValidationError

from langmem_graph.async_methods import AsyncMethods, Closing, twin
from langmem_graph.errors import InvalidInputError
from langmem_graph.messages import message_ids, to_utc
from langmem_graph.reading import Form, TypedRecord
from langmem_graph.reports import (
    Comparison,
    ForgetPreview,
    MessageUse,
    Neighbourhood,
    Occurrence,
    Usage,
    UserSummary,
)
from langmem_graph.retrieval.agenda import agenda
from langmem_graph.room_keys import shared_name
from langmem_graph.schemas import Message, Record
from langmem_graph.storage import (
    deletion,
    inspection_queries,
    record_queries,
    topic_file_rows,
    usage,
)
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread, in_thread_of

_log = logging.getLogger(__name__)
LARGEST_PAGE = 1_000


class AllUsersMethods(Closing):
    """Base of `Memory`: what there is of all users, and what it has cost."""

    _services: Services

    def users(self) -> list[UserSummary]:
        """All users of whom something is stored, with what their memories hold and what is due.

        Without a model nothing is read: `to_read` then counts every message, and only what is
        `to_embed` waits for anything.
        """
        return self._services.directory.read_each(usage.summary)

    async def ausers(self) -> list[UserSummary]:
        """Async twin of `users`."""
        return await in_thread(self.users)

    def usage(self, since: object = None) -> Usage:
        """What the model calls for all users and in shared rooms cost, by day and purpose."""
        start = None if since is None else to_utc(since)
        both, read = (False, True), self._services.directory.read_each
        found = [read(lambda c, _: usage.usage(c, start), shared=one) for one in both]
        return usage.sum_of(chain.from_iterable(found))

    async def ausage(self, since: object = None) -> Usage:
        """Async twin of `usage`."""
        return await in_thread(self.usage, since)


class InspectionMethods(AsyncMethods):
    """Base of `UserMemory`: files, sizes, pages, what came of what, two dates beside each other."""

    def files(self) -> list[str]:
        """The names of the profile, the index and the topic tracks, as `read_file` takes them."""
        return self._read(lambda connection: list(topic_file_rows.all_files(connection)))

    afiles = twin(files)

    def read_file(self, name: str) -> str:
        """The profile (`profile.md`), the index (`index.md`) or a topic track, as Markdown.

        Raises:
            InvalidInputError: a name that `files` does not list.
        """
        return topic_file_rows.read_file(self._services, self.id, name)

    aread_file = twin(read_file)

    def overview(self) -> UserSummary:
        """How much is stored and what of it is due, as `memory.users` says it of every user."""
        none = dict.fromkeys(
            ("messages", "sessions", "records", "vectors", "to_embed", "to_read"), 0
        )
        name = shared_name(self.id) or self.id
        nothing = UserSummary(user_id=name, oldest_due=None, **none)
        return self._services.read(self.id, lambda c: usage.summary(c, name), nothing)

    aoverview = twin(overview)

    def conversation(self, session_id: str, *, start: int = 0, limit: int = 100) -> list[Message]:
        """Messages of a session in the order they arrived, from the `start`-th on.

        Raises:
            InvalidInputError: a negative start, or a limit that is not between 1 and 1,000.
        """
        page = _page(start, limit)
        return self._read(inspection_queries.session_page, session_id, *page)

    aconversation = twin(conversation)

    def records(self, *, start: int = 0, limit: int = 100) -> list[Record]:
        """Records of any status, the newest first, from the `start`-th on.

        Raises:
            InvalidInputError: a negative start, or a limit that is not between 1 and 1,000.
        """
        return self._read(inspection_queries.record_page, *_page(start, limit))

    arecords = twin(records)

    def records_of(self, form: type[Form]) -> list[TypedRecord[Form]]:
        """What holds now in a form of the application's (`Reading.schemas`), the newest first.

        What was stored under an earlier version of the form, and does not fit it any more, is left
        out with a warning in the log.
        """
        found = list[TypedRecord[Form]]()
        for record in self._read(record_queries.filling, form.__name__):
            try:
                data = form.model_validate((record.data or {})[form.__name__])
                found.append(TypedRecord(data=data, record=record))
            except ValidationError:
                _log.warning("%s does not fit %s any more", record.record_id, form.__name__)
        return found

    async def arecords_of(self, form: type[Form]) -> list[TypedRecord[Form]]:
        """Async twin of `records_of`."""
        return await in_thread_of(self.id, lambda: self.records_of(form))

    def made_of(self, messages: str | Sequence[str]) -> list[MessageUse]:
        """What was made of these messages: records, changes, or nothing yet; by their ids."""
        return self._read(inspection_queries.uses_of, message_ids(messages))

    amade_of = twin(made_of)

    def neighbours(self, record: str, *, most: int = 60) -> Neighbourhood:
        """A record with those around it, over semantic and causal edges; empty if unknown."""
        _, limit = _page(0, most)
        nothing = Neighbourhood()
        query = inspection_queries.neighbourhood
        return self._services.read(self.id, lambda c: query(c, record, limit), nothing)

    aneighbours = twin(neighbours)

    def schedule(self, since: object, until: object) -> list[Occurrence]:
        """What takes place between two times, the earliest first, and what clashes with what.

        Raises:
            InvalidInputError: no times.
        """
        return self._read(agenda, to_utc(since), to_utc(until), self.settings)

    aschedule = twin(schedule)

    def compare(self, first: object, second: object) -> Comparison:
        """What held at one of two times only, and how much of it was forgotten since.

        Raises:
            InvalidInputError: no times, or the second is before the first.
        """
        early, late = to_utc(first), to_utc(second)
        if late < early:
            raise InvalidInputError("The second time is before the first.")
        query = inspection_queries.compare
        return self._services.read(self.id, lambda c: query(c, early, late), Comparison())

    acompare = twin(compare)

    def forget_preview(
        self, *, record: str | None = None, message: str | None = None, session: str | None = None
    ) -> ForgetPreview:
        """What `forget` would delete and what would hold again; nothing is changed.

        Raises:
            InvalidInputError: not exactly one thing is named.
        """
        self._check_writable("forget_preview")
        named = {"record": record, "message": message, "session": session}
        return deletion.preview(self._services, self.id, **named)

    aforget_preview = twin(forget_preview)


def _page(start: int, limit: int) -> tuple[int, int]:
    if start < 0 or not 1 <= limit <= LARGEST_PAGE:
        text = f"start must be at least 0 and limit 1 to {LARGEST_PAGE}, not {start} and {limit}."
        raise InvalidInputError(text)
    return start, limit
