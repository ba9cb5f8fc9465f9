"""Whether a value fits a JSON schema, which may be a third party's.

No reference is followed out of the schema, and its patterns run in RE2, which takes
time linear in the text. A pattern that RE2 cannot run counts as no pattern, and so does
a format whose check fails. A value does not fit where any other check fails.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, time
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any

import re2
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from langmem_graph.llm.tool_specs import DATA_KEYWORDS, parts_of_text

# compiling a regular expression with `re` may fail in many ways, and take long
_formats = FormatChecker(formats=FormatChecker.checkers.keys() - {"regex"})
_NOWHERE: Registry[Any] = Registry()
"""Knows no schema and retrieves none."""
MOST_CHECKS = 150_000
"""Parts of a value times parts of its schema, which bounds the time of a check."""
CHECKS_A_CALL = 3
"""As many of the largest checks may be made in each of the two steps of a tool call:
optional objects are checked by themselves and within those around them.
"""
LONGEST_QUOTE = 200
"""Characters of a value or a schema in an error."""
LONGEST_PATTERN = 10_000
"""Characters; RE2 takes quadratic time to read some texts."""
MOST_MEMORY = 8 * 1024 * 1024
"""Bytes of a pattern."""
MOST_MEMORY_PLAIN = 128 * 1024
"""Bytes of a pattern with a letter for each class, which bounds the time of compiling
it: that is quadratic in its optional parts, however few characters each may have.
"""
_ONE_CHARACTER = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\[pPx](?:\{[^}\\]*\}|.)|\\.|\."
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^]\\])*(?:\]|\\?\Z)",
    re.DOTALL,
)
"""A class, an escape or a quote of RE2. What begins one is one, also without its end:
it would be looked for again from the next on.
"""
MOST_STEPS = 300_000_000
"""Instructions of patterns times characters, which bounds the time of all searches of a
tool call; about a second in each of its two steps.
"""


class _Brief:
    """What quotes itself briefly: jsonschema quotes values and schemas in errors."""

    def __repr__(self) -> str:
        text = ""
        for piece in _pieces(self):
            text += piece
            if len(text) > LONGEST_QUOTE:
                return f"{text[:LONGEST_QUOTE]}…"
        return text


class _Object(_Brief, dict[str, Any]): ...


class _List(_Brief, list[Any]): ...


class _Text(_Brief, str): ...


def _brief(value: Any) -> Any:
    """A copy of a value or a schema that quotes itself briefly."""
    if isinstance(value, dict):
        parts = {_brief(name): _brief(part) for name, part in value.items()}
        return _Object(parts)
    if isinstance(value, list):
        return _List(map(_brief, value))
    return _Text(value) if isinstance(value, str) else value


def _pieces(value: Any) -> Iterator[str]:
    """The text of a value piece by piece; of a long text its beginning."""
    if isinstance(value, dict):
        yield "{"
        for place, (name, part) in enumerate(value.items()):
            yield ", " if place else ""
            yield from _pieces(name)
            yield ": "
            yield from _pieces(part)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for place, part in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(part)
        yield "]"
    else:
        yield repr(value[:LONGEST_QUOTE] if isinstance(value, str) else value)


class _TooLongError(Exception):
    """The search for a pattern would take long."""


@dataclass
class _Bounds:
    """What the checks of one tool call may take, and what they found."""

    checks_left: int = MOST_CHECKS
    steps_left: int = MOST_STEPS
    occurring: dict[tuple[str, str], bool] = field(default_factory=dict)
    formed: dict[tuple[str, str], bool] = field(default_factory=dict)

    def may_check(self, value: Any, schema: Any) -> bool:
        """Whether there is time to check a value by a schema, which is then taken."""
        checks = _parts(value) * _parts(schema)
        if checks > min(self.checks_left, MOST_CHECKS):
            return False
        self.checks_left -= checks
        return True

    def occurs(self, pattern: str, text: str) -> bool | None:
        """Whether the pattern occurs in a text; None where RE2 cannot run it.

        Raises:
            _TooLongError: no steps are left for it.
        """
        compiled = _compiled(str(pattern))  # one that is quoted briefly, too
        if compiled is None:
            return None
        if (pattern, text) not in self.occurring:
            steps = compiled.programsize * len(text)
            if steps > self.steps_left:
                raise _TooLongError
            self.steps_left -= steps
            self.occurring[pattern, text] = compiled.search(text) is not None
        return self.occurring[pattern, text]

    def has_format(self, formats: FormatChecker, name: str, text: str) -> bool:
        """Whether a text has a format; each is checked once."""
        if (name, text) not in self.formed:
            self.formed[name, text] = _fits_format(formats, name, text)
        return self.formed[name, text]


_BOUNDS = ContextVar[_Bounds | None]("bounds", default=None)


@contextmanager
def bounded_checks() -> Iterator[None]:
    """Bound the time of all checks within.

    Without it, each check, and each search for a pattern, has a bound of its own.
    """
    token = _BOUNDS.set(_Bounds(MOST_CHECKS * CHECKS_A_CALL))
    try:
        yield
    finally:
        _BOUNDS.reset(token)


def _bounds() -> _Bounds:
    return _BOUNDS.get() or _Bounds()


def problem(value: Any, schema: Any) -> str | None:
    """Why a value does not fit a schema, its formats included; None when it fits."""
    error = next(errors(value, schema), None)
    return None if error is None else str(error.message)[:LONGEST_QUOTE]


def errors(value: Any, schema: Any) -> Iterator[ValidationError]:
    """All errors of a value under a schema.

    A value and a schema that are too large together have one error that says so.
    """
    if not _bounds().may_check(value, schema):
        yield ValidationError("it is too large to be checked against its schema")
        return
    try:
        brief = _brief(schema)
        check = _Validator(brief, format_checker=_formats, registry=_NOWHERE)
        yield from check.iter_errors(_brief(value))
    except Exception as error:  # noqa: BLE001  # long numbers, references, jsonschema's own
        yield ValidationError(f"it cannot be checked: {str(error)[:LONGEST_QUOTE]}")


def is_too_large(value: Any, schema: Any) -> bool:
    """Whether a value has too many parts to be read by a schema of this size."""
    return _parts(value) * _parts(schema) > MOST_CHECKS


def patterns_not_run(schema: Any) -> Iterator[str]:
    """The patterns in a schema that RE2 cannot run, so that nothing is checked."""
    if isinstance(schema, Mapping):
        schema = {n: part for n, part in schema.items() if n not in DATA_KEYWORDS}
        named = schema.get("patternProperties")
        names = named if isinstance(named, Mapping) else ()
        for pattern in (schema.get("pattern"), *names):
            if isinstance(pattern, str) and _compiled(pattern) is None:
                yield pattern
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from patterns_not_run(part)


def _parts(value: Any) -> int:
    if isinstance(value, Mapping):
        names = sum(map(parts_of_text, value))
        return 1 + names + sum(map(_parts, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(_parts, value))
    return 1 + parts_of_text(value)


@_formats.checks("date-time", ValueError)
def _is_moment(value: object) -> bool:
    """By ISO 8601, with hours and minutes; the zone may be left out."""
    if not isinstance(value, str):
        return True
    return ":" in value and bool(datetime.fromisoformat(value.upper()))


@_formats.checks("time", ValueError)
def _is_time(value: object) -> bool:
    """The same without a day."""
    if not isinstance(value, str):
        return True
    return ":" in value and bool(time.fromisoformat(value.upper()))


def _in_steps(
    checker: Any, step: float, value: object, _: object
) -> Iterator[ValidationError]:
    """`multipleOf` in exact arithmetic: in binary, 19.99 is not a multiple of 0.01."""
    size = _exact(step)
    if not (size and checker.is_type(value, "number")):
        return
    amount = _exact(value)
    if amount is None or amount % size:
        yield ValidationError(f"{value!r} is not a multiple of {step}")


def _exact(number: Any) -> Fraction | None:
    """The number as it is written; None where it is infinite or none."""
    if isinstance(number, int):
        return Fraction(number)
    return Fraction(str(float(number))) if isfinite(number) else None


def _has_format(
    checker: Any, name: str, value: object, _: object
) -> Iterator[ValidationError]:
    """`format`."""
    if not isinstance(value, str):
        fits = _fits_format(checker.format_checker, name, value)
    else:
        fits = _bounds().has_format(checker.format_checker, name, value)
    if not fits:
        yield ValidationError(f"{value!r} is not a {name!r}")


def _fits_format(formats: FormatChecker, name: str, value: object) -> bool:
    """Whether a value has a format; true where the check of it fails by itself."""
    try:
        return formats.conforms(value, name)
    except Exception:  # noqa: BLE001  # of one of several libraries, which names none
        return True


@lru_cache(maxsize=1_000)
def _compiled(pattern: str) -> Any:
    """The pattern in RE2; None where RE2 cannot run it, or takes long to compile it."""
    if len(pattern) > LONGEST_PATTERN:
        return None
    plain = _ONE_CHARACTER.sub("a", pattern)
    if _program(plain, MOST_MEMORY_PLAIN) is None:
        return None
    return _program(pattern, MOST_MEMORY)


def _program(pattern: str, most_memory: int) -> Any:
    """The pattern in RE2; None where it is none, or would take more memory."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = most_memory
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError):
        return None


