"""Searches and recalls of one user without a model call.

`search_conversation` and `search_records` return ranked hits; `fast_recall` quotes
messages in a context, in which what overlaps a time that the words of the request state
comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import get_args

from langmem_graph.ids_and_times import to_utc
from langmem_graph.results import Fact, Reasoning, Recall, RecallReport, SearchBy
from langmem_graph.retrieval import joined_search
from langmem_graph.retrieval.facts import Placed, evidence, hits_by_id, placed
from langmem_graph.retrieval.quoted_context import (
    AGAINST,
    ALSO,
    URGENT,
    ContextBuilder,
    build_context,
    framed,
    not_in_view,
)
from langmem_graph.retrieval.schedule_lookup import Overlap, overlaps_at
from langmem_graph.retrieval.search_common import (
    NEAR_MISSES,
    RecallRequest,
    RoomSearch,
    SearchNotes,
    UserSearch,
    check_choice,
    check_query,
    signals_line,
    why_missed,
)
from langmem_graph.retrieval.vague_turns import (
    VagueTurnContext,
    intent_of,
    read_vague_turn_context,
)
from langmem_graph.schedule.time_phrases import spoken_time
from langmem_graph.schemas import MessageHit, RecordHit
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import naive
from langmem_graph.tokens import TokenCounter, token_counter
from langmem_graph.trust import Allowance
from langmem_graph.view import View


def search_conversation(
    services: Services,
    view: View,
    query: str,
    k: int,
    by: SearchBy,
    explain: bool,
    ranking: RankingMethod | None,
) -> list[MessageHit]:
    """The best messages or sessions for a query, best first; the options are
    checked.
    """
    check_choice("by", by, get_args(SearchBy))
    check_query(query, k)
    if ranking is not None:
        check_choice("ranking", ranking, get_args(RankingMethod))
    with services.rooms(view) as rooms:
        if not rooms:
            return []
        search = UserSearch.over(services, view, rooms).by(ranking)
        search = search.asked_at(datetime.now(UTC))
        behind = NEAR_MISSES if explain else 0
        hits = joined_search.search_best(search, query, k + behind, by)
    if not explain:
        return [hit.model_copy(update={"signals": None}) for hit in hits]
    missed = [
        one.model_copy(update={"missed": why_missed(one, hits[k - 1])})
        for one in hits[k:]
    ]
    return hits[:k] + missed


def search_records(
    services: Services, view: View, query: str, k: int, as_of: object, explain: bool
) -> list[RecordHit]:
    """The best records for a query, best first; what no longer holds is labelled."""
    check_query(query, k)
    asked = datetime.now(UTC) if as_of is None else to_utc(as_of)
    then = None if as_of is None else naive(asked)
    with services.rooms(view) as rooms:
        if not rooms:
            return []
        search = UserSearch.over(services, view, rooms).asked_at(asked)
        return joined_search.search_records(search, query, k, then, explain=explain)


def fast_recall(services: Services, view: View, request: RecallRequest) -> Recall:
    """Search, then quote what fits the budget and is not in view already.

    A vague turn has no words to search for: projects and schedule come first in its
    context.
    """
    start = perf_counter()
    notes = SearchNotes()
    settings = services.settings
    query = request.query
    seen = frozenset(request.in_view)
    k = request.k or settings.context.k
    budget = request.max_tokens or settings.context.max_tokens
    now = request.at or datetime.now(UTC)
    found = list[MessageHit]()
    ahead = _Ahead()
    empty = list[str]()
    with services.rooms(view, notes.warnings, empty) as rooms:
        if rooms:
            search = UserSearch.over(services, view, rooms, notes).asked_at(now)
            found = _not_in_view(search, query, k + NEAR_MISSES, seen)
            with notes.stage("schedule"):
                ahead = _Ahead.read(search, view.user, query, now)
    with notes.stage("context"):
        written = _write(found[:k], ahead, seen, budget, settings)
    notes.milliseconds["total"] = (perf_counter() - start) * 1_000
    overlaps = [overlap.text for overlap in ahead.overlaps]
    behind = evidence(written.facts, ahead.messages)
    known = {placed(hit) for hit in behind}
    return Recall(
        context=written.text,
        evidence=[
            *behind,
            *(hit for hit in written.quoted if placed(hit) not in known),
        ],
        report=RecallReport(
            status="degraded" if notes.warnings else "ok",
            warnings=[*notes.warnings, *empty],
            considered=len(found[:k]),
            quoted=len(written.quoted),
            near_misses=_near_misses(written.left_out, found, k, budget),
            context_tokens=written.counter.count(written.text),
            tokens_exact=written.counter.exact,
            milliseconds=notes.milliseconds,
        ),
        facts=written.facts,
        reasoning=Reasoning(overlaps=overlaps) if overlaps else None,
    )


def _not_in_view(
    search: UserSearch, query: str, most: int, seen: frozenset[str]
) -> list[MessageHit]:
    """The best messages, without those that the model sees anyway."""
    share = search.settings.context.foreign_share
    found, _ = joined_search.search_different(
        search, query, most + len(seen), foreign=share
    )
    return [hit for hit in found if seen.isdisjoint((hit.text, hit.message_id))]


def _near_misses(
    left_out: Sequence[MessageHit], found: Sequence[MessageHit], k: int, budget: int
) -> dict[str, str]:
    """Of the messages that are nearly quoted, by id: why they are not, and their
    signals.
    """
    missed = [(hit, f"no room in {budget} tokens") for hit in left_out]
    missed += [(hit, why_missed(hit, found[k - 1])) for hit in found[k:]]
    return {
        hit.message_id: f"{why}; {signals_line(hit)}"
        for hit, why in missed[:NEAR_MISSES]
    }


@dataclass(frozen=True)
class _Ahead:
    """What the schedule has to say to a request, and for a vague turn projects and
    profile.
    """

    overlaps: list[Overlap] = field(default_factory=list)
    vague: VagueTurnContext = field(default_factory=VagueTurnContext)
    # those behind its facts
    messages: dict[Placed, MessageHit] = field(default_factory=dict)

    @classmethod
    def read(
        cls, search: UserSearch, user_id: str, query: str, now: datetime
    ) -> "_Ahead":
        """Of all rooms; what a vague turn is about is in the user's own."""
        settings = search.settings
        asked = spoken_time(query, now, settings.time_zone)
        is_vague = intent_of(query) == "vague"

        def of_room(one: RoomSearch, connection: Reading) -> "_Ahead":
            overlaps = overlaps_at(connection, asked, settings) if asked else []
            vague = VagueTurnContext()
            if is_vague and one.key == user_id:
                vague = read_vague_turn_context(connection, now, settings)
            facts = [*(overlap.fact for overlap in overlaps), *vague.facts()]
            return cls(overlaps, vague, hits_by_id(connection, facts))

        found = joined_search.each_room(search.rooms, of_room)
        overlaps = [overlap for _, ahead in found for overlap in ahead.overlaps]
        own = (ahead.vague for one, ahead in found if one.key == user_id)
        vague = next(own, VagueTurnContext())
        messages = {
            place: hit for _, ahead in found for place, hit in ahead.messages.items()
        }
        return cls(overlaps, vague, messages)


