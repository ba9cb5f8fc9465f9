"""The step `further`: items of a list that the planning call did not see.

However whole a list looks, one view of memory cannot show that no item lies outside of
it. So the facts that no model has seen yet are searched, by examples of how the user
may have told of another item, by what was said of the items found, and by the request;
one model call a page adds rows and takes out those that do not belong, until a page
adds none.
"""

import asyncio
from collections.abc import Sequence

from langmem_graph.llm.answer_schemas import FurtherItems
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.reasoning.nl_logic import same_entity
from langmem_graph.reasoning.proof import ITEM, Bound, Proof, once
from langmem_graph.reasoning.state import (
    LEAST_SECONDS,
    MOST_PAGES,
    GoalDependencies,
    GoalState,
    GoalStep,
)
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import interleaved
from langmem_graph.retrieval.quoted_context import (
    FactAliases,
    as_data,
    best_in_order,
    now_line,
    request_line,
)
from langmem_graph.runtime import StepRun
from langmem_graph.threads import in_thread
from langmem_graph.tokens import token_counter

MOST_EXAMPLES = 24  # sentences of one page's search; ours


async def further(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Look at one page of further facts, and end the list where that adds no item."""
    step = GoalStep(deps, state, run)
    proof = step.proof
    before = len(step.proof.rows)
    proof.pages += 1
    problem = None
    found = list[Fact]()
    try:
        found = await asyncio.wait_for(_unseen(step), max(step.left, LEAST_SECONDS))
    except Exception as error:  # noqa: BLE001  # any retriever's own; what was found is still true
        problem = run.problem("looking for further items failed", error)
    answer = None
    dropped = list[str]()
    if found and not step.is_over():
        aliases = await _shown(step, found)
        answer = await _ask(step, aliases)
        dropped = _take(proof, answer, aliases) if answer else []
        proof.unusable = answer is None
    if problem or (found and answer is None):
        proof.sure = False  # what is there was not looked at
    added = len(proof.rows) + len(dropped) > before
    if not added or proof.pages >= MOST_PAGES or step.is_over():
        _end(step, complete=proof.sure and not added)
    rows = [row.values for row in proof.found_rows()]
    shown = [fact.id for fact in found]
    step.recorder.record(
        "memory_list",
        page=proof.pages,
        facts=shown,
        rows=rows,
        dropped=dropped,
        problem=problem,
    )
    return step.update()


async def _unseen(step: GoalStep) -> list[Fact]:
    """The best facts that no model has seen: of each search the best, then each second
    best.
    """
    deps = step.deps
    proof = step.proof
    most = step.options.plan_facts
    seen = {fact.id for fact in proof.facts}
    texts = {fact.id: fact.text for fact in proof.facts}
    told = [
        texts[i]
        for row in proof.rows
        for b in row.values()
        for i in b.facts
        if i in texts
    ]
    examples = once([*filter(str.strip, proof.look_for), *told])[:MOST_EXAMPLES]
    queries = [step.state["query"], *(goal.query for goal in proof.subgoals)]
    k = len(seen) + most
    searches = (deps.lookup.search(query, k, "semantic", step.run) for query in queries)
    lists = await asyncio.gather(*searches)
    near = await deps.lookup.near(examples, k, step.run)
    return [fact for fact in interleaved([*lists, *near]) if fact.id not in seen][:most]


async def _shown(step: GoalStep, found: Sequence[Fact]) -> FactAliases:
    """The facts that were named and the new ones, as many as fit; the model has seen
    them then.
    """
    proof = step.proof
    own = {*step.proof.named}
    counter = await in_thread(token_counter, step.deps.settings.encoding)
    named = [fact for fact in proof.facts if fact.id in own]
    shown = best_in_order([*named, *found], counter, step.options.plan_tokens)
    seen = {fact.id for fact in proof.facts}
    proof.facts += [fact for fact in shown if fact.id not in seen]
    return FactAliases.of(shown)


async def _ask(step: GoalStep, aliases: FactAliases) -> FurtherItems | None:
    names = {fact.id: alias for alias, fact in aliases.facts.items()}
    rows = []
    for number, row in enumerate(step.proof.rows, 1):
        cited = [names[i] for bound in row.values() for i in bound.facts if i in names]
        items = ", ".join(as_data(bound.entity) for bound in row.values())
        rows.append(f"Row {number}: {items} ({', '.join(cited)})")
    lines = [now_line(step.state.get("now", "")), *rows, "Facts:", *aliases.lines()]
    question = "\n".join([*lines, request_line(step.state["query"])])
    return await step.deps.runner.ask(
        FurtherItems, load_prompt("further"), question, step.usage, left=step.left
    )


def _take(proof: Proof, answer: FurtherItems, aliases: FactAliases) -> list[str]:
    """Add new rows, take out those that do not belong; returns the latter with their
    reasons.
    """
    name = next(iter(proof.rows[0]), ITEM) if proof.rows else ITEM
    dropped = proof.drop({one.row: one.why for one in answer.drop})
    for given in answer.rows:
        facts = [fact.id for fact in aliases.resolve(given.facts)]
        item = given.item.strip()
        if not facts or not item:
            continue
        known = (row[name] for row in proof.rows if name in row)
        own = next((bound for bound in known if same_entity(bound.entity, item)), None)
        if own is None:
            own = Bound(entity=item)
            proof.rows.append({name: own})
        own.add(facts)
        proof.named = once([*proof.named, *facts])
    further_facts = [fact.id for fact in aliases.resolve(answer.facts)]
    proof.kept = proof.named = once([*proof.named, *further_facts])
    proof.sure = answer.sure
    proof.look_for = answer.look_for
    return dropped


def _end(step: GoalStep, *, complete: bool) -> None:
    """The list ends; only where it is not sure, the statements of the plan are looked
    for.
    """
    proof = step.proof
    is_over = step.is_over()
    proof.listing = False
    proof.ended = proof.sure or is_over or not proof.subgoals
    proof.sufficient = proof.named if proof.sure else []
    proof.complete = complete and bool(proof.named)
    if proof.sure and proof.named:
        proof.status = "grounded"
    elif proof.ended:
        proof.status = "budget" if is_over else proof.outcome()
