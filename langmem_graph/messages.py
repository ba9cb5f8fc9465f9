"""Parses messages in any accepted form, and gives each a stable id.

The same id with the same text is already known; the same id with another text is stored
beside it as `id~2`. The id of a message that has none is the hash of its session, role,
given time, speaker, text, metadata and occurrence, so that adding a whole conversation
again adds nothing.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_jsonable_python

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.ids_and_times import (
    MAX_ID_BYTES,
    agent_key,
    is_unicode,
    to_utc,
    written,
)
from langmem_graph.metadata import checked_metadata
from langmem_graph.reading import Redact, redacted_message
from langmem_graph.reports import RejectedMessage
from langmem_graph.schemas import ORIGIN_OF_ROLE, Message, Origin, Role

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
_TRUST: dict[Origin, int] = {
    "user": 2,
    "assistant": 1,
    "tool": 0,
    "import": 0,
    "plumbing": 0,
}
"""A message may be given an origin that is trusted less than that of its role, never
more.
"""
_TIME_KEYS = frozenset(
    "time date datetime ts timestampms epoch unixtime when created createdat "
    "createtime sentat "
    "senttime saidat postedat publishedat receivedat writtenat occurredat updatedat "
    "messagetime "
    "messagedate msgtime".split()
)
_CALLS = "[calls"
_WANTED = (
    "messages must be a list of LangChain messages or of dicts with 'role' and "
    "'content'"
)
# begins the ids that nodes and middleware give to messages without one
UNNAMED = "unnamed-"
HANDOFF = frozenset(("__handoff_destination", "__is_handoff_back"))
"""Mark messages of langgraph-supervisor, and tools of it and of langgraph-swarm, as
hand-offs.
"""
_TEXT_KEYS = ("text", "content", "transcript", "refusal")
_CALL_BLOCKS = ("tool_use", "tool_call", "function_call")


class UnusableMessageError(Exception):
    """A message cannot be stored, for the reason in the text."""


def parse_messages(
    messages: object,
    *,
    session_id: str,
    at: object,
    max_chars: int,
    origin: object = None,
    about: Mapping[str, Any] | None = None,
    redact: Redact | None = None,
) -> tuple[list[Message], list[RejectedMessage], list[Counter[str]]]:
    """The messages of one call, those that cannot be stored, and each one's blocks
    without text.

    `at` and `origin` are those of messages that carry none of their own; `about` is
    metadata and agent of all of them, to which each may add its own.

    Raises:
        InvalidInputError: no list of messages, no time, or no origin.
    """
    # a tuple takes what has no hash, too
    if origin is not None and origin not in tuple(_TRUST):
        raise InvalidInputError(
            f"origin must be one of {', '.join(_TRUST)}, not {quoted(origin)}."
        )
    default_at = datetime.now(UTC) if at is None else to_utc(at)
    occurrences: Counter[str] = Counter()
    accepted: list[Message] = []
    rejected: list[RejectedMessage] = []
    without_text: list[Counter[str]] = []
    is_one = isinstance(messages, Mapping) or _is_langchain(messages)
    for position, raw in enumerate(as_list(messages, is_one=is_one, wanted=_WANTED)):
        fields: Mapping[str, Any] = {}
        lost = Counter[str]()
        without_text.append(lost)
        try:
            fields = _fields(raw)
            stated_at = _stated_time(fields, at)
            message = _message(
                fields, session_id, stated_at, default_at, max_chars, origin, lost
            )
            message = message.model_copy(
                update=_told_about(message, fields, about or {})
            )
            # before the id, which is a hash of it
            message = redacted_message(message, redact)
            accepted.append(_named(message, stated_at is not None, occurrences))
        except (UnusableMessageError, InvalidInputError) as problem:
            given_id = fields.get("id")
            is_text = given_id is None or isinstance(given_id, str)
            shown_id = given_id if is_text else quoted(given_id)
            reason = str(problem)
            rejected.append(
                RejectedMessage(
                    position=position,
                    reason=reason,
                    id=shown_id and shown_id[:MAX_ID_BYTES],
                )
            )
    return _with_handoffs(accepted), rejected, without_text


def _told_about(
    message: Message, fields: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """What is told of one message: its own metadata and agent before those of the call.

    Author and room are those of the call; in a shared room a user without a name has
    the author's.
    """
    own = {**about.get("metadata", {}), **checked_metadata(fields.get("metadata"))}
    agent = agent_key(fields.get("agent_id")) or about.get("agent_id")
    named = message.name or (about.get("author") if message.role == "user" else None)
    return {**about, "metadata": own, "agent_id": agent, "name": named}


def _stated_time(fields: Mapping[str, Any], at: object) -> object:
    """The message's own time, or that of the call; a key that is not known is not
    ignored.
    """
    for name in ("at", "timestamp"):
        if fields.get(name) is not None:
            return fields[name]
    for key, value in fields.items():
        plain = str(key).replace("_", "").replace("-", "").lower()
        if value is not None and plain in _TIME_KEYS:
            raise UnusableMessageError(
                f"{key!r} looks like a time, but the key of a message's time is 'at' "
                "('timestamp' is taken too); rename it"
            )
    return at


def text_of(raw: object) -> str:
    """A message's text as it is stored; empty where it has none."""
    return _written_out(_fields(raw), Counter())


