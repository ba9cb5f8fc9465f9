"""retrieve: look for one subgoal; all subgoals of a round run side by side (LangGraph's `Send`)."""

import asyncio
import logging

from typing_extensions import TypedDict

from langmem_graph.errors import for_log
from langmem_graph.models import Fact
from langmem_graph.recall.goals.state import GoalDependencies, GoalState, Proof, Subgoal
from langmem_graph.steps import StepRun

_log = logging.getLogger(__name__)


class RetrieveInput(TypedDict):
    """What one retrieval is sent."""

    subgoal: dict[str, object]
    round: int
    seconds: float
    """How long it may take."""


async def retrieve(deps: GoalDependencies, state: RetrieveInput, run: StepRun) -> GoalState:
    """The best facts for one subgoal; a failing search finds nothing and says so."""
    goal = Subgoal.model_validate(state["subgoal"])
    problem = None
    facts: list[Fact] = []
    try:
        looking = deps.search(goal.query, deps.settings.goal_k, goal.relation, run)
        facts = await asyncio.wait_for(looking, state["seconds"])
    except Exception as error:  # noqa: BLE001  # any retriever's own; the other subgoals go on
        problem = f"{type(error).__name__}: {error}"
        _log.warning("looking for a subgoal failed: %s", for_log(error))
    event = {
        "event": "memory_retrieved",
        "subgoal": goal.id,
        "query": goal.query,
        "relation": goal.relation,
        "round": state["round"],
        "facts": [fact.id for fact in facts],
        "problem": problem,
    }
    run.emit(event)
    found = [fact.model_dump(mode="json") for fact in facts]
    return {"found": [{"round": state["round"], "facts": found, "event": event}]}


def due(proof: Proof, seconds: float) -> list[RetrieveInput]:
    """What to send for each subgoal that is due."""
    named = {goal.id: goal for goal in proof.subgoals}
    return [
        RetrieveInput(
            subgoal=named[one].model_dump(mode="json"), round=proof.round, seconds=seconds
        )
        for one in proof.due
    ]
