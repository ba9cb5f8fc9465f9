"""ground_values: numbers, dates, names of things must stand in the source, letter for letter.

What does not is no quotation: the record is marked inferred, so that nothing acts on it blindly.
"""

from typing import Any

from langmem_graph.models import Message
from langmem_graph.store import lookups
from langmem_graph.store.room import Room
from langmem_graph.write.state import ExtractionDependencies, WriteState
from langmem_graph.write.values import ground


async def ground_values(deps: ExtractionDependencies, state: WriteState) -> WriteState:
    """Give each candidate the values that its sources hold."""
    candidates = state.get("candidates", [])
    cited = {n for row in candidates for n in row["source_ns"]}
    said = await deps.services.in_room(state["user_id"], lambda room: _messages(room, cited))
    still = [row for row in candidates if said.keys() >= set(row["source_ns"])]  # not forgotten
    return {"candidates": [_grounded(row, said) for row in still]}


def _messages(room: Room, cited: set[int]) -> dict[int, Message]:
    with room.database.reading() as connection:
        return lookups.messages_by_number(connection, cited)


def _grounded(row: dict[str, Any], cited: dict[int, Message]) -> dict[str, Any]:
    messages = [cited[n] for n in row["source_ns"] if n in cited]
    sources = [message.text for message in messages]
    found = ground(row["text"], sources)
    sure = not found.ungrounded and not found.inferred
    values = [value.model_dump() for value in found.values]
    return {
        **row,
        "values": values,
        "said": "\n".join(sources),
        "speakers": sorted({m.name for m in messages if m.role == "user" and m.name}),
        "said_at": max(message.at for message in messages).isoformat(),
        "confirmation": row["confirmation"] if sure else "inferred",
    }
