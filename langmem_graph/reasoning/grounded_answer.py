"""The step `answer`: answer from the quoted facts, or say what is missing (ActMem 1.3,
step 4).

The step is optional, for applications without a model call of their own. It costs one
model call; where facts contradict each other no call is made, and all of them are
quoted.
"""

from langmem_graph.llm.answer_schemas import GroundedAnswer
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.reasoning.proof import once
from langmem_graph.reasoning.state import ReasoningDependencies, ReasoningState
from langmem_graph.results import Fact, Reasoning, Recall
from langmem_graph.retrieval.quoted_context import (
    FactAliases,
    as_data,
    label_words,
    now_line,
    request_line,
    shown_ids,
)
from langmem_graph.runtime import StepRun

_NAMES_NO_FACT = "an answer names the facts it uses (f…), or sets known to false"


async def answer(
    deps: ReasoningDependencies, state: ReasoningState, run: StepRun
) -> ReasoningState:
    """Answer the request."""
    outcome = state["recall"]
    usage = state["usage"].copy()
    recorder = run.recorder(outcome.trace)
    reasoning = outcome.reasoning or Reasoning()
    if reasoning.conflicts:
        text = _contradiction(outcome, reasoning)
        used = [fact.id for fact in outcome.facts]
    else:
        aliases = FactAliases.of(outcome.facts)

        def check(proposed: GroundedAnswer) -> str | None:
            names_none = proposed.known and not aliases.resolve(proposed.facts)
            return _NAMES_NO_FACT if names_none else None

        prompt = load_prompt("answer")
        question = _question(state, reasoning, aliases)
        left = deps.goals.left(state["started"])
        given = await deps.runner.ask(
            GroundedAnswer, prompt, question, usage, check, left=left
        )
        used = (
            [fact.id for fact in aliases.resolve(given.facts)]
            if given and given.known
            else []
        )
        if used:
            shown = {fact.id for fact in outcome.facts}
            of_rows = (fact_id for row in reasoning.rows for fact_id in row.facts)
            used = once([*used, *(fact_id for fact_id in of_rows if fact_id in shown)])
        text = given.answer if given and used else _unknown(given, reasoning)
    recorder.record("memory_answer", facts=used)
    report = outcome.report.model_copy(update=usage.counts())
    answered = {
        "answer": text,
        "answer_facts": used,
        "trace": recorder.trace,
        "report": report,
    }
    return {"recall": outcome.model_copy(update=answered), "usage": usage}


def _question(state: ReasoningState, reasoning: Reasoning, aliases: FactAliases) -> str:
    known = [f"{name} = {entity}" for name, entity in reasoning.bindings.items()]
    if reasoning.rows:
        more = "all" if reasoning.complete is True else "there may be more"
        rows = " | ".join(", ".join(row.values.values()) for row in reasoning.rows)
        known = [f"{len(reasoning.rows)} ({more}): {' '.join(rows.split())}"]
    known += reasoning.spans
    against = []
    for risk in (risk for risk in reasoning.risks if risk.facts):
        shown = [
            alias for alias, fact in aliases.facts.items() if fact.id in risk.facts
        ]
        against.append(
            f"- {as_data(risk.claim)} (shown by {', '.join(shown) or 'nothing'})"
        )
    against += [f"- {as_data(text)}" for text in reasoning.overlaps]
    return "\n".join(
        [
            now_line(state["now"]),
            "Facts:",
            *aliases.lines(),
            f"Found: {'; '.join(known) or 'see the facts'}",
            f"Not found: {', '.join(reasoning.unresolved) or 'nothing'}",
            "Speaks against it:",
            *(against or ["nothing"]),
            request_line(state["query"]),
        ]
    )


def _unknown(given: GroundedAnswer | None, reasoning: Reasoning) -> str:
    missing = ", ".join(reasoning.unresolved)
    if reasoning.unusable or (given is None and not missing):
        looked_for = f", looking for {missing}" if missing else ""
        return f"I don't know: an answer of the model could not be used{looked_for}."
    if missing:
        return f"I don't know: memory does not say {missing}."
    return (
        given.answer if given and not given.known and given.answer else "I don't know."
    )


def _contradiction(outcome: Recall, reasoning: Reasoning) -> str:
    """The contradicting values, each with the facts that state it."""
    facts = {fact.id: fact for fact in outcome.facts}
    lines = [
        f"- {value}: {_quoted(facts[fact_id])}"
        for conflict in reasoning.conflicts
        for value, ids in conflict.values.items()
        for fact_id in ids
        if fact_id in facts
    ]
    return "\n".join(["I don't know: what I remember disagrees.", *lines])


def _quoted(fact: Fact) -> str:
    when = f"{fact.at:%Y-%m-%d}, " if fact.at else ""
    ids = shown_ids(fact.message_ids or [fact.id])
    return f"{when}{as_data(fact.text)} [{ids}]{label_words(fact.labels)}"
