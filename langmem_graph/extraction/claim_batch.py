"""claim: which pending messages are extracted next, and whether it is time (NapMem 5.2).

A user's first batches hold 1, 2 and 4 completed turns, every later one 5; what is left of a session
is due when the session has ended. The step `give_back` returns a batch that could not be extracted.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby

from sqlalchemy import Connection

from langmem_graph.extraction.state import (
    Batch,
    Counts,
    ExtractionDependencies,
    ExtractionState,
    usage_of,
)
from langmem_graph.runtime import StepRun
from langmem_graph.storage import pending_messages, tables_and_migrations
from langmem_graph.storage.pending_messages import Unread
from langmem_graph.storage.user_room import Room

FIRST_BATCHES, LATER_BATCHES = (1, 2, 4), 5
"""Completed turns of a batch."""
MAX_BATCH_CHARS, MAX_MESSAGE_CHARS = 40_000, 8_000
"""Of a whole batch, and what one message counts for at most: a longer one is shortened in the
prompt (`Settings.extraction.message_chars`). Own figures."""
IDLE = timedelta(minutes=30)
"""Without a new message for so long, a session has ended."""
LEASE_SECONDS = 900.0
"""Longer than all model calls of a batch together; a killed process's batch is free at once where
this process holds the directory's lock."""
MAX_ATTEMPTS = 3
"""A batch whose answers were unusable so often is marked as read, without records."""
TURNS_READ = "turns_read"


async def claim(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Claim the oldest batch that is due; the batch is None where there is none."""

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            generation = pending_messages.generation(connection)
            batch = _next_batch(connection, force=state.get("force", False))
            if batch is not None:
                by = state["claimed_by"]
                pending_messages.claim(connection, batch.items, by=by, lease=LEASE_SECONDS)
        return {"batch": batch, "generation": generation}

    return await deps.services.in_room(run.user, work)


async def give_back(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Return a batch that could not be extracted, so that it stays pending.

    A batch for which the model did answer, but never usably, is given up after a few attempts: its
    messages stay in the raw layer and do not keep later ones from being extracted.
    """
    batch = state["batch"]
    items = batch.items if batch else ()
    unreachable = usage_of(state).unreachable > 0

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            if unreachable:
                pending_messages.free(connection, items)
                return {"counts": Counts()}
            pending_messages.release(connection, items)
            if pending_messages.attempts_of(connection, items) < MAX_ATTEMPTS:
                return {"counts": Counts()}
            pending_messages.mark_read(connection, items)
        return {"counts": Counts(given_up=len(items)), "failed": None}

    return await deps.services.in_room(run.user, work)


def _next_batch(connection: Connection, *, force: bool) -> Batch | None:
    """The oldest batch that is due; with `force`, a batch need not be full."""
    latest = pending_messages.latest_session(connection)
    if latest is None:
        return None
    size = _batch_size(int(tables_and_migrations.get_meta(connection, TURNS_READ) or 0))
    idle = datetime.now(UTC).replace(tzinfo=None) - latest[1] > IDLE
    unread = pending_messages.unread_messages(connection)
    unread.sort(key=lambda message: (message.session, message.n))
    for session, messages in groupby(unread, key=lambda message: message.session):
        ended = force or idle or session != latest[0]
        if batch := _first_batch(list(messages), size, ended=ended):
            return batch
    return None


def _batch_size(turns_read: int) -> int:
    """Completed turns of the next batch, by how many of the user's turns have been extracted."""
    for size in FIRST_BATCHES:
        if turns_read < size:
            return size
        turns_read -= size
    return LATER_BATCHES


def _first_batch(unread: Sequence[Unread], size: int, *, ended: bool) -> Batch | None:
    """The session's first `size` completed turns; fewer only when the session has ended."""
    turns = list(_turns(unread))
    complete = [turn for turn in turns if any(message.role == "assistant" for message in turn)]
    if not ended and len(complete) < size:
        return None
    taken = turns[: turns.index(complete[size - 1]) + 1] if len(complete) >= size else turns
    messages = [message for turn in taken for message in turn]
    fitting = messages[: _count_fitting(messages)]
    done = sum(turn in complete and turn[-1] in fitting for turn in taken)
    whole = len(fitting) == len(messages) and len(taken) == len(turns)
    items = tuple(message.n for message in fitting)
    return Batch(items=items, session=unread[0].session, turns=done, ends_session=ended and whole)


def _count_fitting(messages: Sequence[Unread]) -> int:
    """How many of the messages one prompt can hold; at least one."""
    sizes = accumulate(min(message.chars, MAX_MESSAGE_CHARS) for message in messages)
    return max(1, sum(size <= MAX_BATCH_CHARS for size in sizes))


def _turns(messages: Sequence[Unread]) -> Iterator[list[Unread]]:
    """The messages by turns: a turn begins with the user's first message after the assistant's."""
    turn: list[Unread] = []
    for message in messages:
        if turn and message.role == "user" and turn[-1].role == "assistant":
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn
