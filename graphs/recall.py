"""Recall as a service: send messages, get the context to show a model, and a report."""

from langgraph.graph import START, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import MemoryState, UserContext, create_recall_node

builder = StateGraph(MemoryState, context_schema=UserContext)
builder.add_node("recall", create_recall_node(Memory.from_environment(), report=True))
builder.add_edge(START, "recall")
graph = builder.compile(name="recall")
