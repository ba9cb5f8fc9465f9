"""`MemoryMiddleware`: memory for `langchain.agents.create_agent`."""

import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Generic, NotRequired, TypeVar, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.middleware.types import (
    OmitFromInput,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import AnyMessage, BaseMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from langmem_graph.errors import NotCopied
from langmem_graph.filters import Where
from langmem_graph.graphs.conversation_messages import (
    messages_in,
    place,
    query_of,
    question_key,
)
from langmem_graph.graphs.turn_memory import (
    ExtractionMode,
    Report,
    TurnMemory,
    combined,
    pipelines_of,
)
from langmem_graph.graphs.user_identity import UserId
from langmem_graph.grounding.graph import checked_options
from langmem_graph.grounding.state import Policy, ReadMode
from langmem_graph.memory import Memory
from langmem_graph.metadata import Value
from langmem_graph.middleware_tool_calls import (
    Checked,
    GroundedTools,
    OnContradiction,
    ask_human,
    mark_handoffs,
    once,
    refused,
    with_notes,
)
from langmem_graph.results import GroundedCall, RecallMode
from langmem_graph.runtime import at_once, either
from langmem_graph.schemas import Origin

T = TypeVar("T")
Update = dict[str, Any]
ToolHandler = Callable[[ToolCallRequest], Any]


class MemoryAgentState(AgentState[Any]):
    """The agent's state with the keys of this middleware; they hold no recalled
    text.
    """

    memory_owner: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    """By middleware: the user of this thread, and the message from which on it is
    theirs.
    """
    memory_report: NotRequired[Annotated[dict[str, Any], OmitFromInput]]


class MemoryMiddleware(NotCopied, AgentMiddleware[MemoryAgentState, Any, Any]):
    """Recalls context before a model call and stores every message of the turn.

    Recalled text goes into the model's request before the user's message. It is no part
    of the agent's state (unless you set `show_context`): in no checkpoint, no stream
    and no output, and it is never stored again. Custom stream events: `memory_recall`
    and `memory_write`; with `ground_tools` also `memory_grounding` and
    `memory_tool_call`.

    Give it as the last one of several, so that it stores and recalls what the others
    have redacted or trimmed, not the original; but before SummarizationMiddleware,
    which removes messages.

    Examples:
        ```python
        remember = MemoryMiddleware(memory)
        agent = create_agent("openai:gpt-4o-mini", middleware=[remember])
        config = {"configurable": {"user_id": "alice"}}
        agent.invoke({"messages": "Hi, I'm vegan."}, config)
        ```

    Args:
        memory: the memory to recall from and write to.
        user_id: as for `create_recall_node`, like `k`, `max_tokens`, `read_your_writes`
            and `mode`.
        extraction: as for `create_write_node`.
        report: put status, milliseconds and usage into the output's `memory_report`.
        fail_closed: raise when memory fails, instead of going on without it.
        ground_tools: with a model, calls of these tools are completed from memory
            before they run, and checked against it; 1 model call each, 2 where its
            answer cannot be used at first.
        on_contradiction: an argument that contradicts memory is used and noted below
            the tool's answer (`flag`), or the graph interrupts for a human before the
            call (`interrupt`; resume with True, other arguments, or False). The human
            is also shown values that are only offered.
        policy: as for `UserMemory.ground`, like `trust`, `model_may_choose` and
            `read`.
        where: recall, and complete calls, only from what passes this filter
            (docs/scopes.md); no run can widen it.
        metadata: as for `create_write_node`, like `agent_id`.
        show_context: as for `create_recall_node`.
        shared: as for `create_recall_node`. Tool calls are completed from these rooms
            too; what others wrote there counts as `import` and is only offered, unless
            `trust` has it.

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
        policy: Policy = "flag",
        trust: Sequence[Origin] = ("user",),
        model_may_choose: Sequence[str] = (),
        read: ReadMode | Mapping[str, ReadMode] = "send",
        where: Where | None = None,
        metadata: Mapping[str, Value] | None = None,
        agent_id: str | int | None = None,
        show_context: bool = False,
        shared: Sequence[str | int] = (),
    ) -> None:
        super().__init__()
        scope: dict[str, Any] = {
            "where": where,
            "metadata": metadata,
            "agent_id": agent_id,
        }
        scope |= {"show_context": show_context, "shared": shared, "surface": self.name}
        self._turn = TurnMemory(
            memory,
            user_id,
            k,
            max_tokens,
            fail_closed,
            extraction,
            read_your_writes,
            mode,
            **scope,
        )
        self._grounded = GroundedTools(ground_tools, on_contradiction, fail_closed)
        self._grounding = {
            "policy": policy,
            "trust": trust,
            "model_may_choose": model_may_choose,
            "read": read,
        }
        checked_options(**self._grounding)
        if self._grounded:
            pipelines_of(memory, "ground_tools")  # raises where there is no model
        self._report = report or show_context
        self._contexts = _RunCache[tuple[str, object]]()
        self._calls = _RunCache[Checked]()
        self._leave_out_unused_hooks()

    def _leave_out_unused_hooks(self) -> None:
        """Take on a class without the hooks that nothing needs.

        LangChain looks for them in the class. Each takes a step of the agent's
        recursion limit, and with a hook for tools an agent has a node of tools, and
        calls of unknown tools are no error.
        """
        unused: list[str] = []
        if not self._grounded:
            unused += ["wrap_tool_call", "awrap_tool_call"]
        if not self._report:
            unused += ["before_agent", "abefore_agent"]
        kind = _without(cast(Any, type(self)), tuple(unused))
        self.__class__ = kind

    def before_agent(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> Update | None:
        """Drop the report that an earlier run has left."""
        return {"memory_report": {}}

    async def abefore_agent(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> Update | None:
        """Async twin of `before_agent`."""
        return self.before_agent(state, runtime)

    def before_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> Update:
        """Recall once per question; store new messages, so that a failing model loses
        nothing.
        """
        return at_once(self._before_model(state, True))

    async def abefore_model(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> Update:
        """Async twin of `before_model`."""
        return await self._before_model(state, False)

    async def _before_model(self, state: MemoryAgentState, blocking: bool) -> Update:
        config = get_config()
        recalled = None
        messages, owner, own = self._turn.thread(state, config)
        # what an earlier run has left, which failed, is no context of this one
        is_new = bool(messages) and messages[-1].type == "human"
        if is_new or self._contexts.get(self._key(messages, config)) is None:
            _, recalled = await self._recall(state, blocking)
        owner, written = await self._turn.write(own, owner, config, blocking)
        return {"memory_owner": owner, **self._reports(state, recalled, written)}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Place the recalled context before the user's message."""
        answer = handler(at_once(self._with_context(request, True)))
        mark_handoffs(answer.result, request.tools)
        return answer

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Async twin of `wrap_model_call`."""
        answer = await handler(await self._with_context(request, False))
        mark_handoffs(answer.result, request.tools)
        return answer

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> Any:
        """Complete and check a call of one of `ground_tools`; others run as
        they are.
        """

        async def here(changed: ToolCallRequest) -> Any:
            return handler(changed)

        return at_once(self._wrap_tool_call(request, here, True))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: ToolHandler
    ) -> Any:
        """Async twin of `wrap_tool_call`."""
        return await self._wrap_tool_call(request, handler, False)

    async def _wrap_tool_call(
        self, request: ToolCallRequest, handler: ToolHandler, blocking: bool
    ) -> Any:
        tool = self._grounded.schema_of(request.tool_call["name"])
        if tool is None:
            return await handler(request)
        config = get_config()
        _, _, own = self._turn.thread(request.state, config)
        key = self._call_key(request, config)
        cached = self._calls.get(key)

        async def check() -> Checked:
            nonlocal cached
            if cached is None:
                grounded = await self._turn.ground(
                    tool, own, config, self._grounding, blocking
                )
                cached = await either(blocking, self._checked)(request, grounded)
            return cached

        user = self._turn.user(config)
        question = await once(check, user, blocking) if self._grounded.asks else None
        checked = ask_human(tool["name"], question) if question else await check()
        if checked is None:
            return refused(tool["name"], request.tool_call["id"])
        with self._while_interrupted(key, checked):
            filled: ToolCall = {**request.tool_call, "args": checked.arguments}
            answer = await handler(request.override(tool_call=filled))
            return with_notes(answer, checked.notes)

    def _checked(
        self, request: ToolCallRequest, grounded: GroundedCall | None
    ) -> Checked:
        call = request.tool_call
        query = query_of(self._turn.thread(request.state, get_config())[2])
        return self._grounded.checked(call["name"], call["args"], grounded, query)

    def _call_key(
        self, request: ToolCallRequest, config: RunnableConfig
    ) -> tuple[str, ...]:
        arguments = json.dumps(request.tool_call["args"], sort_keys=True, default=str)
        return (
            self._turn.user(config),
            _thread(config),
            str(request.tool_call["id"]),
            arguments,
        )

    @contextmanager
    def _while_interrupted(
        self, key: tuple[str, ...], checked: Checked
    ) -> Iterator[None]:
        """Keep the checked call while the tool is interrupted, so that the same call is
        resumed.
        """
        try:
            yield
        except GraphBubbleUp:
            self._calls.put(key, checked)
            raise
        self._calls.drop(key)

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> Update:
        """Store the rest of the turn."""
        return at_once(self._after_agent(state, True))

    async def aafter_agent(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> Update:
        """Async twin of `after_agent`."""
        return await self._after_agent(state, False)

    async def _after_agent(self, state: MemoryAgentState, blocking: bool) -> Update:
        self._drop_context(state)
        _, owner, own = self._turn.thread(state, get_config())
        owner, written = await self._turn.write(own, owner, get_config(), blocking)
        return {"memory_owner": owner, **self._reports(state, None, written)}

    def _drop_context(self, state: MemoryAgentState) -> None:
        self._contexts.drop(self._key(messages_in(state), get_config()))

    def _key(
        self, messages: list[BaseMessage], config: RunnableConfig
    ) -> tuple[str, ...]:
        # an id may be that of other words
        asked = question_key(messages), query_of(messages)
        return self._turn.user(config), _thread(config), *asked

    async def _with_context(
        self, request: ModelRequest[Any], blocking: bool
    ) -> ModelRequest[Any]:
        """The request with the recalled text, looked up again where it may hold what
        was deleted.

        A resumed run may come here first, long after its beginning or in another
        process.
        """
        config = get_config()
        state = cast(MemoryAgentState, request.state)
        cached = self._contexts.get(self._key(messages_in(state), config))
        if cached is None or (
            cached[0] and cached[1] != await self._turn.deletions(config, blocking)
        ):
            cached, _ = await self._recall(state, blocking)
        placed = place(request.messages, cached[0])
        return request.override(messages=cast(list[AnyMessage], placed))

    async def _recall(
        self, state: MemoryAgentState, blocking: bool
    ) -> tuple[tuple[str, object], Report]:
        """The recalled text, kept for the run with what tells of later deletions; a
        report.
        """
        config = get_config()
        messages, _, own = self._turn.thread(state, config)
        known = await self._turn.deletions(config, blocking)
        context, report = await self._turn.recall(own, config, blocking)
        self._contexts.put(self._key(messages, config), (context, known))
        return (context, known), report

    def _reports(
        self, state: MemoryAgentState, recalled: Report | None, written: Report
    ) -> Update:
        """The update of `memory_report`: the turn's recall, and all of its writes
        together.
        """
        if not self._report:
            return {}
        earlier = state.get("memory_report") or {}
        if recalled and (recalled["status"] != "skipped" or not earlier):
            earlier = {"recall": recalled}
        written = combined(earlier.get("write"), written)
        return {"memory_report": {**earlier, "write": written}}


@cache
def _without(cls: Any, hooks: tuple[str, ...]) -> Any:
    """The class without these hooks of ours, which LangChain looks for in the class."""
    names = ("__module__", "__qualname__", "__doc__")
    fields = {name: getattr(cls, name) for name in names}
    for hook in hooks:
        if getattr(cls, hook) is getattr(MemoryMiddleware, hook):
            fields[hook] = getattr(AgentMiddleware, hook)
    return type(cls.__name__, (cls,), fields)


def _thread(config: RunnableConfig) -> str:
    return str((config.get("configurable") or {}).get("thread_id", ""))


class _RunCache(Generic[T]):
    """A cache for the current runs: recalled contexts, and calls that a tool has
    interrupted.

    They are not kept in the agent's state, which is streamed and saved. When another
    process resumes the run, they are computed again.
    """

    SIZE = 1_024

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...]) -> T | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: tuple[str, ...], value: T) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.SIZE:
                self._values.popitem(last=False)

    def drop(self, key: tuple[str, ...]) -> None:
        with self._lock:
            self._values.pop(key, None)
