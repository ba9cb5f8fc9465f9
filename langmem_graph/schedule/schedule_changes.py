"""The rules of the user's schedule: what may be on it, and what may change there (RealMem 4.2).

An item is a concrete action with a time or a recurrence, or one that is postponed. Nothing is ever
deleted: an item that is done or cancelled stays, with that status. A recurring item outlives a
missed time and changes only when the user asks for it. A change that breaks a rule is left out,
with its reason; without any change the schedule stays as it is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from langmem_graph.errors import InvalidInputError, explain
from langmem_graph.messages import to_utc
from langmem_graph.schedule.times import EventTime, ends_at

Status = Literal["planned", "done", "postponed", "cancelled"]
Operation = Literal["add", "retime", "done", "missed", "postpone", "cancel"]

_NO_ACTION = frozenset(
    "a an the some any this that it thing things something anything stuff whatever todo to do tbd "
    "event appointment task plan plans none n/a unknown".split()
)
_OUTCOMES: dict[str, Status] = {
    "done": "done",
    "missed": "postponed",
    "postpone": "postponed",
    "cancel": "cancelled",
}


class ScheduleItem(BaseModel, frozen=True, extra="forbid"):
    """One planned action; `record_id` names the record that states it."""

    record_id: str
    action: str
    event: EventTime | None = None
    status: Status = "planned"


class ScheduleChange(BaseModel, frozen=True, extra="forbid"):
    """One change that a conversation makes to the schedule.

    `missed` means that the time passed without the action; `postpone` also adds a new action that
    has no time yet. `explicit` means that the user asked for this change of the whole item: without
    it no recurring item is changed, and no item that is done or cancelled is planned again.
    """

    op: Operation
    record_id: str
    action: str | None = None
    event: EventTime | None = None
    explicit: bool = False


class Applied(BaseModel, frozen=True, extra="forbid"):
    """The schedule after the changes, and notes on what was left out or changed beside them."""

    items: list[ScheduleItem] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class _RejectedChangeError(Exception):
    """A change that is left out; its text is the reason."""


def is_schedulable(item: ScheduleItem) -> bool:
    """True for a concrete action that has a time or a recurrence, or is postponed."""
    return is_concrete(item.action) and (item.event is not None or item.status == "postponed")


def is_concrete(action: str) -> bool:
    """True when the words name an action: "call Ana", not "something"."""
    words = re.findall(r"[^\W_]+(?:/[^\W_]+)*", action.casefold())
    return any(word not in _NO_ACTION and not word.isdigit() for word in words)


def is_overdue(item: ScheduleItem, now: datetime) -> bool:
    """True for a planned one-off item whose time is over."""
    end = ends_at(item.event) if item.event is not None else None
    return item.status == "planned" and end is not None and end <= to_utc(now)


def apply(
    items: Sequence[ScheduleItem],
    changes: Iterable[ScheduleChange | Mapping[str, object]],
    now: datetime,
) -> Applied:
    """The schedule after a conversation; unchanged where no change could be made.

    Args:
        now: one-off items that are planned before this time are overdue.

    Raises:
        InvalidInputError: for two items with one record id.
    """
    schedule = {item.record_id: item for item in items}
    if len(schedule) < len(items):
        raise InvalidInputError("Two schedule items have the same record_id; merge them first.")
    notes: list[str] = []
    changed: set[str] = set()
    for change in changes:
        try:
            item, note = _changed(schedule, _validated(change), now)
        except _RejectedChangeError as reason:
            notes.append(f"ignored: {reason}")
            continue
        schedule[item.record_id] = item
        changed.add(item.record_id)
        notes += [note] if note else []
    if changed:
        notes += _postpone_overdue(schedule, now)
    return Applied(items=list(schedule.values()), notes=notes)


def _validated(change: ScheduleChange | Mapping[str, object]) -> ScheduleChange:
    try:
        return ScheduleChange.model_validate(change)
    except ValidationError as error:
        raise _RejectedChangeError(f"not a change: {explain(error)}") from error


def _changed(
    schedule: Mapping[str, ScheduleItem], change: ScheduleChange, now: datetime
) -> tuple[ScheduleItem, str | None]:
    """The item after the change, and a note where that needs one."""
    is_new = bool(change.action) and change.record_id not in schedule
    if change.op == "add" or (change.op == "postpone" and is_new):
        return _added(schedule, change, now), None
    item = _open_item(schedule, change)
    if change.op == "retime" or (change.event is not None and change.op in ("missed", "postpone")):
        return _retimed(item, change, now), None
    if _recurs(item) and change.op in ("done", "missed") and not change.explicit:
        return item, f"{item.record_id} recurs: one time is {change.op}, the item stays"
    _check_recurring(item, change)
    return item.model_copy(update={"status": _OUTCOMES[change.op]}), None


def _added(
    schedule: Mapping[str, ScheduleItem], change: ScheduleChange, now: datetime
) -> ScheduleItem:
    if change.record_id in schedule:
        raise _RejectedChangeError(f"{change.record_id} is already on the schedule")
    item = ScheduleItem(
        record_id=change.record_id,
        action=change.action or "",
        event=change.event,
        status="planned" if change.op == "add" else "postponed",
    )
    if not is_concrete(item.action):
        raise _RejectedChangeError(f"{change.record_id} names no concrete action")
    if not is_schedulable(item):
        raise _RejectedChangeError(f"{change.record_id} has neither a time nor a frequency")
    if is_overdue(item, now):
        raise _RejectedChangeError(f"{change.record_id} is to be added, but its time is over")
    return item


def _retimed(item: ScheduleItem, change: ScheduleChange, now: datetime) -> ScheduleItem:
    if change.event is None:
        raise _RejectedChangeError(f"{item.record_id} is to be re-timed, but to no time")
    _check_recurring(item, change)
    new = item.model_copy(update={"event": change.event, "status": "planned"})
    if is_overdue(new, now):
        raise _RejectedChangeError(f"{item.record_id} is to be re-timed to a time that is over")
    return new


def _open_item(schedule: Mapping[str, ScheduleItem], change: ScheduleChange) -> ScheduleItem:
    item = schedule.get(change.record_id)
    if item is None:
        raise _RejectedChangeError(f"{change.record_id} is not on the schedule")
    if item.status in ("done", "cancelled") and not change.explicit:
        raise _RejectedChangeError(f"{item.record_id} is already {item.status}")
    return item


def _check_recurring(item: ScheduleItem, change: ScheduleChange) -> None:
    if _recurs(item) and not change.explicit:
        raise _RejectedChangeError(
            f"{item.record_id} recurs and changes only when the user asks for it"
        )


def _recurs(item: ScheduleItem) -> bool:
    return item.event is not None and item.event.recurrence is not None


def _postpone_overdue(schedule: dict[str, ScheduleItem], now: datetime) -> list[str]:
    """Mark overdue items as postponed; returns a note on each."""
    overdue = [item for item in schedule.values() if is_overdue(item, now)]
    for item in overdue:
        schedule[item.record_id] = item.model_copy(update={"status": "postponed"})
    return [f"{item.record_id} is overdue: marked as postponed" for item in overdue]
