"""`MemoryMiddleware`: memory for `langchain.agents.create_agent` in one argument.

Before the model is called, the user's message is looked up, and what is new in the conversation is
stored. What was found is placed into the request. At the end the rest of the turn is stored.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Generic, NotRequired, TypeVar, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from langmem_graph.graphs.conversation import messages_in, place, query_of, question_key
from langmem_graph.graphs.identity import UserId, own_part, owner_of
from langmem_graph.graphs.turn import ExtractionMode, Report, TurnMemory, combined, pipelines_of
from langmem_graph.memory import Memory
from langmem_graph.schemas import GroundedCall, RecallMode
from langmem_graph.tool_call_grounding import (
    Checked,
    GroundedTools,
    OnContradiction,
    Question,
    agreed,
    aonce,
    once,
    refused,
    to_ask,
    with_notes,
)

T = TypeVar("T")


class MemoryAgentState(AgentState[Any]):
    """The agent's state with memory's own keys; recalled text is not among them."""

    memory_owner: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    """Who speaks in this thread, and from which message on."""
    memory_report: NotRequired[Annotated[dict[str, Any], OmitFromInput]]


class MemoryMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Recalls before the model speaks and stores every message of the turn.

    Recalled text goes into the model's request before the user's message. It is no part of the
    agent's state: in no checkpoint, no stream and no output, and it is never stored again. Custom
    stream events: `memory_recall` and `memory_write`.

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
        k: messages to consider; default `Settings.context.k`.
        max_tokens: budget of the context; default `Settings.context.max_tokens`.
        extraction: when the memory's model, if it has one, extracts records from what was stored:
            in the `background`, `inline` (the agent waits for it), or `manual`, by `user.flush()`.
        read_your_writes: with a model, first extract this user's pending messages (model calls).
        mode: with a model, `auto` or `reason` to reason over memory about the request; see
            `UserMemory.recall`. Each step is sent as a custom stream event.
        report: put status, milliseconds and usage into the output's `memory_report`.
        fail_closed: raise when memory fails, instead of going on without it.
        ground_tools: with a model, calls of these tools are completed from memory before they run,
            and checked against it; 1 to 2 model calls each.
        on_contradiction: an argument that contradicts memory is used and noted below the tool's
            answer (`flag`), or the graph interrupts for a human before the call (`interrupt`;
            resume with True, other arguments, or False).

    Raises:
        InvalidInputError: for an unusable option.
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
        extraction: ExtractionMode = "background",
        read_your_writes: bool = False,
        mode: RecallMode = "fast",
        report: bool = False,
        fail_closed: bool = False,
        ground_tools: Sequence[Any] = (),
        on_contradiction: OnContradiction = "flag",
    ) -> None:
        super().__init__()
        self._turn = TurnMemory(
            memory, user_id, k, max_tokens, fail_closed, extraction, read_your_writes, mode
        )
        self._grounded = GroundedTools(ground_tools, on_contradiction)
        if ground_tools:
            pipelines_of(memory, "ground_tools")
        self._report = report
        self._held = _Held[str]()
        self._held_calls = _Held[Checked]()

    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> None:
        """A new run looks up anew."""
        self._held.drop(self._key(messages_in(state), get_config()))

    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> None:
        """Async twin of `before_agent`."""
        self.before_agent(state, runtime)

    def before_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Recall, once a question; store what is new, so that a failing model loses nothing."""
        messages, config = messages_in(state), get_config()
        key, recalled = self._key(messages, config), None
        if self._held.get(key) is None:
            context, recalled = self._turn.recall(messages, config)
            self._held.put(key, context)
        owner = self._owner(state, messages, config)
        written = self._turn.write(own_part(messages, owner), config)
        return {"memory_owner": owner, **self._reports(state, recalled, written)}

    async def abefore_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `before_model`."""
        messages, config = messages_in(state), get_config()
        key, recalled = self._key(messages, config), None
        if self._held.get(key) is None:
            context, recalled = await self._turn.arecall(messages, config)
            self._held.put(key, context)
        owner = self._owner(state, messages, config)
        written = await self._turn.awrite(own_part(messages, owner), config)
        return {"memory_owner": owner, **self._reports(state, recalled, written)}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Show the model what was recalled, before the user's message."""
        return handler(self._with_context(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Async twin of `wrap_model_call`."""
        return await handler(self._with_context(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Complete and check a call of one of `ground_tools`; others run as they are."""
        tool = self._grounded.schema_of(request.tool_call["name"])
        if tool is None:
            return handler(request)
        messages, config = messages_in(request.state), get_config()
        key = self._call_key(request, config)
        held = self._held_calls.get(key)

        def look() -> Checked:
            nonlocal held
            held = held or self._checked(request, self._turn.ground(tool, messages, config))
            return held

        question = once(lambda: to_ask(look())) if self._grounded.asks else None
        checked = agreed(tool["name"], question) if question else look()
        if checked is None:
            return refused(tool["name"], request.tool_call["id"])
        with self._while_interrupted(key, checked):
            return with_notes(handler(_calling(request, checked.arguments)), checked.notes)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Async twin of `wrap_tool_call`."""
        tool = self._grounded.schema_of(request.tool_call["name"])
        if tool is None:
            return await handler(request)
        messages, config = messages_in(request.state), get_config()
        key = self._call_key(request, config)
        held = self._held_calls.get(key)

        async def look() -> Checked:
            nonlocal held
            held = held or self._checked(request, await self._turn.aground(tool, messages, config))
            return held

        async def ask() -> Question:
            return to_ask(await look())

        question = await aonce(ask) if self._grounded.asks else None
        checked = agreed(tool["name"], question) if question else await look()
        if checked is None:
            return refused(tool["name"], request.tool_call["id"])
        with self._while_interrupted(key, checked):
            return with_notes(await handler(_calling(request, checked.arguments)), checked.notes)

    def _checked(self, request: ToolCallRequest, known: GroundedCall | None) -> Checked:
        call, asked = request.tool_call, query_of(messages_in(request.state))
        return self._grounded.checked(call["name"], call["args"], known, asked)

    def _call_key(self, request: ToolCallRequest, config: RunnableConfig) -> tuple[str, ...]:
        given = json.dumps(request.tool_call["args"], sort_keys=True, default=str)
        user, thread = self._turn.user(config), _thread(config)
        return user, thread, str(request.tool_call["id"]), given

    @contextmanager
    def _while_interrupted(self, key: tuple[str, ...], checked: Checked) -> Iterator[None]:
        """What a human agrees to inside the tool is what runs after the interrupt."""
        try:
            yield
        except GraphBubbleUp:
            self._held_calls.put(key, checked)
            raise
        self._held_calls.drop(key)

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Store the rest of the turn."""
        messages, config = messages_in(state), get_config()
        self._held.drop(self._key(messages, config))
        owner = self._owner(state, messages, config)
        written = self._turn.write(own_part(messages, owner), config)
        return self._reports(state, None, written)

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `after_agent`."""
        messages, config = messages_in(state), get_config()
        self._held.drop(self._key(messages, config))
        owner = self._owner(state, messages, config)
        written = await self._turn.awrite(own_part(messages, owner), config)
        return self._reports(state, None, written)

    def _key(self, messages: list[BaseMessage], config: RunnableConfig) -> tuple[str, ...]:
        return self._turn.user(config), _thread(config), question_key(messages)

    def _owner(
        self, state: MemoryAgentState, messages: list[BaseMessage], config: RunnableConfig
    ) -> dict[str, Any]:
        return owner_of(messages, self._turn.user(config), state.get("memory_owner"))

    def _with_context(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        key = self._key(messages_in(request.state), get_config())
        placed = place(request.messages, self._held.get(key) or "")
        return request.override(messages=cast(list[AnyMessage], placed))

    def _reports(
        self, state: MemoryAgentState, recalled: Report | None, written: Report
    ) -> dict[str, Any]:
        """The turn's report so far; a recall begins a new one."""
        if not self._report:
            return {}
        earlier = {"recall": recalled} if recalled else state.get("memory_report") or {}
        written = combined(earlier.get("write"), written)
        return {"memory_report": {**earlier, "write": written}}


def _calling(request: ToolCallRequest, arguments: dict[str, Any]) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": arguments})


def _thread(config: RunnableConfig) -> str:
    return str((config.get("configurable") or {}).get("thread_id", ""))


class _Held(Generic[T]):
    """What memory gave for runs that are going on: contexts, and calls that a tool interrupted.

    It is here and not in the agent's state, which is streamed and saved. After an interrupt that
    another process resumes it is looked up again.
    """

    MOST = 1_024

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...]) -> T | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: tuple[str, ...], value: T) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.MOST:
                self._values.popitem(last=False)

    def drop(self, key: tuple[str, ...]) -> None:
        with self._lock:
            self._values.pop(key, None)
