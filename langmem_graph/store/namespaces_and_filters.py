"""Namespaces of a store, compared label by label, and the filters of a search."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition, Op
from sqlalchemy import ColumnElement, true

from langmem_graph.errors import InvalidInputError
from langmem_graph.store.item_tables import items

Namespace = tuple[str, ...]
_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_OPERATORS = ("$eq", "$ne", *_ORDER)


def as_text(namespace: Sequence[str]) -> str:
    """The labels joined by dots; LangGraph allows no dot in a label."""
    return ".".join(namespace)


def as_labels(text: str) -> Namespace:
    """The labels of a stored namespace."""
    return tuple(text.split("."))


def under(prefix: Sequence[str]) -> ColumnElement[bool]:
    """Selects the items in a namespace and below it.

    It compares with a range, since LIKE has wildcards and ignores case: every text that begins with
    `a.b.` sorts after `a.b.` and before `a.b/`, as the slash follows the dot.
    """
    if not prefix:
        return true()
    name = as_text(prefix)
    column = items.c.namespace
    return (column == name) | ((column > f"{name}.") & (column < f"{name}/"))


def check_labels(op: Op) -> None:
    """Raise if a namespace is a text: each of its letters would count as a label.

    Raises:
        InvalidNamespaceError: LangGraph's own error.
    """
    for name in ("namespace", "namespace_prefix"):
        _refuse_text(getattr(op, name, None))
    for condition in getattr(op, "match_conditions", None) or ():
        _refuse_text(condition.path)


def _refuse_text(namespace: object) -> None:
    if isinstance(namespace, str):
        raise InvalidNamespaceError(
            f"A namespace is a tuple of labels: {(namespace,)!r}, not {namespace!r}."
        )


def known_beginning(op: ListNamespacesOp) -> Namespace:
    """The labels with which every listed namespace begins: those of a prefix without wildcards."""
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix" and "*" not in condition.path:
            return tuple(condition.path)
    return ()


def listed(op: ListNamespacesOp, stored: Sequence[Namespace]) -> list[Namespace]:
    """The namespaces that meet the operation's conditions, cut to its depth and sorted."""
    conditions = op.match_conditions or ()
    meeting = (name for name in stored if all(_meets(name, condition) for condition in conditions))
    cut = sorted({name[: op.max_depth] for name in meeting})
    return cut[op.offset : op.offset + op.limit]


def _meets(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    at_end = condition.match_type == "suffix"
    part = namespace[len(namespace) - len(path) :] if at_end else namespace[: len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def check_filter(wanted: Mapping[str, Any]) -> None:
    """Raise if a filter uses an unknown operator, at any depth.

    Raises:
        InvalidInputError: the operator is unknown, or cannot compare with the given value.
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
    """Whether a value matches a filter; a key that the value lacks counts as null."""
    return all(_matches(value.get(key), condition) for key, condition in (wanted or {}).items())


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _has_operators(wanted):
            return all(_compares(value, name, bound) for name, bound in wanted.items())
        return isinstance(value, Mapping) and passes(value, wanted)
    if isinstance(wanted, (list, tuple)):
        same_size = isinstance(value, list) and len(value) == len(wanted)
        return same_size and all(map(_matches, value, wanted))
    return bool(value == wanted)


def _compares(value: Any, name: str, bound: Any) -> bool:
    """Compare as LangGraph's databases do: `$ne` and the order operators never match null."""
    if name == "$eq":
        return bool(value == bound)
    if name == "$ne":
        return value is not None and bool(value != bound)
    for kind in (str, (int, float)):
        if isinstance(value, kind) and isinstance(bound, kind):
            return bool(_ORDER[name](value, bound))
    return False
