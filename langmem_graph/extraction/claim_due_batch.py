"""claim: which pending messages are extracted next (NapMem 5.2).

A session that is going on is read by 4 and then 8 turns (NapMem: 1, 2, 4, 5), as it is
still in the model's view; what has ended in batches of about 6,000 tokens that may hold
several sessions. A batch ends after an answer. `give_back` returns one that could not
be extracted.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from langmem_graph.extraction.state import (
    Batch,
    Counts,
    Dependencies,
    ExtractionState,
    usage_of,
)
from langmem_graph.llm.structured_calls import RunUsage
from langmem_graph.runtime import StepRun
from langmem_graph.storage import call_log, pending_messages, tables
from langmem_graph.storage.pending_messages import Unread
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.user_room import Room

# completed turns of a user's first batch and of the later ones
FIRST_BATCH = 4
LATER_BATCHES = 8
BATCH_BYTES, MAX_MESSAGE_BYTES = 24_000, 8_000
"""Of the texts of a batch, about 6,000 tokens in any script, and what one message
counts for at most: a longer one is shortened in the prompt
(`Settings.extraction.message_chars`). Own figures. Rules and records cost a call more
than 3,000 tokens, so larger batches are cheaper. But of a dense backlog an answer is
about as long as the messages, and many models write 8,000 tokens at most.
"""
IDLE = timedelta(minutes=30)  # without a new message for so long, a session has ended
LEASE_SECONDS = 1_800.0
"""Longer than all model calls of a batch together; a killed process's batch is free at
once where this process holds the directory's lock.
"""
# a batch whose answers were unusable so often is marked as read, without records
MAX_ATTEMPTS = 3
TURNS_READ = "turns_read"
_PAUSED = (
    "budget: the {:,} tokens of this day (Settings.extraction.daily_tokens) are "
    "spent; reading "
    "goes on after midnight, UTC"
)


async def claim(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Claim the oldest batch that is due; the batch is None where there is none.

    Where the day's budget is spent, the run ends here, and what is pending stays so.
    """
    budget = deps.services.settings.extraction.daily_tokens
    by = state["claimed_by"]

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            if budget is not None and call_log.tokens_today(connection) >= budget:
                paused = RunUsage(problems=[_PAUSED.format(budget)])
                return {"batch": None, "usage": paused, "failed": "claim"}
            generation = pending_messages.generation(connection)
            batch = _next_batch(connection, force=state.get("force", False))
            # while this thread waited for the ledger
            if by in deps.services.ended_runs:
                batch = None
            if batch is not None:
                pending_messages.claim(
                    connection, batch.items, by=by, lease=LEASE_SECONDS
                )
        return {"batch": batch, "generation": generation}

    return await deps.services.in_known_room(
        run.user, work, {"batch": None, "generation": ""}
    )


async def give_back(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Return a batch that could not be extracted, so that it stays pending.

    Where the model did answer, but never usably, it is given up after a few attempts:
    its messages stay in the raw layer and do not keep later ones from being extracted.
    """
    items = state["batch"].items if state["batch"] else ()

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            if usage_of(state).unreachable:
                pending_messages.free(connection, items)
                return {"counts": Counts()}
            pending_messages.release(connection, items)
            if pending_messages.attempts_of(connection, items) < MAX_ATTEMPTS:
                return {"counts": Counts()}
            pending_messages.mark_read(connection, items)
        return {"counts": Counts(given_up=len(items)), "failed": None}

    return await deps.services.in_room(run.user, work)


def _next_batch(connection: Reading, *, force: bool) -> Batch | None:
    """The oldest batch that is due; with `force`, a batch need not be full."""
    unread = in_order(pending_messages.unread_messages(connection))
    going_on = None if force else open_session(connection)
    ended = [message for message in unread if message.session != going_on]
    if ended:
        return next(batches_of(ended))
    read = int(tables.get_meta(connection, TURNS_READ) or 0)
    return _of_open_session(
        unread, LATER_BATCHES if read >= FIRST_BATCH else FIRST_BATCH
    )


def open_session(connection: Reading) -> int | None:
    """The session of the last message; None where it has been idle for so long that it
    ended.
    """
    latest = pending_messages.latest_session(connection)
    if latest is None or datetime.now(UTC).replace(tzinfo=None) - latest[1] > IDLE:
        return None
    return latest[0]


def _of_open_session(unread: Sequence[Unread], size: int) -> Batch | None:
    """The first `size` completed turns, or fewer where these already fill a batch; else
    None.
    """
    turns = [turn for turn in _turns(unread) if _is_complete(turn)]
    full = sum(map(_size, unread)) > BATCH_BYTES
    if not turns or (len(turns) < size and not full):
        return None
    return next(batches_of(message for turn in turns[:size] for message in turn))


def batches_of(messages: Iterable[Unread]) -> Iterator[Batch]:
    """The batches in which these messages are read when all of them are due, made in
    one pass.

    A batch has as many whole turns as one prompt can hold; a turn that is too long is
    divided.
    """
    for parts in _groups(_turns(in_order(messages))):
        items = tuple(message.n for part in parts for message in part)
        yield Batch(items=items, turns=sum(map(_is_complete, parts)))


def in_order(messages: Iterable[Unread]) -> list[Unread]:
    """The messages session by session, each in the order of arrival."""
    return sorted(messages, key=lambda message: (message.session, message.n))


def _groups(turns: Iterable[list[Unread]]) -> Iterator[list[list[Unread]]]:
    """Turns that fit into one batch; of a turn that is too long, parts that do."""
    group = list[list[Unread]]()
    left = BATCH_BYTES
    for turn in turns:
        is_long = sum(map(_size, turn)) > BATCH_BYTES
        for place, part in enumerate(_parts(turn)):
            size = sum(map(_size, part))
            if group and (size > left or (is_long and place == 0)):
                yield group
                group = []
                left = BATCH_BYTES
            group.append(part)
            left -= size
    if group:
        yield group


def _parts(turn: Sequence[Unread]) -> Iterator[list[Unread]]:
    """The turn, divided where it is longer than a batch."""
    part = list[Unread]()
    left = BATCH_BYTES
    for message in turn:
        if part and _size(message) > left:
            yield part
            part = []
            left = BATCH_BYTES
        part.append(message)
        left -= _size(message)
    yield part


def count_turns(messages: Iterable[Unread]) -> int:
    """How many turns among these messages are complete: the assistant has answered."""
    return sum(map(_is_complete, _turns(in_order(messages))))


def _size(message: Unread) -> int:
    return min(message.size, MAX_MESSAGE_BYTES)


def _is_complete(turn: Sequence[Unread]) -> bool:
    return any(message.role == "assistant" for message in turn)


def _turns(messages: Iterable[Unread]) -> Iterator[list[Unread]]:
    """The messages by turns: a turn begins with the user's first message after the
    assistant's.
    """
    for _, of_session in groupby(messages, key=lambda message: message.session):
        turn: list[Unread] = []
        for message in of_session:
            if turn and message.role == "user" and turn[-1].role == "assistant":
                yield turn
                turn = []
            turn.append(message)
        yield turn
