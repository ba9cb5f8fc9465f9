"""The step `conflicts`: compare the time of the request with the schedule, without a model.

The time is the one that the words state unambiguously, or else the one that the model read from
them in the step `counterfactual` (RealMem's schedule).
"""

from datetime import datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.reasoning.state import ProposedTime, ReasoningDependencies, ReasoningState
from langmem_graph.retrieval.schedule_lookup import ScheduleConflict, conflicts_at
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.time_phrases import spoken_time, written_event
from langmem_graph.schedule.times import EventTime


async def conflicts(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Compare the time that is proposed with the schedule."""
    services = deps.services
    asked = asked_time(state, services.settings.time_zone)
    if asked is None:
        return {}
    none: list[ScheduleConflict] = []
    try:
        found = await services.in_known_room(
            run.user, lambda room: conflicts_at(room, asked, services.settings), none
        )
    except Exception as error:  # noqa: BLE001  # the context is still useful without the schedule
        failed = "comparing with the schedule failed"
        warning = f"{failed}: {run.problem(failed, error)}"
        return {"warnings": [*state["warnings"], warning]}
    recorder = run.recorder(state["trace"])
    for conflict in found:
        recorder.record("memory_overlap", text=conflict.text, facts=[conflict.fact.id])
    return {"conflicts": found, "trace": recorder.trace}


def asked_time(state: ReasoningState, zone: str | None) -> EventTime | None:
    """The time that the request proposes, if it proposes one.

    The rules' reading of the words precedes the model's: small models confuse weekdays. Where both
    start at the same time, the model may know more: an end, or a recurrence.
    """
    by_rules = spoken_time(state["query"], datetime.fromisoformat(state["now"]), zone)
    by_model = proposal(state["proposed"], zone)
    if by_rules is None:
        return by_model
    if by_model and by_model.start == by_rules.start and by_rules.end is None:
        return by_model
    return by_rules


def proposal(proposed: ProposedTime, zone: str | None) -> EventTime | None:
    """The time that a model read from a request.

    A whole year is no proposal. A recurrence rule that cannot be used is ignored.
    """
    for rule in dict.fromkeys((proposed.recurrence, "")):
        try:
            event = written_event(proposed.start, proposed.end, rule, zone)
        except InvalidInputError:  # what a model writes need not be a time
            continue
        return event if event.granularity != "year" else None
    return None