@dataclass(frozen=True)
class _Written:
    """The context of a recall, and what it quotes."""

    text: str
    counter: TokenCounter
    facts: list[Fact]
    quoted: list[MessageHit]
    left_out: list[MessageHit]  # for which there was no room


def _write(
    hits: Sequence[MessageHit],
    ahead: _Ahead,
    seen: frozenset[str],
    budget: int,
    settings: Settings,
) -> _Written:
    """Write what speaks against the request, what is ahead, and then the hits."""
    counter = token_counter(settings.encoding)
    allowance = Allowance.of(settings.context, budget)
    builder = ContextBuilder(
        counter, budget - counter.count(framed([ALSO], URGENT)), allowance
    )
    builder.add(
        AGAINST, [(one.line, not_in_view([one.fact], seen)) for one in ahead.overlaps]
    )
    ahead.vague.write(builder, seen)
    facts = list(builder.quoted.values())
    shown = {
        (message_id, fact.text) for fact in facts for message_id in fact.message_ids
    }
    rest = [hit for hit in hits if (hit.message_id, hit.text) not in shown]
    text, quoted = build_context(
        rest,
        counter,
        budget=budget,
        per_quote=settings.context.excerpt_tokens,
        before=builder.lines,
        allowance=allowance,
    )
    told = {placed(hit) for hit in quoted}
    return _Written(
        text, counter, facts, quoted, [hit for hit in rest if placed(hit) not in told]
    )
