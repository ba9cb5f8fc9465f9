"""Writing as a service: send a conversation's messages, get a report of what was
stored.
"""

from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import MemoryState, UserContext, create_write_node

builder = StateGraph(
    MemoryState, input_schema=MessagesState, context_schema=UserContext
)
builder.add_node("write", create_write_node(Memory.from_environment(), report=True))
builder.add_edge(START, "write")
graph = builder.compile(name="write")
