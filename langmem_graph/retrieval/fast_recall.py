"""Searches and recalls of one user without a model call.

`search_conversation` returns ranked hits; `fast_recall` quotes them in a context. A time that the
words of the request state is compared with the schedule, and conflicts come first in the context.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import get_args

from sqlalchemy import Connection

from langmem_graph.filters import Where, parsed
from langmem_graph.messages import to_utc
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
from langmem_graph.retrieval.request_intent import intent_of
from langmem_graph.retrieval.search_common import (
    NEAR_MISSES,
    SearchNotes,
    UserSearch,
    check_choice,
    check_query,
    check_request,
    signals_line,
    why_missed,
)
from langmem_graph.retrieval.what_is_ahead import (
    ScheduleConflict,
    VagueTurnContext,
    conflicts_at,
    read_vague_turn_context,
)
from langmem_graph.schedule.time_phrases import spoken_time
from langmem_graph.schemas import MessageHit, Reasoning, Recall, RecallReport, SearchBy
from langmem_graph.settings import RankingMethod
from langmem_graph.storage.memory_services import Services
from langmem_graph.tokens import token_counter
from langmem_graph.trust import Allowance


def search_conversation(
    services: Services,
    user_id: str,
    query: str,
    k: int,
    by: SearchBy,
    explain: bool,
    ranking: RankingMethod | None,
    where: Where | None = None,
) -> list[MessageHit]:
    """The best messages or sessions for a query, best first; the options are checked."""
    check_choice("by", by, get_args(SearchBy))
    check_query(query, k)
    if ranking is not None:
        check_choice("ranking", ranking, get_args(RankingMethod))
    with services.within(parsed(where)).rooms(user_id) as rooms:
        if not rooms:
            return []
        search = UserSearch.over(services, rooms).by(ranking)
        hits = joined_search.search_best(search, query, k + NEAR_MISSES * explain, by)
    if not explain:
        return [hit.model_copy(update={"signals": None}) for hit in hits]
    missed = [one.model_copy(update={"missed": why_missed(one, hits[k - 1])}) for one in hits[k:]]
    return hits[:k] + missed


_Ahead = tuple[list[ScheduleConflict], VagueTurnContext | None, dict[Placed, MessageHit]]


def _ahead(search: UserSearch, user_id: str, query: str, now: datetime) -> list[_Ahead]:
    """What each room's schedule has at the time of a request, and the messages behind it.

    Of the user's own room also what a vague turn is about.
    """
    settings = search.settings
    asked = spoken_time(query, now, settings.time_zone)
    is_vague = intent_of(query) == "vague"

    def read(one: UserSearch, connection: Connection) -> _Ahead:
        vague, clashes = None, list[ScheduleConflict]()
        if asked:
            clashes = conflicts_at(connection, asked, settings)
        if is_vague and one.key == user_id:
            vague = read_vague_turn_context(connection, now, settings)
        facts = [*(clash.fact for clash in clashes), *(vague.facts() if vague else [])]
        return clashes, vague, hits_by_id(connection, facts)

    return [found for _, found in joined_search.each_room(search.alone(), read)]


def fast_recall(
    services: Services,
    user_id: str,
    query: str,
    k: int | None,
    max_tokens: int | None,
    in_view: Sequence[str] = (),
    at: object = None,
    where: Where | None = None,
) -> Recall:
    """Search, then quote what fits the budget and is not in view already.

    A vague turn has no words to search for: projects and schedule come first in its context.
    """
    start, notes = perf_counter(), SearchNotes(warnings=[*services.refused])
    settings, seen = services.settings, set(in_view)
    k, budget = check_request(settings, query, k, max_tokens)
    now = to_utc(at) if at is not None else datetime.now(UTC)
    found: list[MessageHit] = []
    conflicts: list[ScheduleConflict] = []
    vague, messages = VagueTurnContext(), dict[Placed, MessageHit]()
    with services.within(parsed(where)).rooms(user_id, notes.warnings) as rooms:
        if rooms:
            search = UserSearch.over(services, rooms, notes)
            most = k + len(seen) + NEAR_MISSES
            share = settings.context.foreign_share
            found, _ = joined_search.search_different(search, query, most, foreign=share)
            found = [hit for hit in found if not {hit.text, hit.message_id} & seen]
            with notes.stage("schedule"):
                ahead = _ahead(search, user_id, query, now)
                conflicts = [one for clashes, _, _ in ahead for one in clashes]
                vague = next((own for _, own, _ in ahead if own), vague)
                messages = {place: hit for _, _, hits in ahead for place, hit in hits.items()}
    hits = found[:k]
    with notes.stage("context"):
        counter = token_counter(settings.encoding)
        allowance = Allowance.of(settings.context, budget)
        left = budget - counter.count(framed([ALSO], URGENT))
        builder = ContextBuilder(counter, left, allowance)
        builder.add(AGAINST, [(one.line, not_in_view([one.fact], seen)) for one in conflicts])
        vague.write(builder, seen)
        shown = {(i, fact.text) for fact in builder.quoted.values() for i in fact.message_ids}
        rest = [hit for hit in hits if (hit.message_id, hit.text) not in shown]
        per_quote = settings.context.excerpt_tokens
        context, quoted = build_context(
            rest,
            counter,
            budget=budget,
            per_quote=per_quote,
            before=builder.lines,
            allowance=allowance,
        )
    overlaps = [conflict.text for conflict in conflicts]
    behind = evidence(builder.quoted.values(), messages)
    known = {placed(hit) for hit in behind}
    missed = [(hit, f"no room in {budget} tokens") for hit in rest if hit not in quoted]
    missed = [*missed, *((hit, why_missed(hit, hits[-1])) for hit in found[k:])][:NEAR_MISSES]
    notes.milliseconds["total"] = (perf_counter() - start) * 1_000
    return Recall(
        context=context,
        evidence=[*behind, *(hit for hit in quoted if placed(hit) not in known)],
        report=RecallReport(
            status="degraded" if notes.warnings else "ok",
            warnings=notes.warnings,
            considered=len(hits),
            quoted=len(quoted),
            near_misses={hit.message_id: f"{why}; {signals_line(hit)}" for hit, why in missed},
            context_tokens=counter.count(context),
            tokens_exact=counter.exact,
            milliseconds=notes.milliseconds,
        ),
        facts=list(builder.quoted.values()),
        reasoning=Reasoning(overlaps=overlaps) if overlaps else None,
    )
