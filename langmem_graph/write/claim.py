"""claim: take the next batch that is due; give back one that could not be read."""

from langmem_graph.steps import StepRun
from langmem_graph.store import reading
from langmem_graph.store.room import Room
from langmem_graph.write.batches import next_batch
from langmem_graph.write.extract import UNREADABLE_AFTER
from langmem_graph.write.state import (
    Counts,
    ExtractionDependencies,
    ExtractionState,
    usage_of,
)

LEASE_SECONDS = 900.0
"""Longer than all model calls of a batch together; a killed process's batch is free at once where
this process holds the directory's lock."""


async def claim(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """The oldest due batch, or None."""

    def work(room: Room) -> ExtractionState:
        with room.database.writing() as connection:
            generation = reading.generation(connection)
            batch = next_batch(connection, force=state.get("force", False))
            if batch is not None:
                by = state["claimed_by"]
                reading.claim(connection, batch.items, by=by, lease=LEASE_SECONDS)
        return {"batch": batch, "generation": generation}

    return await deps.services.in_room(run.user, work)


async def give_back(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """A batch that could not be read stays due.

    Where the model did answer, but never usably, the batch is given up after a few attempts: its
    messages stay in the raw layer, and do not keep later ones from being read.
    """
    batch = state["batch"]
    items = batch.items if batch else ()
    unreachable = usage_of(state).unreachable > 0

    def work(room: Room) -> ExtractionState:
        with room.database.writing() as connection:
            if unreachable:
                reading.free(connection, items)
                return {"counts": Counts()}
            reading.release(connection, items)
            if reading.attempts_of(connection, items) < UNREADABLE_AFTER:
                return {"counts": Counts()}
            reading.mark_read(connection, items)
        return {"counts": Counts(given_up=len(items)), "failed": None}

    return await deps.services.in_room(run.user, work)
