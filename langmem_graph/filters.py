"""Filters (`where`): parsed and checked, before anything is looked up.

A value is compared with values of its own type only: texts, numbers, or True and False.
One of another type, or no value at all, matches no comparison, not even `$ne` and
`$nin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.ids_and_times import to_utc
from langmem_graph.metadata import Value, check_key, check_value

Operator = Literal["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists"]
Where = Mapping[str, Any]
"""A filter as a caller gives it: `{"project": "atlas", "at": {"$gte":
"2026-01-01"}}`.
"""
OPERATORS: tuple[str, ...] = (
    "$eq",
    "$ne",
    "$in",
    "$nin",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$exists",
)
MOST_VALUES = 1_000
DEEPEST = 8
EXAMPLE = 'where={"project": "atlas", "at": {"$gte": "2026-01-01"}}'
# may be given as numbers, as to `add`
_NAMES = ("session_id", "agent_id", "room", "author")


@dataclass(frozen=True)
class Comparison:
    """One key compared with a value; of `$in` and `$nin` with several, of `$exists` a
    bool.
    """

    key: str
    operator: Operator
    values: tuple[Value | datetime, ...]


@dataclass(frozen=True)
class Group:
    """Filters of which `every` one has to match, or any."""

    every: bool
    parts: tuple["Filter", ...]


Filter = Comparison | Group


def parsed(where: object) -> Filter | None:
    """A filter, checked; None where there is none.

    Raises:
        InvalidInputError: it cannot be understood; the text shows one that can.
    """
    if where is None:
        return None
    filtered = _group(where, 1)
    if _size(filtered) > MOST_VALUES:
        raise _error(f"it compares with more than {MOST_VALUES:,} values")
    return filtered


def narrowed(fixed: Where | None, given: Where | None) -> Where | None:
    """A fixed filter together with that of a caller, who can only narrow it."""
    both_given = fixed is not None and given is not None
    return {"$and": [fixed, given]} if both_given else fixed if given is None else given


def _group(where: object, depth: int) -> Filter:
    if not isinstance(where, Mapping) or not where:
        raise _error(f"a filter is a dict with at least one key, not {quoted(where)}")
    if depth > DEEPEST:
        raise _error(f"it is nested more than {DEEPEST} times")
    parts: list[Filter] = []
    for key, asked in where.items():
        if key in ("$and", "$or"):
            if not isinstance(asked, list | tuple) or not asked:
                raise _error(f"{key} takes a list of filters, not {quoted(asked)}")
            inner = tuple(_group(one, depth + 1) for one in asked)
            parts.append(Group(key == "$and", inner))
        else:
            parts += _comparisons(key, asked)
    return parts[0] if len(parts) == 1 else Group(True, tuple(parts))


def _comparisons(key: object, asked: object) -> list[Comparison]:
    if isinstance(key, str) and key.startswith("$"):
        raise _error(f"{quoted(key)} cannot stand before a key; $and and $or can")
    name = check_key(key)
    if not isinstance(asked, Mapping):
        asked = {"$eq": asked}
    if not asked:
        raise _error(f"{name!r} is compared with nothing")
    return [_comparison(name, operator, value) for operator, value in asked.items()]


def _comparison(key: str, operator: object, value: object) -> Comparison:
    if operator not in OPERATORS:
        known = ", ".join(OPERATORS)
        raise _error(
            f"there is no operator {quoted(operator)} for {key!r}; there are {known}"
        )
    if operator == "$exists":
        if not isinstance(value, bool):
            raise _error(
                f"$exists takes True or False for {key!r}, not {quoted(value)}"
            )
        return Comparison(key, cast(Operator, operator), (value,))
    several = value if operator in ("$in", "$nin") else [value]
    if not isinstance(several, list | tuple | set | frozenset) or not several:
        raise _error(
            f"{operator} takes a list with at least one value for {key!r}, not "
            f"{quoted(value)}"
        )
    values = tuple(_value(key, one) for one in several)
    if len({kind_of(one) for one in values}) > 1:
        raise _error(f"the values for {key!r} must be of one type, not {quoted(value)}")
    return Comparison(key, cast(Operator, operator), values)


def _value(key: str, value: Any) -> Value | datetime:
    if key in _NAMES and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    try:
        if key == "at":
            return to_utc(value).replace(tzinfo=None)  # as the ledger stores times
        return check_value(key, value)
    except InvalidInputError as problem:
        raise _error(str(problem).split(". As in", maxsplit=1)[0]) from problem


def kind_of(value: Value | datetime) -> str:
    """The type as which a value is stored and compared: `text`, `number`, `truth` or
    `time`.
    """
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, datetime):
        return "time"
    return "text" if isinstance(value, str) else "number"


def _size(given: Filter) -> int:
    if isinstance(given, Comparison):
        return len(given.values)
    return sum(map(_size, given.parts))


def _error(problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"The filter cannot be used: {problem[:400]}. As in {EXAMPLE}"
    )
