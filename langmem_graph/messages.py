"""Parses messages, users, sessions and times in any accepted form; gives messages a stable id.

The same id with the same text is already known; the same id with another text is stored beside it
as `id~2`. The id of a message that has none is the hash of its session, role, given time, speaker,
text and occurrence, so that adding a whole conversation again adds nothing.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.reports import RejectedMessage
from langmem_graph.schemas import Message, Role

ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "ToolMessageChunk": "tool",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
MAX_ID_CHARS = 2_000
_CALLS = "[calls"


class UnusableMessageError(Exception):
    """A message cannot be stored, for the reason in the text."""


def user_key(user_id: object) -> str:
    """The user's id as text: `7` and `"7"` are the same user.

    Raises:
        MissingUserError: the id is empty or missing.
    """
    if isinstance(user_id, bool) or not isinstance(user_id, str | int):
        raise MissingUserError(
            f"A user id must be a non-empty string or an integer, not {user_id!r}. "
            "Pass the id of the person whose memory this is: memory.user('alice')."
        )
    return _plain_text(str(user_id), "user id", MissingUserError)


def session_key(session_id: object) -> str:
    """The session's id as text.

    Raises:
        InvalidInputError: the id is empty or missing.
    """
    if isinstance(session_id, bool) or not isinstance(session_id, str | int):
        raise InvalidInputError(
            f"session_id must be a non-empty string or an integer, not {session_id!r}."
        )
    return _plain_text(str(session_id), "session_id", InvalidInputError)


def _plain_text(text: str, what: str, error: type[InvalidInputError]) -> str:
    if not text.strip():
        raise error(f"The {what} is empty. Give a non-empty string or an integer.")
    if not is_unicode(text):
        raise error(f"The {what} holds half of a character (a lone surrogate): {text!r}.")
    return text


def is_unicode(text: str) -> bool:
    """False for half of a character (a lone surrogate), which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def message_ids(ids: object) -> list[str]:
    """One id or several as a list of texts.

    Raises:
        InvalidInputError: for anything else.
    """
    several = [ids] if isinstance(ids, str | int) else ids
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        raise InvalidInputError(f"ids must be a message id or a list of them, not {ids!r}.")
    return [text for text in map(str, several) if is_unicode(text)]  # as every stored id is


def to_utc(value: object) -> datetime:
    """A time as UTC. Takes datetime, date, ISO text or epoch seconds; naive times are UTC.

    Raises:
        InvalidInputError: for anything else.
    """
    try:
        return _to_utc(value)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"Not a time: {value!r}. Give a datetime, ISO 8601 text or seconds since 1970."
        ) from error


def _to_utc(value: object) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError(value)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def parse_messages(
    messages: object, *, session_id: str, at: object, max_chars: int
) -> tuple[list[Message], list[RejectedMessage]]:
    """Parse the messages of one call; those that cannot be stored are returned with the reason.

    Args:
        messages: LangChain messages, dicts or pairs, or a message or a dict alone.
        session_id: the session they all belong to.
        at: time of messages that carry none; None is now.
        max_chars: longest text accepted.
    """
    default_at = datetime.now(UTC) if at is None else to_utc(at)
    occurrences: Counter[str] = Counter()
    accepted: list[Message] = []
    rejected: list[RejectedMessage] = []
    for position, raw in enumerate(_as_sequence(messages)):
        fields: Mapping[str, Any] = {}
        try:
            fields = _fields(raw)
            stated_at = fields.get("at") if fields.get("at") is not None else at
            message = _message(fields, session_id, stated_at, default_at, max_chars)
            accepted.append(_named(message, stated_at is not None, occurrences))
        except (UnusableMessageError, InvalidInputError) as problem:
            given_id = fields.get("id")
            shown_id = str(given_id)[:MAX_ID_CHARS] if given_id is not None else None
            reason = str(problem)
            rejected.append(RejectedMessage(position=position, reason=reason, id=shown_id))
    return accepted, rejected


def text_of(raw: object) -> str:
    """A message's text as it is stored; empty where it has none."""
    return "\n".join(part for part in _parts(_fields(raw).get("content")) if part.strip())


def _as_sequence(messages: object) -> Sequence[object]:
    if isinstance(messages, Mapping) or _is_langchain(messages):
        return [messages]
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise InvalidInputError(
            "messages must be a list of LangChain messages or of dicts with 'role' and 'content', "
            f"not {type(messages).__name__}."
        )
    return list(messages)


def _is_langchain(raw: object) -> bool:
    return hasattr(raw, "type") and hasattr(raw, "content")