def as_list(given: object, *, is_one: bool, wanted: str) -> list[object]:
    """What was given, as a list: one alone, or several; the error says what is
    `wanted`.
    """
    if is_one:
        return [given]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{wanted}, not {type(given).__name__}.")
    return list(given)


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
    role = getattr(raw, "type", None)
    name = getattr(raw, "name", None)
    if role == "chat":  # LangChain's message of a speaker with any role
        chat_role = getattr(raw, "role", None)
        role, name = (
            (chat_role, name)
            if chat_role in ROLES
            else ("assistant", name or chat_role)
        )
    additional = getattr(raw, "additional_kwargs", None) or {}
    marks = getattr(raw, "response_metadata", None) or {}
    return {
        "role": role,
        "content": getattr(raw, "content", None),
        "id": getattr(raw, "id", None),
        "name": name,
        "at": additional.get("at"),
        "origin": additional.get("origin") if HANDOFF.isdisjoint(marks) else "plumbing",
        "tool_calls": getattr(raw, "tool_calls", None),
        "tool_call_id": getattr(raw, "tool_call_id", None),
        "audio": additional.get("audio"),
    }


def _message(
    fields: Mapping[str, Any],
    session_id: str,
    stated_at: object,
    default_at: datetime,
    max_chars: int,
    origin: object,
    dropped: Counter[str],
) -> Message:
    """Validate one message's fields; its id is still empty when none was given."""
    given = fields.get("role")
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        problem = f"unknown role {quoted(given)}" if given else "no role"
        known = ", ".join(name for name in ROLES if not name.endswith("Chunk"))
        raise UnusableMessageError(f"{problem}; use one of {known}")
    calls = _tool_calls(fields.get("tool_calls"))
    text = _text(fields, calls, dropped)
    if len(text) > max_chars:
        raise UnusableMessageError(
            f"{len(text):,} characters; at most {max_chars:,} "
            "(Settings.storage.max_message_chars)"
        )
    return Message(
        id=_optional_text(fields.get("id"), "id") or "",
        session_id=session_id,
        role=role,
        origin=_origin(
            role, origin if fields.get("origin") is None else fields["origin"]
        ),
        name=_optional_text(fields.get("name"), "name"),
        at=default_at if stated_at is None else to_utc(stated_at),
        text=text,
        tool_calls=calls,
        tool_call_id=_optional_text(fields.get("tool_call_id"), "tool_call_id"),
    )


def _origin(role: Role, stated: object) -> Origin:
    """The origin of a message; a caller may only lower the trust in it."""
    by_role = ORIGIN_OF_ROLE[role]
    origin = next((one for one in _TRUST if one == stated), None)
    if stated is not None and origin is None:
        raise UnusableMessageError(
            f"origin must be one of {', '.join(_TRUST)}, not {quoted(stated)}"
        )
    if origin is not None and _TRUST[origin] > _TRUST[by_role]:
        raise UnusableMessageError(
            f"a message of role {role!r} cannot have the origin {origin!r}: its words "
            "are not the "
            f"{origin}'s; only less trusted origins may be given"
        )
    return origin or by_role


