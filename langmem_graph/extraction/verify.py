"""ground_values: numbers, dates, names of things must stand in the source, letter for letter.

What does not is no quotation: the record is marked inferred, so that nothing acts on it blindly.
"""

from langmem_graph.extraction.state import Candidate, ExtractionDependencies, ExtractionState
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries
from langmem_graph.storage.room import Room
from langmem_graph.values.verbatim import ground


async def verify(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Give each candidate the values that its sources hold."""
    candidates = state.get("candidates", [])
    cited = {n for one in candidates for n in one.source_ns}
    said = await deps.services.in_room(run.user, lambda room: _messages(room, cited))
    still = [one for one in candidates if said.keys() >= set(one.source_ns)]  # not forgotten
    return {"candidates": [_grounded(one, said) for one in still]}


def _messages(room: Room, cited: set[int]) -> dict[int, Message]:
    with room.database.read_transaction() as connection:
        return message_queries.messages_by_number(connection, cited)


def _grounded(candidate: Candidate, cited: dict[int, Message]) -> Candidate:
    messages = [cited[n] for n in candidate.source_ns]
    sources = [message.text for message in messages]
    found = ground(candidate.text, sources)
    sure = not found.ungrounded and not found.inferred
    update = {
        "values": found.values,
        "said": "\n".join(sources),
        "speakers": sorted({m.name for m in messages if m.role == "user" and m.name}),
        "confirmation": candidate.confirmation if sure else "inferred",
    }
    return candidate.model_copy(update=update)
