"""A visit to a page: the memory it shows, and what its address and form say."""

from dataclasses import dataclass
from functools import cached_property

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.reports import UserSummary


class NotFoundError(InvalidInputError):
    """There is nothing under this address."""


@dataclass
class Visit:
    """What a page is made from."""

    memory: Memory
    fields: dict[str, str]
    csrf: str
    allow_changes: bool

    def get(self, name: str, otherwise: str = "") -> str:
        """A field of the address or the form."""
        return self.fields.get(name) or otherwise

    def number(self, name: str, otherwise: int, most: int) -> int:
        """A whole number of the address, from 0 to `most`."""
        given = self.get(name)
        return min(int(given[:18]), most) if given.isascii() and given.isdigit() else otherwise

    @cached_property
    def overview(self) -> UserSummary:
        """How much is stored of the user whom the address names."""
        return self.memory.user(self.get("user")).overview()

    @cached_property
    def user(self) -> UserMemory:
        """The memory of the user whom the address names.

        Raises:
            NotFoundError: nothing is stored of this user.
        """
        if not (self.overview.messages or self.overview.records):
            raise NotFoundError(f"Nothing is stored of a user {self.get('user')[:100]!r}.")
        return self.memory.user(self.get("user"))
