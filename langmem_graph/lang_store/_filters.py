"""Filters of a search: which values fit."""

import operator
from collections.abc import Mapping
from typing import Any

from langmem_graph.errors import InvalidInputError

_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_OPERATORS = ("$eq", "$ne", *_ORDER)


def check_filter(wanted: Mapping[str, Any]) -> None:
    """Raise when a filter uses an operator that does not exist, wherever it stands.

    Raises:
        InvalidInputError: which is a `ValueError`.
    """
    for condition in wanted.values():
        if not isinstance(condition, Mapping):
            continue
        if not _has_operators(condition):
            check_filter(condition)
            continue
        for name, bound in condition.items():
            _check_operator(name, bound)


def _check_operator(name: str, bound: Any) -> None:
    if name not in _OPERATORS:
        raise InvalidInputError(
            f"Unsupported filter operator {name!r}. There are {', '.join(_OPERATORS)}."
        )
    if name in _ORDER and not isinstance(bound, (int, float, str)):
        raise InvalidInputError(f"{name} compares with a number or a text, not with {bound!r}.")


def _has_operators(condition: Mapping[str, Any]) -> bool:
    return any(name.startswith("$") for name in condition)


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """True when every named key fits; a key that is not there counts as null."""
    return all(_fits(value.get(key), condition) for key, condition in (wanted or {}).items())


def _fits(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _has_operators(wanted):
            return all(_compares(found, name, bound) for name, bound in wanted.items())
        return isinstance(found, Mapping) and passes(found, wanted)
    if isinstance(wanted, (list, tuple)):
        same_size = isinstance(found, list) and len(found) == len(wanted)
        return same_size and all(map(_fits, found, wanted))
    return bool(found == wanted)


def _compares(found: Any, name: str, bound: Any) -> bool:
    """As LangGraph's databases do: null is unequal to nothing and in no order."""
    if name == "$eq":
        return bool(found == bound)
    if name == "$ne":
        return found is not None and bool(found != bound)
    both = (found, bound)
    if all(isinstance(one, str) for one in both) or all(
        isinstance(one, (int, float)) for one in both
    ):
        return bool(_ORDER[name](found, bound))
    return False
