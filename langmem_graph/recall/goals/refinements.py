"""Checks of a refinement: it is new, serves an open statement, and contains no invented names."""

import re
from collections.abc import Sequence

from langmem_graph.recall.goals.state import GoalDependencies, Proof, Subgoal
from langmem_graph.steps import StepRun
from langmem_graph.write.words import content, tokens

_NAME = re.compile(r"[^\W\d_]\w*(?:[-’'](?!s\b)\w+)*|\d+(?:[.,:/-]\d+)*")
_ACTS = re.compile(
    r"['’]s\b| (?:is|was|are|were|has|had|and|lives?d?|likes?d?|works?|owns?|said)\b"
)


async def objection(
    goal: Subgoal,
    known: Sequence[Subgoal],
    proof: Proof,
    deps: GoalDependencies,
    run: StepRun,
    allowed: str,
) -> str | None:
    """Why the refinement may not be looked for; None when it may.

    Args:
        goal: what the model proposes.
        known: every subgoal so far.
        proof: of which round.
        deps: for the settings and for likeness.
        run: the run.
        allowed: everything that names may be taken from.
    """
    queries = [one.query for one in known]
    if reason := _formal_objection(goal, known, proof, deps) or _invention(goal, proof, allowed):
        return reason
    if await deps.likeness(goal.query, queries, run) >= deps.settings.same_goal:
        return "asks for the same as before"
    return None


def _formal_objection(
    goal: Subgoal, known: Sequence[Subgoal], proof: Proof, deps: GoalDependencies
) -> str | None:
    parents = {one.id for one in proof.open()}
    if goal.parent not in parents:
        return "is for no open statement"
    siblings = [one for one in known if (one.parent, one.depth) == (goal.parent, goal.depth)]
    if len(siblings) >= deps.settings.goal_refinements:
        return "one too many for its statement"
    if not goal.atom.strip():
        return "says nothing"
    entities = proof.theta().entities
    own = goal.parsed().apply(entities).canonical()
    if own in {one.parsed().apply(entities).canonical() for one in known}:
        return "was there before"
    return None


def _invention(goal: Subgoal, proof: Proof, allowed: str) -> str | None:
    bound = " ".join(proof.theta().entities.values())
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
    for found in _NAME.finditer(text):
        word = found.group()
        named = word[0].isdigit() or word[0].isupper()
        if not named or set(tokens(word)) <= known:
            continue
        if _begins_sentence(text, found.start()) and not _ACTS.match(text, found.end()):
            continue
        if content(word):
            strange.append(word)
    return strange


def _begins_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip(" \"'“(")
    return not before or before[-1] in ".?!:;"
