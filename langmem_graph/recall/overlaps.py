"""overlaps: does the time of the request collide with the schedule? No model is called.

The time is what the words say beyond doubt, or else what the model read out of them.
"""

import logging
from datetime import datetime
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.recall.collisions import Collision, colliding
from langmem_graph.recall.state import ReasoningDependencies, RecallState
from langmem_graph.schedule.spoken import spoken_time
from langmem_graph.schedule.times import EventTime
from langmem_graph.schedule.written import written_event
from langmem_graph.steps import StepRun, Watch

_log = logging.getLogger(__name__)


async def overlaps(deps: ReasoningDependencies, state: RecallState, run: StepRun) -> RecallState:
    """Compare the time that is proposed with the schedule."""
    services = deps.services
    asked = asked_time(state, services.settings.time_zone)
    if asked is None:
        return {}
    nothing: list[Collision] = []
    try:
        found = await services.in_known_room(
            run.user, lambda room: colliding(room, asked, services.settings), nothing
        )
    except Exception as error:  # noqa: BLE001  # it must not cost the turn its context
        problem = f"comparing with the schedule failed: {type(error).__name__}: {error}"
        _log.warning("%s", problem)
        return {"warnings": [*state.get("warnings", []), problem]}
    watch = Watch(run.emit, list(state.get("trace") or []))
    for one in found:
        watch.note("memory_overlap", text=one["text"], facts=one["facts"])
    return {"collisions": found, "trace": watch.trace}


def asked_time(state: RecallState, zone: str | None) -> EventTime | None:
    """The time that the request proposes, if it proposes one.

    Plain words come before the model's reading of them: small models err in weekdays. Where both
    start at the same time, the model may know more: an end, or that it recurs.
    """
    said = spoken_time(state["query"], datetime.fromisoformat(state["now"]), zone)
    read = proposal(state.get("proposed") or {}, zone)
    if said is None or (read and read.start == said.start and said.end is None):
        return read
    return said


def proposal(proposed: dict[str, Any], zone: str | None) -> EventTime | None:
    """The time that a model read out of a request: `start`, `end`, `recurrence`, all texts.

    A whole year is no proposal. A rule that cannot be used does not count.
    """
    start, end, rule = (str(proposed.get(name) or "") for name in ("start", "end", "recurrence"))
    for own_rule in dict.fromkeys((rule, "")):
        try:
            event = written_event(start, end, own_rule, zone)
        except InvalidInputError:  # what a model writes need not be a time
            continue
        return event if event.granularity != "year" else None
    return None
