"""The extraction graph: from a claimed batch of messages to records, edges, topics and a profile.

Each node is one file of this package. A batch that cannot be read goes back and stays due.
"""

from collections.abc import Callable
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.extraction.claim import claim, give_back
from langmem_graph.extraction.commit import commit
from langmem_graph.extraction.extract import extract
from langmem_graph.extraction.link import link
from langmem_graph.extraction.profile import profile
from langmem_graph.extraction.reconcile import reconcile
from langmem_graph.extraction.schedule import schedule
from langmem_graph.extraction.state import ExtractionDependencies, ExtractionState, counts_of
from langmem_graph.extraction.topics import topics
from langmem_graph.extraction.verify import verify
from langmem_graph.runtime import Step, as_node

STEPS: tuple[Step, ...] = (
    *(claim, extract, give_back, verify, reconcile),
    *(commit, link, schedule, topics, profile),
)
RECURSION_LIMIT = len(STEPS) + 2
"""Enough for every step once; the graph has no loop."""


def build(
    deps: ExtractionDependencies, user_of: Callable[[RunnableConfig], str]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph that reads one batch.

    LangGraph's pictures leave out a subgraph that is compiled with `checkpointer=False`. So this
    one is compiled without it, and whoever runs it runs its `private` copy.

    Args:
        deps: what the steps work with.
        user_of: the user of a run.
    """
    builder = StateGraph(ExtractionState)
    for step in STEPS:
        builder.add_node(step.__name__, as_node(step, deps, user_of))
    builder.add_edge(START, "claim")
    builder.add_conditional_edges("claim", _is_due)
    builder.add_conditional_edges("extract", _is_readable)
    builder.add_edge("verify", "reconcile")
    builder.add_edge("reconcile", "commit")
    builder.add_edge("commit", "link")
    builder.add_edge("link", "schedule")
    builder.add_edge("schedule", "topics")
    builder.add_conditional_edges("topics", _has_changed)
    builder.add_edge("profile", END)
    builder.add_edge("give_back", END)
    return builder.compile(name="extraction")


def private(
    graph: CompiledStateGraph[Any, Any, Any, Any],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph without checkpoints: what it reads is never saved with an application's state."""
    return graph.copy({"checkpointer": False})


def new_run(*, force: bool) -> ExtractionState:
    """What a run of the graph starts from.

    Its claim has a name of its own: two runs for one user never take each other's batch for theirs.
    """
    return {"force": force, "claimed_by": uuid4().hex, "failed": None}


def _is_due(state: ExtractionState) -> Literal["extract", "topics", "__end__"]:
    """A flush without messages still takes up a round of topics that had failed."""
    if state["batch"]:
        return "extract"
    return "topics" if state.get("force") else "__end__"


def _is_readable(state: ExtractionState) -> Literal["verify", "give_back"]:
    return "give_back" if state.get("failed") else "verify"


def _has_changed(state: ExtractionState) -> Literal["profile", "__end__"]:
    return "profile" if counts_of(state).topics else "__end__"
