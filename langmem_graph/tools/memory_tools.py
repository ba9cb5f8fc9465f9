"""The memory tools as LangChain tools: an agent navigates its memory (NapMem 5.3, Table
7).

A tool never takes the user's id from the model, but from the run, as nodes and
middleware do.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

from langmem_graph.errors import InvalidInputError, NotCopied, for_log
from langmem_graph.filters import Where, parsed
from langmem_graph.graphs.conversation_messages import (
    MARK,
    in_view,
    question_span,
    value_in,
    was_said,
)
from langmem_graph.graphs.turn_memory import check_memory
from langmem_graph.graphs.user_identity import UserId, session_of, user_of
from langmem_graph.memory import Memory
from langmem_graph.metadata import Value, checked_metadata
from langmem_graph.retrieval.search_common import check_choice
from langmem_graph.rooms import room_names
from langmem_graph.storage.records_by_hand import WrittenBy
from langmem_graph.threads import in_thread
from langmem_graph.tool_answers import (
    FORGET,
    MAX_TURNS,
    READING,
    WITHOUT_QUOTES,
    WRITING,
    Answer,
    Call,
    MemoryTool,
)

_log = logging.getLogger(__name__)
_NAMES = frozenset(tool.name for tool in (*READING, *WRITING, FORGET))


def create_memory_tools(
    memory: Memory,
    *,
    user_id: UserId = None,
    allow_forget: bool = False,
    fail_closed: bool = False,
    where: Where | None = None,
    metadata: Mapping[str, Value] | None = None,
    shared: Sequence[str | int] = (),
    trust: WrittenBy = "assistant",
) -> list[BaseTool]:
    """Tools with which an agent searches, reads and writes the memory of its user.

    `search_records`, `search_conversation`, `get_records`, `get_conversation`,
    `read_file`, `remember` and `correct`. All work sync and async, in `ToolNode`,
    `create_agent` or called by hand. Answers are quoted text, and the same as data in
    the tool message's `artifact`. What they answer is recalled text: the write node and
    the middleware do not store it again. After four turns with memory calls since the
    user's last message (NapMem 5.3) they ask the model to answer.

    Args:
        memory: the memory to search and write to.
        user_id: a fixed user or a function of the config. None takes
            `configurable.user_id`, the runtime context's `user_id` or the authenticated
            user, which must agree.
        allow_forget: add `forget`, which interrupts the graph for a human before it
            deletes; it needs a checkpointer. The human resumes with True or False.
        fail_closed: raise when memory fails. Otherwise the model is told to go on
            without it.
        where: the tools show, correct and forget only what passes this filter
            (docs/scopes.md); no argument of the model's can widen it.
        metadata: what is remembered gets this metadata.
        shared: the searches also look in these shared rooms, as far as the user may
            read them; no argument of the model's names one, and nothing is changed
            there.
        trust: as whose words counts what the model writes with `remember` and
            `correct`. As the `assistant`'s it is a draft, and ends nothing that rests
            on the user's words, unless the model quotes words of the user's that bear
            it out (docs/tools.md). `user` only where a person confirms each call, or no
            tool shows what strangers wrote.

    Raises:
        MissingUserError: when a tool is called and no place names a user.
    """
    check_memory(memory)
    parsed(where)
    checked_metadata(metadata)
    check_choice("trust", trust, get_args(WrittenBy))
    caller = _Caller(
        memory, user_id, fail_closed, where, metadata, room_names(shared), trust
    )
    search_records, *others = (
        *READING,
        *(WRITING if trust == "assistant" else WITHOUT_QUOTES),
    )
    note = f" All memory tools together: at most {MAX_TURNS} turns."
    tools = [
        _tool(caller, search_records, note),
        *(_tool(caller, tool) for tool in others),
    ]
    if allow_forget:
        tools.append(
            _tool(caller, FORGET, " A human is asked first.", before=_ask_a_human)
        )
    return tools


@dataclass(frozen=True)
class _Caller:
    """Calls tools for the user of the run; the options are those of
    `create_memory_tools`.
    """

    memory: Memory
    user_id: UserId
    fail_closed: bool
    where: Where | None
    metadata: Mapping[str, Value] | None
    shared: Sequence[str]
    trust: WrittenBy

    def answer(
        self,
        config: RunnableConfig,
        runtime: ToolRuntime | None,
        tool: MemoryTool,
        arguments: Any,
    ) -> Answer:
        """The tool's answer, or a text that tells the model why there is none."""
        user_id = user_of(config, self.user_id)
        state = value_in(runtime.state, "messages") if runtime else None
        conversation = convert_to_messages(state or [])
        if _turns_spent(conversation) > MAX_TURNS:
            return (
                f"Memory was asked in {MAX_TURNS} turns. Answer with what you have.",
                dict(MARK),
            )
        try:
            seen = frozenset(in_view(conversation))
            user = self.memory.user(user_id, shared=self.shared)
            session = (
                None
                if _others_spoke(conversation)
                else session_of(config, conversation)
            )
            call = Call(user, seen, self.where, self.metadata, session, self.trust)
            text, data = tool.work(call, **arguments)
            return text, {**MARK, **data}
        except InvalidInputError as error:
            return str(error), dict(MARK)
        except Exception as error:
            if self.fail_closed:
                raise
            _log.warning("a memory tool failed: %s", for_log(error))
            return (
                "Memory cannot be read right now. Answer without it, and say so.",
                dict(MARK),
            )


def _others_spoke(messages: Sequence[BaseMessage]) -> bool:
    """Whether a tool other than memory's has answered since the user's last message."""
    _, end = question_span(messages)
    return any(isinstance(one, ToolMessage) and was_said(one) for one in messages[end:])


def _turns_spent(messages: Sequence[BaseMessage]) -> int:
    """The assistant's messages with memory calls since the user's last message."""
    spent = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and was_said(message):
            break
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        spent += any(call["name"] in _NAMES for call in calls)
    return spent


class _Tool(NotCopied, StructuredTool):
    """A tool that holds a memory, so that it cannot be pickled; its copies share the
    memory.
    """


def _ask_a_human(record_id: str) -> str | None:
    """Interrupt the graph before anything is deleted; a text unless the human
    agrees.
    """
    try:
        answer = interrupt({"action": "forget", "record_id": record_id})
    except (KeyError, RuntimeError) as error:  # LangGraph's, where no graph is running
        raise InvalidInputError(
            "`forget` asks a human first, so it needs a graph with a checkpointer "
            "to "
            "run in."
        ) from error
    return None if answer is True else "The user did not agree; nothing was deleted."


def _tool(
    caller: _Caller,
    tool: MemoryTool,
    note: str = "",
    before: Callable[..., str | None] | None = None,
) -> BaseTool:
    """One tool; LangGraph gives `config` and `runtime`, the model the other
    arguments.
    """

    def call(
        config: RunnableConfig,
        runtime: ToolRuntime = None,  # type: ignore[assignment]  # so LangGraph injects it
        **arguments: Any,
    ) -> Answer:
        refusal = before(**arguments) if before else None
        return (
            (refusal, {})
            if refusal
            else caller.answer(config, runtime, tool, arguments)
        )

    async def acall(config: RunnableConfig, **arguments: Any) -> Answer:
        return await in_thread(call, config, **arguments)

    return _Tool.from_function(
        call,
        acall,
        name=tool.name,
        description=tool.description + note,
        args_schema=tool.arguments,
        response_format="content_and_artifact",
    )
