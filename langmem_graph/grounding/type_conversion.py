"""Conversion of copied texts into values of a slot's type, and the check of values by schema."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from langmem_graph.grounding.tool_schema import Slot
from langmem_graph.values.matching import number_in
from langmem_graph.values.verbatim import find_values

_TRUE, _FALSE = ("true", "yes", "y", "on"), ("false", "no", "n", "off")
_JSON_TYPES = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
_MOST_BRACKETS = 100
"""Most opening brackets in a value; a model in a repetition loop nests hundreds of them."""
_BEFORE_A_DAY = re.compile(
    r"(?:on |the |(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? )+", re.I
)


def typed(raw: str, slot: Slot) -> Any:
    """The copied text in the slot's type; a string stays byte for byte the same.

    For a list the text is one item. A date is rewritten only where the schema asks for a date. A
    text that cannot be converted stays a text, which the schema check then reports.
    """
    for choice in slot.choices:
        if isinstance(choice, str) and choice.casefold() == raw.strip().casefold():
            return choice
    if slot.item:
        return typed(raw, slot.item)
    if slot.schema.get("format") == "date":
        return _day(raw)
    if not slot.types or "string" in slot.types:
        return raw
    return _read(raw, slot)


def _read(raw: str, slot: Slot) -> Any:
    plain = raw.strip()
    if {"number", "integer"} & set(slot.types):
        number = number_in(plain, percent="percent" in slot.query() or "%" in slot.query())
        if number is not None:
            return number
    if "boolean" in slot.types and plain.casefold() in (*_TRUE, *_FALSE):
        return plain.casefold() in _TRUE
    return inferred(raw, slot)


def _day(raw: str) -> str:
    """A date as `2025-05-07` where day, month and year are certain; else the text itself."""
    plain = raw.strip()
    opening = _BEFORE_A_DAY.match(plain)
    plain = plain[opening.end() :] if opening else plain
    found = find_values(plain)
    whole = [value for value in found if value.type == "date" and value.raw == plain.rstrip(".")]
    return whole[0].normalized if len(found) == 1 and whole else raw


def inferred(text: str, slot: Slot) -> Any:
    """A value that the model wrote as JSON; the text itself for a string slot or invalid JSON."""
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        return text
    try:
        value = json.loads(text, parse_constant=_no_constant)
        # lone surrogates and infinite numbers cannot be stored
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return text
    kinds = _JSON_TYPES[type(value)]
    return text if "string" in slot.types and not set(kinds) & set(slot.types) else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_formats = FormatChecker()


@_formats.checks("date-time", ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(datetime.fromisoformat(value))


def problem_with(value: Any, slot: Slot) -> str | None:
    """Why a value does not fit the slot's schema; None when it fits."""
    return problem(value, slot.schema)


def problem(value: Any, schema: Any) -> str | None:
    """Why a value does not fit a schema, its formats included; None when it fits."""
    error = next(errors(value, schema), None)
    return None if error is None else str(error.message)[:200]


def errors(value: Any, schema: Any) -> Iterator[ValidationError]:
    """All errors of a value under a schema."""
    yield from _Validator(schema, format_checker=_formats).iter_errors(value)


def _in_steps(
    checker: Any, step: float, value: object, schema: object
) -> Iterator[ValidationError]:
    """`multipleOf` in exact arithmetic: in binary, 19.99 is not a multiple of 0.01."""
    if checker.is_type(value, "number") and Fraction(str(value)) % Fraction(str(step)):
        yield ValidationError(f"{value!r} is not a multiple of {step}")


_Validator: Any = extend(Draft202012Validator, {"multipleOf": _in_steps})  # type: ignore[no-untyped-call]
