"""Arguments that a model wrote, in the types of a schema, and the check of values by it."""

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

MOST_BRACKETS = 400  # in arguments; a model in a repetition loop nests hundreds of them
PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?")


def read_arguments(text: str) -> dict[str, Any] | None:
    """The arguments that a model wrote as JSON; None where it is no object that can be stored."""
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
        # lone surrogates and infinite numbers cannot be stored
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def converted(value: Any, slot: Slot) -> Any:
    """A single value in one of the slot's types, where only its JSON type is another.

    A choice is spelled as the schema has it. What cannot be converted stays as it is, which the
    schema check then reports.
    """
    types = slot.types
    for choice in slot.choices:
        if isinstance(choice, str) and choice.casefold() == str(value).strip().casefold():
            return choice
    if isinstance(value, str) and types and "string" not in types:
        plain = value.strip()
        if "boolean" in types and plain.casefold() in ("true", "false"):
            return plain.casefold() == "true"
        if {"number", "integer"} & set(types) and PLAIN_NUMBER.fullmatch(plain):
            return json.loads(plain)
    if "string" in types and not {"number", "integer", "boolean"} & set(types):
        is_number = isinstance(value, int | float) and value not in (True, False)
        return str(value) if is_number else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


_formats = FormatChecker()


@_formats.checks("date-time", ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(datetime.fromisoformat(value))


def problem(value: Any, schema: Any) -> str | None:
    """Why a value does not fit a schema, its formats included; None when it fits."""
    error = next(errors(value, schema), None)
    return None if error is None else str(error.message)[:200]


def errors(value: Any, schema: Any) -> Iterator[ValidationError]:
    """All errors of a value under a schema."""
    yield from _Validator(schema, format_checker=_formats).iter_errors(value)


def _in_steps(checker: Any, step: float, value: object, _: object) -> Iterator[ValidationError]:
    """`multipleOf` in exact arithmetic: in binary, 19.99 is not a multiple of 0.01."""
    if checker.is_type(value, "number") and Fraction(str(value)) % Fraction(str(step)):
        yield ValidationError(f"{value!r} is not a multiple of {step}")


_Validator: Any = extend(Draft202012Validator, {"multipleOf": _in_steps})  # type: ignore[no-untyped-call]
