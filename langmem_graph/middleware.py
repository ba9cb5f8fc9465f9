"""`MemoryMiddleware`: memory for `langchain.agents.create_agent` in one argument.

Before the agent starts, the user's message is looked up. Before the model is called, that message
is stored, and what was found is placed into the request. At the end the rest of the turn is stored.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr
from langchain_core.messages import AnyMessage
from langgraph.channels import UntrackedValue
from langgraph.config import get_config
from langgraph.runtime import Runtime

from langmem_graph.graphs.conversation import is_asked, messages_in, place
from langmem_graph.graphs.identity import UserId
from langmem_graph.graphs.turn import Report, TurnMemory, combined
from langmem_graph.memory import Memory


class MemoryAgentState(AgentState[Any]):
    """The agent's state with memory's own keys."""

    memory_context: NotRequired[Annotated[str, UntrackedValue(str), PrivateStateAttr]]
    """Recalled text of this turn: never in a checkpoint, nor in the agent's output."""
    memory_report: NotRequired[Annotated[dict[str, Any], OmitFromInput]]


class MemoryMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Recalls before the model speaks and stores every message of the turn.

    Recalled text goes into the model's request before the user's message. It is never part of the
    conversation's state and never stored again. Custom stream events: `memory_recall` and
    `memory_write`.

    Give it as the last one of several: what middleware before it redacts or trims is then redacted
    and trimmed in memory's eyes too.

    Example:
        ```python
        agent = create_agent("openai:gpt-4o-mini", middleware=[MemoryMiddleware(memory)])
        agent.invoke({"messages": "Hi, I'm vegan."}, {"configurable": {"user_id": "alice"}})
        ```

    Args:
        memory: where to look and write.
        user_id: a fixed user or a function of the config. None takes `configurable.user_id`, the
            runtime context's `user_id` or the authenticated user, which must agree.
        k: messages to consider; default `Settings.recall_k`.
        max_tokens: budget of the context; default `Settings.context_tokens`.
        report: put status, milliseconds and usage into the output's `memory_report`.
        fail_closed: raise when memory fails, instead of going on without it.

    Raises:
        MissingUserError: at run time, when no place names a user.
    """

    state_schema = MemoryAgentState

    def __init__(
        self,
        memory: Memory,
        *,
        user_id: UserId = None,
        k: int | None = None,
        max_tokens: int | None = None,
        report: bool = False,
        fail_closed: bool = False,
    ) -> None:
        super().__init__()
        self._turn = TurnMemory(memory, user_id, k, max_tokens, fail_closed)
        self._report = report

    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Recall what matters for the user's message."""
        context, recalled = self._turn.recall(messages_in(state), get_config())
        return self._begun(context, recalled)

    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `before_agent`."""
        context, recalled = await self._turn.arecall(messages_in(state), get_config())
        return self._begun(context, recalled)

    def before_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Store what the user said: a failing model does not lose it."""
        messages = messages_in(state)
        if not is_asked(messages):
            return {}
        return self._noted(state, self._turn.write(messages, get_config()))

    async def abefore_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `before_model`."""
        messages = messages_in(state)
        if not is_asked(messages):
            return {}
        return self._noted(state, await self._turn.awrite(messages, get_config()))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Show the model what was recalled, before the user's message."""
        context = _recalled(request)
        if context is None:  # resumed after an interrupt: recalled text is in no checkpoint
            context, _ = self._turn.recall(messages_in(request.state), get_config())
        return handler(_with_context(request, context))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Async twin of `wrap_model_call`."""
        context = _recalled(request)
        if context is None:
            context, _ = await self._turn.arecall(messages_in(request.state), get_config())
        return await handler(_with_context(request, context))

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Store the rest of the turn; recalled text leaves the state."""
        written = self._turn.write(messages_in(state), get_config())
        return {"memory_context": "", **self._noted(state, written)}

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `after_agent`."""
        written = await self._turn.awrite(messages_in(state), get_config())
        return {"memory_context": "", **self._noted(state, written)}

    def _begun(self, context: str, recalled: Report) -> dict[str, Any]:
        report = {"memory_report": {"recall": recalled}} if self._report else {}
        return {"memory_context": context, **report}

    def _noted(self, state: MemoryAgentState, written: Report) -> dict[str, Any]:
        if not self._report:
            return {}
        earlier = state.get("memory_report") or {}
        return {"memory_report": {**earlier, "write": combined(earlier.get("write"), written)}}


def _recalled(request: ModelRequest[Any]) -> str | None:
    return cast(MemoryAgentState, request.state).get("memory_context")


def _with_context(request: ModelRequest[Any], context: str) -> ModelRequest[Any]:
    return request.override(messages=cast(list[AnyMessage], place(request.messages, context)))
