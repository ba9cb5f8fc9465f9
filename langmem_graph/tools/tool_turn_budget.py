"""What every memory tool does around its work: whose memory, how many turns, what if it fails."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.prebuilt import ToolRuntime

from langmem_graph.errors import InvalidInputError, for_log
from langmem_graph.graphs.conversation_messages import MARK, in_view, value_in, was_said
from langmem_graph.graphs.turn_memory import check_memory
from langmem_graph.graphs.user_identity import UserId, user_of
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.settings import Settings

_log = logging.getLogger(__name__)
NAMES = frozenset(
    {
        *("search_records", "search_conversation", "get_records", "get_conversation"),
        *("read_file", "remember", "forget"),
    }
)
MAX_TURNS = 4
"""Turns with memory calls since the user's last message (NapMem 5.3)."""

Answer = tuple[str, dict[str, Any]]
"""The text for the model, and the same as data for the tool message's artifact."""


@dataclass(frozen=True)
class Call:
    """The user and the conversation for which a tool is called."""

    user: UserMemory
    settings: Settings
    seen: frozenset[str]
    """Ids and texts of messages that the model sees already."""


Work = Callable[..., Answer]
"""Takes a `Call` and the model's arguments."""


class Caller:
    """Calls tools for the user of the run; its options are those of `create_memory_tools`."""

    def __init__(self, memory: Memory, user_id: UserId, fail_closed: bool) -> None:
        check_memory(memory)
        self._memory = memory
        self._user_id = user_id
        self._fail_closed = fail_closed

    def answer(
        self,
        config: RunnableConfig,
        runtime: ToolRuntime | None,
        work: Work,
        arguments: dict[str, Any],
    ) -> Answer:
        """The tool's answer, or a text that tells the model why there is none."""
        user_id = user_of(config, self._user_id)
        conversation = _conversation(runtime)
        if turns_spent(conversation) > MAX_TURNS:
            return f"Memory was asked in {MAX_TURNS} turns. Answer with what you have.", dict(MARK)
        try:
            seen = frozenset(in_view(conversation))
            call = Call(self._memory.user(user_id), self._memory.settings, seen)
            text, data = work(call, **arguments)
            return text, {**MARK, **data}
        except InvalidInputError as error:
            return str(error), dict(MARK)
        except Exception as error:
            if self._fail_closed:
                raise
            _log.warning("a memory tool failed: %s", for_log(error))
            return "Memory cannot be read right now. Answer without it, and say so.", dict(MARK)


def _conversation(runtime: ToolRuntime | None) -> list[BaseMessage]:
    """The conversation in which the tool is called; empty when it is called by hand."""
    messages = value_in(runtime.state, "messages") if runtime else None
    return convert_to_messages(messages or [])


def turns_spent(messages: Sequence[BaseMessage]) -> int:
    """The assistant's messages with memory calls since the user's last message."""
    spent = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and was_said(message):
            break
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        spent += any(call["name"] in NAMES for call in calls)
    return spent
