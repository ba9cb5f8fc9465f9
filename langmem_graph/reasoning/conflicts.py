"""conflicts: compare the time of the request with the schedule. No model is called.

The time is what the words say beyond doubt, or else what the model read out of them.
"""

import logging
from datetime import datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.reasoning.state import ProposedTime, ReasoningDependencies, ReasoningState
from langmem_graph.retrieval.schedule_conflicts import ScheduleConflict, conflicts_at
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.parsing import spoken_time, written_event
from langmem_graph.schedule.times import EventTime

_log = logging.getLogger(__name__)


async def conflicts(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Compare the time that is proposed with the schedule."""
    services = deps.services
    asked = asked_time(state, services.settings.time_zone)
    if asked is None:
        return {}
    nothing: list[ScheduleConflict] = []
    try:
        found = await services.in_known_room(
            run.user, lambda room: conflicts_at(room, asked, services.settings), nothing
        )
    except Exception as error:  # noqa: BLE001  # it must not cost the turn its context
        problem = f"comparing with the schedule failed: {type(error).__name__}: {error}"
        _log.warning("%s", problem)
        return {"warnings": [*state["warnings"], problem]}
    recorder = run.recorder(state["trace"])
    for one in found:
        recorder.record("memory_overlap", text=one.text, facts=[one.fact.id])
    return {"conflicts": found, "trace": recorder.trace}


def asked_time(state: ReasoningState, zone: str | None) -> EventTime | None:
    """The time that the request proposes, if it proposes one.

    Plain words come before the model's reading of them: small models err in weekdays. Where both
    start at the same time, the model may know more: an end, or that it recurs.
    """
    said = spoken_time(state["query"], datetime.fromisoformat(state["now"]), zone)
    read = proposal(state["proposed"], zone)
    if said is None or (read and read.start == said.start and said.end is None):
        return read
    return said


def proposal(proposed: ProposedTime, zone: str | None) -> EventTime | None:
    """The time that a model read out of a request.

    A whole year is no proposal. A recurrence rule that cannot be used does not count.
    """
    for rule in dict.fromkeys((proposed.recurrence, "")):
        try:
            event = written_event(proposed.start, proposed.end, rule, zone)
        except InvalidInputError:  # what a model writes need not be a time
            continue
        return event if event.granularity != "year" else None
    return None