def _fields(raw: object) -> Mapping[str, Any]:
    """The fields of a dict, a pair of role and text, or a LangChain message.

    The latter is recognised by its attributes, since importing LangChain is slow.
    """
    if isinstance(raw, Mapping):
        return raw
    if isinstance(raw, tuple) and len(raw) == 2:
        return {"role": raw[0], "content": raw[1]}
    if not _is_langchain(raw):
        raise UnusableMessageError(
            f"not a message: {type(raw).__name__}; give a dict or a LangChain message"
        )
    role, name = getattr(raw, "type", None), getattr(raw, "name", None)
    if role == "chat":  # LangChain's message of a speaker with any role
        chat_role = getattr(raw, "role", None)
        role, name = (chat_role, name) if chat_role in ROLES else ("assistant", name or chat_role)
    return {
        "role": role,
        "content": getattr(raw, "content", None),
        "id": getattr(raw, "id", None),
        "name": name,
        "at": (getattr(raw, "additional_kwargs", None) or {}).get("at"),
        "tool_calls": getattr(raw, "tool_calls", None),
        "tool_call_id": getattr(raw, "tool_call_id", None),
    }


def _message(
    fields: Mapping[str, Any],
    session_id: str,
    stated_at: object,
    default_at: datetime,
    max_chars: int,
) -> Message:
    """Validate one message's fields; its id is still empty when none was given."""
    role = ROLES.get(str(fields.get("role")))
    if role is None:
        problem = f"unknown role {fields['role']!r}" if fields.get("role") else "no role"
        known = ", ".join(name for name in ROLES if not name.endswith("Chunk"))
        raise UnusableMessageError(f"{problem}; use one of {known}")
    calls = _tool_calls(fields.get("tool_calls"))
    text = _text(fields.get("content"), calls)
    if len(text) > max_chars:
        raise UnusableMessageError(
            f"{len(text):,} characters; at most {max_chars:,} (Settings.storage.max_message_chars)"
        )
    return Message(
        id=_optional_text(fields.get("id"), "id") or "",
        session_id=session_id,
        role=role,
        name=_optional_text(fields.get("name"), "name"),
        at=default_at if stated_at is None else to_utc(stated_at),
        text=text,
        tool_calls=calls,
        tool_call_id=_optional_text(fields.get("tool_call_id"), "tool_call_id"),
    )


def _optional_text(value: object, what: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UnusableMessageError(f"{what} must be text or an integer, not {value!r}")
    text = str(value)
    if not is_unicode(text) or "\0" in text:
        raise UnusableMessageError(f"{what} holds characters that are no text: {text!r}")
    if len(text) > MAX_ID_CHARS:
        raise UnusableMessageError(f"{what} is longer than {MAX_ID_CHARS:,} characters")
    return text or None


def _tool_calls(value: object) -> list[dict[str, Any]]:
    if not value:
        return []
    try:
        plain = json.dumps(value, ensure_ascii=False, default=str)
        plain.encode("utf-8")
        calls = json.loads(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableMessageError(f"tool_calls are not JSON: {error}") from error
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UnusableMessageError("tool_calls must be a list of objects")
    return calls


def _text(content: object, calls: list[dict[str, Any]]) -> str:
    """A message's text; images and sounds have none, a bare tool call is written as text."""
    text = "\n".join(part for part in _parts(content) if part.strip())
    if not text.strip() and calls:
        text = "\n".join(f"{_CALLS} {json.dumps(call, ensure_ascii=False)}]" for call in calls)
    if not text.strip():
        raise UnusableMessageError("no text in the message")
    if not is_unicode(text):
        raise UnusableMessageError("the text holds half of a character (a lone surrogate)")
    return text


def is_bare_call(message: Message) -> bool:
    """True for an assistant's tool calls without any other text."""
    is_call = message.role == "assistant" and message.text.startswith(_CALLS)
    return is_call and bool(message.tool_calls)


def _parts(content: object) -> list[str]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise UnusableMessageError(
            f"content must be text or a list of blocks, not {type(content).__name__}"
        )
    return [part for block in content if (part := _block_text(block))]


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, Mapping) else None
    return text if isinstance(text, str) else ""


def _named(message: Message, has_time: bool, occurrences: Counter[str]) -> Message:
    """Give a message without an id the hash of its content and occurrence."""
    if message.id:
        return message
    time = message.at.isoformat() if has_time else ""
    content: list[Any] = [message.session_id, message.role, message.name, time, message.text]
    if message.tool_calls or message.tool_call_id:
        content += [message.tool_calls, message.tool_call_id]
    key = json.dumps(content, ensure_ascii=False)
    identity = json.dumps([key, occurrences[key]], ensure_ascii=False)
    occurrences[key] += 1
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return message.model_copy(update={"id": f"m-{digest}"})


def folder_name(user_id: str) -> str:
    """The hash of the id: any id makes a safe name, and none contains another."""
    return hashlib.sha256(user_id.encode()).hexdigest()
