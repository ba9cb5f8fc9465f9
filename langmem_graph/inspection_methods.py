"""The methods of `UserMemory` with which people look around in a memory, page
by page.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.filters import Where
from langmem_graph.ids_and_times import item_key, message_ids, to_utc
from langmem_graph.operation import operation, refuse_read_only, twin
from langmem_graph.reading import Form, TypedRecord, read_form
from langmem_graph.reports import (
    Comparison,
    ForgetPreview,
    MessageUse,
    Neighbourhood,
    Occurrence,
    UserSummary,
)
from langmem_graph.retrieval.schedule_lookup import MOST_OCCURRENCES, agenda
from langmem_graph.rooms import shared_name
from langmem_graph.schemas import Message, Record
from langmem_graph.storage import forgetting, inspection_queries, record_queries, rounds
from langmem_graph.user_methods import UserMethods

_log = logging.getLogger(__name__)
LARGEST_PAGE = 1_000
LARGEST_START = 10**12  # more is no number of a database


class InspectionMethods(UserMethods):
    """Base of `UserMemory`: files, sizes, pages, what came of what, two dates beside
    each other.
    """

    @operation("read")
    def files(self) -> list[str]:
        """The names of the profile, the index and the topic tracks, as `read_file`
        takes them.
        """
        return self._read(lambda connection: list(rounds.all_files(connection)))

    afiles = twin(files)

    @operation("read")
    def read_file(self, name: str) -> str:
        """The profile (`profile.md`), the index (`index.md`) or a topic track, as
        Markdown.

        Raises:
            InvalidInputError: a name that `files` does not list.
        """
        return rounds.read_file(self._services, self.id, name)

    aread_file = twin(read_file)

    @operation("read")
    def overview(self) -> UserSummary:
        """How much is stored and what of it is due, as `memory.users` says it of every
        user.
        """
        none = dict.fromkeys(
            ("messages", "sessions", "records", "vectors", "to_embed", "to_read"), 0
        )
        name = shared_name(self.id)
        of_whom: dict[str, Any] = {
            "user_id": name or self.id,
            "is_shared": name is not None,
        }
        nothing = UserSummary(**of_whom, oldest_due=None, **none)
        query = inspection_queries.summary
        return self._services.read(
            self._own_view(), lambda c: query(c, self.id), nothing
        )

    aoverview = twin(overview)

    @operation("read")
    def conversation(
        self,
        session_id: str,
        *,
        start: int = 0,
        limit: int = 100,
        where: Where | None = None,
    ) -> list[Message]:
        """Messages of a session in the order they arrived, from the `start`-th on.

        With `where`, here and below, what passes the filter is counted and shown alone.

        Raises:
            InvalidInputError: a negative start, or a limit that is not between 1 and
                1,000.
        """
        page = _page(start, limit)
        key = item_key(session_id)
        query = inspection_queries.session_page
        return self._read_within(where, lambda c: query(c, key, *page))

    aconversation = twin(conversation)

    @operation("read")
    def records(
        self, *, start: int = 0, limit: int = 100, where: Where | None = None
    ) -> list[Record]:
        """Records of any status, the newest first, from the `start`-th on.

        Raises:
            InvalidInputError: a negative start, or a limit that is not between 1 and
                1,000.
        """
        page = _page(start, limit)
        query = inspection_queries.record_page
        return self._read_within(where, lambda c: query(c, *page))

    arecords = twin(records)

    @operation("read")
    def records_of(
        self, form: type[Form], *, where: Where | None = None
    ) -> list[TypedRecord[Form]]:
        """The records that hold now and fill a form of `Reading.schemas`, the newest
        first.

        A record whose stored form does not fit the present version of the form is left
        out, with a warning in the log.

        Raises:
            InvalidInputError: the form is no pydantic model.
        """
        if not (isinstance(form, type) and issubclass(form, BaseModel)):
            raise InvalidInputError(
                f"records_of takes a form of Reading.schemas, not {quoted(form)}. As "
                "in records_of(Allergy)"
            )
        found = list[TypedRecord[Form]]()
        filling = partial(record_queries.filling, form=form.__name__)
        for record in self._read_within(where, filling):
            try:
                data = read_form(form, (record.data or {})[form.__name__])
                found.append(TypedRecord(data=data, record=record))
            except Exception:  # noqa: BLE001  # its own checks raise any
                _log.warning(
                    "%s does not fit %s any more", record.record_id, form.__name__
                )
        return found

    arecords_of = twin(records_of)

    @operation("read")
    def made_of(
        self, messages: str | Sequence[str], *, where: Where | None = None
    ) -> list[MessageUse]:
        """What was made of these messages: records, changes, or nothing yet; by their
        ids.
        """
        ids = message_ids(messages)
        return self._read_within(where, lambda c: inspection_queries.uses_of(c, ids))

    amade_of = twin(made_of)

    @operation("read")
    def neighbours(
        self, record: str, *, most: int = 60, where: Where | None = None
    ) -> Neighbourhood:
        """A record with those around it, over semantic and causal edges; empty if
        unknown.
        """
        _, limit = _page(0, most)
        nothing = Neighbourhood()
        key = item_key(record)
        query = inspection_queries.neighbourhood
        return self._services.read(
            self._own_view(where), lambda c: query(c, key, limit), nothing
        )

    aneighbours = twin(neighbours)

    @operation("read")
    def schedule(
        self,
        since: object,
        until: object,
        *,
        where: Where | None = None,
        limit: int = MOST_OCCURRENCES,
    ) -> list[Occurrence]:
        """What takes place between two times, the earliest first, and what clashes with
        what.

        Shared rooms that the user may read are among it (`record.room`); clashes are
        looked for within each room, and by `recall` in all of them.

        Args:
            limit: the most entries, 1 to 1,000; what recurs is as many as it takes
                place. Where there are more, the log has a warning; a call from the last
                `begin` on goes on.

        Raises:
            InvalidInputError: no times, or another limit.
        """
        begin, end, (_, most) = to_utc(since), to_utc(until), _page(0, limit)
        found = self._read_along(
            where, lambda c: agenda(c, begin, end, self.settings, most + 1)
        )
        if len(found) > most:
            _log.warning(
                "a schedule was cut after %d entries; ask for fewer days", most
            )
        return sorted(found, key=lambda one: (one.begin, one.end))[:most]

    aschedule = twin(schedule)

    @operation("read")
    def compare(
        self, first: object, second: object, *, where: Where | None = None
    ) -> Comparison:
        """What held at one of two times only, and how much of it was forgotten since.

        How much was forgotten is counted over all, whatever `where` says.

        Raises:
            InvalidInputError: no times, or the second is before the first.
        """
        early = to_utc(first)
        late = to_utc(second)
        if late < early:
            raise InvalidInputError("The second time is before the first.")
        query = inspection_queries.compare
        return self._services.read(
            self._own_view(where), lambda c: query(c, early, late), Comparison()
        )

    acompare = twin(compare)

    @operation("read")
    def forget_preview(
        self,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
    ) -> ForgetPreview:
        """What `forget` would delete and what would hold again; nothing is changed.

        Raises:
            InvalidInputError: not exactly one thing is named.
        """
        refuse_read_only(self, "forget_preview")
        named = {"record": record, "message": message, "session": session}
        return forgetting.preview(self._services, self.id, **named)

    aforget_preview = twin(forget_preview)


def _page(start: int, limit: int) -> tuple[int, int]:
    for name, given, least, most in (
        ("start", start, 0, LARGEST_START),
        ("limit", limit, 1, LARGEST_PAGE),
    ):
        if type(given) is not int or not least <= given <= most:
            raise InvalidInputError(
                f"{name} must be a whole number from {least} to {most:,}, "
                f"not {quoted(given)}."
            )
    return start, limit
