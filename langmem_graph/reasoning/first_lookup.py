"""The step `first_lookup`: search for the request itself, without a model.

All later steps build on its facts (ActMem 1.3, step 1).
"""

from langmem_graph.reasoning.state import ReasoningDependencies, ReasoningState
from langmem_graph.retrieval.facts import find_facts
from langmem_graph.retrieval.search_common import SearchNotes
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Fact


async def first_lookup(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Find the facts nearest to the request."""
    services, notes = deps.services, SearchNotes()
    k = state["k"] or services.settings.context.k
    recorder = run.recorder(state["trace"])
    facts: list[Fact] = []
    warnings: list[str] = []
    try:
        facts = await services.in_known_room(
            run.user,
            lambda room: find_facts(
                room, services.embedder, services.settings, state["query"], k, notes=notes
            ),
            [],
        )
    except Exception as error:
        if deps.fail_closed:
            raise
        failed = "the first look-up failed, the turn goes on without"
        warnings.append(run.problem(failed, error))
    recorder.record("memory_recalled", facts=[fact.id for fact in facts])
    return {
        "recalled": facts,
        "warnings": [*warnings, *notes.warnings],
        "trace": recorder.trace,
    }
