"""What is ahead of the user, without a model: schedule conflicts, and what comes next (RealMem).

A conflict is a scheduled item at the time of a request. A vague turn, such as "and what's next?",
names nothing to search for: its context holds the profile, the state of each project and the next
items of the schedule.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.retrieval.facts import fact_of_message, fact_of_record
from langmem_graph.retrieval.message_search import as_hit
from langmem_graph.retrieval.quoted_context import (
    ContextBuilder,
    as_data,
    not_in_view,
    of_room,
    plain_id,
)
from langmem_graph.schedule.time_phrases import spoken_time
from langmem_graph.schedule.times import (
    EventTime,
    Span,
    ends_at,
    event_in,
    first_span,
    meetings,
    occurrences,
    with_weekday,
    zone_of,
)
from langmem_graph.schedule.worded_days import worded_days
from langmem_graph.schemas import Fact, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries, record_queries, topic_file_rows
from langmem_graph.storage.superseded_labels import labelled_messages
from langmem_graph.storage.user_room import Room
from langmem_graph.topics.track_and_profile_files import PROFILE, ProfileFile, parse

MOST = 5  # conflicts in one result
MOST_TOLD = 12  # messages that name a day in words; ours
MOST_RECURRING = 200  # recurring items that are expanded; of more, the newest
IDS = 3  # message ids beside one conflict
LONGEST = timedelta(days=366)  # part of a longer proposal that is compared, from its start
AHEAD = timedelta(days=92)  # part of a recurring proposal that is compared; ours
PROJECTS = 3  # projects in a context, the ones last mentioned first; ours
PER_PROJECT = 3  # newest statements about each project; ours
NEXT = 5  # items of the schedule in a context; ours
SOON = timedelta(days=14)  # the part of the schedule that is read for a vague turn, from now; ours
MOST_SAID, LONGEST_SAID = 2_000, 1_000
"""The user's newest messages that are read for a day, and characters of each; ours."""
MOST_DAYS = 14  # days of a proposal that are compared with messages; ours
_YEAR = timedelta(days=366)
_MOMENT = timedelta(seconds=1)
_TIMES_COMPARED = 10_000
_USER = ("", "user", "the user", "me", "i", "myself")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlannedItem:
    """A record of the schedule, by number, and its event.

    A recurring item takes place while its record holds. A single one has no such limits: what is
    called off is off at once, whatever day is given for the end.
    """

    n: int
    event: EventTime
    since: datetime | None = None
    until: datetime | None = None

    def occurrences(self, begin: datetime, end: datetime, limit: int, minutes: int) -> list[Span]:
        """The first `limit` occurrences that lie wholly or partly between `begin` and `end`."""
        begin, end = max(begin, self.since or begin), min(end, self.until or end)
        return occurrences(self.event, begin, end, limit, default_minutes=minutes)


def planned_items(
    connection: Connection, at: datetime, settings: Settings, facet: str | None = "schedule"
) -> list[PlannedItem]:
    """The items of the schedule from a time on, past ones included, the newest first.

    Without a facet, all records that have a time.
    """
    items = []
    for row in record_queries.scheduled(connection, at, facet):
        event = event_in(row.event, settings.time_zone)
        if event and event.recurrence:
            items.append(PlannedItem(row.n, event, row.since, row.until))
        elif event and row.is_active:
            items.append(PlannedItem(row.n, event))
    return items


@dataclass(frozen=True)
class ScheduleConflict:
    """A scheduled item at the time of the request."""

    text: str  # time and text of the item
    line: str  # time, ids and subject of the item, for the context
    span: Span  # in UTC: the item's own time, of a recurring one the occurrence that conflicts
    fact: Fact  # the record of the item


def conflicts_at(
    connection: Connection, asked: EventTime, settings: Settings
) -> list[ScheduleConflict]:
    """The dated records at a proposed time: single ones before recurring ones, then by time."""
    begin = first_span(asked, default_minutes=settings.event_minutes)[0]
    dated = planned_items(connection, begin, settings, None)
    exact = [item for item in dated if item.event.granularity not in ("month", "year")]
    items = [item for item in exact if not fills_days(item)]
    found = sorted(met(asked, items, settings.event_minutes))[:MOST]
    records = record_queries.records_by_number(connection, [n for _, _, n in found])
    events = {item.n: item.event for item in items}
    return [_conflict(records[n], events[n], span) for _, span, n in found]


def fills_days(item: PlannedItem) -> bool:
    """True for a routine of every day without a time of day, which says nothing about any time."""
    if item.event.granularity != "day" or item.event.recurrence is None:
        return False
    first = occurrences(item.event, item.event.start, item.event.start + AHEAD, 2)
    return len(first) == 2 and first[0][1] >= first[1][0]


def days_of(asked: EventTime, settings: Settings) -> set[date]:
    """The days of a proposed time; none where they are too many to compare with messages."""
    zone = zone_of(asked.time_zone or settings.time_zone)
    span = first_span(asked, default_minutes=settings.event_minutes)
    first, last = span[0].astimezone(zone).date(), (span[1] - _MOMENT).astimezone(zone).date()
    days = (last - first).days + 1
    return {first + timedelta(days=n) for n in range(days)} if days <= MOST_DAYS else set()


