"""schedule: apply the rules of the user's schedule to new records (RealMem 4.2), without a model.

A new schedule item must name an action and a time, otherwise it becomes an ordinary record. Only
with a new item are the others looked at: one-off items whose time has passed are marked as
postponed, and recurring ones stay as they are.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from langmem_graph.extraction.state import ExtractionDependencies, ExtractionState
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.schedule_changes import ScheduleChange, ScheduleItem, apply
from langmem_graph.schedule.times import POSTPONED, event_in, is_postponed
from langmem_graph.schemas import Record
from langmem_graph.storage import record_queries
from langmem_graph.storage.record_writes import Change, change_record
from langmem_graph.storage.user_room import Room

FACET = "schedule"
BY = "schedule rules"


async def schedule(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Apply the rules, where the batch has new schedule items."""
    changed, zone = state.get("changed") or [], deps.services.settings.time_zone
    if changed:
        await deps.services.in_room(run.user, lambda room: _apply_rules(room, changed, zone))
    return {}


def _apply_rules(room: Room, changed: list[int], zone: str | None) -> None:
    """Check the new items and mark overdue ones; `zone` is that of times without one."""
    with room.database.write_transaction() as connection:
        numbers = record_queries.all_numbers(connection, facet=FACET)
        planned = record_queries.records_by_number(connection, numbers)
        new = {n: record for n, record in planned.items() if n in changed}
        if not new:
            return
        items = [_item(record, zone) for n, record in planned.items() if n not in new]
        changes = [_change(record, zone) for record in new.values()]
        # What lay ahead when it was said counts as planned, also in an imported conversation.
        said_at = max(record.said_at for record in new.values())
        applied = apply(items, changes, min(said_at, datetime.now(UTC)))
        _write(connection, planned, {item.record_id: item for item in applied.items}, set(new))


def _item(record: Record, zone: str | None) -> ScheduleItem:
    status = "postponed" if is_postponed(record.event_time) else "planned"
    event = event_in(record.event_time, zone)
    return ScheduleItem(record_id=record.record_id, action=record.text, event=event, status=status)


def _change(record: Record, zone: str | None) -> ScheduleChange:
    event = event_in(record.event_time, zone)
    op = "add" if event else "postpone"
    return ScheduleChange(op=op, record_id=record.record_id, action=record.text, event=event)


def _write(
    connection: Connection, planned: dict[int, Record], kept: dict[str, ScheduleItem], new: set[int]
) -> None:
    """Store what the rules made of the items: `kept`, by record id."""
    for n, record in planned.items():
        item = kept.get(record.record_id)
        if item is None or (n in new and item.event is None):
            change = Change.new(BY, "it has no time to come, or says nothing to do")
            change_record(connection, n, "unschedule", change, {"facet": "none"})
        elif item.status == "postponed" and not is_postponed(record.event_time):
            event: dict[str, Any] = {**(record.event_time or {}), POSTPONED: True}
            change = Change.new(BY, "its time has passed")
            change_record(connection, n, "postpone", change, {"event": event})
