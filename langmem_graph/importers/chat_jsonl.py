"""Chat JSONL: one message or one conversation per line, in OpenAI's style, and records."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from langmem_graph.errors import ImportFormatError

RECORD = "source_message_ids"
"""A line with this field is a record of messages in the same file."""
_SESSION_FIELDS = ("session_id", "conversation_id", "thread_id")
_TIME_FIELDS = ("at", "timestamp", "created_at", "create_time", "created", "time")


@dataclass(frozen=True)
class Conversation:
    """One session: dicts with `role`, `content` and, where known, `id`, `name`, `at`."""

    session_id: str
    messages: list[dict[str, Any]] = field(default_factory=list)


def read_chat_jsonl(text: str, name: str) -> Iterator[Conversation]:
    """Conversations in the file's order; lines of one session follow one another or not.

    Args:
        text: the file's text.
        name: names the session of messages that tell none.

    Raises:
        ImportFormatError: names the first line that is no chat.
    """
    loose: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(text.split("\n"), 1):  # splitlines() would split within a text
        if not line.strip():
            continue
        row = _row(line, number)
        if RECORD in row:
            continue  # see read_records
        if isinstance(row.get("messages"), list):
            session = str(_first(row, (*_SESSION_FIELDS, "id")) or f"{name}-{number}")
            default_at = _first(row, _TIME_FIELDS)
            messages = [_message(m, default_at, number) for m in row["messages"]]
            yield Conversation(session, [_within(session, message) for message in messages])
        else:
            session = str(_first(row, _SESSION_FIELDS) or name)
            loose.setdefault(session, []).append(_message(row, None, number))
    for session, messages in loose.items():
        yield Conversation(session, messages)


def read_records(text: str) -> list[dict[str, Any]]:
    """The lines that are records, as `user.export_records` gives and `add_records` takes them."""
    lines = (line for line in text.split("\n") if RECORD in line)
    rows = (_row(line, number) for number, line in enumerate(lines, 1))
    return [row for row in rows if RECORD in row]


def _row(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ImportFormatError(f"Line {number} is not JSON: {error}") from error
    if not isinstance(row, dict) or not ({"messages", "role", RECORD} & set(row)):
        raise ImportFormatError(
            f"Line {number} is no chat: it needs 'role' and 'content', or a list 'messages'."
        )
    return row


def _message(row: Any, default_at: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ImportFormatError(f"Line {number}: a message must be an object, not {row!r:.80}.")
    at = _first(row, _TIME_FIELDS)
    return {**row, "at": default_at if at is None else at}


def _within(session: str, message: dict[str, Any]) -> dict[str, Any]:
    """Make ids unique: with a conversation per line, they often count from 1 in each."""
    message_id = message.get("id")
    if message_id is None or str(message_id).startswith(session):
        return message
    return {**message, "id": f"{session}/{message_id}"}


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)
