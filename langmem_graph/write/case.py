"""case: two records of one subject and attribute, with what their words say of each other."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from langmem_graph.models import Record
from langmem_graph.write import words
from langmem_graph.write.attributes import (
    USER_WORDS,
    Cardinality,
    attribute,
    cardinality,
    is_user,
    own_words,
)
from langmem_graph.write.source_words import Source, source_of

Outcome = Literal["overwrite", "refine", "keep_both"]
_PRONOUNS = frozenset("he she it they er sie es il elle el ella".split())
_CAREFUL: tuple[Cardinality, ...] = ("several", "unknown", "usually one", "one")


class Verdict(NamedTuple):
    """What becomes of the older record, and why, in words for its history."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Case:
    """Two records of one subject and attribute, and what their words say."""

    old: Record
    new: Record
    source: Source
    old_value: frozenset[str]
    new_value: frozenset[str]
    many: Cardinality
    dated: bool
    of_user: bool
    named: frozenset[str]
    """The words by which the subject may be called."""

    @property
    def ended(self) -> bool:
        """The new record says that something is over, and the old one does not."""
        return words.finds("ends", self.new.text) and not words.finds("ends", self.old.text)

    @property
    def denied(self) -> bool:
        """One record says what the other denies, in the same words."""
        one, other = (words.finds("negates", record.text) for record in (self.old, self.new))
        return one != other and self.old_value == self.new_value

    @property
    def names_old(self) -> bool:
        """The message says what is no longer so."""
        named = frozenset().union(*map(words.content, self.source.cues))
        return bool(self.old_value) and self.old_value <= named | self.new_value

    @property
    def changes(self) -> bool:
        """The message gives a cue that something has changed."""
        return any(map(self.source.gives, ("ends", "replaces", "corrects", "shifts")))


def case_of(old: Record, new: Record, said: str, user_names: Collection[str]) -> Case:
    """Read two records and the words of the newer one's messages."""
    names = old.attribute or "", new.attribute or ""
    of_user = is_user(new.subject, user_names)
    called = [old.subject or "", new.subject or "", *user_names]
    named = frozenset(token for one in called for token in words.tokens(one))
    known = own_words(names[0]) | own_words(names[1]) | frozenset(map(words.stem, named))
    values = words.content(old.text) - known, words.content(new.text) - known
    return Case(
        old=old,
        new=new,
        source=source_of(said, values[1] or words.content(new.text), values[0]),
        old_value=values[0],
        new_value=values[1],
        many=_cardinality(names, of_user=of_user),
        dated=attribute(names[0]).family in words.table()["dated"],
        of_user=of_user,
        named=named | USER_WORDS | _PRONOUNS if of_user else named | _PRONOUNS,
    )


def _cardinality(names: tuple[str, str], *, of_user: bool) -> Cardinality:
    """The more careful of the two; a user has many dates and prices, an invoice has one."""
    found = {cardinality(name) for name in names}
    for family, scope in map(attribute, names):
        if of_user and not scope and family in words.table()["of things"]:
            found.add("unknown")
    return next(one for one in _CAREFUL if one in found)