def _is_unique(
    _: object, wanted: bool, value: object, __: object
) -> Iterator[ValidationError]:
    """`uniqueItems` in linear time; 1 and 1.0 count as different."""
    if wanted and isinstance(value, list):
        texts = [json.dumps(item, sort_keys=True, default=str) for item in value]
        if len(set(texts)) < len(texts):
            yield ValidationError(f"{value!r} has an item twice")


def _has_pattern(
    _: object, pattern: str, value: object, __: object
) -> Iterator[ValidationError]:
    """`pattern`."""
    if not isinstance(value, str):
        return
    try:
        if _bounds().occurs(pattern, value) is False:
            yield ValidationError(f"{value!r} does not match {pattern!r}")
    except _TooLongError:
        yield ValidationError("it is too long to be checked by its pattern")


def may_be_named(name: str, pattern: str) -> bool:
    """Whether a pattern allows a property's name, or cannot be run."""
    try:
        return _bounds().occurs(pattern, name) is not False
    except _TooLongError:
        return True


def _named_by_pattern(
    checker: Any, patterns: Mapping[str, Any], value: object, _: object
) -> Iterator[ValidationError]:
    """`patternProperties`."""
    if not isinstance(value, dict):
        return
    for pattern, part in patterns.items():
        for name, inside in value.items():
            with suppress(_TooLongError):
                if _bounds().occurs(pattern, name):
                    yield from checker.descend(inside, part, path=name)


def _additional(
    checker: Any, part: Any, value: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """`additionalProperties`: a pattern that cannot be run may have any name."""
    if not isinstance(value, dict):
        return
    properties = schema.get("properties", ())
    patterns = schema.get("patternProperties", ())
    for name, inside in value.items():
        if name in properties:
            continue
        if any(may_be_named(name, pattern) for pattern in patterns):
            continue
        if part is False:
            yield ValidationError(f"{name!r} is not among the properties")
        else:
            yield from checker.descend(inside, part, path=name)


def _unchecked(*_: object) -> Iterator[ValidationError]:
    """`unevaluatedProperties` and the like: jsonschema runs their patterns in `re`."""
    yield from ()


_CHECKS = {
    "multipleOf": _in_steps,
    "uniqueItems": _is_unique,
    "format": _has_format,
    "pattern": _has_pattern,
    "patternProperties": _named_by_pattern,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unchecked,
    "unevaluatedItems": _unchecked,
}
_Validator: Any = extend(Draft202012Validator, _CHECKS)  # type: ignore[no-untyped-call]
