"""Turns that name nothing to look for, such as "and what's next?": how they are told,
what helps.

Rules (English) tell small talk and vague turns apart from all others, which spares a
model's call; whatever else a request is, the planning call says. The context of a vague
turn holds the profile, the state of each project and the next items of the schedule
(RealMem).
"""

import logging
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.ids_and_times import window_edge
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import fact_of_record
from langmem_graph.retrieval.quoted_context import ContextBuilder, as_data, not_in_view
from langmem_graph.retrieval.schedule_lookup import planned_items
from langmem_graph.schedule.times import EventTime, zone_of
from langmem_graph.schemas import Record
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries, rounds
from langmem_graph.storage.reading import Reading
from langmem_graph.topics.track_and_profile_files import PROFILE, ProfileFile, parse

Intent = Literal["lookup", "act", "vague", "chat"]
PROJECTS = 3  # projects in a context, the ones last mentioned first; ours
PER_PROJECT = 3  # newest statements about each project; ours
NEXT = 5  # items of the schedule in a context; ours
# the part of the schedule that is read for a vague turn, from now; ours
SOON = timedelta(days=14)
_log = logging.getLogger(__name__)
LONGEST = 300  # characters of a request that the rules read: its intent is stated early
_CHAT = re.compile(
    r"(?>(?:hi|hello|hey|thanks?|thank "
    r"you|thx|ok(?:ay)?|great|cool|nice|perfect|wow|bye|goodbye|"
    r"good (?:morning|night|evening)|sure|yes|no|yep|nope|lol|haha+)"
    r"(?:[\s,]+(?:so much|a lot|very much|there|again|then|that's "
    r"all|you|everyone|all))*"
    r"[\s,.!]*)++"
)
# each in one way only: "good morning" is two of them
_OPENING = (
    r"(?:great|ok(?:ay)?|good|nice|perfect|cool|all ?right|thanks|thank "
    r"you|hey|hi|hello|"
    r"morning|evening|well|so|now|and|done|finished|got it|sounds "
    r"good|awesome|"
    r"excellent|wonderful|hmm+|ugh|oof|yes|yep|sure|(?:that's|it's|all) "
    r"(?:done|finished|settled)|"
    r"i'm (?:back|done|ready|here)|back again)"
)
_WHEN = (
    r"(?: (?:next|now|today|tonight|tomorrow|first|this "
    r"(?:week|weekend|morning|evening)))"
)
_GOES_ON = (
    r"what(?:'s|s| is| comes)(?: up)? next|what next|what now|now what|what's "
    rf"up{_WHEN}|"
    r"where (?:were|are) we(?: now| at)?|where did (?:we|i) (?:leave off|stop|get to)|"
    rf"what(?:'s| is|'s still| is still) (?:left|open|due|pending|on){_WHEN}?|"
    r"what(?:'s| is| do i have) on (?:my|the) "
    rf"(?:plate|agenda|schedule|calendar|list|to-?do list|plan){_WHEN}?|"
    r"what (?:should|can|shall|do) (?:i|we) (?:do|focus on|work on|tackle|start with)"
    rf"{_WHEN}|what do (?:i|we) have{_WHEN}|"
    r"(?:can|could|shall|should) we (?:go on|continue|carry on|move on)|"
    r"(?:let's |please )?(?:continue|go on|keep going|carry on|get going|move "
    r"on|proceed|"
    r"pick up where we left off)|(?:the )?next(?: step| steps| one| thing)?(?: "
    r"please)?|"
    r"(?:any|other) (?:ideas?|suggestions?|thoughts?|plans?|news|updates?)|"
    r"what (?:do|would) you (?:suggest|think|recommend|propose)|what else|"
    r"(?:can you |could you |please )?(?:help me )?(?:plan|organi[sz]e) "
    r"(?:my|the) (?:day|week|weekend|morning|evening)|"
    r"i(?:'m| am| feel)(?: a bit| so| feeling| just| really)? "
    r"(?:overwhelmed|stuck|lost|bored|stressed|unmotivated|behind)|"
    r"i (?:don't|do not) know (?:where to (?:start|begin)|what to do)(?: next)?|"
    rf"where (?:do|should|shall) (?:i|we) (?:start|begin){_WHEN}?"
)
_VAGUE = re.compile(rf"(?:{_OPENING}[\s,.!:;\u2026-]+)*(?:{_GOES_ON})[\s?.!\u2026]*")


def intent_of(request: str) -> Intent | None:
    """`vague` or `chat` where the words are nothing else; None for all others.

    `vague` continues without naming a subject, `chat` asks for nothing.
    """
    words = " ".join(request[:LONGEST].casefold().replace("\u2019", "'").split())
    if _VAGUE.fullmatch(words):
        return "vague"
    return "chat" if _CHAT.fullmatch(words) else None


@dataclass(frozen=True)
class VagueTurnContext:
    """Profile, projects and schedule: context for a turn that names nothing to look
    for.
    """

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
        projects = [
            (as_data(name), not_in_view(facts, seen)) for name, facts in self.projects
        ]
        builder.add("Next on the schedule:", [item for item in upcoming if item[1]])
        projects = [item for item in projects if item[1]]
        builder.add("Open projects, what was said last first:", projects)
        if self.profile:
            builder.add("Profile:", [(as_data(self.profile), [])])


def read_vague_turn_context(
    connection: Reading, now: datetime, settings: Settings
) -> VagueTurnContext:
    """Read the profile, the projects and the next items of the schedule."""
    upcoming = _upcoming(connection, now, settings)
    return VagueTurnContext(
        read_profile(connection, settings), _projects(connection), upcoming
    )


def read_profile(connection: Reading, settings: Settings) -> str:
    """The profile's text; empty where there is none, or where its edited file is not
    valid.
    """
    if not settings.reasoning.use_profile:
        return ""
    stored = rounds.all_files(connection).get(PROFILE)
    try:
        file = parse(stored.body) if stored and stored.body else None
    # the context is still useful without the profile
    except InvalidInputError as error:
        _log.warning("the profile cannot be read: %s", for_log(error))
        return ""
    return file.text if isinstance(file, ProfileFile) else ""


def _projects(connection: Reading) -> list[tuple[str, list[Fact]]]:
    numbers = record_queries.all_numbers(connection, None, facet="project_state")
    numbers = sorted(record_queries.current(connection, numbers))
    found = record_queries.records_by_number(connection, numbers)
    states: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(
        found.values(), key=lambda record: record.said_at, reverse=True
    ):
        states[record.project or record.subject or "project"].append(record)
    newest = list(states.items())[:PROJECTS]
    return [
        (name, list(map(fact_of_record, records[:PER_PROJECT])))
        for name, records in newest
    ]


def _upcoming(
    connection: Reading, now: datetime, settings: Settings
) -> list[tuple[str, Fact]]:
    items = []
    until = window_edge(now, SOON)
    for item in planned_items(connection, now, settings):
        if spans := item.occurrences(now, until, 1, settings.event_minutes):
            items.append((spans[0][0], item.n, item.event))
    soonest = sorted(items, key=lambda item: item[:2])[:NEXT]
    found = record_queries.records_by_number(connection, [n for _, n, _ in soonest])
    return [
        (_next_time(begin, event), fact_of_record(found[n]))
        for begin, n, event in soonest
    ]


def _next_time(begin: datetime, event: EventTime) -> str:
    wall = begin.astimezone(zone_of(event.time_zone))
    if event.granularity != "minute":
        return f"{wall:%A %Y-%m-%d}"
    return f"{wall:%A %Y-%m-%d %H:%M} {event.time_zone or 'UTC'}"
