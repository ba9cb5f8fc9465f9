"""The extraction graph: from a claimed batch of messages to records, edges, topics and
a profile.

A run reads one batch. Only a run that finds no batch due goes on to causes, topics and
the profile, so that these are made once for a session or a flush.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.extraction.claim_due_batch import claim, give_back
from langmem_graph.extraction.commit_records import commit, schedule
from langmem_graph.extraction.extract_records import extract
from langmem_graph.extraction.forget_on_request import forget
from langmem_graph.extraction.link_causally import causal
from langmem_graph.extraction.link_records import link
from langmem_graph.extraction.plan_round import plan_round
from langmem_graph.extraction.reconcile_records import compare, reconcile
from langmem_graph.extraction.state import Dependencies, ExtractionState
from langmem_graph.extraction.update_profile import profile
from langmem_graph.extraction.update_topics import topics
from langmem_graph.extraction.verify_values import verify
from langmem_graph.runtime import OBJECTS, Step, as_node
from langmem_graph.view import View

STEPS: tuple[Step, ...] = (
    *(claim, extract, give_back, compare, reconcile, verify),
    *(forget, commit, link, schedule),
    *(plan_round, causal, topics, profile),
)
RECURSION_LIMIT = len(STEPS) + 2  # enough for every step once; the graph has no loop


def build(
    deps: Dependencies, view_of: Callable[[RunnableConfig], View]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph that extracts one batch.

    LangGraph leaves out of its drawings a subgraph that is compiled with
    `checkpointer=False`. So this graph is compiled without that option, and only its
    `private` copy is run.
    """
    builder = StateGraph(ExtractionState)
    for step in STEPS:
        builder.add_node(step.__name__, as_node(step, deps, view_of))
    builder.add_edge(START, "claim")
    builder.add_conditional_edges("claim", OBJECTS.route(_is_due))
    builder.add_conditional_edges("extract", OBJECTS.route(_is_readable))
    builder.add_conditional_edges("compare", OBJECTS.route(_is_near))
    builder.add_edge("reconcile", "verify")
    builder.add_conditional_edges("verify", OBJECTS.route(_asks_to_forget))
    builder.add_conditional_edges("forget", OBJECTS.route(_is_decided))
    for earlier, later in pairwise(("commit", "link", "schedule", END)):
        builder.add_edge(earlier, later)
    builder.add_conditional_edges("plan_round", OBJECTS.route(_is_round_due))
    builder.add_conditional_edges("causal", OBJECTS.route(_goes_on))
    builder.add_conditional_edges("topics", OBJECTS.route(_is_last))
    builder.add_edge("profile", END)
    builder.add_edge("give_back", END)
    return builder.compile(name="extraction")


def private(
    graph: CompiledStateGraph[Any, Any, Any, Any],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph without checkpoints: messages never get into an application's saved
    state.
    """
    return graph.copy({"checkpointer": False})


def new_run(*, force: bool) -> ExtractionState:
    """The state that a run starts from; by the unique name, no run takes another's
    batch.
    """
    return {"force": force, "claimed_by": uuid4().hex, "failed": None}


def _is_due(state: ExtractionState) -> Literal["extract", "plan_round", "__end__"]:
    if state.get("failed"):  # the day's budget is spent
        return "__end__"
    return "extract" if state["batch"] else "plan_round"


def _is_readable(state: ExtractionState) -> Literal["compare", "give_back"]:
    return "give_back" if state.get("failed") else "compare"


def _is_near(state: ExtractionState) -> Literal["reconcile", "verify"]:
    """A second call only where a new statement is near a record that was not shown."""
    return "reconcile" if state.get("unseen") else "verify"


def _asks_to_forget(state: ExtractionState) -> Literal["forget", "commit"]:
    return "forget" if state.get("requests") else "commit"


def _is_decided(state: ExtractionState) -> Literal["commit", "give_back"]:
    return "give_back" if state.get("failed") else "commit"


def _is_round_due(state: ExtractionState) -> Literal["causal", "profile", "__end__"]:
    if state.get("round_due"):
        return "causal"
    return "profile" if state.get("profile_owed") else "__end__"


def _goes_on(state: ExtractionState) -> Literal["topics", "__end__"]:
    """Where the model cannot be reached, no other step calls it."""
    return "topics" if state.get("round_due") else "__end__"


def _is_last(state: ExtractionState) -> Literal["profile", "__end__"]:
    """The profile is written after the last round of topics."""
    goes_on = state.get("round_due") and not state.get("again")
    return "profile" if goes_on else "__end__"
