"""verify: check that a candidate's values occur word for word in the messages it cites.

This is the check of explicit values of Mem2ActBench 3.3, applied to extraction. Numbers, dates,
codes, links and the like count as values. A candidate with a value that its sources do not hold is
stored as `inferred`, so that no tool call takes an argument from it unasked.
"""

from langmem_graph.extraction.state import Candidate, ExtractionDependencies, ExtractionState
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries
from langmem_graph.values.verbatim import ground


async def verify(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Give each candidate its values and the text of its sources."""
    candidates = state.get("candidates", [])
    cited = {n for candidate in candidates for n in candidate.source_ns}
    messages = await deps.services.in_room(
        run.user,
        lambda room: room.database.read(lambda c: message_queries.messages_by_number(c, cited)),
    )
    return {
        "candidates": [
            _verified(candidate, [messages[n] for n in candidate.source_ns])
            for candidate in candidates
            if messages.keys() >= set(candidate.source_ns)  # none was forgotten meanwhile
        ]
    }


def _verified(candidate: Candidate, messages: list[Message]) -> Candidate:
    sources = [message.text for message in messages]
    grounded = ground(candidate.text, sources)
    update = {
        "values": grounded.values,
        "said": "\n".join(sources),
        "speakers": sorted({m.name for m in messages if m.role == "user" and m.name}),
        "confirmation": "inferred" if grounded.ungrounded else candidate.confirmation,
    }
    return candidate.model_copy(update=update)
