"""batches: which messages are read next, and whether it is time (NapMem 5.2).

A user's first turns are read after 1, then 2, then 4 of them, from then on after every 5; the rest
of a session when it has ended.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby

from sqlalchemy import Connection

from langmem_graph.extraction.extract import UNREADABLE_AFTER
from langmem_graph.extraction.state import (
    Batch,
    Counts,
    ExtractionDependencies,
    ExtractionState,
    usage_of,
)
from langmem_graph.runtime import StepRun
from langmem_graph.storage import extraction_queue, tables
from langmem_graph.storage.extraction_queue import Unread
from langmem_graph.storage.room import Room

RAMP = (1, 2, 4)
STEADY = 5
MOST_CHARS, LONGEST = 40_000, 8_000
"""Of one batch, and counted of one message (`Settings.extraction.message_chars`); ours."""
IDLE = timedelta(minutes=30)
TURNS_READ = "turns_read"

LEASE_SECONDS = 900.0
"""Longer than all model calls of a batch together; a killed process's batch is free at once where
this process holds the directory's lock."""


def next_batch(connection: Connection, *, force: bool) -> Batch | None:
    """The oldest batch that is due.

    Args:
        connection: of the ledger.
        force: read what there is, without waiting for the turns of a full batch.
    """
    latest = extraction_queue.latest_session(connection)
    if latest is None:
        return None
    size = batch_size(int(tables.get_meta(connection, TURNS_READ) or 0))
    idle = datetime.now(UTC).replace(tzinfo=None) - latest[1] > IDLE
    unread = sorted(
        extraction_queue.unread_messages(connection), key=lambda one: (one.session, one.n)
    )
    for session, group in groupby(unread, key=lambda one: one.session):
        ended = force or idle or session != latest[0]
        if batch := _first(list(group), size, ended=ended):
            return batch
    return None


def batch_size(turns_read: int) -> int:
    """Completed turns of the next batch, after so many of the user's life."""
    for size in RAMP:
        if turns_read < size:
            return size
        turns_read -= size
    return STEADY


def _first(unread: Sequence[Unread], size: int, *, ended: bool) -> Batch | None:
    """The session's first `size` turns; fewer only when it has ended."""
    turns = list(_turns(unread))
    complete = [turn for turn in turns if any(one.role == "assistant" for one in turn)]
    if not ended and len(complete) < size:
        return None
    taken = turns[: turns.index(complete[size - 1]) + 1] if len(complete) >= size else turns
    every = [one for turn in taken for one in turn]
    some = every[: _fitting(every)]
    done = sum(turn in complete and turn[-1] in some for turn in taken)
    whole = len(some) == len(every) and len(taken) == len(turns)
    items = tuple(one.n for one in some)
    return Batch(items=items, session=unread[0].session, turns=done, ends_session=ended and whole)


def _fitting(unread: Sequence[Unread]) -> int:
    """How many of them one prompt can hold; at least one."""
    sizes = accumulate(min(one.chars, LONGEST) for one in unread)
    return max(1, sum(size <= MOST_CHARS for size in sizes))


def _turns(unread: Sequence[Unread]) -> Iterator[list[Unread]]:
    """A turn begins with the first thing the user says after the assistant."""
    turn: list[Unread] = []
    for one in unread:
        if turn and one.role == "user" and turn[-1].role == "assistant":
            yield turn
            turn = []
        turn.append(one)
    if turn:
        yield turn


async def claim(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """The oldest due batch, or None."""

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            generation = extraction_queue.generation(connection)
            batch = next_batch(connection, force=state.get("force", False))
            if batch is not None:
                by = state["claimed_by"]
                extraction_queue.claim(connection, batch.items, by=by, lease=LEASE_SECONDS)
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
        with room.database.write_transaction() as connection:
            if unreachable:
                extraction_queue.free(connection, items)
                return {"counts": Counts()}
            extraction_queue.release(connection, items)
            if extraction_queue.attempts_of(connection, items) < UNREADABLE_AFTER:
                return {"counts": Counts()}
            extraction_queue.mark_read(connection, items)
        return {"counts": Counts(given_up=len(items)), "failed": None}

    return await deps.services.in_room(run.user, work)
