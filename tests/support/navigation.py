"""Shared parts of the navigation tests: users with every layer, a question, and its answer."""

from langmem_graph.memory import Memory
from langmem_graph.navigation.actions import QuestionItem
from langmem_graph.storage.rounds import write_files
from langmem_graph.topics.track_and_profile_files import (
    INDEX,
    PROFILE,
    ProfileFile,
    TopicFile,
    render,
    render_index,
)
from tests.conftest import said

SEAT = QuestionItem(
    id="q1",
    user_id="ana",
    question="Which seat do I take?",
    answers=["an aisle seat"],
    evidence=["m1"],
)
SUM = QuestionItem(user_id="ana", question="2 + 2?", answers=["4"], needs_memory=False)
LOOK = {"name": "search_conversation", "arguments": {"query": "seat"}}
ANSWER = {"answer": "An aisle seat.", "reason": "m1"}
OF_ANA = {"m1", "m2", "r1", "r2"}


def fill(memory: Memory) -> Memory:
    """Ana has every layer; Bob has other words under other ids."""
    ana, bob = memory.user("ana"), memory.user("bob")
    ana.add(
        said("I always take an aisle seat.", id="m1", at="2025-01-01"), session_id="s"
    )
    ana.add(said("My sister Eva keeps bees.", id="m2", at="2025-01-02"), session_id="s")
    bob.add(said("I always take a window seat.", id="b1"), session_id="s")
    ana.add_records(
        [
            _record("r1", "The user takes aisle seats.", "m1"),
            _record("r2", "Eva has bees.", "m2"),
        ]
    )
    bob.add_records([_record("rb", "The user takes window seats.", "b1")])
    at = "2025-01-03T00:00:00Z"
    about = {"title": "Travel", "summary": "Seats.", "narrative": "Takes the aisle."}
    track = TopicFile(name="travel", **about, evidence=["r1"], updated_at=at)
    profile = ProfileFile(text="Flies a lot.", topics=["travel"], updated_at=at)
    index = render_index([track], profile)
    bodies = {"topics/travel.md": render(track), PROFILE: render(profile), INDEX: index}
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        write_files(connection, bodies)
    return memory


def _record(record_id: str, text: str, source: str) -> dict[str, object]:
    return {"record_id": record_id, "text": text, "source_message_ids": [source]}
