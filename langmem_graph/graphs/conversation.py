"""A conversation's messages: the question in them, memory placed among them, what is kept.

What nobody said (recalled text, a summary made by a middleware) is told from what was said, so
that it is never asked, quoted or stored as the user's words.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)

from langmem_graph.errors import InvalidInputError
from langmem_graph.messages import text_of
from langmem_graph.retrieval.formatting import NOTED, OPENING

MARK = {"langmem_graph": "recalled"}
"""In `additional_kwargs` of a placed message, and in the artifact of a memory tool's answer."""

IN_VIEW = 10
"""The newest messages of a conversation count as seen by the model, and are not quoted to it again.
Not all: applications trim long conversations, and memory must then bring the beginning back."""


def messages_in(state: Any, key: str = "messages") -> list[BaseMessage]:
    """The conversation in a graph's state: a dict, a dataclass or a pydantic model.

    Raises:
        InvalidInputError: the state has no such key, or holds no messages there.
    """
    value = value_in(state, key)
    if value is None:
        has = ", ".join(state) if isinstance(state, Mapping) else type(state).__name__
        raise InvalidInputError(
            f"The state has no {key!r} (it has: {has or 'nothing'}). Derive it from "
            "langgraph.graph.MessagesState, or name your key: messages_key=…."
        )
    if isinstance(value, str | BaseMessage):
        value = [value]
    try:
        return convert_to_messages(value)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InvalidInputError(f"The state's {key!r} holds no messages: {error}") from error


def value_in(state: Any, key: str) -> Any:
    """A value of a graph's state, whatever the state's class; None where it is not there."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def was_said(message: BaseMessage) -> bool:
    """False for recalled text and for summaries that a middleware put in the place of messages."""
    if isinstance(message, ToolMessage):
        return not _is_memory_answer(message)
    extra = message.additional_kwargs
    return extra.get("lc_source") != "summarization" and not extra.items() >= MARK.items()


def _is_memory_answer(message: ToolMessage) -> bool:
    """By its mark, or, where a client has dropped that, by how it begins."""
    marked = message.artifact if isinstance(message.artifact, Mapping) else {}
    return marked.items() >= MARK.items() or str(message.text).startswith(OPENING)


def worth_keeping(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What was said, without the bare tool calls that asked memory; each message has an id.

    A tool's answer is kept without the note that memory put below it.
    """
    answers = {m.tool_call_id for m in messages if isinstance(m, ToolMessage) and not was_said(m)}
    kept = [_noteless(m) for m in messages if was_said(m) and not _only_asks_memory(m, answers)]
    return [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in kept]


def _noteless(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
        return message
    said, found, note = message.content.rpartition(NOTED)
    if not found or not all(line.startswith("- ") for line in note.split("\n")):
        return message
    return message.model_copy(update={"content": said})


def _only_asks_memory(message: BaseMessage, answers: set[str]) -> bool:
    if not isinstance(message, AIMessage) or not message.tool_calls or message.text.strip():
        return False
    return _call_ids(message) <= answers


def _call_ids(message: AIMessage) -> set[str | None]:
    return {call["id"] for call in message.tool_calls}


def question_in(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The last run of messages that the user said; empty where there is none."""
    start, end = _question_span(messages)
    return messages[start:end]


def _question_span(messages: Sequence[BaseMessage]) -> tuple[int, int]:
    """Start and end of the question; (n, n) where there is none."""
    said = [isinstance(m, HumanMessage) and was_said(m) for m in messages]
    if not any(said):
        return len(messages), len(messages)
    end = len(said) - said[::-1].index(True)
    start = end
    while start and said[start - 1]:
        start -= 1
    return start, end


def query_of(messages: Sequence[BaseMessage]) -> str:
    """The question's words; empty where there are none."""
    return "\n".join(filter(None, map(text_of, question_in(messages))))


def question_key(messages: Sequence[BaseMessage]) -> str:
    """Tells one question from another: recalled text belongs to one."""
    return "\n".join(m.id or text_of(m) for m in question_in(messages))


def in_view(messages: Sequence[BaseMessage]) -> list[str]:
    """Ids and texts of what the model sees anyway: the question and the newest messages."""
    seen = [m for m in (*question_in(messages), *messages[-IN_VIEW:]) if was_said(m)]
    return [name for m in seen for name in (m.id, text_of(m)) if name]


def is_answered(messages: Sequence[BaseMessage]) -> bool:
    """True when the assistant has the last word: nothing is asked and no tool is called."""
    last = messages[-1] if messages else None
    return isinstance(last, AIMessage) and not last.tool_calls


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
