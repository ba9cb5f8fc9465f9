"""batches: which messages are read next, and whether it is time (NapMem 5.2).

A user's first turns are read after 1, then 2, then 4 of them, from then on after every 5; the rest
of a session when it has ended.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby

from sqlalchemy import Connection

from langmem_graph.store import ledger, reading
from langmem_graph.store.reading import Unread
from langmem_graph.write.state import Batch

RAMP = (1, 2, 4)
STEADY = 5
MOST_CHARS, LONGEST = 40_000, 8_000
"""Of one batch, and counted of one message (`Settings.read_chars`); ours."""
IDLE = timedelta(minutes=30)
TURNS_READ = "turns_read"


def next_batch(connection: Connection, *, force: bool) -> Batch | None:
    """The oldest batch that is due.

    Args:
        connection: of the ledger.
        force: read what there is, without waiting for the turns of a full batch.
    """
    latest = reading.latest_session(connection)
    if latest is None:
        return None
    size = batch_size(int(ledger.get_meta(connection, TURNS_READ) or 0))
    idle = datetime.now(UTC).replace(tzinfo=None) - latest[1] > IDLE
    unread = sorted(reading.unread_messages(connection), key=lambda one: (one.session, one.n))
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
