"""Memory as LangGraph nodes and as whole graphs.

Nodes: `create_recall_node` before the model call, `create_write_node` after it. Graphs:
`create_recall_graph`, `create_write_graph`, `create_goal_graph` and
`create_grounding_graph`.
"""

from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.graphs.grounding_graph import (
    GroundingInput,
    GroundingOutput,
    create_grounding_graph,
)
from langmem_graph.graphs.nodes import (
    MemoryState,
    UserContext,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.write_graph import create_write_graph

__all__ = [
    "GroundingInput",
    "GroundingOutput",
    "MemoryState",
    "UserContext",
    "create_goal_graph",
    "create_grounding_graph",
    "create_recall_graph",
    "create_recall_node",
    "create_write_graph",
    "create_write_node",
    "with_memory",
]
