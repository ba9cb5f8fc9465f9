"""The step `refine`: find subgoals from which the open atoms would follow (Goal-Mem 2.2, step 6).

Atoms in which a variable has been bound since are searched for again, with the entity in its place.
For the others one model call a round asks for antecedents; code accepts only those that are new and
contain no invented names (`objection`).
"""

import re
from collections.abc import Sequence

from langmem_graph.llm.answer_schemas import Refinement
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.reasoning.nl_logic import Variable
from langmem_graph.reasoning.state import (
    GoalDependencies,
    GoalState,
    Proof,
    Subgoal,
    working_copies,
)
from langmem_graph.reasoning.unify_facts import settle
from langmem_graph.retrieval.quoted_context import FactAliases, request_line
from langmem_graph.runtime import StepRun, TraceRecorder
from langmem_graph.values.attributes import content, tokens

_NAME = re.compile(r"[^\W\d_]\w*(?:[-’'](?!s\b)\w+)*|\d+(?:[.,:/-]\d+)*")
_VERB_OR_POSSESSIVE = re.compile(
    r"['’]s\b| (?:is|was|are|were|has|had|and|lives?d?|likes?d?|works?|owns?|said)\b"
)


async def refine(deps: GoalDependencies, state: GoalState, run: StepRun) -> GoalState:
    """Begin the next round, or end the loop where there is nothing left to search for."""
    proof, usage = working_copies(state)
    recorder = run.recorder(state.get("trace") or [])
    proof.depth += 1
    again = _changed_goals(proof, recorder)
    fresh: list[Subgoal] = []
    if len(again) < len(proof.open()):
        fresh = await _ask(deps, state, run, proof, usage, recorder)
    proof.subgoals += fresh
    settings = deps.settings
    most = settings.reasoning.subgoals * settings.reasoning.refinements
    due = [goal.id for goal in (*again, *fresh)][:most]
    if not due or deps.is_over(state, usage):
        settle(deps, state, usage, proof, recorder, hopeless=True)
    if not proof.ended:
        proof.due = due
        proof.round += 1
    return {"proof": proof, "usage": usage, "trace": recorder.trace}


def _changed_goals(proof: Proof, recorder: TraceRecorder) -> list[Subgoal]:
    """Open subgoals whose atoms read differently since variables were bound."""
    changed = []
    for goal in proof.open():
        atom = proof.resolved(goal)
        if str(atom) != goal.searched:
            goal.query = "".join(p.type if isinstance(p, Variable) else p for p in atom.parts)
            changed.append(goal)
            recorder.record(
                "memory_subgoal", id=goal.id, atom=str(atom), query=goal.query, again=True
            )
    return changed


async def _ask(
    deps: GoalDependencies,
    state: GoalState,
    run: StepRun,
    proof: Proof,
    usage: Usage,
    recorder: TraceRecorder,
) -> list[Subgoal]:
    aliases = FactAliases.of(proof.facts[-deps.settings.reasoning.round_facts :])
    question = _question(state, proof, aliases)
    answer = await deps.runner.ask(Refinement, load_prompt("refine"), question, usage)
    if answer is None or answer.stop:
        recorder.record("memory_refinement", accepted=False, reason="nothing would help")
        return []
    allowed = " ".join([state["query"], *(fact.text for fact in proof.facts)])
    accepted: list[Subgoal] = []
    for proposed in answer.subgoals:
        known = [*proof.subgoals, *accepted]
        goal = Subgoal(
            id=f"s{proof.counted + len(known) + 1}",
            parent=proposed.for_subgoal,
            depth=proof.depth,
            **proposed.model_dump(include={"atom", "query", "relation"}),
        )
        goal.query = goal.query.strip() or goal.atom
        reason = await objection(goal, known, proof, deps, run, allowed)
        if reason:
            recorder.record("memory_refinement", atom=goal.atom, accepted=False, reason=reason)
            continue
        accepted.append(goal)
        recorder.record(
            "memory_refinement",
            rule=_rule(goal, proof),
            accepted=True,
            **goal.model_dump(include={"id", "atom", "query", "relation", "parent", "depth"}),
        )
    return accepted


def _rule(goal: Subgoal, proof: Proof) -> str:
    parent = next(other for other in proof.subgoals if other.id == goal.parent)
    return f"{parent.parsed()} ← {goal.parsed()}"


def _question(state: GoalState, proof: Proof, aliases: FactAliases) -> str:
    tried = [f"- {goal.query}" for goal in proof.subgoals]
    return "\n".join(
        [
            f"Now: {state.get('now', '')}",
            request_line(state["query"]),
            proof.known_line(),
            "Open statements:",
            *proof.open_lines(),
            "Looked for already:",
            *tried,
            "Facts:",
            *aliases.lines(),
        ]
    )


async def objection(
    goal: Subgoal,
    known: Sequence[Subgoal],
    proof: Proof,
    deps: GoalDependencies,
    run: StepRun,
    allowed: str,
) -> str | None:
    """Why a proposed subgoal is rejected; None when it is accepted.

    Args:
        goal: the subgoal that the model proposes.
        known: every subgoal so far.
        proof: the proof so far.
        deps: dependencies of the step.
        run: the run.
        allowed: all texts that names may be taken from.
    """
    queries = [other.query for other in known]
    if reason := _formal_objection(goal, known, proof, deps) or _invention(goal, proof, allowed):
        return reason
    if await deps.likeness(goal.query, queries, run) >= deps.settings.reasoning.same_goal:
        return "asks for the same as before"
    return None


def _formal_objection(
    goal: Subgoal, known: Sequence[Subgoal], proof: Proof, deps: GoalDependencies
) -> str | None:
    if goal.parent not in {other.id for other in proof.open()}:
        return "is for no open statement"
    siblings = [
        other for other in known if (other.parent, other.depth) == (goal.parent, goal.depth)
    ]
    if len(siblings) >= deps.settings.reasoning.refinements:
        return "one too many for its statement"
    if not goal.atom.strip():
        return "says nothing"
    atoms = {proof.resolved(other).canonical() for other in known}
    if proof.resolved(goal).canonical() in atoms:
        return "was there before"
    return None


def _invention(goal: Subgoal, proof: Proof, allowed: str) -> str | None:
    bound = " ".join(proof.entities().values())
    if strange := invented(f"{goal.parsed().constants} . {goal.query}", f"{allowed} {bound}"):
        return f"names what nobody mentioned: {', '.join(strange)}"
    return None


def invented(text: str, allowed: str) -> list[str]:
    """Names and numbers in the text that occur in none of the allowed words.

    A name is a word with a capital letter that does not begin a sentence, or one that does and has
    a verb or a possessive after it ("Mia is", "Mia's").
    """
    known = set(tokens(allowed))
    strange = []
    for match in _NAME.finditer(text):
        word = match.group()
        named = word[0].isdigit() or word[0].isupper()
        if not named or set(tokens(word)) <= known:
            continue
        if _begins_sentence(text, match.start()) and not _VERB_OR_POSSESSIVE.match(
            text, match.end()
        ):
            continue
        if content(word):
            strange.append(word)
    return strange


def _begins_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip(" \"'“(")
    return not before or before[-1] in ".?!:;"
