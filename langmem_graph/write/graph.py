"""The write graph, from a claimed batch of messages to records, edges, topics and a profile.

Each node is one file of this package. A batch that cannot be read goes back and stays due.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph

from langmem_graph import tracing
from langmem_graph.write.claim import claim, give_back
from langmem_graph.write.commit import commit
from langmem_graph.write.evolve import evolve
from langmem_graph.write.extract import extract
from langmem_graph.write.ground_values import ground_values
from langmem_graph.write.link import link
from langmem_graph.write.profile import profile
from langmem_graph.write.reconcile import reconcile
from langmem_graph.write.schedule import schedule
from langmem_graph.write.state import ExtractionDependencies, WriteState
from langmem_graph.write.topics import topics

Step = Callable[[ExtractionDependencies, WriteState], Awaitable[WriteState]]
STEPS: tuple[Step, ...] = (
    *(claim, extract, give_back, ground_values, reconcile),
    *(evolve, commit, link, schedule, topics, profile),
)


def build(deps: ExtractionDependencies) -> StateGraph[WriteState]:
    """The graph's nodes and edges, to be compiled as it is or after further nodes."""
    builder = StateGraph(WriteState)
    for step in STEPS:
        builder.add_node(step.__name__, _node(deps, step))  # type: ignore[call-overload]
    builder.add_edge(START, "claim")
    builder.add_conditional_edges("claim", _is_due)
    builder.add_conditional_edges("extract", _is_readable)
    builder.add_edge("ground_values", "reconcile")
    builder.add_edge("reconcile", "evolve")
    builder.add_edge("evolve", "commit")
    builder.add_edge("commit", "link")
    builder.add_edge("link", "schedule")
    builder.add_edge("schedule", "topics")
    builder.add_conditional_edges("topics", _has_changed)
    builder.add_edge("profile", END)
    builder.add_edge("give_back", END)
    return builder


def _node(deps: ExtractionDependencies, step: Step) -> Callable[[WriteState], Awaitable[Any]]:
    async def node(state: WriteState) -> WriteState:
        with tracing.span(step.__name__, state["user_id"]) as noting:
            update = await step(deps, state)
            noting.note_sizes(update)
            return update

    return node


def _is_due(state: WriteState) -> Literal["extract", "topics", "__end__"]:
    """A flush without messages still takes up a round of topics that had failed."""
    if state["batch"]:
        return "extract"
    return "topics" if state.get("force") else "__end__"


def _is_readable(state: WriteState) -> Literal["ground_values", "give_back"]:
    return "give_back" if state.get("failed") else "ground_values"


def _has_changed(state: WriteState) -> Literal["profile", "__end__"]:
    return "profile" if (state.get("done") or {}).get("topics") else "__end__"
