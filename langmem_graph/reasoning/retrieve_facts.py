"""The step `retrieve`: search for one subgoal (Goal-Mem 2.2, step 3).

The searches of a round run in parallel, by LangGraph's `Send`.
"""

import asyncio

from typing_extensions import TypedDict

from langmem_graph.reasoning.state import GoalDependencies, GoalState, Proof, Retrieved, Subgoal
from langmem_graph.runtime import Event, StepRun
from langmem_graph.schemas import Fact


class RetrieveInput(TypedDict):
    """Input of one retrieval."""

    subgoal: Subgoal
    round: int
    seconds: float
    """Time limit of the search."""


async def retrieve(deps: GoalDependencies, state: RetrieveInput, run: StepRun) -> GoalState:
    """Find the best facts for one subgoal; a search that fails is reported in its event."""
    goal = state["subgoal"]
    problem = None
    facts: list[Fact] = []
    try:
        search = deps.search(goal.query, deps.settings.reasoning.subgoal_facts, goal.relation, run)
        facts = await asyncio.wait_for(search, state["seconds"])
    except Exception as error:  # noqa: BLE001  # any retriever's own; the other subgoals go on
        problem = run.problem("looking for a subgoal failed", error)
    event: Event = {
        "event": "memory_retrieved",
        "subgoal": goal.id,
        "query": goal.query,
        "relation": goal.relation,
        "round": state["round"],
        "facts": [fact.id for fact in facts],
        "problem": problem,
    }
    run.emit(event)
    return {"found": [Retrieved(state["round"], facts, event)]}


def due(proof: Proof, seconds: float) -> list[RetrieveInput]:
    """The inputs for the subgoals that are due."""
    goals = {goal.id: goal for goal in proof.subgoals}
    return [RetrieveInput(subgoal=goals[n], round=proof.round, seconds=seconds) for n in proof.due]
