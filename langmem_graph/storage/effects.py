"""What has happened to a record: its effects, and the state that they make together.

An effect is one thing that was done to a record: it was created, ended, confirmed,
hidden. `fold` computes the record's state from the effects that count, so that an
effect can be taken back, or deleted with the words that it rests on, in any order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langmem_graph.schedule.times import MOST_SKIPPED

CREATE = "create"
SUPERSEDE = "supersede"
"""Another record takes its place."""
END = "end"
"""It ends, and nothing takes its place."""
EXPIRE = "expire"
"""What had ended it has expired; it goes on being ended."""
SKIP = "skip"
"""An occurrence of a recurring event is left out."""
HIDE = "hide"
UNHIDE = "unhide"
REFINE = "refine"
"""Another record adds a detail; this one stays as it is."""
CONFIRM = "confirm"
ADOPT = "adopt"
UNSCHEDULE = "unschedule"
UNDO = "undo"
"""A note: the effects of the change that `reason` names were taken back."""
RESTORE = "restore"
"""A note: what had ended it was forgotten, and it holds again."""

OPS = {"confirms": CONFIRM, "adopts": ADOPT, "skips_once": SKIP, "details": REFINE}
"""What the relations do that end nothing."""
ENDING = frozenset({SUPERSEDE, END, EXPIRE})
NOTES = frozenset({UNDO, RESTORE})
"""Entries of the history that change nothing."""

ACTIVE = "active"
"""The status of a record that no other has superseded; the others are kept for
history.
"""
SUPERSEDED = "superseded"
EXPIRED = "expired"
"""Of a record that had ceased to hold before it was stored."""
DISCARDED = "discarded"
HIDDEN = "hidden"


@dataclass(frozen=True)
class State:
    """The part of a record that effects change; times are in UTC without a zone."""

    status: str
    valid_to: datetime | None
    confirmation: str
    facet: str
    event: dict[str, Any] | None


STATE = tuple(State.__dataclass_fields__)
"""The columns of a record that effects change."""


@dataclass(frozen=True)
class Effect:
    """One thing that was done to a record, as the ledger stores it.

    Messages and records are named by their numbers.
    """

    n: int
    change: str
    """Effects of the same change are taken back together."""
    record: int
    op: str
    relation: str | None
    """What the words did, of an effect that has words."""
    by_record: int | None
    """The record that takes its place, or adds a detail."""
    message: int | None
    """The message whose words did it; None where it was done by hand, or the message
    has expired.
    """
    quote: str | None
    agreed_message: int | None
    """Where the quote is a proposal of the assistant's: the user's message that accepts
    it.
    """
    agreed_quote: str | None
    since: datetime | None
    """The day that the words name; of an end without one, it takes effect at once."""
    new_values: dict[str, Any]
    """What it sets: of `create` the whole state, of an end `valid_to`, of a skip the
    occurrences `skipped`.
    """
    at: datetime
    by: str
    reason: str | None
    undone: bool
    """Whether it was taken back."""

    @property
    def counts(self) -> bool:
        """Whether it has a part in the record's state."""
        return not self.undone and self.op not in NOTES

    @property
    def valid_to(self) -> datetime | None:
        """Until when the record held, of an end."""
        return time_of(self.new_values.get("valid_to"))


def fold(effects: Iterable[Effect]) -> State:
    """The state of a record, from its effects in the order in which they were stored.

    It holds until the first of its ends. One whose creation was taken back is
    discarded.
    """
    several = list(effects)
    created = next(effect for effect in several if effect.op == CREATE)
    state = _created(created.new_values)
    base = state.status
    is_hidden = base == HIDDEN
    ends = list[datetime | None]()
    for effect in several:
        if effect.op == CREATE or not effect.counts:
            continue
        if effect.op in ENDING:
            ends.append(effect.valid_to)
        elif effect.op in (HIDE, UNHIDE):
            is_hidden = effect.op == HIDE
        elif effect.op == SKIP:
            state = replace(state, event=_without(state.event, effect.new_values))
        else:
            state = replace(state, **effect.new_values)
    if created.undone or base == DISCARDED:
        return replace(state, status=DISCARDED)
    if base == EXPIRED:
        return replace(state, status=HIDDEN if is_hidden else EXPIRED)
    status = SUPERSEDED if ends else ACTIVE
    known = [end for end in (state.valid_to, *ends) if end is not None]
    until = min(known, default=None)
    return replace(state, status=HIDDEN if is_hidden else status, valid_to=until)


def before(effect: Effect, every: Iterable[Effect]) -> dict[str, Any] | None:
    """The columns that an effect changed, as they were; None for a creation.

    Args:
        effect: one of them.
        every: all effects upon the same record, in the order in which they were stored.
    """
    if effect.op == CREATE:
        return None
    several = list(every)
    earlier = _as_before(effect, several)
    if effect.op == UNDO:
        taken_back = [one for one in earlier if one.change == effect.reason]
        names = [name for one in taken_back for name in _columns(one)]
    else:
        names = list(_columns(effect))
    if not (names and any(one.op == CREATE for one in earlier)):
        return {}
    state = fold(earlier)
    columns = {**vars(state), "valid_to": text_of(state.valid_to)}
    return {name: columns[name] for name in names}


def _as_before(effect: Effect, every: Sequence[Effect]) -> list[Effect]:
    """The effects before this one, of which those count that had not been taken back
    then.
    """
    notes = [one for one in every if one.op == UNDO]
    ever = {note.reason for note in notes}
    # an undo makes a note for each effect
    until_then = {
        note.reason
        for note in notes
        if note.n < effect.n and note.change != effect.change
    }
    return [
        replace(one, undone=one.undone and one.change not in ever - until_then)
        for one in every
        if one.n < effect.n
    ]


def _columns(effect: Effect) -> Iterable[str]:
    """The columns that an effect changes."""
    if effect.op == CREATE:
        return ["status"]
    if effect.op == EXPIRE:
        return []
    return ["event"] if effect.op == SKIP else effect.new_values


def _created(values: Mapping[str, Any]) -> State:
    return State(**{**values, "valid_to": time_of(values["valid_to"])})


def _without(
    event: dict[str, Any] | None, values: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The event with these occurrences left out as well."""
    if event is None:
        return None
    skipped = {*(event.get("skipped") or []), *values["skipped"]}
    return {**event, "skipped": sorted(skipped)[-MOST_SKIPPED:]}


def text_of(at: datetime | None) -> str | None:
    """A time as an effect's values have it."""
    return None if at is None else at.isoformat()


def time_of(text: str | None) -> datetime | None:
    """The time that a text of an effect's values names."""
    return None if text is None else datetime.fromisoformat(text)
