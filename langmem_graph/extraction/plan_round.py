"""plan_round: whether causes, topics and the profile are to be made now (NapMem 5.2,
ActMem 1.4).

They are made where a session or a flush has ended and enough has changed. What is due
is read from the ledger: a round that a killed process has not finished is due again.
"""

from langmem_graph.extraction.claim_due_batch import open_session
from langmem_graph.extraction.state import Dependencies, ExtractionState
from langmem_graph.rooms import shared_name
from langmem_graph.runtime import StepRun
from langmem_graph.storage import rounds
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.user_room import Room

# fewer changed records wait for the next round; own figure, as is the following
MIN_CHANGED = 3
MAX_WAITING = 200
"""Changed records of one round of topics: about 8,000 tokens with their dates and
states. With more than that, a round is due in a session that goes on.
"""


async def plan_round(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Say whether a whole round is due, and whether a profile is owed to its tracks."""
    force = state.get("force", False)

    def work(room: Room) -> ExtractionState:
        with room.database.read_transaction(EVERYTHING) as connection:
            # a killed process may have written a track after the profile
            written = rounds.tracks_written(connection)
            owed = written != rounds.profile_seen(connection).tracks
            # nobody's profile is in a shared room
            owed = owed and shared_name(run.user) is None
            return {
                "round_due": is_round_due(connection, force=force),
                "profile_owed": owed,
            }

    return await deps.services.in_known_room(run.user, work, {})


def is_round_due(connection: Reading, *, force: bool) -> bool:
    """Whether enough records wait, and the session that they are of has ended (always:
    `force`).
    """
    seen = rounds.topics_seen(connection)
    changed = [one.n for one in rounds.changed_since(connection, seen)]
    waiting = {*changed, *rounds.refused_records(connection)}
    if force or len(waiting) > MAX_WAITING or len(waiting) < MIN_CHANGED:
        return len(waiting) >= MIN_CHANGED
    going_on = open_session(connection)
    sessions = rounds.sessions_of(connection, waiting)
    ended = [n for n in waiting if going_on is None or sessions.get(n) != going_on]
    return len(ended) >= MIN_CHANGED
