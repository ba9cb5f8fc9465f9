"""Reads conversation files of other programs into messages that `user.add` takes.

Chat JSONL: one message or one conversation per line, in OpenAI's style, and records. A
ChatGPT data export: `conversations.json`, a list of trees of messages. The content
tells the format.
"""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langmem_graph.errors import ImportFormatError, quoted

__all__ = ["Conversation", "read_conversations", "read_records"]
_RECORD = "source_message_ids"
"""A row with this field is a record of messages in the same file."""
_SESSION_FIELDS = ("session_id", "conversation_id", "thread_id")
_TIME_FIELDS = ("at", "timestamp", "created_at", "create_time", "created", "time")
_KNOWN = (
    "chat JSONL in OpenAI's style, with records or without, and a ChatGPT export "
    "(conversations.json or its zip)"
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Conversation:
    """One session: dicts with `role`, `content` and, where known, `id`, `name`,
    `at`.
    """

    session_id: str
    messages: list[Row] = field(default_factory=list)


def read_conversations(file: Path) -> Iterator[Conversation]:
    """The conversations of a file in any format we know, in the file's order.

    Raises:
        ImportFormatError: when the file cannot be read or is in no known format.
    """
    data = _data(file)
    if not _is_chatgpt(data):
        yield from _read_chat(_rows(data, file), file.stem)
        return
    try:
        yield from _read_chatgpt(data if isinstance(data, list) else [data])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise ImportFormatError(
            f"{file} looks like a known format but is damaged: "
            f"{type(error).__name__}: {error}."
        ) from error


def read_records(file: Path) -> list[Row]:
    """The rows that are records, as `user.export_records` gives and `add_records` takes
    them.
    """
    data = _data(file)
    return (
        []
        if _is_chatgpt(data)
        else [row for _, row in _rows(data, file) if _RECORD in row]
    )


def _data(file: Path) -> Any:
    """The file's JSON; where it is not one value, its text."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                text = archive.read("conversations.json").decode("utf-8-sig")
        else:
            text = file.read_bytes().decode("utf-8-sig")
    except Exception as error:  # of each kind of compression its own
        raise ImportFormatError(f"{file} cannot be read: {error}") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(data, str) else data


def _rows(data: Any, file: Path) -> list[tuple[int, Row]]:
    """The numbered rows of chat JSONL or of an array of such rows."""
    if not isinstance(data, str):
        rows = data if isinstance(data, list) else [data]
        if not rows or not all(map(_is_chat, rows)):
            raise ImportFormatError(f"{file} is in no format we know. Known: {_KNOWN}.")
        return list(enumerate(rows, 1))
    lines = enumerate(data.split("\n"), 1)  # splitlines() would split within a text
    return [(number, _row(line, number)) for number, line in lines if line.strip()]


def _row(line: str, number: int) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ImportFormatError(f"Line {number} is not JSON: {error}") from error
    if not _is_chat(row):
        raise ImportFormatError(
            f"Line {number} is no chat: it needs 'role' and 'content', or a list "
            "'messages'."
        )
    return row  # type: ignore[no-any-return]


def _is_chat(row: Any) -> bool:
    return isinstance(row, dict) and bool({"messages", "role", _RECORD} & set(row))


def _read_chat(rows: list[tuple[int, Row]], name: str) -> Iterator[Conversation]:
    """Rows with whole conversations; then the messages of the others, by session.

    `name` is the session of messages that tell none.
    """
    loose: dict[str, list[Row]] = {}
    for number, row in rows:
        if _RECORD in row:
            continue  # see read_records
        if isinstance(row.get("messages"), list):
            session = str(_first(row, (*_SESSION_FIELDS, "id")) or f"{name}-{number}")
            default_at = _first(row, _TIME_FIELDS)
            messages = [_message(m, default_at, number) for m in row["messages"]]
            yield Conversation(
                session, [_within(session, message) for message in messages]
            )
        else:
            session = str(_first(row, _SESSION_FIELDS) or name)
            loose.setdefault(session, []).append(_message(row, None, number))
    for session, messages in loose.items():
        yield Conversation(session, messages)


def _message(row: Any, default_at: Any, number: int) -> Row:
    if not isinstance(row, dict):
        raise ImportFormatError(
            f"Line {number}: a message must be an object, not {quoted(row)}."
        )
    at = _first(row, _TIME_FIELDS)
    fields = {name: value for name, value in row.items() if name not in _TIME_FIELDS}
    return {**fields, "at": default_at if at is None else at}


def _within(session: str, message: Row) -> Row:
    """Make ids unique: with a conversation per line, they often count from 1 in
    each.
    """
    message_id = message.get("id")
    if message_id is None or str(message_id).startswith(session):
        return message
    return {**message, "id": f"{session}/{message_id}"}


def _first(row: Row, names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _is_chatgpt(data: Any) -> bool:
    """True for a list of ChatGPT's conversations, or for one of them."""
    first = data[0] if isinstance(data, list) and data else data
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def _read_chatgpt(talks: list[Any]) -> Iterator[Conversation]:
    for number, talk in enumerate(talks, 1):
        name = talk.get("conversation_id") or talk.get("id") or f"chatgpt-{number}"
        shown = [
            message
            for message in _shown_branch(talk)
            if message and not _hidden(message)
        ]
        messages = [
            {
                "id": message.get("id"),
                "role": (message.get("author") or {}).get("role"),
                "content": _words(message),
                "at": message.get("create_time") or talk.get("create_time"),
            }
            for message in shown
        ]
        yield Conversation(str(name), messages)


def _shown_branch(talk: Row) -> list[Any]:
    """The messages from the root of the tree to the one that was shown last."""
    nodes: Row = talk["mapping"]
    branch: list[Any] = []
    leaves = [key for key, node in nodes.items() if not node.get("children")]
    key = talk.get("current_node") or (leaves[-1] if leaves else None)
    seen = set()
    while key in nodes and key not in seen:
        seen.add(key)
        branch.append(nodes[key].get("message"))
        key = nodes[key].get("parent")
    return branch[::-1]


def _hidden(message: Row) -> bool:
    """True for messages that the user never saw, and for those without text."""
    metadata = message.get("metadata") or {}
    role = (message.get("author") or {}).get("role")
    kind = (message.get("content") or {}).get("content_type", "text")
    unseen = metadata.get("is_visually_hidden_from_conversation") or role == "system"
    return (
        bool(unseen) or kind not in ("text", "multimodal_text") or not _words(message)
    )


def _words(message: Row) -> str:
    parts = (message.get("content") or {}).get("parts") or []
    texts = [
        part if isinstance(part, str) else part.get("text") or ""
        for part in parts
        if part
    ]
    return "\n".join(text for text in texts if text.strip())
