"""The nodes for a LangGraph `StateGraph`: recall before the model call, write
after it.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.config import get_config
from langgraph.graph import MessagesState
from langgraph.managed.base import ManagedValue
from typing_extensions import TypedDict

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.filters import Where
from langmem_graph.graphs.conversation_messages import (
    is_answered,
    messages_in,
    place,
    question_key,
    value_in,
)
from langmem_graph.graphs.turn_memory import ExtractionMode, Report, TurnMemory
from langmem_graph.graphs.user_identity import UserId, asker_of
from langmem_graph.memory import Memory
from langmem_graph.metadata import Value
from langmem_graph.results import RecallMode
from langmem_graph.runtime import BothStep, both

Node = RunnableLambda[Any, dict[str, Any]]


def latest(_: Any, new: Any) -> Any:
    """A reducer, since parallel branches may both recall or write."""
    return new


class MemoryState(MessagesState):
    """The state of a node that uses recalled memory.

    A graph may have it as its own state too. Annotating only the model's node is
    enough, and keeps these keys out of the graph's output.
    """

    memory_context: NotRequired[Annotated[str, latest]]
    """The context for the user's last message; empty when there is none and after the
    answer.
    """
    memory_question: NotRequired[Annotated[str, latest]]
    """A hash of the run's user, and the ids of the messages that the context belongs
    to.
    """
    memory_owner: NotRequired[Annotated[dict[str, Any], latest]]
    """The user of this thread, and the message from which on it is theirs; by
    surface.
    """
    memory_report: NotRequired[Annotated[dict[str, Any], operator.or_]]
    """With `report=True`: status, milliseconds and usage under `recall` and `write`."""


class _NewEachRun(ManagedValue[str]):
    """A part of a node's input that no two runs share.

    LangGraph's cache knows a run of a node by its input, in which the user is not: with
    equal messages one user's context would be taken from the cache for another, and
    nothing be stored.
    """

    @staticmethod
    def get(scratchpad: Any) -> str:
        return uuid4().hex


class UserContext(TypedDict, total=False):
    """A `context_schema` that names the user, for which LangGraph Studio shows
    a field.
    """

    user_id: str


def with_memory(state: Any, *, messages_key: str = "messages") -> list[BaseMessage]:
    """The messages to send to a model: the conversation, with recalled memory before
    the question.

    Use it for the call alone; do not return it as the new state.

    Args:
        state: the node's state; annotate it as `MemoryState`, or give your own state
            class a `memory_context: str`.
        messages_key: where the conversation is.

    Raises:
        InvalidInputError: the node does not see the recalled text.
    """
    context = value_in(state, "memory_context")
    if context is None:
        raise InvalidInputError(
            "The state has no 'memory_context'. Put create_recall_node(memory) before "
            "this node, "
            "and annotate this node's state as langmem_graph.graphs.MemoryState (or "
            "give your own "
            "state class a memory_context: str)."
        )
    messages = messages_in(state, messages_key)
    return place(
        messages, context if _fits(value_in(state, "memory_question"), messages) else ""
    )


def asked_by(config: RunnableConfig, messages: Sequence[BaseMessage]) -> str:
    """What tells for whom and for which question a context was recalled."""
    return f"{asker_of(config)}\n{question_key(messages)}"


def _fits(asked: str | None, messages: Sequence[BaseMessage]) -> bool:
    """Whether a context belongs to this question, and to the user of this run.

    A run that was interrupted may be resumed by another one.
    """
    if asked is None:
        return True
    try:
        return asked == asked_by(get_config(), messages)
    except RuntimeError:  # called by hand, outside of a run
        return asked.partition("\n")[2] == question_key(messages)


def create_recall_node(
    memory: Memory,
    *,
    user_id: UserId = None,
    k: int | None = None,
    max_tokens: int | None = None,
    messages_key: str = "messages",
    report: bool = False,
    fail_closed: bool = False,
    read_your_writes: bool = False,
    mode: RecallMode = "fast",
    where: Where | None = None,
    show_context: bool = False,
    shared: Sequence[str | int] = (),
) -> Node:
    """A node that recalls what matters for the user's last message, by default without
    a model.

    It sets `memory_context` and leaves the conversation as it is. It works under
    `invoke`, `ainvoke`, `stream` and `astream`, and sends a custom stream event
    `memory_recall`.

    Args:
        memory: the memory to recall from.
        user_id: a fixed user or a function of the config. None takes
            `configurable.user_id`, the runtime context's `user_id` or the authenticated
            user, which must agree.
        k: messages to consider; default `Settings.context.k`.
        max_tokens: budget of the context; default `Settings.context.max_tokens`.
        messages_key: where the conversation is in the state.
        report: put the recall's status, milliseconds and usage into `memory_report`,
            which is in the output of a graph whose own state is `MemoryState`.
        fail_closed: raise when memory fails, instead of going on without it.
        read_your_writes: with a model, first extract this user's pending messages
            (model calls).
        mode: with a model, `auto` or `reason` to reason over memory about the request;
            see `UserMemory.recall`. Each step is sent as a custom stream event.
        where: recall only what passes this filter (docs/scopes.md), which no run can
            widen.
        show_context: put the recalled text into the stream event and, with the report,
            into `memory_report`, as `context`; for development: a checkpointer saves
            it, and neither `forget` nor `erase` reaches it there.
        shared: recall from these shared rooms too, as far as the run's user may read
            them. One that is refused or fails is left out, and the report says so.

    Raises:
        MissingUserError: at run time, when no place names a user.
        InvalidInputError: for an unusable option; at run time, when the state has no
            messages key.
    """
    options: dict[str, Any] = {"mode": mode, "where": where, "shared": shared}
    options["show_context"] = show_context
    turn = TurnMemory(
        memory,
        user_id,
        k,
        max_tokens,
        fail_closed,
        "background",
        read_your_writes,
        **options,
    )

    async def recall(
        state: Any, config: RunnableConfig, blocking: bool
    ) -> dict[str, Any]:
        messages, owner, own = turn.thread(state, config, messages_key)
        context, spent = await turn.recall(own, config, blocking)
        shown = _reported(report or show_context, {"recall": spent})
        update = {
            "memory_context": context,
            "memory_question": asked_by(config, messages),
        }
        return {**update, "memory_owner": owner} | shown

    return _node(recall, messages_key)


def create_write_node(
    memory: Memory,
    *,
    user_id: UserId = None,
    messages_key: str = "messages",
    extraction: ExtractionMode = "background",
    report: bool = False,
    fail_closed: bool = False,
    metadata: Mapping[str, Value] | None = None,
    agent_id: str | int | None = None,
) -> Node:
    """A node that stores every message of the conversation that memory does not have
    yet.

    Messages are known by their ids, so it may run as often as you like, before the
    model too: then the user's words are kept even when the model fails. Recalled text
    is never stored. The session is `configurable.session_id`, else the thread. It sends
    a custom stream event `memory_write`.

    Args:
        memory: the memory to write to.
        user_id: as for `create_recall_node`.
        messages_key: where the conversation is in the state.
        extraction: when the memory's model, if it has one, extracts records from what
            was stored: in the `background`, `inline` (the node waits for it), or
            `manual`, with `user.flush()`.
        report: put what was stored into `memory_report`, as for `create_recall_node`.
        fail_closed: raise when memory fails, instead of going on without it.
        metadata: what is stored gets this metadata, by which a `where` finds it
            (docs/scopes.md).
        agent_id: the agent of what is stored, as for `UserMemory.add`.

    Raises:
        MissingUserError: at run time, when no place names a user.
        InvalidInputError: at run time, when the state has no messages key.
    """
    about: dict[str, Any] = {"metadata": metadata, "agent_id": agent_id}
    turn = TurnMemory(
        memory, user_id, fail_closed=fail_closed, extraction=extraction, **about
    )

    async def write(
        state: Any, config: RunnableConfig, blocking: bool
    ) -> dict[str, Any]:
        messages, owner, own = turn.thread(state, config, messages_key)
        owner, written = await turn.write(own, owner, config, blocking)
        return _written(messages, owner) | _reported(report, {"write": written})

    return _node(write, messages_key)


def _node(step: BothStep[dict[str, Any]], messages_key: str) -> Node:
    """A runnable whose annotation tells `add_node` what it takes beside the
    messages.
    """
    if not isinstance(messages_key, str) or not messages_key:
        raise InvalidInputError(
            "messages_key must be the name of the state's key where the conversation "
            f'is, such as "messages", not {quoted(messages_key)}.'
        )
    keys = {
        messages_key: list[Any],
        "memory_owner": Annotated[dict[str, Any], latest],
        "memory_run": Annotated[str, _NewEachRun],
    }
    taken = TypedDict("taken", keys, total=False)  # type: ignore[misc]

    class Taking(RunnableLambda[Any, dict[str, Any]]):
        def __call__(
            self, state: taken, config: RunnableConfig | None = None
        ) -> dict[str, Any]:
            return self.invoke(state, config)

    return Taking(*both(step), name=step.__name__)


def _written(messages: Sequence[BaseMessage], owner: dict[str, Any]) -> dict[str, Any]:
    """The owner; once the turn is answered, the recalled text is removed from the
    state.
    """
    spent = {"memory_context": ""} if is_answered(messages) else {}
    return {"memory_owner": owner, **spent}


def _reported(report: bool, reports: dict[str, Report]) -> dict[str, Any]:
    return {"memory_report": reports} if report else {}
