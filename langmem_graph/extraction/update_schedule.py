"""schedule: what has no time is not on the schedule (RealMem 4.2)."""

from langmem_graph.extraction.state import Dependencies, ExtractionState
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import event_in
from langmem_graph.storage import record_queries, record_writes
from langmem_graph.storage.record_writes import Change
from langmem_graph.storage.user_room import Room


async def schedule(deps: Dependencies, state: ExtractionState, run: StepRun) -> ExtractionState:
    """Take new records without a usable time off the schedule, without a model."""
    changed, zone = state.get("changed") or [], deps.services.settings.time_zone

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            for n, record in record_queries.records_by_number(connection, changed).items():
                if record.facet == "schedule" and event_in(record.event_time, zone) is None:
                    change = Change.new("schedule rules", "it has neither a time nor a recurrence")
                    facet = {"facet": "none"}
                    record_writes.change_record(connection, n, "unschedule", change, facet)
        return {}

    return await deps.services.in_room(run.user, work) if changed else {}
