"""Tool calls as a service: send a request and tools, get the call that memory fills.

It needs a model, LANGMEM_GRAPH_MODEL; without one every run fails with an error that
says so.
"""

from typing import Any

from langgraph.graph import START, StateGraph

from langmem_graph import Memory
from langmem_graph.errors import InvalidInputError
from langmem_graph.graphs import (
    GroundingInput,
    GroundingOutput,
    UserContext,
    create_grounding_graph,
)

memory = Memory.from_environment()


async def no_model(state: GroundingInput) -> dict[str, Any]:
    """Say what is missing, to the client that asks."""
    raise InvalidInputError(
        "Tool calls are filled by a model: start the server with LANGMEM_GRAPH_MODEL, "
        "for example openai:gpt-4o-mini."
    )


if memory.has_model:
    graph = create_grounding_graph(memory)
else:
    builder = StateGraph(GroundingInput, UserContext, output_schema=GroundingOutput)
    builder.add_node("no_model", no_model)
    builder.add_edge(START, "no_model")
    graph = builder.compile(name="grounding")
