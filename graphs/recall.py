"""Recall as a service: send messages, get the context to show a model, and a report.

With LANGMEM_GRAPH_MODEL it reasons: a loop of subgoals, and a step that asks what could
go wrong.
"""

from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import (
    MemoryState,
    UserContext,
    create_recall_graph,
    create_recall_node,
)

memory = Memory.from_environment()
if memory.has_model:
    graph = create_recall_graph(memory, show_loop=True, show_context=True)
else:
    builder = StateGraph(
        MemoryState, input_schema=MessagesState, context_schema=UserContext
    )
    builder.add_node("recall", create_recall_node(memory, show_context=True))
    builder.add_edge(START, "recall")
    graph = builder.compile(name="recall")
