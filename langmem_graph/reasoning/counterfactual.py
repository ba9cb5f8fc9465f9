"""The step `counterfactual`: what memory holds against carrying out the request (ActMem
1.3).

The planning call has named what could speak against it beyond the facts in its view.
Each of these risks is searched for by hypothetical example sentences (HyDE-style
expansion): examples of what the user may have said. The results are merged, then
expanded along the graph's edges, and what was told of the day in question is added.
Where that brings facts which the planning call did not see, one model call names those
that really speak against the request. Where the plan could not be used, that call sees
the facts of the first look-up. Nothing of this step is stored.
"""

from collections.abc import Sequence
from itertools import chain

from langmem_graph.llm.answer_schemas import Consequences
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.reasoning.goal_loop import risks_of
from langmem_graph.reasoning.lookups import told_of_days
from langmem_graph.reasoning.state import (
    FoundRisks,
    ReasoningDependencies,
    ReasoningState,
)
from langmem_graph.results import Fact, Risk
from langmem_graph.retrieval.example_search import linked_facts, nearest_to_examples
from langmem_graph.retrieval.facts import by_reciprocal_rank
from langmem_graph.retrieval.quoted_context import (
    FactAliases,
    as_data,
    best_in_order,
    now_line,
    request_line,
)
from langmem_graph.retrieval.search_common import SearchNotes, UserSearch
from langmem_graph.runtime import StepRun
from langmem_graph.storage.memory_services import own_room
from langmem_graph.storage.user_room import Room
from langmem_graph.threads import in_thread
from langmem_graph.tokens import token_counter

# candidates of each search, as a multiple of the facts kept of all searches; ours
DEEPER = 3


async def counterfactual(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Search with the risks, and ask which of the facts that are new speak against the
    request.
    """
    usage = state["usage"].copy()
    recorder = run.recorder(state["trace"])
    possible = state["proof"].risks[: deps.services.settings.reasoning.risks]
    # a risk without examples is searched for by its claim
    examples = (
        [e for e in risk.examples if e.strip()] or [risk.claim] for risk in possible
    )
    queries = list(dict.fromkeys(chain.from_iterable(examples)))
    try:
        unjudged = await _recalled(deps, state) if state["proof"].unplanned else []
        fresh = [*unjudged, *await _search(deps, state, run, queries)]
    except Exception as error:  # noqa: BLE001  # the context is still useful without risks
        warning = run.warning("looking for risks failed", error)
        return {"warnings": [*state["warnings"], warning]}
    aliases = FactAliases.of(fresh)
    lines = [now_line(state["now"])]
    if possible:
        lines += ["Could speak against it:"]
        lines += [f"- {as_data(risk.claim)}" for risk in possible]
    lines += ["Facts:", *aliases.lines(), request_line(state["query"])]
    question = "\n".join(lines)
    prompt = load_prompt("counterfactual")
    asked = None
    if fresh:
        left = deps.goals.left(state["started"])
        asked = await deps.runner.ask(Consequences, prompt, question, usage, left=left)
    risks = risks_of(asked.against, aliases) if asked else []
    risks += [
        Risk(claim=" ".join(risk.claim.split()), basis="world") for risk in possible
    ]
    for risk in risks:
        recorder.record("memory_risk", **risk.model_dump())
    return {
        "usage": usage,
        "trace": recorder.trace,
        "consequences": FoundRisks(risks, fresh),
    }


async def _recalled(deps: ReasoningDependencies, state: ReasoningState) -> list[Fact]:
    """What a planning call would have seen."""
    settings = deps.services.settings
    counter = await in_thread(token_counter, settings.encoding)
    best = state["recalled"][: settings.reasoning.plan_facts]
    return best_in_order(best, counter, settings.reasoning.plan_tokens)


async def _search(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun, queries: list[str]
) -> list[Fact]:
    """The facts for the queries and of the day in question that no model has seen."""
    services = deps.services
    seen = state["proof"].facts or state["recalled"]
    notes = SearchNotes(warnings=run.warnings)

    def work(rooms: list[Room]) -> list[Fact]:
        room = own_room(rooms, run.user)
        told = (
            told_of_days(room, run.view.where, state, services.settings) if room else []
        )
        search = UserSearch.over(services, run.view, rooms, notes) if rooms else None
        return _unseen(search, queries, told, seen) if search else []

    return await services.in_rooms(run.view, work, notes.warnings)


def _unseen(
    search: UserSearch, queries: list[str], told: Sequence[Fact], seen: Sequence[Fact]
) -> list[Fact]:
    """Those that are near, told, or linked to what is seen or near."""
    options = search.settings.reasoning
    k = search.settings.ranking.rrf_k
    known = {fact.id for fact in seen}
    told_in = {one for fact in seen for one in _sources(fact)}
    depth = DEEPER * options.risk_facts
    vectors = search.embedder.embed(queries) if queries else None
    found = (
        {} if vectors is None else nearest_to_examples(search, queries, depth, vectors)
    )
    near = [
        one
        for one in by_reciprocal_rank(found.values(), k)
        if one.likeness >= options.risk_floor
    ]
    new = [
        fact
        for fact in (*near, *told)
        if fact.id not in known and not (fact.speaker and told_in & _sources(fact))
    ][: options.risk_facts]
    seeds = [*seen, *new] if options.graph_facts else []
    linked = [] if vectors is None else linked_facts(search, seeds, vectors)
    return list(
        {fact.id: fact for fact in (*new, *linked) if fact.id not in known}.values()
    )


def _sources(fact: Fact) -> set[tuple[str | None, str]]:
    return {(fact.room, message) for message in fact.message_ids}
