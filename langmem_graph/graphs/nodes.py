"""Two nodes for any LangGraph `StateGraph`: recall before the model, write after it."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import MessagesState
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from langmem_graph.errors import InvalidInputError
from langmem_graph.graphs.conversation import is_answered, messages_in, place
from langmem_graph.graphs.identity import UserId
from langmem_graph.graphs.turn import Report, TurnMemory
from langmem_graph.memory import Memory

Node = RunnableLambda[Any, dict[str, Any]]


class MemoryState(MessagesState):
    """What a node that reads recalled memory takes as its `state`.

    A graph may have it as its own state too. Annotating only the model's node is enough, and keeps
    both keys out of the graph's output.
    """

    memory_context: NotRequired[str]
    """What memory has to say about the user's last message; empty when nothing, and afterwards."""
    memory_report: NotRequired[dict[str, Any]]
    """With `report=True`: status, milliseconds and usage under `recall` and `write`."""


class UserContext(TypedDict, total=False):
    """A `context_schema` that names the user; LangGraph Studio then shows a field for it."""

    user_id: str


def with_memory(state: Mapping[str, Any], *, messages_key: str = "messages") -> list[BaseMessage]:
    """The messages to send to a model: the conversation, with recalled memory before the question.

    Use it for the call alone; do not return it as the new state.

    Args:
        state: the node's state, annotated as `MemoryState`.
        messages_key: where the conversation is.

    Raises:
        InvalidInputError: the recall node has not run before, or the node does not see its key.
    """
    if "memory_context" not in state:
        raise InvalidInputError(
            "The state has no 'memory_context'. Put create_recall_node(memory) before this node, "
            "and annotate this node's state as langmem_graph.graphs.MemoryState."
        )
    return place(messages_in(state, messages_key), state["memory_context"])


def create_recall_node(
    memory: Memory,
    *,
    user_id: UserId = None,
    k: int | None = None,
    max_tokens: int | None = None,
    messages_key: str = "messages",
    report: bool = False,
    fail_closed: bool = False,
) -> Node:
    """A node that looks up what matters for the user's last message, with 0 model calls.

    It sets `memory_context` and leaves the conversation as it is. It works under `invoke`,
    `ainvoke`, `stream` and `astream`, and sends a custom stream event `memory_recall`.

    Args:
        memory: where to look.
        user_id: a fixed user or a function of the config. None takes `configurable.user_id`, the
            runtime context's `user_id` or the authenticated user, which must agree.
        k: messages to consider; default `Settings.recall_k`.
        max_tokens: budget of the context; default `Settings.context_tokens`.
        messages_key: where the conversation is in the state.
        report: put the recall's status, milliseconds and usage into `memory_report`.
        fail_closed: raise when memory fails, instead of going on without it.

    Raises:
        MissingUserError: at run time, when no place names a user.
        InvalidInputError: at run time, when the state has no messages key.
    """
    turn = TurnMemory(memory, user_id, k, max_tokens, fail_closed)

    def recall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        context, spent = turn.recall(messages_in(state, messages_key), config)
        return {"memory_context": context, **_asked_for(report, {"recall": spent})}

    async def arecall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        context, spent = await turn.arecall(messages_in(state, messages_key), config)
        return {"memory_context": context, **_asked_for(report, {"recall": spent})}

    return RunnableLambda(recall, arecall, name="recall")


def create_write_node(
    memory: Memory,
    *,
    user_id: UserId = None,
    messages_key: str = "messages",
    report: bool = False,
    fail_closed: bool = False,
) -> Node:
    """A node that stores every message of the conversation that memory does not have yet.

    Messages are known by their ids, so it may run as often as you like, before the model too: then
    the user's words are kept even when the model fails. Recalled text is never stored. The session
    is `configurable.session_id`, else the thread. It sends a custom stream event `memory_write`.

    Args:
        memory: where to write.
        user_id: as for `create_recall_node`.
        messages_key: where the conversation is in the state.
        report: put what was stored into `memory_report`.
        fail_closed: raise when memory fails, instead of going on without it.

    Raises:
        MissingUserError: at run time, when no place names a user.
        InvalidInputError: at run time, when the state has no messages key.
    """
    turn = TurnMemory(memory, user_id, fail_closed=fail_closed)

    def write(state: Any, config: RunnableConfig) -> dict[str, Any]:
        messages = messages_in(state, messages_key)
        done = turn.write(messages, config)
        return _spent(messages) | _asked_for(report, {**_reported(state), "write": done})

    async def awrite(state: Any, config: RunnableConfig) -> dict[str, Any]:
        messages = messages_in(state, messages_key)
        done = await turn.awrite(messages, config)
        return _spent(messages) | _asked_for(report, {**_reported(state), "write": done})

    return RunnableLambda(write, awrite, name="write")


def _spent(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Once the turn is answered, the recalled text leaves the state."""
    return {"memory_context": ""} if is_answered(messages) else {}


def _asked_for(report: bool, reports: dict[str, Report]) -> dict[str, Any]:
    return {"memory_report": reports} if report else {}


def _reported(state: Any) -> dict[str, Report]:
    """What the recall node has reported in this turn."""
    if isinstance(state, Mapping):
        return dict(state.get("memory_report") or {})
    return dict(getattr(state, "memory_report", None) or {})