def _optional_text(value: object, what: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UnusableMessageError(
            f"{what} must be text or an integer, not {quoted(value)}"
        )
    text = written(value, what, UnusableMessageError)
    if not is_unicode(text) or "\0" in text:
        raise UnusableMessageError(
            f"{what} holds characters that are no text: {text!r}"
        )
    if len(text.encode()) > MAX_ID_BYTES:
        raise UnusableMessageError(f"{what} is longer than {MAX_ID_BYTES:,} bytes")
    return text or None


def _tool_calls(value: object) -> list[dict[str, Any]]:
    if not value:
        return []
    try:
        plain = json.dumps(value, ensure_ascii=False, default=str)
        plain.encode("utf-8")
        calls = json.loads(plain, parse_constant=str)  # NaN and Infinity are no JSON
        # as an export does, which fails below some 250 levels
        to_jsonable_python([[calls]])
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableMessageError(f"tool_calls are not JSON: {error}") from error
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UnusableMessageError("tool_calls must be a list of objects")
    return calls


def _text(
    fields: Mapping[str, Any], calls: list[dict[str, Any]], dropped: Counter[str]
) -> str:
    """A message's text; images and sounds have none, a bare tool call is written as
    text.
    """
    lost = Counter[str]()
    text = _written_out(fields, lost)
    dropped.update(
        kind for kind in lost.elements() if not calls or kind not in _CALL_BLOCKS
    )
    if not text.strip() and calls:
        text = "\n".join(
            f"{_CALLS} {json.dumps(call, ensure_ascii=False)}]" for call in calls
        )
    if not text.strip():
        raise UnusableMessageError("no text in the message")
    if not is_unicode(text):
        raise UnusableMessageError(
            "the text holds half of a character (a lone surrogate)"
        )
    return text


def is_bare_call(message: Message) -> bool:
    """True for an assistant's tool calls without any other text."""
    is_call = message.role == "assistant" and message.text.startswith(_CALLS)
    return is_call and bool(message.tool_calls)


def _written_out(fields: Mapping[str, Any], dropped: Counter[str]) -> str:
    content = fields.get("content")
    if not isinstance(content, str | list | None):
        raise UnusableMessageError(
            f"content must be text or a list of blocks, not {type(content).__name__}"
        )
    spoken = (
        [{"type": "audio", "audio": fields["audio"]}] if fields.get("audio") else []
    )
    return "\n".join(
        text for text in _texts([content, *spoken], dropped, "other") if text.strip()
    )


def _texts(
    block: object, dropped: Counter[str], kind: str, levels: int = 20
) -> Iterator[str]:
    """The texts of a content block and of those within it; what holds none is counted
    by type.
    """
    parts: list[Any] = block if isinstance(block, list) and levels else []
    if isinstance(block, str):
        yield block
    elif isinstance(block, Mapping):
        kind = str(block.get("type") or kind)[:40]
        if levels and "reasoning" not in kind and "thinking" not in kind:
            parts = [
                block[key]
                for key in _TEXT_KEYS
                if isinstance(block.get(key), str | list)
            ]
            parts += [block[kind]] if isinstance(block.get(kind), dict) else []
        dropped[kind] += not parts or "data" in block
    for part in parts:
        yield from _texts(part, dropped, kind, levels - 1)


def _with_handoffs(messages: Sequence[Message]) -> list[Message]:
    """The messages; answers of hand-offs, and calls that only these answer, are
    `plumbing`.
    """
    asked = {
        str(call.get("id"))
        for m in messages
        for call in m.tool_calls
        if call.get("args")
    }
    answers = {str(m.tool_call_id) for m in messages if _hands_over(m)} - asked
    for message in messages:
        if message.origin == "plumbing":
            answers.add(str(message.tool_call_id))
            answers |= {str(call.get("id")) for call in message.tool_calls}

    def marked(m: Message) -> Message:
        ids = {str(c.get("id")) for c in m.tool_calls if is_bare_call(m)} or {
            str(m.tool_call_id)
        }
        return (
            m.model_copy(update={"origin": "plumbing"})
            if ids <= answers - {"None"}
            else m
        )

    return list(map(marked, messages))


def _hands_over(message: Message) -> bool:
    """Whether langgraph-swarm's `create_handoff_tool` answers so: by name and text of
    one agent.
    """
    agent = message.text.removeprefix("Successfully transferred to ")
    name = "transfer_to_" + "_".join(agent.split()).lower()
    return message.role == "tool" and message.name == name and agent != message.text


def _named(message: Message, has_time: bool, occurrences: Counter[str]) -> Message:
    """Give a message without an id the hash of its content and occurrence."""
    if message.id:
        return message
    time = message.at.isoformat() if has_time else ""
    content: list[Any] = [
        message.session_id,
        message.role,
        message.name,
        time,
        message.text,
    ]
    if message.tool_calls or message.tool_call_id:
        content += [message.tool_calls, message.tool_call_id]
    if message.metadata:
        content.append(message.metadata)
    key = json.dumps(content, ensure_ascii=False)
    identity = json.dumps([key, occurrences[key]], ensure_ascii=False)
    occurrences[key] += 1
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return message.model_copy(update={"id": f"m-{digest}"})
