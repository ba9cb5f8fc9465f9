"""What a vague turn needs ("great, what's next?"), which names nothing to look for.

The profile, how far each project is, and what the schedule has next (RealMem's proactive turns).
No model is called.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.retrieval.facts import fact_of_record
from langmem_graph.retrieval.formatting import ContextBuilder, as_data
from langmem_graph.retrieval.intent import intent_of
from langmem_graph.schedule.times import EventTime, event_in, is_postponed, occurrences, zone_of
from langmem_graph.schemas import Fact, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import files, record_queries
from langmem_graph.storage.room import Room
from langmem_graph.topics.files import PROFILE, ProfileFile, parse

_log = logging.getLogger(__name__)
PROJECTS = 3
"""Projects that are shown, the ones last spoken of first; ours."""
PER_PROJECT = 3
"""Newest statements of each; ours."""
NEXT = 5
"""Items of the schedule; ours."""
AHEAD = timedelta(days=14)
"""How far ahead is looked; ours."""


@dataclass(frozen=True)
class VagueTurnContext:
    """Profile, projects and schedule: context for a turn that names nothing to look for."""

    profile: str = ""
    projects: list[tuple[str, list[Fact]]] = field(default_factory=list)
    """Each project's name and its newest state."""
    upcoming: list[tuple[str, Fact]] = field(default_factory=list)
    """When, on the clock of the item's own time zone, and the item; the soonest first."""

    def facts(self) -> list[Fact]:
        """All that may be quoted."""
        return [fact for _, own in self.projects for fact in own] + [f for _, f in self.upcoming]

    def write(self, builder: ContextBuilder, seen: Collection[str] = ()) -> None:
        """Add it to a context as sections, without what is in view anyway."""

        def fresh(facts: Sequence[Fact]) -> list[Fact]:
            return [fact for fact in facts if not {fact.text, *fact.message_ids} & set(seen)]

        upcoming = [(when, fresh([fact])) for when, fact in self.upcoming]
        projects = [(as_data(name), fresh(facts)) for name, facts in self.projects]
        builder.add("Next on the schedule:", [item for item in upcoming if item[1]])
        builder.add(
            "Open projects, what was said last first:", [item for item in projects if item[1]]
        )
        if self.profile:
            builder.add("Profile:", [(as_data(self.profile), [])])


def vague_turn_context(
    room: Room, request: str, now: datetime, settings: Settings
) -> VagueTurnContext:
    """The context of a vague turn; empty where the request is not vague."""
    if intent_of(request) != "vague":
        return VagueTurnContext()
    with room.database.read_transaction() as connection:
        return read_vague_turn_context(connection, now, settings)


def read_vague_turn_context(
    connection: Connection, now: datetime, settings: Settings
) -> VagueTurnContext:
    """Read profile, projects and coming items of the schedule."""
    upcoming = _upcoming(connection, now, settings)
    return VagueTurnContext(read_profile(connection, settings), _projects(connection), upcoming)


def read_profile(connection: Connection, settings: Settings) -> str:
    """The profile's text; empty where there is none, or its file was edited and cannot be read."""
    if not settings.reasoning.use_profile:
        return ""
    held = files.all_files(connection).get(PROFILE)
    try:
        file = parse(held.body) if held and held.body else None
    except InvalidInputError as error:  # without it the context is still good
        _log.warning("the profile cannot be read: %s", for_log(error))
        return ""
    return file.text if isinstance(file, ProfileFile) else ""


def _projects(connection: Connection) -> list[tuple[str, list[Fact]]]:
    numbers = record_queries.current_with_facet(connection, "project_state")
    found = record_queries.records_by_number(connection, numbers)
    states: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(found.values(), key=lambda one: one.said_at, reverse=True):
        states[record.project or record.subject or "project"].append(record)
    shown = list(states.items())[:PROJECTS]
    return [(name, [fact_of_record(one) for one in own[:PER_PROJECT]]) for name, own in shown]


def _upcoming(connection: Connection, now: datetime, settings: Settings) -> list[tuple[str, Fact]]:
    items, until = [], now + min(AHEAD, datetime.max.replace(tzinfo=UTC) - now)
    for n, kept in record_queries.scheduled(connection):
        event = None if is_postponed(kept) else event_in(kept, settings.time_zone)
        minutes = settings.event_minutes
        spans = occurrences(event, now, until, 1, default_minutes=minutes) if event else []
        if event and spans:
            items.append((spans[0][0], n, event))
    soonest = sorted(items, key=lambda item: item[:2])[:NEXT]
    found = record_queries.records_by_number(connection, [n for _, n, _ in soonest])
    return [(_when(begin, event), fact_of_record(found[n])) for begin, n, event in soonest]


def _when(begin: datetime, event: EventTime) -> str:
    wall = begin.astimezone(zone_of(event.time_zone))
    if event.granularity != "minute":
        return f"{wall:%A %Y-%m-%d}"
    return f"{wall:%A %Y-%m-%d %H:%M} {event.time_zone or 'UTC'}"
