"""The steps that look up without a model: `first_lookup`, `retrieve` and
`conflicts`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from typing_extensions import TypedDict

from langmem_graph.errors import EmbeddingError, InvalidInputError
from langmem_graph.filters import Filter
from langmem_graph.reasoning.proof import ProposedTime, Subgoal
from langmem_graph.reasoning.state import (
    GoalDependencies,
    GoalState,
    ReasoningDependencies,
    ReasoningState,
    Retrieved,
)
from langmem_graph.results import Fact
from langmem_graph.retrieval.example_search import nearest_to_examples
from langmem_graph.retrieval.facts import by_reciprocal_rank, find_facts
from langmem_graph.retrieval.joined_search import each_room
from langmem_graph.retrieval.schedule_lookup import (
    Overlap,
    days_of,
    overlaps_at,
    said_of_days,
)
from langmem_graph.retrieval.search_common import RoomSearch, SearchNotes, UserSearch
from langmem_graph.runtime import Event, StepRun
from langmem_graph.schedule.model_written_times import written_event
from langmem_graph.schedule.time_phrases import spoken_time
from langmem_graph.schedule.times import EventTime
from langmem_graph.schedule.worded_days import worded_days
from langmem_graph.settings import Settings
from langmem_graph.storage.memory_services import own_room
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.user_room import Room

PLANNED = (
    "I am away on {}.",
    "We have booked something for {}.",
    "There is an appointment on {}.",
)
"""How the user may have told of a day's plans; what is near is shown to the planning
call.
"""
# days of a request, and facts that are near to their plans; ours
MOST_NAMED = 2
MOST_PLANNED = 10


def asks_model(state: ReasoningState) -> bool:
    """Whether a model is asked; in `auto` mode not for small talk and vague turns."""
    return state["mode"] == "reason" or (
        state["mode"] == "auto" and state["intent"] is None
    )


async def first_lookup(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Find the facts nearest to the request; all later steps build on them (ActMem 1.3,
    step 1).

    Where a model is asked they are many; what was told of a day that the request names
    is first.
    """
    services = deps.services
    notes = SearchNotes()
    recorder = run.recorder(state["trace"])
    facts: list[Fact] = []
    warnings: list[str] = []

    def look_up(rooms: list[Room]) -> list[Fact]:
        found = list[Fact]()
        if rooms:
            search = UserSearch.over(services, run.view, rooms, notes)
            now = datetime.fromisoformat(state["now"])
            found = _found(search.asked_at(now), state)
        room = own_room(rooms, run.user)
        if room is None or not asks_model(state):
            return found
        search = UserSearch.of(services, room, run.view.where, notes)
        return _with_days(search, room, state, found)

    try:
        facts = await services.in_rooms(run.view, look_up, notes.warnings)
    except Exception as error:
        if deps.fail_closed:
            raise
        warnings.append(
            run.problem("the first look-up failed, the turn goes on without", error)
        )
    recorder.record("memory_recalled", facts=[fact.id for fact in facts])
    return {
        "recalled": facts,
        "warnings": [*warnings, *notes.warnings],
        "trace": recorder.trace,
    }


def _found(search: UserSearch, state: ReasoningState) -> list[Fact]:
    settings = search.settings
    k = state["k"] or settings.context.k
    is_planned = asks_model(state)
    most = max(k, settings.reasoning.plan_facts) if is_planned else k
    return find_facts(search, state["query"], most, history=is_planned)


def _with_days(
    search: UserSearch, room: Room, state: ReasoningState, found: Sequence[Fact]
) -> list[Fact]:
    """What was told of a day that the request names, and may be planned for it, then
    the others.
    """
    dated = {message for fact in found if fact.day for message in fact.message_ids}
    told = told_of_days(room, search.first.where, state, search.settings)
    first = [fact for fact in told if not dated & set(fact.message_ids)]
    facts = (*first, *_planned_near(search, state), *found)
    return list({fact.id: fact for fact in reversed(facts)}.values())[::-1]


def _planned_near(search: UserSearch, state: ReasoningState) -> list[Fact]:
    """What may be planned for the days that the request names, whatever words name them
    there.
    """
    days = sorted(
        worded_days(state["query"], datetime.fromisoformat(state["now"]).date())
    )
    names = [f"{day:%A} {day.day} {day:%B}" for day in days[:MOST_NAMED]]
    sentences = [form.format(name) for name in names for form in PLANNED]
    found: dict[str, list[Fact]] = {}
    if sentences:
        with suppress(EmbeddingError):  # the search for the request has noted that
            found = nearest_to_examples(search, sentences, MOST_PLANNED)
    return by_reciprocal_rank(found.values(), search.settings.ranking.rrf_k)[
        :MOST_PLANNED
    ]


