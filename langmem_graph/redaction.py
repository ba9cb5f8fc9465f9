"""Takes out of what is stored what an application never wants to keep, before it is stored."""

from collections.abc import Callable, Mapping
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.schemas import Message, Record

Redact = Callable[[str], str]
"""An application's function: a text without what must not be stored, such as card numbers."""
_IDS = frozenset(
    "record_id message_ids source_message_ids supporting_ids supersedes refines".split()
)
_TEXTS = "text subject attribute project scene entities values data".split()


def redacted_text(text: str, redact: Redact | None) -> str:
    """The text that may be stored.

    Raises:
        InvalidInputError: `redact` failed, or left no text; the error does not quote the text.
    """
    if redact is None:
        return text
    try:
        left = redact(text)
    except Exception as error:  # noqa: BLE001  # the application's own; its words may quote the text
        raise InvalidInputError(
            f"redact failed: {type(error).__name__}; nothing is stored"
        ) from None
    if not isinstance(left, str) or not left.strip():
        raise InvalidInputError("redact left no text; it must return what may be stored")
    return left


def redacted_message(message: Message, redact: Redact | None) -> Message:
    """The message with redacted text, name and tool calls."""
    if redact is None:
        return message
    changed = {
        "text": redacted_text(message.text, redact),
        "name": message.name and redacted_text(message.name, redact),
        "tool_calls": _redacted(message.tool_calls, redact),
    }
    return message.model_copy(update=changed)


def redacted_record(row: object, redact: Redact | None) -> object:
    """A record, or a dict of one, with all its texts redacted but the ids."""
    if redact is None:
        return row
    if isinstance(row, Record):
        texts = {name: _redacted(getattr(row, name), redact) for name in _TEXTS}
        return row.model_copy(update=texts)
    if not isinstance(row, Mapping):
        return row
    return {key: one if key in _IDS else _redacted(one, redact) for key, one in row.items()}


def _redacted(value: Any, redact: Redact) -> Any:
    """All texts within lists and objects, redacted."""
    if isinstance(value, str):
        return redacted_text(value, redact) if value.strip() else value
    if isinstance(value, Mapping):
        return {key: _redacted(one, redact) for key, one in value.items()}
    return [_redacted(one, redact) for one in value] if isinstance(value, list) else value
