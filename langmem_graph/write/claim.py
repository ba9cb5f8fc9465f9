"""claim: take the next batch that is due; give back one that could not be read."""

from dataclasses import asdict

from langmem_graph.llm.structured import Usage
from langmem_graph.store import reading
from langmem_graph.store.room import Room
from langmem_graph.write.batches import next_batch
from langmem_graph.write.extract import UNREADABLE_AFTER
from langmem_graph.write.state import ExtractionDependencies, WriteState

LEASE_SECONDS = 900.0
"""Longer than all model calls of a batch together; a killed process's batch is free at once where
this process holds the directory's lock."""


async def claim(deps: ExtractionDependencies, state: WriteState) -> WriteState:
    """The oldest due batch, or None."""

    def work(room: Room) -> WriteState:
        with room.database.writing() as connection:
            generation = reading.generation(connection)
            batch = next_batch(connection, force=state.get("force", False))
            if batch is None:
                return {"batch": None, "generation": generation}
            reading.claim(connection, batch.items, by=deps.by, lease=LEASE_SECONDS)
        taken = {**asdict(batch), "items": list(batch.items)}
        return {"batch": taken, "generation": generation}

    return await deps.services.in_room(state["user_id"], work)


async def give_back(deps: ExtractionDependencies, state: WriteState) -> WriteState:
    """A batch that could not be read stays due.

    Where the model did answer, but never usably, the batch is given up after a few attempts: its
    messages stay in the raw layer, and do not keep later ones from being read.
    """
    items = (state["batch"] or {})["items"]
    unreachable = Usage.of(state.get("usage")).unreachable > 0

    def work(room: Room) -> WriteState:
        with room.database.writing() as connection:
            if unreachable:
                reading.free(connection, items)
                return {"done": {}}
            reading.release(connection, items)
            if reading.attempts_of(connection, items) < UNREADABLE_AFTER:
                return {"done": {}}
            reading.mark_read(connection, items)
        return {"done": {"given_up": len(items)}, "failed": None}

    return await deps.services.in_room(state["user_id"], work)
