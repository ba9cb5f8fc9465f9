"""recall: the first look-up, with 0 model calls; what it finds goes before everything else."""

import logging

from langmem_graph.errors import for_log
from langmem_graph.models import Fact
from langmem_graph.ranking.search_parts import Trail
from langmem_graph.recall.facts import find_facts
from langmem_graph.recall.state import ReasoningDependencies, RecallState
from langmem_graph.steps import StepRun, Watch

_log = logging.getLogger(__name__)


async def recall(deps: ReasoningDependencies, state: RecallState, run: StepRun) -> RecallState:
    """The facts nearest to the request."""
    services, trail = deps.services, Trail()
    k = state.get("k") or services.settings.recall_k
    watch = Watch(run.emit, list(state.get("trace") or []))
    facts: list[Fact] = []
    warnings: list[str] = []
    try:
        facts = await services.in_known_room(
            run.user,
            lambda room: find_facts(
                room, services.embedder, services.settings, state["query"], k, trail=trail
            ),
            [],
        )
    except Exception as error:
        if deps.fail_closed:
            raise
        warnings.append(f"{type(error).__name__}: {error}")
        _log.warning("the first look-up failed, the turn goes on without: %s", for_log(error))
    watch.note("memory_recalled", facts=[fact.id for fact in facts])
    return {
        "recalled": [fact.model_dump(mode="json") for fact in facts],
        "warnings": [*warnings, *trail.warnings],
        "trace": watch.trace,
    }
