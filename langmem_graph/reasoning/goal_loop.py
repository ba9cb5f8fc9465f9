"""The goal loop as a LangGraph subgraph: plan → retrieve → unify → (refine → retrieve …).

This is Goal-Mem's backward chaining (2.2). Its state is private, and it has limits of its own:
depth, breadth, subgoals, calls, tokens and seconds.
"""

from collections.abc import Callable
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from langmem_graph.reasoning.plan_subgoals import plan
from langmem_graph.reasoning.refine_subgoals import refine
from langmem_graph.reasoning.retrieve_facts import due, retrieve
from langmem_graph.reasoning.state import GoalDependencies, GoalInput, GoalOutput, GoalState
from langmem_graph.reasoning.unify_facts import unify
from langmem_graph.runtime import OBJECTS, StateForm, as_node

_STEPS = (plan, retrieve, unify, refine)


def build(
    deps: GoalDependencies,
    user_of: Callable[[RunnableConfig], str],
    given: type = GoalInput,
    *,
    form: StateForm = OBJECTS,
    checkpointer: Literal[False] | None = False,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled loop.

    Args:
        deps: dependencies of the steps.
        user_of: the user of a run.
        given: schema of the input.
        form: form of the state between steps; `JSON` where a checkpointer may save it.
        checkpointer: False keeps its steps out of a parent's checkpoints (and out of Studio's
            picture of the parent); None is LangGraph's default.
    """
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        GoalState, input_schema=given, output_schema=GoalOutput
    )
    for step in _STEPS:
        builder.add_node(step.__name__, as_node(form.step(step), deps, user_of))
    builder.add_edge(START, "plan")

    def following(state: GoalState) -> list[Send] | str:
        """Retrieve for the subgoals that are due, decompose the request anew, or end."""
        proof = state["proof"]
        if proof.ended:
            return END
        if not proof.subgoals:
            return "plan"
        return [Send("retrieve", form.dump(search)) for search in due(proof, deps.left(state))]

    route = form.route(following)
    builder.add_conditional_edges("plan", route, ["retrieve", END])
    builder.add_edge("retrieve", "unify")
    builder.add_conditional_edges("unify", form.route(_after_unify), ["refine", "plan", END])
    builder.add_conditional_edges("refine", route, ["retrieve", "plan", END])
    return builder.compile(checkpointer=checkpointer, name="goals")


def _after_unify(state: GoalState) -> str:
    proof = state["proof"]
    if proof.ended:
        return END
    return "refine" if proof.subgoals else "plan"
