"""`create_write_graph`: the whole write path as one graph, from messages to records.

Studio shows its steps; an application may run it as a subgraph or on its own.
"""

from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langmem_graph.errors import InvalidInputError
from langmem_graph.graphs.conversation import messages_in
from langmem_graph.graphs.identity import UserId
from langmem_graph.graphs.turn import TurnMemory
from langmem_graph.memory import Memory, check_memory


class WriteGraphState(TypedDict, total=False):
    """Messages in, a report out."""

    messages: Annotated[list[AnyMessage], add_messages]
    memory_report: dict[str, Any]


def create_write_graph(
    memory: Memory, *, user_id: UserId = None, force: bool = True
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that stores messages and lets the memory's model read them.

    Its nodes are `append`, which is safe before anything else happens, and `read`, the subgraph of
    the write path: claim, extract, ground_values, reconcile, evolve, commit. Compiled without a
    store and a checkpointer; the runs' config names user and session as for the nodes.

    Args:
        memory: where to write; opened with a model.
        user_id: as for `create_recall_node`.
        force: read what there is; False waits for the turns of a full batch.

    Raises:
        InvalidInputError: the memory has no model.
    """
    check_memory(memory)
    mind = memory._mind  # same package
    if mind is None:
        raise InvalidInputError(
            "create_write_graph needs a memory with a model: Memory(path, model='openai:…'). "
            "To store messages alone, use create_write_node(memory)."
        )
    turn = TurnMemory(memory, user_id, reading="manual")

    def append(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return {"memory_report": {"write": turn.write(messages_in(state), config)}}

    async def aappend(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return {"memory_report": {"write": await turn.awrite(messages_in(state), config)}}

    def read(state: Any, config: RunnableConfig) -> dict[str, Any]:
        done = mind.loop.run(mind.reader.flush(turn.user(config), force=force))
        return _reported(state, done.model_dump(mode="json"))

    async def aread(state: Any, config: RunnableConfig) -> dict[str, Any]:
        done = await mind.loop.arun(mind.reader.flush(turn.user(config), force=force))
        return _reported(state, done.model_dump(mode="json"))

    builder = StateGraph(WriteGraphState)
    builder.add_node("append", RunnableLambda(append, aappend, name="append"))
    builder.add_node("read", RunnableLambda(read, aread, name="read"))
    builder.add_edge(START, "append")
    builder.add_edge("append", "read")
    return builder.compile(name="write")


def _reported(state: Any, done: dict[str, Any]) -> dict[str, Any]:
    return {"memory_report": {**state["memory_report"], "read": done}}
