"""The methods of `Memory` and `UserMemory` that say how long is kept, and delete what is older."""

from typing import TYPE_CHECKING

from pydantic import ValidationError

from langmem_graph.async_methods import AsyncMethods, twin
from langmem_graph.errors import InvalidInputError, ReadOnlyError, explain
from langmem_graph.reports import ExpiryReport
from langmem_graph.settings import KeepDays
from langmem_graph.storage import expiry
from langmem_graph.storage.memory_services import Services
from langmem_graph.threads import in_thread
from langmem_graph.tracing import traced

if TYPE_CHECKING:
    from langmem_graph.pipelines import Pipelines


class UserRetention(AsyncMethods):
    """Base of `UserMemory`: its own limits, and their application."""

    def keep_days(self, *, messages: int | None = None, records: int | None = None) -> None:
        """Set how long this user's memory keeps; it is stored with it, for all processes.

        Args:
            messages: days after which a message expires, from when it was said.
            records: days after which a record expires, from when a message last said it. A record
                goes with the last message that says it in any case.

        None means what `Memory.keep_days` says, or for ever.

        Raises:
            InvalidInputError: no whole number above 0, or records for longer than messages.
        """
        self._check_writable("keep_days")
        expiry.set_keep_days(self._services, self.id, _checked(messages, records))

    akeep_days = twin(keep_days)

    @traced
    def expire(self) -> ExpiryReport:
        """Delete what is older than it is to be kept, with everything that quotes it.

        What an expired message did to other records stays done: what it ended does not hold again.
        A record that a younger message carries or confirms stays, with that message.
        """
        self._check_writable("expire")
        return expiry.expire(self._services, self.id)

    aexpire = twin(expire)


class MemoryRetention:
    """Base of `Memory`: limits for all users, and their application."""

    _services: Services
    _pipelines: "Pipelines | None"

    def keep_days(self, *, messages: int | None = None, records: int | None = None) -> None:
        """Set how long this `Memory` keeps what is of users and rooms without limits of their own.

        It replaces `Settings.keep_days`, and is not stored: say it at every start. With a model,
        the background worker applies it once a day to all users; else call `expire`.

        Raises:
            InvalidInputError: no whole number above 0, or records for longer than messages.
        """
        self._services.keep_days = _checked(messages, records)
        if self._pipelines is not None and not self._services.read_only:
            self._pipelines.expire_daily()

    async def akeep_days(self, *, messages: int | None = None, records: int | None = None) -> None:
        """Async twin of `keep_days`."""
        self.keep_days(messages=messages, records=records)

    def expire(self) -> list[ExpiryReport]:
        """Apply the limits to all users and shared rooms; a report where something was deleted.

        Raises:
            ReadOnlyError: the memory was opened with `read_only`.
        """
        if self._services.read_only:
            raise ReadOnlyError("expire needs a memory opened for writing, not read_only=True.")
        return expiry.expire_all(self._services)

    async def aexpire(self) -> list[ExpiryReport]:
        """Async twin of `expire`."""
        return await in_thread(self.expire)


def _checked(messages: int | None, records: int | None) -> KeepDays:
    try:
        return KeepDays(messages=messages, records=records)
    except ValidationError as error:
        raise InvalidInputError(f"keep_days: {explain(error)}") from None
