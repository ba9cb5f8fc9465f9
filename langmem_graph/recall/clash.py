"""Schedule conflicts at the time that the request's own words name, without a model."""

from collections.abc import Collection, Iterable
from datetime import datetime

from langmem_graph.config import Settings
from langmem_graph.models import Fact
from langmem_graph.recall.collisions import ScheduleConflict, conflicts_at
from langmem_graph.schedule.spoken import spoken_time
from langmem_graph.store.room import Room


def conflicts_in_words(
    room: Room, request: str, now: datetime, settings: Settings
) -> list[ScheduleConflict]:
    """Compare the time that the request's own words name with the schedule.

    Args:
        room: the user's.
        request: what the user says.
        now: when, in UTC.
        settings: zone and usual length.
    """
    asked = spoken_time(request, now, settings.time_zone)
    return conflicts_at(room, asked, settings) if asked else []


def conflict_section(
    conflicts: Iterable[ScheduleConflict], in_view: Collection[str]
) -> list[tuple[str, list[Fact]]]:
    """Each conflict's line for the context, and its record unless that is in view.

    Args:
        conflicts: as they are listed.
        in_view: ids and texts of messages that are not quoted again.
    """
    return [(one.line, _unless_seen(one.fact, set(in_view))) for one in conflicts]


def _unless_seen(fact: Fact, in_view: set[str]) -> list[Fact]:
    return [] if {fact.text, *fact.message_ids} & in_view else [fact]
