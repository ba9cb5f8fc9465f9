"""`create_write_graph`: storage and extraction as one graph, from messages to records.

LangGraph Studio shows its steps; an application may run it alone or as a subgraph.
"""

from time import perf_counter
from typing import Annotated, Any, Literal

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

from langmem_graph.errors import NothingStoredError
from langmem_graph.extraction.flush import Totals, give_back_claim, log_calls
from langmem_graph.extraction.graph import RECURSION_LIMIT, build, new_run, private
from langmem_graph.graphs.turn_memory import TurnMemory, pipelines_of
from langmem_graph.graphs.user_identity import UserId
from langmem_graph.memory import Memory
from langmem_graph.pipelines import Pipelines
from langmem_graph.runtime import OBJECTS, both, either
from langmem_graph.storage import pending_messages
from langmem_graph.view import own_view

Update = dict[str, Any]
_OWN_LIMIT: RunnableConfig = {"recursion_limit": RECURSION_LIMIT}  # not the caller's
# the current step, `report`, and one that LangGraph requires to be left at the end
_LAST_STEPS = 3


class WriteGraphState(TypedDict, total=False):
    """Messages in, a report out."""

    messages: Annotated[list[AnyMessage], add_messages]
    memory_report: dict[str, Any]


class _State(WriteGraphState, total=False):
    memory_owner: dict[str, Any]
    """As in `MemoryState`."""
    memory_totals: dict[str, Any]
    """`Totals` of the batches so far, as JSON; empty once they are reported."""
    remaining_steps: RemainingSteps


def create_write_graph(
    memory: Memory, *, user_id: UserId = None, force: bool = True
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that stores messages and extracts records from them with the memory's
    model.

    Its nodes are `append`, which stores the messages; `extraction`, the subgraph for
    one batch, run again until nothing is due; and `report`. `get_graph(xray=True)`,
    Studio and `stream(subgraphs=True)` show the steps of `extraction`. A checkpointer
    saves messages and report, and nothing of what the steps pass on.

    Compiled without a store and a checkpointer; the runs' config names user and session
    as for the nodes. A `recursion_limit` that is too small for all batches ends the run
    with the status `partial`; the least is 4.

    Args:
        memory: where to write; opened with a model.
        user_id: as for `create_recall_node`.
        force: extract all pending messages; False waits for the turns of a full batch.

    Raises:
        InvalidInputError: the memory has no model.
    """
    otherwise = "To store messages alone, use create_write_node(memory)."
    pipelines = pipelines_of(memory, "create_write_graph", otherwise)
    turn = TurnMemory(memory, user_id, extraction="manual")
    builder = StateGraph(
        _State, input_schema=MessagesState, output_schema=WriteGraphState
    )
    builder.add_node("append", _append(turn))
    builder.add_node("extraction", _extraction(turn, pipelines, force))
    builder.add_node("report", _report(turn, force))
    builder.add_edge(START, "append")
    builder.add_edge("append", "extraction")
    builder.add_conditional_edges("extraction", OBJECTS.route(_is_more_due))
    builder.add_edge("report", END)
    return builder.compile(name="write")


def _append(turn: TurnMemory) -> RunnableLambda[Any, Update]:
    """The node that stores the messages and resets the totals."""

    async def append(state: Any, config: RunnableConfig, blocking: bool) -> Update:
        _, owner, own = turn.thread(state, config)
        owner, written = await turn.write(own, owner, config, blocking)
        return {
            "memory_owner": owner,
            "memory_report": {"write": written},
            "memory_totals": Totals().model_dump(mode="json"),
        }

    return RunnableLambda(*both(append), name="append")


def _extraction(
    turn: TurnMemory, pipelines: Pipelines, force: bool
) -> RunnableLambda[Any, Update]:
    """The node that extracts one batch; a run that fails or is cancelled gives its
    claim back.
    """
    services = turn.memory._services  # same package
    shown = build(pipelines.extraction.deps, lambda config: own_view(turn.user(config)))
    graph: Any = private(shown)

    async def extraction(state: Any, config: RunnableConfig, blocking: bool) -> Update:
        start = perf_counter()
        begun = new_run(force=force)
        try:
            run = either(blocking, graph.invoke, graph.ainvoke)
            done: Any = await run(begun, {**config, **_OWN_LIMIT})
        except NothingStoredError:  # the user was erased meanwhile
            done = begun
        except BaseException:  # also when cancelled, and an interrupt from the keyboard
            await either(blocking, give_back_claim)(services, turn.user(config), begun)
            raise
        await either(blocking, log_calls)(services, turn.user(config), done)
        return _added(state, done, start)

    node = RunnableLambda(*both(extraction), name="extraction")
    node.deps = [shown]  # what `get_graph(xray=True)` and Studio draw
    return node


def _added(state: Any, done: Any, start: float) -> Update:
    totals = Totals.model_validate(state["memory_totals"])
    more = totals.plus(done, (perf_counter() - start) * 1_000)
    return {"memory_totals": more.model_dump(mode="json")}


def _is_more_due(state: _State) -> Literal["extraction", "report"]:
    more = Totals.model_validate(state["memory_totals"]).more
    return (
        "extraction" if more and state["remaining_steps"] >= _LAST_STEPS else "report"
    )


def _report(turn: TurnMemory, force: bool) -> RunnableLambda[Any, Update]:
    """The node that adds the result of extraction to the report."""

    async def report(state: Any, config: RunnableConfig, blocking: bool) -> Update:
        read = either(blocking, turn.memory._services.read)  # same package
        user_id = turn.user(config)
        pending = await read(own_view(user_id), pending_messages.count_unread, 0)
        totals = Totals.model_validate(state["memory_totals"])
        stopped = totals.more and pending > 0
        whole = totals.report(user_id, pending, force=force, stopped=stopped)
        extracted = whole.model_dump(mode="json")
        return {
            "memory_report": {**state["memory_report"], "read": extracted},
            "memory_totals": {},
        }

    return RunnableLambda(*both(report), name="report")
