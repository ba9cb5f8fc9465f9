"""The context of a vague turn, such as "great, what's next?" (RealMem's proactive turns).

Such a turn names nothing to search for. Its context holds the profile, the state of each project
and the next items of the schedule. No model is called.
"""

import logging
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.retrieval.facts import fact_of_record
from langmem_graph.retrieval.quoted_context import ContextBuilder, as_data, not_in_view
from langmem_graph.schedule.times import EventTime, event_in, is_postponed, occurrences, zone_of
from langmem_graph.schemas import Fact, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries, topic_file_rows
from langmem_graph.topics.track_and_profile_files import PROFILE, ProfileFile, parse

PROJECTS = 3
"""Projects in a context, the ones last mentioned first; ours."""
PER_PROJECT = 3
"""Newest statements about each project; ours."""
NEXT = 5
"""Items of the schedule in a context; ours."""
AHEAD = timedelta(days=14)
"""The part of the schedule that is read, from now; ours."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VagueTurnContext:
    """Profile, projects and schedule: context for a turn that names nothing to look for."""

    profile: str = ""
    projects: list[tuple[str, list[Fact]]] = field(default_factory=list)
    """Each project's name and its newest statements."""
    upcoming: list[tuple[str, Fact]] = field(default_factory=list)
    """Time in the item's own time zone, and the item; the soonest first."""

    def facts(self) -> list[Fact]:
        """All facts that the context may quote."""
        in_projects = (fact for _, facts in self.projects for fact in facts)
        return [*in_projects, *(fact for _, fact in self.upcoming)]

    def write(self, builder: ContextBuilder, seen: Collection[str] = ()) -> None:
        """Add sections to a context, without the facts that are in view."""
        upcoming = [(when, not_in_view([fact], seen)) for when, fact in self.upcoming]
        projects = [(as_data(name), not_in_view(facts, seen)) for name, facts in self.projects]
        builder.add("Next on the schedule:", [item for item in upcoming if item[1]])
        builder.add(
            "Open projects, what was said last first:", [item for item in projects if item[1]]
        )
        if self.profile:
            builder.add("Profile:", [(as_data(self.profile), [])])


def read_vague_turn_context(
    connection: Connection, now: datetime, settings: Settings
) -> VagueTurnContext:
    """Read the profile, the projects and the next items of the schedule."""
    upcoming = _upcoming(connection, now, settings)
    return VagueTurnContext(read_profile(connection, settings), _projects(connection), upcoming)


def read_profile(connection: Connection, settings: Settings) -> str:
    """The profile's text; empty where there is none, or where its edited file is not valid."""
    if not settings.reasoning.use_profile:
        return ""
    stored = topic_file_rows.all_files(connection).get(PROFILE)
    try:
        file = parse(stored.body) if stored and stored.body else None
    except InvalidInputError as error:  # the context is still useful without the profile
        _log.warning("the profile cannot be read: %s", for_log(error))
        return ""
    return file.text if isinstance(file, ProfileFile) else ""


def _projects(connection: Connection) -> list[tuple[str, list[Fact]]]:
    numbers = record_queries.all_numbers(connection, None, facet="project_state")
    numbers = sorted(record_queries.current(connection, numbers))
    found = record_queries.records_by_number(connection, numbers)
    states: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(found.values(), key=lambda record: record.said_at, reverse=True):
        states[record.project or record.subject or "project"].append(record)
    newest = list(states.items())[:PROJECTS]
    return [(name, list(map(fact_of_record, records[:PER_PROJECT]))) for name, records in newest]


def _upcoming(connection: Connection, now: datetime, settings: Settings) -> list[tuple[str, Fact]]:
    items, until = [], now + min(AHEAD, datetime.max.replace(tzinfo=UTC) - now)
    for n, stored in record_queries.scheduled(connection):
        event = None if is_postponed(stored) else event_in(stored, settings.time_zone)
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