def said_of_days(
    room: Room, days: Collection[date], now: datetime, asked: EventTime | None = None
) -> list[Fact]:
    """Messages of the user that name one of these days in words, the newest first, with the day.

    Questions do not count, nor what no longer holds, nor another time of day than what is asked.
    """
    ahead = {day for day in days if day >= now.date()}
    named: dict[int, date] = {}
    with room.database.read_transaction() as connection:
        said = message_queries.said_by_user(connection, now - _YEAR, now, MOST_SAID if ahead else 0)
        for n, text, at in said:
            if day := _day_named(text, at.astimezone(now.tzinfo), asked, ahead):
                named[n] = day
        found = labelled_messages(connection, list(named)[:MOST_TOLD])
    facts = {n: fact_of_message(as_hit(message, n)) for n, message in found.items()}
    dated = (fact.model_copy(update={"day": named[n]}) for n, fact in facts.items())
    return [fact for fact in dated if not fact.outdated]


def _day_named(
    text: str, at: datetime, asked: EventTime | None, days: Collection[date]
) -> date | None:
    """The day that a sentence which is no question names, if it names no other time of it."""
    for sentence in re.findall(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]+)*[.!?]?", text[:LONGEST_SAID]):
        named = {*days} & worded_days(sentence, at.date(), days)
        if sentence.endswith("?") or not named:
            continue
        timed = spoken_time(sentence, at, asked.time_zone) if asked else None
        if timed is None or asked is None or asked.granularity != "minute":
            return min(named)
        return min(named) if any(meetings([first_span(asked)], [first_span(timed)])) else None
    return None


def met(
    asked: EventTime, items: Sequence[PlannedItem], minutes: int
) -> Iterator[tuple[bool, Span, int]]:
    """Of each item that conflicts with a proposed time: if it recurs, when first, and its number.

    Without an end they last some minutes.
    """
    begin = first_span(asked, default_minutes=minutes)[0]
    end = ends_at(asked, default_minutes=minutes)
    until = begin + AHEAD if end is None else min(end, begin + LONGEST)
    wanted = occurrences(asked, begin, until, _TIMES_COMPARED, default_minutes=minutes)
    # Whatever lies in the window of a proposal that does not recur conflicts with it.
    needed = 1 if asked.recurrence is None else _TIMES_COMPARED
    recurring = [item for item in items if item.event.recurrence][:MOST_RECURRING]
    for item in [*(item for item in items if not item.event.recurrence), *recurring]:
        spans = item.occurrences(begin, until, needed, minutes)
        for _, span in meetings(wanted, spans):
            yield item.event.recurrence is not None, span, item.n
            break


def _conflict(record: Record, event: EventTime, span: Span) -> ScheduleConflict:
    when = _when(event, span)
    ids = ", ".join(map(plain_id, record.message_ids[:IDS]))
    subject = record.subject or ""
    about = "" if subject.casefold().strip() in _USER else f", about {as_data(subject)}"
    room = of_room(record)
    line = f"The schedule has something at that time: {when} [{ids}]{about}{room}"
    return ScheduleConflict(f"{when}: {record.text}{room}", line, span, fact_of_record(record))


def _when(event: EventTime, span: Span) -> str:
    """The time in the item's own zone: `Tue 2025-06-03 22:00 to Wed 2025-06-04 02:00 UTC`."""
    zone = zone_of(event.time_zone)
    begin, end = (moment.astimezone(zone) for moment in span)
    again = ", recurring" if event.recurrence else ""
    if event.granularity != "minute":
        last = end - timedelta(hours=12)  # the end is the midnight after the last day
        days = dict.fromkeys((with_weekday(begin), with_weekday(last)))
        return f"{' to '.join(days)}, all day{again}"
    ending = f"{end:%H:%M}" if end.date() == begin.date() else f"{with_weekday(end)} {end:%H:%M}"
    return f"{with_weekday(begin)} {begin:%H:%M} to {ending} {event.time_zone or 'UTC'}{again}"


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
        projects = [item for item in projects if item[1]]
        builder.add("Open projects, what was said last first:", projects)
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
    items, until = [], now + min(SOON, datetime.max.replace(tzinfo=UTC) - now)
    for item in planned_items(connection, now, settings):
        if spans := item.occurrences(now, until, 1, settings.event_minutes):
            items.append((spans[0][0], item.n, item.event))
    soonest = sorted(items, key=lambda item: item[:2])[:NEXT]
    found = record_queries.records_by_number(connection, [n for _, n, _ in soonest])
    return [(_next_time(begin, event), fact_of_record(found[n])) for begin, n, event in soonest]


def _next_time(begin: datetime, event: EventTime) -> str:
    wall = begin.astimezone(zone_of(event.time_zone))
    if event.granularity != "minute":
        return f"{wall:%A %Y-%m-%d}"
    return f"{wall:%A %Y-%m-%d %H:%M} {event.time_zone or 'UTC'}"
