"""Checks of LangGraph's store operations, and the rules of namespaces and filters.

A namespace is a tuple of labels. Namespaces are compared label by label, never as texts.
"""

import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)
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


@dataclass(frozen=True)
class Put:
    """One item to store, with its value as JSON and its indexed texts; None deletes the item."""

    namespace: str
    key: str
    value: str | None
    texts: tuple[str, ...]


@dataclass
class Batch:
    """The checked operations of one call."""

    reads: dict[int, GetOp | SearchOp | ListNamespacesOp] = field(default_factory=dict)
    """By position among the results."""
    puts: dict[tuple[str, str], Put] = field(default_factory=dict)
    """By namespace and key: of several puts to one item the last one counts."""
    size: int = 0


def check_batch(ops: Iterable[Op], fields: Sequence[str]) -> Batch:
    """Check all operations of a call.

    Args:
        ops: the operations.
        fields: the paths that are indexed where an operation names none.

    Raises:
        InvalidNamespaceError: a namespace has a label that LangGraph refuses.
        InvalidInputError: an operation cannot be done for another reason.
        NotImplementedError: a put has a time to live.
    """
    batch = Batch()
    for place, op in enumerate(ops):
        batch.size = place + 1
        check_labels(op)
        validate_op_namespace(op)
        if isinstance(op, PutOp):
            put = _checked_put(op, fields)
            batch.puts[put.namespace, put.key] = put
        else:
            _check_read(op)
            batch.reads[place] = op
    return batch


def _check_read(op: Op) -> None:
    if isinstance(op, GetOp):
        _check_encodable(as_text(op.namespace), str(op.key))
        return
    if not isinstance(op, (SearchOp, ListNamespacesOp)):
        raise InvalidInputError(f"Unknown operation: {type(op).__name__}.")
    if not all(isinstance(number, int) and number >= 0 for number in (op.limit, op.offset)):
        raise InvalidInputError(
            f"limit and offset are whole numbers from 0 on, not {op.limit!r}, {op.offset!r}."
        )
    if isinstance(op, SearchOp):
        _check_encodable(as_text(op.namespace_prefix))
        check_filter(op.filter or {})
        return
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidInputError(
                f"match_type must be 'prefix' or 'suffix', not {condition.match_type!r}."
            )


def _check_encodable(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{text!r} is not valid Unicode, so nothing can be named by it."
            ) from error


def _checked_put(op: PutOp, fields: Sequence[str]) -> Put:
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if op.ttl is not None:
        raise NotImplementedError("ChromaStore keeps items until they are deleted; leave ttl out.")
    namespace, key = as_text(op.namespace), str(op.key)
    _check_encodable(namespace, key)
    if op.value is None:
        return Put(namespace, key, None, ())
    value = _as_json(op.value, key)
    return Put(namespace, key, value, _texts(json.loads(value), _paths(op, fields)))


def _as_json(value: Any, key: str) -> str:
    try:
        stored = dict(value)
        unnamed = next(_unnamed(stored), None)
        if unnamed is not None:
            raise TypeError(f"the key {unnamed} is no text")
        return json.dumps(stored)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The value of {key!r} cannot be written as JSON: {error}. Nothing of this call was "
            "stored. Give a dict of texts, numbers, booleans, None, lists and dicts."
        ) from error


def _unnamed(value: Any) -> Iterator[str]:
    """Yield the keys that are no texts; JSON would write `1` and `"1"` as the same key."""
    if isinstance(value, dict):
        yield from (repr(name) for name in value if not isinstance(name, str))
    parts = value.values() if isinstance(value, dict) else value
    for part in parts if isinstance(value, (dict, list, tuple)) else ():
        yield from _unnamed(part)


def _paths(op: PutOp, fields: Sequence[str]) -> Sequence[str]:
    if op.index is None:
        return fields
    if op.index is False:
        return ()
    return check_paths(op.index)


def check_paths(paths: Any) -> Sequence[str]:
    """Return the paths if they are a list of texts.

    Raises:
        InvalidInputError: they are not.
    """
    if isinstance(paths, (list, tuple)) and all(isinstance(path, str) for path in paths):
        return paths
    raise InvalidInputError(f"Indexed paths are a list such as ['text'], not {paths!r}.")


def _texts(value: Any, paths: Sequence[str]) -> tuple[str, ...]:
    """The distinct texts at the paths; lone surrogates, which cannot be stored, become `?`."""
    texts = (text for path in paths for text in get_text_at_path(value, path) if text.strip())
    return tuple(dict.fromkeys(text.encode(errors="replace").decode() for text in texts))
