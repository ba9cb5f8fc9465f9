"""The extraction graph: from a claimed batch of messages to records, edges, topics and a profile.

Each step is in the module of its name (`give_back` in `claim`). A batch that cannot be extracted is
given back and stays pending.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.extraction.claim_batch import claim, give_back
from langmem_graph.extraction.commit_records import commit
from langmem_graph.extraction.extract_records import extract
from langmem_graph.extraction.link_records import link
from langmem_graph.extraction.reconcile_records import reconcile
from langmem_graph.extraction.state import ExtractionDependencies, ExtractionState, counts_of
from langmem_graph.extraction.update_profile import profile
from langmem_graph.extraction.update_schedule import schedule
from langmem_graph.extraction.update_topics import topics
from langmem_graph.extraction.verify_values import verify
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
    """The graph that extracts one batch.

    LangGraph leaves out of its drawings a subgraph that is compiled with `checkpointer=False`. So
    this graph is compiled without that option, and only its `private` copy is run.

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
    always = ("verify", "reconcile", "commit", "link", "schedule", "topics")
    for earlier, later in pairwise(always):
        builder.add_edge(earlier, later)
    builder.add_conditional_edges("topics", _has_changed)
    builder.add_edge("profile", END)
    builder.add_edge("give_back", END)
    return builder.compile(name="extraction")


def private(
    graph: CompiledStateGraph[Any, Any, Any, Any],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph without checkpoints: messages never get into an application's saved state."""
    return graph.copy({"checkpointer": False})


def new_run(*, force: bool) -> ExtractionState:
    """The state that a run starts from, with a unique name for its claim.

    By that name, two runs for one user never take each other's batch for their own.
    """
    return {"force": force, "claimed_by": uuid4().hex, "failed": None}


def _is_due(state: ExtractionState) -> Literal["extract", "topics", "__end__"]:
    """Without a due batch, a flush still repeats a round of topics that had failed."""
    if state["batch"]:
        return "extract"
    return "topics" if state.get("force") else "__end__"


def _is_readable(state: ExtractionState) -> Literal["verify", "give_back"]:
    return "give_back" if state.get("failed") else "verify"


def _has_changed(state: ExtractionState) -> Literal["profile", "__end__"]:
    return "profile" if counts_of(state).topics else "__end__"
