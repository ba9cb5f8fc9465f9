"""counterfactual: suppose it is done as asked; what could go wrong? (ActMem 1.3, steps 2 and 3).

One model call names risks. Each is a search of its own; what they find is joined, then followed
along the graph's edges. General knowledge stays marked as such: it binds nothing, and nothing of
this is ever stored.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langmem_graph.errors import for_log
from langmem_graph.llm.contracts import Consequences, NewRisk
from langmem_graph.llm.structured import Usage, load_prompt
from langmem_graph.models import Fact, Risk
from langmem_graph.ranking.search_parts import Trail
from langmem_graph.recall.alike import alike
from langmem_graph.recall.goals.state import Proof
from langmem_graph.recall.shown import Shown, request_line
from langmem_graph.recall.state import ReasoningDependencies, RecallState
from langmem_graph.recall.walk import walk
from langmem_graph.steps import StepRun, Watch

_log = logging.getLogger(__name__)
NEARLY = 0.8
"""Facts beside a risk are nearly as like it as the likest; ours."""
DEEPER = 3
"""Each search looks this many times deeper than what is kept of all together; ours."""


async def counterfactual(
    deps: ReasoningDependencies, state: RecallState, run: StepRun
) -> RecallState:
    """Ask for risks and look for each of them."""
    usage = Usage.of(state.get("usage"))
    watch = Watch(run.emit, list(state.get("trace") or []))
    seen = _seen(state)
    shown = Shown.of(seen[: deps.services.settings.goal_facts])
    question = "\n".join(
        [f"Now: {state['now']}", "Facts:", *shown.lines(), request_line(state["query"])]
    )
    answer = await deps.asker.ask(Consequences, load_prompt("counterfactual"), question, usage)
    done: dict[str, Any] = {"usage": usage.as_dict(), "trace": watch.trace}
    if answer is None:
        return {**done, "consequences": {}}  # type: ignore[typeddict-item]
    done["proposed"] = answer.model_dump(include={"start", "end", "recurrence"})
    try:
        found = await _look_for(deps, run, answer, seen, shown)
    except Exception as error:  # noqa: BLE001  # a failing search must not cost the turn its context
        problem = f"looking for risks failed: {type(error).__name__}: {error}"
        _log.warning("looking for risks failed: %s", for_log(error))
        return {**done, "consequences": {}, "warnings": [*state.get("warnings", []), problem]}  # type: ignore[typeddict-item]
    for risk in found["risks"]:
        watch.note("memory_risk", **risk)
    return {**done, "consequences": found}  # type: ignore[typeddict-item]


def _seen(state: RecallState) -> list[Fact]:
    """What proves something, then the first look-up."""
    proof = Proof.model_validate(state.get("proof") or {})
    cited = set(proof.cited())
    proving = [fact for fact in proof.facts if fact.id in cited]
    recalled = [Fact.model_validate(fact) for fact in state.get("recalled") or []]
    return list({fact.id: fact for fact in (*proving, *recalled)}.values())


async def _look_for(
    deps: ReasoningDependencies,
    run: StepRun,
    answer: Consequences,
    seen: Sequence[Fact],
    shown: Shown,
) -> dict[str, Any]:
    settings = deps.services.settings
    proposed = [risk for risk in answer.risks if risk.claim.strip()][: settings.risks]
    sentences = [_sentences(risk) for risk in proposed]
    found = await _facts_for(deps, run, sentences)
    known = {fact.id for fact in seen}
    every = [facts for own in found for facts in own]
    merged = [fact for fact in _merged(every, settings.rrf_k) if fact.id not in known]
    merged = merged[: settings.risk_facts]
    flat = [one for own in sentences for one in own]
    graph = await walk(deps.services, run.user, [*seen, *merged], flat)
    kept = {fact.id for fact in (*seen, *merged)}
    risks = [
        _risk(risk, _merged(own, settings.rrf_k), kept, shown, settings.risk_floor)
        for risk, own in zip(proposed, found, strict=True)
    ]
    facts = {fact.id: fact for fact in (*merged, *graph)}
    return {
        "risks": [risk.model_dump(mode="json") for risk in risks],
        "facts": [fact.model_dump(mode="json") for fact in facts.values()],
    }


def _sentences(risk: NewRisk) -> list[str]:
    """Each example is a search of its own; without examples the claim is."""
    return [one for one in risk.examples if one.strip()] or [risk.claim]


async def _facts_for(
    deps: ReasoningDependencies, run: StepRun, sentences: Sequence[Sequence[str]]
) -> list[list[list[Fact]]]:
    """For each risk and each of its sentences, what is like it."""
    services = deps.services
    flat = [one for own in sentences for one in own]
    if not flat:
        return []
    depth = DEEPER * services.settings.risk_facts
    nothing: list[list[Fact]] = [[] for _ in flat]
    lists = await services.in_known_room(
        run.user, lambda room: alike(room, services.embedder, flat, depth, Trail()), nothing
    )
    left = iter(lists)
    return [[next(left) for _ in own] for own in sentences]


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
    proposed: NewRisk, found: Sequence[Fact], kept: set[str], shown: Shown, floor: float
) -> Risk:
    """A risk with the facts that speak for it: those named, and those like enough to it."""
    named = [fact.id for fact in shown.meant(proposed.facts)]
    best = max((fact.likeness for fact in found), default=0.0)
    like = max(floor, NEARLY * best)
    near = [fact.id for fact in found if fact.id in kept and fact.likeness >= like]
    basis = "memory" if proposed.basis == "memory" and named else "world"
    return Risk(
        claim=" ".join(proposed.claim.split()),
        basis=basis,
        facts=list(dict.fromkeys([*named, *near])),
    )
