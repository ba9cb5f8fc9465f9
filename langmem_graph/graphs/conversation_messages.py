"""A conversation's messages: the question in them, the place for recalled text, what is
stored.

Recalled text and summaries made by a middleware are told apart from what was really
said, so that they are never taken for the user's question, quoted, or stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import is_unique
from langmem_graph.messages import ROLES, UNNAMED, text_of
from langmem_graph.retrieval.quoted_context import NOTED, OPENING

MARK = {"langmem_graph": "recalled"}
"""Marks recalled text: in `additional_kwargs` of a message, in the artifact of a tool's
answer.
"""
IN_VIEW = 10
"""So many newest messages count as seen by the model, and are not quoted to it again.
Not all do: applications trim long conversations, and memory must then bring the
beginning back.
"""


def messages_in(state: Any, key: str = "messages") -> list[BaseMessage]:
    """The conversation in a graph's state: a dict, a dataclass or a pydantic model."""
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
        raise InvalidInputError(
            f"The state's {key!r} holds no messages: {error}"
        ) from error


def value_in(state: Any, key: str) -> Any:
    """A value of a graph's state, whatever the state's class; None where it is not
    there.
    """
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def was_said(message: BaseMessage) -> bool:
    """False for recalled text and for summaries with which a middleware replaced
    messages.
    """
    # a client may have dropped the mark of memory's answer
    if isinstance(message, ToolMessage):
        artifact = message.artifact if isinstance(message.artifact, Mapping) else {}
        return not (
            artifact.items() >= MARK.items() or str(message.text).startswith(OPENING)
        )
    extra = message.additional_kwargs
    return (
        extra.get("lc_source") != "summarization" and not extra.items() >= MARK.items()
    )


def worth_keeping(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages to store: what was said, without calls of memory's own tools; each
    with an id.

    A tool's answer is kept without the note that the middleware added to it, an agent's
    message without the agent's name: memory takes a named speaker for a person.
    """
    answers = {
        m.tool_call_id
        for m in messages
        if isinstance(m, ToolMessage) and not was_said(m)
    }
    kept = [
        _without_agent(_without_note(m))
        for m in messages
        if was_said(m) and not _calls_memory(m, answers)
    ]
    return [
        m if m.id else m.model_copy(update={"id": f"{UNNAMED}{uuid4()}"}) for m in kept
    ]


def _without_note(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
        return message
    answer, separator, note = message.content.rpartition(NOTED)
    if not separator or not all(line.startswith("- ") for line in note.split("\n")):
        return message
    return message.model_copy(update={"content": answer})


def _without_agent(message: BaseMessage) -> BaseMessage:
    if isinstance(message, AIMessage):
        return message.model_copy(update={"name": None})
    if isinstance(message, ChatMessage):
        role = ROLES.get(message.role, "assistant")
        if role == "assistant":
            return AIMessage(
                message.content,
                id=message.id,
                additional_kwargs=message.additional_kwargs,
                response_metadata=message.response_metadata,
            )
    return message


def _calls_memory(message: BaseMessage, answers: set[str]) -> bool:
    """True for calls without text beside them that memory tools alone have answered."""
    if (
        not isinstance(message, AIMessage)
        or not message.tool_calls
        or message.text.strip()
    ):
        return False
    return all(call["id"] in answers for call in message.tool_calls)


def question_in(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The question: the user's last consecutive messages; empty where there are
    none.
    """
    start, end = question_span(messages)
    return messages[start:end]


def question_span(messages: Sequence[BaseMessage]) -> tuple[int, int]:
    """Start and end of the question; both the number of messages where there is
    none.
    """
    said = [isinstance(m, HumanMessage) and was_said(m) for m in messages]
    start = end = len(said) - said[::-1].index(True) if any(said) else len(said)
    while start and said[start - 1]:
        start -= 1
    return start, end


def query_of(messages: Sequence[BaseMessage]) -> str:
    """The question's words; empty where there are none."""
    return "\n".join(filter(None, map(text_of, question_in(messages))))


def question_key(messages: Sequence[BaseMessage]) -> str:
    """A key of the question, by which its recalled text is kept apart from that of
    others.
    """
    return "\n".join(m.id or text_of(m) for m in question_in(messages))


def in_view(messages: Sequence[BaseMessage]) -> list[str]:
    """Ids and texts of messages that the model sees anyway: the question and the newest
    ones.

    A short id, such as `1`, may be that of another conversation's message: it serves
    where there is no text.
    """
    seen = [m for m in (*question_in(messages), *messages[-IN_VIEW:]) if was_said(m)]
    named = [(m.id or "", text_of(m)) for m in seen]
    ids = [name for name, text in named if is_unique(name) or not text]
    return [name for name in (*ids, *(text for _, text in named)) if name]


def is_answered(messages: Sequence[BaseMessage]) -> bool:
    """True when the last message is the assistant's and calls no tool."""
    last = messages[-1] if messages else None
    return isinstance(last, AIMessage) and not last.tool_calls


def place(messages: Sequence[BaseMessage], context: str) -> list[BaseMessage]:
    """The messages for a model, with the recalled text before the question.

    A tool call and its results stay together. Without a context or a question nothing
    is placed.
    """
    start, _ = question_span(messages)
    if not context or start == len(messages):
        return list(messages)
    start = _before_open_calls(messages, start)
    recalled = HumanMessage(context, additional_kwargs=dict(MARK))
    return [*messages[:start], recalled, *messages[start:]]


def _before_open_calls(messages: Sequence[BaseMessage], position: int) -> int:
    """The position, or that of the first tool call before it whose result comes after
    it.
    """
    answered = {
        m.tool_call_id for m in messages[position:] if isinstance(m, ToolMessage)
    }
    for index, message in enumerate(messages[:position]):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        if any(call["id"] in answered for call in calls):
            return index
    return position
