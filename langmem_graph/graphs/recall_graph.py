"""`create_recall_graph`: reasoning over memory as a graph, to be served or to be a
subgraph.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langmem_graph.filters import Where
from langmem_graph.graphs.conversation_messages import in_view, messages_in, query_of
from langmem_graph.graphs.nodes import UserContext, asked_by, latest
from langmem_graph.graphs.turn_memory import TurnMemory, pipelines_of, view_of
from langmem_graph.graphs.user_identity import UserId
from langmem_graph.memory import Memory
from langmem_graph.reasoning import graph
from langmem_graph.reasoning.graph import reasoning_dependencies
from langmem_graph.reasoning.state import JSON, ReasoningState
from langmem_graph.results import Recall, RecallMode
from langmem_graph.retrieval.search_common import RecallRequest
from langmem_graph.runtime import StepRun


class RecallInput(TypedDict, total=False):
    """The conversation; its last human message is the request."""

    messages: list[Any]


class AnsweredInput(TypedDict, total=False):
    """The conversation, to which the answer is added."""

    messages: Annotated[list[AnyMessage], add_messages]


class RecallOutput(TypedDict, total=False):
    """The context, which `with_memory(state)` places before the question, and the
    `Recall`.
    """

    memory_context: Annotated[str, latest]
    memory_question: Annotated[str, latest]
    memory_recall: Annotated[dict[str, Any], latest]
    """A `Recall` as JSON: context, evidence, facts, reasoning, trace, report."""


class AnsweredOutput(RecallOutput, total=False):
    """With `answer=True` also the answer, as a message."""

    messages: Annotated[list[AnyMessage], add_messages]


class _State(ReasoningState, RecallOutput, total=False):
    messages: list[Any]
    """As they came: with a reducer they would get ids that the parent does not know."""


class _AnsweredState(ReasoningState, AnsweredOutput, total=False):
    pass


def create_recall_graph(
    memory: Memory,
    *,
    mode: RecallMode = "auto",
    answer: bool = False,
    user_id: UserId = None,
    k: int | None = None,
    max_tokens: int | None = None,
    fail_closed: bool = False,
    show_loop: bool = False,
    where: Where | None = None,
    show_context: bool = False,
    shared: Sequence[str | int] = (),
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that recalls by reasoning.

    Its steps are `route, first_lookup, goals, counterfactual, conflicts, context,
    answer`. `goals` is a subgraph that chains backwards over memory (Goal-Mem).
    `counterfactual` looks for risks (ActMem); a conditional edge leads to it, for acts
    and where the plan was not sure. The output has `memory_context` for the model's
    node and `memory_recall`, the whole outcome. Use it as a node of your graph or on
    its own, under `invoke`, `ainvoke`, `stream` and `astream`; with
    `stream_mode="custom", subgraphs=True` every step can be watched.

    Args:
        memory: where to look; opened with a model.
        mode: `auto`, `reason`, or `fast` for comparison.
        answer: also answer, from the facts shown alone, as an AI message.
        user_id: as for `create_recall_node`.
        k: facts of the first look-up, default `Settings.context.k`; where a model is
            asked at least `Settings.reasoning.plan_facts`.
        max_tokens: budget of the context; default `Settings.context.max_tokens`.
        fail_closed: raise when memory fails, instead of going on without it.
        show_loop: let LangGraph Studio draw the steps, those of the loop too; a
            checkpointer then also saves them, with what was recalled, which `forget`
            and `erase` do not reach.
        where: as for `create_recall_node`.
        show_context: send the context as a custom stream event `memory_recall`, too.
        shared: as for `create_recall_node`; each step that reads asks `authorize` anew.

    Raises:
        InvalidInputError: the memory has no model, or an option cannot be used.
    """
    otherwise = "To look up without one, use create_recall_node(memory)."
    pipelines = pipelines_of(memory, "create_recall_graph", otherwise)
    # checks the options
    TurnMemory(memory, user_id, k, max_tokens, fail_closed, mode=mode)

    def request_of(state: Any) -> RecallRequest:
        messages = messages_in(state)
        return RecallRequest(query_of(messages), mode, k, max_tokens, in_view(messages))

    def finish(state: Any, run: StepRun) -> dict[str, Any]:
        recalled: Recall = state["recall"]
        if show_context:
            shown = {"status": recalled.report.status, "context": recalled.context}
            run.emit({"event": "memory_recall", **shown})
        update = {
            "memory_context": recalled.context,
            "memory_question": asked_by(run.config, messages_in(state)),
            "memory_recall": recalled.model_dump(mode="json"),
        }
        return (
            {**update, "messages": [AIMessage(recalled.answer or "")]}
            if answer
            else update
        )

    schemas: Any = (_State, RecallInput, RecallOutput)
    if answer:
        schemas = (_AnsweredState, AnsweredInput, AnsweredOutput)
    return graph.build(
        reasoning_dependencies(
            memory._services,  # same package
            pipelines.model,
            fail_closed=fail_closed,
        ),
        view_of(memory, user_id, where, shared),
        request_of,
        schemas,
        finish,
        form=JSON,
        with_answer=answer,
        show_loop=show_loop,
        context_schema=UserContext,
    )
