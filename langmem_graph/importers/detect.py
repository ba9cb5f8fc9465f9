"""Reads a conversation file in any known format, which its content tells."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langmem_graph.errors import ImportFormatError
from langmem_graph.importers.chat_jsonl import RECORD, Conversation, read_chat_jsonl
from langmem_graph.importers.chat_jsonl import read_records as record_lines
from langmem_graph.importers.chatgpt import is_chatgpt, read_chatgpt

KNOWN = (
    "chat JSONL in OpenAI's style, with records or without, and a ChatGPT export "
    "(conversations.json or its zip)"
)


def read_conversations(file: Path) -> Iterator[Conversation]:
    """The conversations of a file in any format we know, in the file's order.

    Raises:
        ImportFormatError: when the file cannot be read or is in no known format.
    """
    text = _text(file)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        yield from read_chat_jsonl(text, file.stem)
        return
    try:
        yield from _read_json(data, file)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if isinstance(error, ImportFormatError):
            raise
        raise ImportFormatError(
            f"{file} looks like a known format but is damaged: {type(error).__name__}: {error}."
        ) from error


def _read_json(data: Any, file: Path) -> Iterator[Conversation]:
    if is_chatgpt(data):
        yield from read_chatgpt(data)
        return
    rows = data if isinstance(data, list) else [data]
    if rows and all(isinstance(r, dict) and ({"messages", "role", RECORD} & set(r)) for r in rows):
        yield from read_chat_jsonl("\n".join(map(json.dumps, rows)), file.stem)
        return
    raise ImportFormatError(f"{file} is in no format we know. Known: {KNOWN}.")


def read_records(file: Path) -> list[dict[str, Any]]:
    """The records of a chat JSONL file; other formats have none.

    Raises:
        ImportFormatError: when the file cannot be read.
    """
    text = _text(file)
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return record_lines(text)
    rows = rows if isinstance(rows, list) else [rows]
    return [row for row in rows if isinstance(row, dict) and RECORD in row]


def _text(file: Path) -> str:
    try:
        if not zipfile.is_zipfile(file):
            return file.read_bytes().decode("utf-8-sig")
        with zipfile.ZipFile(file) as archive:
            return archive.read("conversations.json").decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, KeyError, zipfile.BadZipFile) as error:
        raise ImportFormatError(f"{file} cannot be read: {error}") from error
