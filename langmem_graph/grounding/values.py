"""values: a text that was copied becomes a value of the slot's type; nothing else is changed."""

import json
import re
from typing import Any

from jsonschema import Draft202012Validator

from langmem_graph.grounding.slots import Slot
from langmem_graph.write.value_forms import normalize

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_TRUE, _FALSE = ("true", "yes", "y", "on"), ("false", "no", "n", "off")


def typed(raw: str, slot: Slot) -> Any:
    """The copied text as the slot takes it; a string stays byte for byte what it was.

    A list takes it as an item. What cannot be read as the slot's type stays a text, and the
    schema's check says so.
    """
    for choice in slot.choices:
        if isinstance(choice, str) and choice.casefold() == raw.strip().casefold():
            return choice
    kinds = _item_types(slot) if "array" in slot.types else slot.types
    if not kinds or "string" in kinds:
        return raw
    return _read(raw, kinds)


def _item_types(slot: Slot) -> tuple[str, ...]:
    items = slot.schema.get("items")
    kind = items.get("type") if isinstance(items, dict) else None
    return (kind,) if isinstance(kind, str) else tuple(kind or ())


def _read(raw: str, kinds: tuple[str, ...]) -> Any:
    plain = raw.strip()
    number = _NUMBER.match(normalize("number", plain))
    if number and ("number" in kinds or "integer" in kinds):
        value = float(number.group())
        whole = value.is_integer() and ("integer" in kinds or "." not in number.group())
        return int(value) if whole else value
    if "boolean" in kinds and plain.casefold() in (*_TRUE, *_FALSE):
        return plain.casefold() in _TRUE
    return inferred(raw)


def inferred(text: str) -> Any:
    """A value that the model wrote as JSON; words that are no JSON are a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def problem_with(value: Any, slot: Slot) -> str | None:
    """What the slot's schema has against a value; None when it fits."""
    error = next(Draft202012Validator(slot.schema).iter_errors(value), None)
    return None if error is None else str(error.message)[:200]