class RetrieveInput(TypedDict):
    """Input of one retrieval."""

    subgoal: Subgoal
    query: str
    round: int
    seconds: float  # time limit of the search


async def retrieve(
    deps: GoalDependencies, state: RetrieveInput, run: StepRun
) -> GoalState:
    """Find the best facts for one subgoal (Goal-Mem 2.2, step 3).

    The searches of a round run in parallel; one that fails is reported in its event.
    """
    goal = state["subgoal"]
    problem = None
    facts: list[Fact] = []
    try:
        most = goal.page * deps.settings.reasoning.subgoal_facts
        search = deps.lookup.search(state["query"], most, goal.relation, run)
        facts = await asyncio.wait_for(search, state["seconds"])
    except Exception as error:  # noqa: BLE001  # any retriever's own; the other subgoals go on
        problem = run.problem("looking for a subgoal failed", error)
    event: Event = {
        "event": "memory_retrieved",
        "subgoal": goal.id,
        "query": state["query"],
        "relation": goal.relation,
        "round": state["round"],
        "facts": [fact.id for fact in facts],
        "problem": problem,
    }
    run.emit(event)
    return {"found": [Retrieved(state["round"], facts, event)]}


async def conflicts(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Compare the times that are proposed with those of all dated records (RealMem)."""
    services = deps.services
    asked = asked_times(state, services.settings.time_zone)
    if not asked:
        return {}
    notes = SearchNotes(warnings=run.warnings)

    def work(rooms: list[Room]) -> list[Overlap]:
        if not rooms:
            return []
        return _overlaps(UserSearch.over(services, run.view, rooms, notes), asked)

    try:
        found = await services.in_rooms(run.view, work, notes.warnings)
    except Exception as error:  # noqa: BLE001  # the context is still useful without the schedule
        warning = run.warning("comparing with the schedule failed", error)
        return {"warnings": [*state["warnings"], warning]}
    recorder = run.recorder(state["trace"])
    for overlap in found:
        recorder.record("memory_overlap", text=overlap.text, facts=[overlap.fact.id])
    return {"overlaps": found, "trace": recorder.trace}


def _overlaps(search: UserSearch, asked: Sequence[EventTime]) -> list[Overlap]:
    """With dated records, of shared rooms too; each once."""

    def of_room(one: RoomSearch, connection: Reading) -> list[Overlap]:
        return [
            each
            for event in asked
            for each in overlaps_at(connection, event, one.settings)
        ]

    found = [overlap for _, own in each_room(search.rooms, of_room) for overlap in own]
    return list({overlap.fact.id: overlap for overlap in reversed(found)}.values())[
        ::-1
    ]


def told_of_days(
    room: Room, where: Filter | None, state: ReasoningState, settings: Settings
) -> list[Fact]:
    """What the user told of the days that are proposed, else of those that the request
    names.
    """
    now = datetime.fromisoformat(state["now"])
    asked = asked_times(state, settings.time_zone)
    told = [
        said_of_days(room, where, days_of(time, settings), now, time) for time in asked
    ]
    named = said_of_days(room, where, worded_days(state["query"], now.date()), now)
    return [fact for own in told for fact in own] or named


def asked_times(state: ReasoningState, zone: str | None) -> list[EventTime]:
    """The times that the request proposes, as a model and as rules read its words.

    Of two that start at the same time it is the model's, which may know an end or a
    recurrence.
    """
    proof = state["proof"]
    by_rules = spoken_time(state["query"], datetime.fromisoformat(state["now"]), zone)
    by_model = proposal(proof.proposed, zone) if proof.intent in ("act", None) else None
    if by_model and by_rules and by_model.start == by_rules.start:
        return [by_model if by_model.end or by_model.recurrence else by_rules]
    return [time for time in (by_rules, by_model) if time]


def proposal(proposed: ProposedTime, zone: str | None) -> EventTime | None:
    """The time that a model read from a request; a whole month or year is no
    proposal.
    """
    for rule in dict.fromkeys((proposed.recurrence, "")):
        with suppress(InvalidInputError):  # what a model writes need not be a time
            event = written_event(proposed.start, proposed.end, rule, zone)
            return event if event.granularity not in ("month", "year") else None
    return None
