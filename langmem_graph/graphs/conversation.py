"""A conversation's messages: the question in them, memory placed among them, what is kept.

Recalled text is marked, so that it is never taken for something that was said.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)

from langmem_graph.errors import InvalidInputError

MARK = {"langmem_graph": "recalled"}
"""In `additional_kwargs` of a message, or in a tool message's artifact: this is recalled text."""

IN_VIEW = 10
"""The newest messages of a conversation count as seen by the model, and are not quoted to it again.
Not all: applications trim long conversations, and memory must then bring the beginning back."""


def messages_in(state: Any, key: str = "messages") -> list[BaseMessage]:
    """The conversation in a graph's state: a dict, a dataclass or a pydantic model.

    Raises:
        InvalidInputError: the state has no such key, or holds no messages there.
    """
    there = key in state if isinstance(state, Mapping) else hasattr(state, key)
    if not there:
        has = ", ".join(state) if isinstance(state, Mapping) else type(state).__name__
        raise InvalidInputError(
            f"The state has no {key!r} (it has: {has or 'nothing'}). Derive it from "
            "langgraph.graph.MessagesState, or name your key: messages_key=…."
        )
    value = state[key] if isinstance(state, Mapping) else getattr(state, key)
    if isinstance(value, str | BaseMessage):
        value = [value]
    try:
        return convert_to_messages(value or [])
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InvalidInputError(f"The state's {key!r} holds no messages: {error}") from error


def is_recalled(message: BaseMessage) -> bool:
    """True for text that came out of memory."""
    marked = message.additional_kwargs
    if isinstance(message, ToolMessage) and isinstance(message.artifact, Mapping):
        marked = dict(message.artifact)
    return all(marked.get(name) == value for name, value in MARK.items())


def _question_span(messages: Sequence[BaseMessage]) -> tuple[int, int]:
    """Start and end of the last run of human messages; (n, n) where there is none."""
    said = [isinstance(m, HumanMessage) and not is_recalled(m) for m in messages]
    if not any(said):
        return len(messages), len(messages)
    end = len(said) - said[::-1].index(True)
    start = end
    while start and said[start - 1]:
        start -= 1
    return start, end


def question_of(messages: Sequence[BaseMessage]) -> str:
    """What the user said last, as a query; empty where there are no words."""
    start, end = _question_span(messages)
    return "\n".join(str(m.text) for m in messages[start:end] if m.text.strip())


def is_asked(messages: Sequence[BaseMessage]) -> bool:
    """True when the user has the last word."""
    return bool(messages) and isinstance(messages[-1], HumanMessage)


def is_answered(messages: Sequence[BaseMessage]) -> bool:
    """True when the assistant has the last word: nothing is asked and no tool is called."""
    last = messages[-1] if messages else None
    return isinstance(last, AIMessage) and not last.tool_calls


def texts_in_view(messages: Sequence[BaseMessage]) -> list[str]:
    """The newest messages' texts, which the model sees anyway."""
    return [str(m.text) for m in messages[-IN_VIEW:] if not is_recalled(m)]


def place(messages: Sequence[BaseMessage], context: str) -> list[BaseMessage]:
    """The messages for a model, with recalled text before what the user said last.

    A tool call and its results stay together. Nothing is placed without a context or a question.
    """
    start, _ = _question_span(messages)
    if not context or start == len(messages):
        return list(messages)
    start = _before_open_calls(messages, start)
    recalled = HumanMessage(context, additional_kwargs=dict(MARK))
    return [*messages[:start], recalled, *messages[start:]]


def _before_open_calls(messages: Sequence[BaseMessage], position: int) -> int:
    """The position, or that of the first tool call before it whose result comes after it."""
    answered = {m.tool_call_id for m in messages[position:] if isinstance(m, ToolMessage)}
    for index, message in enumerate(messages[:position]):
        if isinstance(message, AIMessage) and answered & _call_ids(message):
            return index
    return position


def _call_ids(message: AIMessage) -> set[str | None]:
    return {call["id"] for call in message.tool_calls}


def worth_keeping(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What was said: without recalled text, and without the bare tool calls that asked for it."""
    recalled = {m.tool_call_id for m in messages if isinstance(m, ToolMessage) and is_recalled(m)}
    return [m for m in messages if not is_recalled(m) and not _only_asks_memory(m, recalled)]


def _only_asks_memory(message: BaseMessage, recalled: set[str]) -> bool:
    if not isinstance(message, AIMessage) or not message.tool_calls or message.text.strip():
        return False
    return _call_ids(message) <= recalled
