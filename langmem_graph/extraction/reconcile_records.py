"""compare and reconcile: a second call, only where records may change that the first
did not show.

`compare` looks for what the first call asks for, and for active records near the new
statements; where it did not show some, `reconcile` asks what changes in these (NapMem
5.2, Mem2ActBench 3.3).
"""

from langmem_graph.extraction.batch_view import (
    about,
    draw_first_alias,
    read_lines,
    record_lines,
)
from langmem_graph.extraction.extract_records import (
    extract_prompt,
    read_candidate,
    read_changes,
)
from langmem_graph.extraction.records_in_view import Wanted, unseen
from langmem_graph.extraction.state import (
    BatchView,
    Candidate,
    Dependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.llm.answer_schemas import ProposedChange, Reconciliation
from langmem_graph.reading import reading_of
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.retrieval.search_common import RoomSearch
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import NO_LONGER, Record
from langmem_graph.storage import record_queries
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.user_room import Room

LARGE_CHANGE = 3
"""Records that messages end, from which on the first call may not have been shown all
that rested on them. On unseen talks and episodes 11 of 15 second calls after so many
changed a record; of 68 others 8 did, 7 of them one that says nearly what the model
asked for, or what a new memory says.
"""


async def compare(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Find records that the first call did not show and that may change; no model."""
    candidates = [candidate for candidate in state.get("candidates", []) if candidate]
    seen = {n for n, _ in state["view"].records.values()}
    proposals = state.get("proposals", [])
    ended = {one.record for one in proposals if one.relation in NO_LONGER}
    wanted = Wanted(state.get("look_for", []), len(ended) >= LARGE_CHANGE)
    services = deps.services

    def found(room: Room) -> list[int]:
        return unseen(
            RoomSearch.of(services, room, EVERYTHING), candidates, wanted, seen
        )

    return {"unseen": await services.in_room(run.user, found)}


async def reconcile(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Ask what the new statements change in the records found by `compare`."""
    usage = usage_of(state)

    def read(room: Room) -> dict[str, tuple[int, Record]]:
        found = room.database.read(
            lambda connection: record_queries.records_by_number(
                connection, state["unseen"]
            ),
            EVERYTHING,
        )
        numbered = [(n, found[n]) for n in state["unseen"] if n in found]
        start = draw_first_alias() if deps.first_alias is None else deps.first_alias
        return {f"n{i}": one for i, one in enumerate(numbered, start)}

    view = state["view"]
    further = BatchView(
        view.messages, await deps.services.in_room(run.user, read), view.zone
    )
    chars = deps.services.settings.extraction.message_chars
    question = _question(further, state.get("candidates", []), chars)
    answer = await deps.runner.ask(
        Reconciliation, extract_prompt("reconcile"), question, usage
    )
    reasons: list[str] = []
    reading = reading_of(deps.services.reading, run.user)
    candidates = list(state.get("candidates", []))
    candidates += [
        read_candidate(memory, view, reading, reasons)
        for memory in (answer.memories if answer else [])
    ]
    changes = _with_memories(answer.changes if answer else [], candidates, reasons)
    changes = [one for one in changes if one.relation != "forget"]
    proposals = list(read_changes(changes, further, reasons))
    proposals = [*state.get("proposals", []), *proposals]
    return {
        "candidates": candidates,
        "proposals": proposals,
        "usage": usage,
        "counts": counts_of(state).plus(*reasons),
    }


def _with_memories(
    changes: list[ProposedChange],
    candidates: list[Candidate | None],
    reasons: list[str],
) -> list[ProposedChange]:
    """The changes without those that name a memory which there is not."""
    known = {place for place, one in enumerate(candidates) if one}
    unknown = [one for one in changes if one.by is not None and one.by not in known]
    reasons += [
        f"A change names a memory that was not shown: {one.by}" for one in unknown
    ]
    return [one for one in changes if one not in unknown]


def _question(
    view: BatchView, candidates: list[Candidate | None], message_chars: int
) -> str:
    memories = [
        (
            f"{place}: ({about(one.memory.subject, one.memory.attribute)}) "
            f"{as_data(one.memory.text)}"
        )
        for place, one in enumerate(candidates)
        if one is not None
    ]
    parts = [
        "Records:",
        *record_lines(view.records, view.zone),
        "New memories:",
        *memories,
    ]
    return "\n".join(
        [*parts, "Messages:", *read_lines(view, candidates, message_chars)]
    )
