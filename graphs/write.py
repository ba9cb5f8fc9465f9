"""Writing as a service: send a conversation's messages, get a report of what was stored."""

from langgraph.graph import START, StateGraph

from langmem_graph.graphs.nodes import MemoryState, UserContext, create_write_node
from langmem_graph.memory import Memory

builder = StateGraph(MemoryState, context_schema=UserContext)
builder.add_node("write", create_write_node(Memory.from_environment(), report=True))
builder.add_edge(START, "write")
graph = builder.compile(name="write")
