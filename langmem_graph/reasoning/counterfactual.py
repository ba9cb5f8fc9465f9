"""The step `counterfactual`: risks of carrying out the request (ActMem 1.3, steps 2 and 3).

One model call names risks. Each risk is searched for; the results are merged, then expanded along
the graph's edges. General knowledge stays marked as such: it binds no variable, and nothing of this
step is stored.
"""

from collections import defaultdict
from collections.abc import Sequence

from langmem_graph.llm.answer_schemas import Consequences, NewRisk
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.reasoning.counterfactual_search import expand_along_edges, nearest_to_examples
from langmem_graph.reasoning.state import (
    FoundRisks,
    ProposedTime,
    ReasoningDependencies,
    ReasoningState,
)
from langmem_graph.retrieval.quoted_context import FactAliases, request_line
from langmem_graph.retrieval.search_common import SearchNotes
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Fact, Risk

NEARLY = 0.8
"""Facts beside a risk have at least this share of the greatest similarity to it; ours."""
DEEPER = 3
"""Candidates of each search, as a multiple of the facts kept of all searches; ours."""


async def counterfactual(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Ask for risks and search for each of them."""
    usage = state["usage"].copy()
    recorder = run.recorder(state["trace"])
    seen = _known_facts(state)
    aliases = FactAliases.of(seen[: deps.services.settings.reasoning.round_facts])
    question = "\n".join(
        [f"Now: {state['now']}", "Facts:", *aliases.lines(), request_line(state["query"])]
    )
    answer = await deps.runner.ask(Consequences, load_prompt("counterfactual"), question, usage)
    update: ReasoningState = {"usage": usage, "trace": recorder.trace}
    if answer is None:
        return update
    update["proposed"] = ProposedTime(answer.start, answer.end, answer.recurrence)
    try:
        found = await _search(deps, run, answer, seen, aliases)
    except Exception as error:  # noqa: BLE001  # the context is still useful without risks
        failed = "looking for risks failed"
        warning = f"{failed}: {run.problem(failed, error)}"
        return {**update, "warnings": [*state["warnings"], warning]}
    for risk in found.risks:
        recorder.record("memory_risk", **risk.model_dump())
    return {**update, "consequences": found}


def _known_facts(state: ReasoningState) -> list[Fact]:
    """The facts that prove something, then those of the first look-up."""
    proof = state["proof"]
    cited = set(proof.cited())
    proving = [fact for fact in proof.facts if fact.id in cited]
    return list({fact.id: fact for fact in (*proving, *state["recalled"])}.values())


async def _search(
    deps: ReasoningDependencies,
    run: StepRun,
    answer: Consequences,
    seen: Sequence[Fact],
    aliases: FactAliases,
) -> FoundRisks:
    settings = deps.services.settings
    rrf_k, floor = settings.ranking.rrf_k, settings.reasoning.risk_floor
    proposed = [risk for risk in answer.risks if risk.claim.strip()][: settings.reasoning.risks]
    queries = [_queries(risk) for risk in proposed]
    found = await _facts_for(deps, run, queries)
    known = {fact.id for fact in seen}
    merged = _merged([facts for per_query in found for facts in per_query], rrf_k)
    merged = [fact for fact in merged if fact.id not in known][: settings.reasoning.risk_facts]
    every_query = [query for per_risk in queries for query in per_risk]
    linked = await expand_along_edges(deps.services, run.user, [*seen, *merged], every_query)
    kept = {fact.id for fact in (*seen, *merged)}
    risks = [
        _risk(risk, _merged(per_query, rrf_k), kept, aliases, floor)
        for risk, per_query in zip(proposed, found, strict=True)
    ]
    facts = {fact.id: fact for fact in (*merged, *linked)}
    return FoundRisks(risks, list(facts.values()))


def _queries(risk: NewRisk) -> list[str]:
    """The sentences to search for: the risk's examples, or without examples its claim."""
    return [example for example in risk.examples if example.strip()] or [risk.claim]


async def _facts_for(
    deps: ReasoningDependencies, run: StepRun, queries: Sequence[Sequence[str]]
) -> list[list[list[Fact]]]:
    """For each risk and each of its queries, the nearest facts."""
    services = deps.services
    flat = [query for per_risk in queries for query in per_risk]
    if not flat:
        return []
    depth = DEEPER * services.settings.reasoning.risk_facts
    none: list[list[Fact]] = [[] for _ in flat]
    lists = await services.in_known_room(
        run.user,
        lambda room: nearest_to_examples(room, services.embedder, flat, depth, SearchNotes()),
        none,
    )
    remaining = iter(lists)
    return [[next(remaining) for _ in per_risk] for per_risk in queries]


def _merged(lists: Sequence[Sequence[Fact]], rrf_k: int) -> list[Fact]:
    """Facts of several lists by reciprocal rank, best first, each with its greatest likeness."""
    scores: dict[str, float] = defaultdict(float)
    facts: dict[str, Fact] = {}
    for found in lists:
        for rank, fact in enumerate(found, 1):
            scores[fact.id] += 1 / (rrf_k + rank)
            known = facts.get(fact.id)
            facts[fact.id] = fact if known is None or fact.likeness > known.likeness else known
    return sorted(facts.values(), key=lambda fact: -scores[fact.id])


def _risk(
    proposed: NewRisk, found: Sequence[Fact], kept: set[str], aliases: FactAliases, floor: float
) -> Risk:
    """A risk with the facts that support it: those named, and those similar enough to it."""
    named = [fact.id for fact in aliases.resolve(proposed.facts)]
    best = max((fact.likeness for fact in found), default=0.0)
    like = max(floor, NEARLY * best)
    near = [fact.id for fact in found if fact.id in kept and fact.likeness >= like]
    basis = "memory" if proposed.basis == "memory" and named else "world"
    return Risk(
        claim=" ".join(proposed.claim.split()),
        basis=basis,
        facts=list(dict.fromkeys([*named, *near])),
    )
