"""Namespaces: tuples of labels, compared label by label, never as pieces of text."""

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
    """Items in the namespace or below it.

    A range, because LIKE knows wildcards and ignores case: whatever begins with `a.b.` sorts
    after `a.b.` and before `a.b/`, as the slash follows the dot.
    """
    if not prefix:
        return true()
    own = as_text(prefix)
    column = items.c.namespace
    return (column == own) | ((column > f"{own}.") & (column < f"{own}/"))


def check_labels(op: Op) -> None:
    """Raise for a text: its letters would be the labels, and `al` the beginning of `alice`."""
    for name in ("namespace", "namespace_prefix"):
        _refuse_text(getattr(op, name, None))
    for condition in getattr(op, "match_conditions", None) or ():
        _refuse_text(condition.path)


def _refuse_text(namespace: object) -> None:
    if isinstance(namespace, str):
        raise InvalidNamespaceError(
            f"A namespace is a tuple of labels: {(namespace,)!r}, not {namespace!r}."
        )


def check_conditions(op: ListNamespacesOp) -> None:
    """Raise when a condition is neither about the beginning nor about the end."""
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidInputError(
                f"match_type must be 'prefix' or 'suffix', not {condition.match_type!r}."
            )


def known_beginning(op: ListNamespacesOp) -> Namespace:
    """The labels that every listed namespace begins with: a prefix up to its first wildcard."""
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix" and "*" not in condition.path:
            return tuple(condition.path)
    return ()


def listed(op: ListNamespacesOp, stored: Sequence[Namespace]) -> list[Namespace]:
    """The namespaces that the operation asks for, sorted."""
    conditions = op.match_conditions or ()
    found = [
        one for one in stored if all(_condition_fits(one, condition) for condition in conditions)
    ]
    cut = sorted({one[: op.max_depth] for one in found})
    return cut[op.offset : op.offset + op.limit]


def _condition_fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    at_end = condition.match_type == "suffix"
    part = namespace[len(namespace) - len(path) :] if at_end else namespace[: len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


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
    return all(_value_fits(value.get(key), condition) for key, condition in (wanted or {}).items())


def _value_fits(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _has_operators(wanted):
            return all(_compares(found, name, bound) for name, bound in wanted.items())
        return isinstance(found, Mapping) and passes(found, wanted)
    if isinstance(wanted, (list, tuple)):
        same_size = isinstance(found, list) and len(found) == len(wanted)
        return same_size and all(map(_value_fits, found, wanted))
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


@dataclass(frozen=True)
class Put:
    """One item to store, or, with `value` None, to delete."""

    namespace: str
    key: str
    value: str | None
    texts: tuple[str, ...]


@dataclass
class Batch:
    """What is read, by its place among the results; and what is put: a later put wins."""

    reads: dict[int, GetOp | SearchOp | ListNamespacesOp] = field(default_factory=dict)
    puts: dict[tuple[str, str], Put] = field(default_factory=dict)
    size: int = 0


def check_batch(ops: Iterable[Op], fields: Sequence[str]) -> Batch:
    """All operations, checked.

    Args:
        ops: the operations.
        fields: the paths that are indexed where an operation names none.

    Raises:
        InvalidNamespaceError: for a label that LangGraph refuses.
        InvalidInputError: for anything else that cannot be done.
        NotImplementedError: for a time to live.
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
    if not all(isinstance(one, int) and one >= 0 for one in (op.limit, op.offset)):
        raise InvalidInputError(
            f"limit and offset are whole numbers from 0 on, not {op.limit!r}, {op.offset!r}."
        )
    if isinstance(op, SearchOp):
        _check_encodable(as_text(op.namespace_prefix))
        check_filter(op.filter or {})
    else:
        check_conditions(op)


def _check_encodable(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"{text!r} is no valid Unicode and names nothing.") from error


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
    """Keys that JSON would turn into texts, perhaps into others' names: `1` and `"1"`."""
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
    """The paths; raises unless they are a list of texts."""
    if isinstance(paths, (list, tuple)) and all(isinstance(path, str) for path in paths):
        return paths
    raise InvalidInputError(f"Indexed paths are a list such as ['text'], not {paths!r}.")


def _texts(value: Any, paths: Sequence[str]) -> tuple[str, ...]:
    """The distinct texts at the paths; half characters, which no file can hold, become `?`."""
    found = (text for path in paths for text in get_text_at_path(value, path))
    whole = (text.encode(errors="replace").decode() for text in found if text.strip())
    return tuple(dict.fromkeys(whole))
