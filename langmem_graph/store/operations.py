"""A call's store operations, checked as a whole before any is carried out; namespaces,
filters.
"""

import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from langmem_graph.errors import InvalidInputError, quoted

Namespace = tuple[str, ...]
Read = GetOp | SearchOp | ListNamespacesOp
_ORDER = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS = ("$eq", "$ne", *_ORDER)
_FILTER_LEVELS = 100
_LONGEST = 10**9  # minutes: 1,900 years, so that the end is a date


@dataclass(frozen=True)
class Put:
    """One item to store, with its value as JSON and its indexed texts; None deletes the
    item.
    """

    namespace: str
    key: str
    value: str | None
    texts: tuple[str, ...]
    ttl: float | None = None
    """The time to live, in minutes."""


@dataclass(eq=False)
class Call:
    """The operations of one caller, and the future that gets their results or their
    error.
    """

    ops: Sequence[Op]
    done: Future[list[Result]] = field(default_factory=Future)
    results: list[Result] = field(default_factory=list)
    reads: dict[int, Read] = field(default_factory=dict)
    """By position among the results."""
    puts: dict[tuple[str, str], Put] = field(default_factory=dict)
    """By namespace and key: of several puts to one item the last one counts."""

    def check(self, fields: Sequence[str]) -> None:
        """Check all operations; `fields` are indexed where an operation names no paths.

        Raises:
            InvalidNamespaceError: a namespace has a label that LangGraph refuses.
            InvalidInputError: an operation cannot be done for another reason.
        """
        self.results = [None] * len(self.ops)
        for place, op in enumerate(self.ops):
            _check_labels(op)
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                put = _checked_put(op, fields)
                self.puts[put.namespace, put.key] = put
            else:
                _check_read(op)
                self.reads[place] = op


def _check_read(op: Op) -> None:
    if isinstance(op, GetOp):
        _check_encodable(as_text(op.namespace), str(op.key))
        return
    if not isinstance(op, (SearchOp, ListNamespacesOp)):
        raise InvalidInputError(f"Unknown operation: {type(op).__name__}.")
    if not all(
        isinstance(number, int) and number >= 0 for number in (op.limit, op.offset)
    ):
        raise InvalidInputError(
            f"limit and offset are whole numbers from 0 on, not {quoted(op.limit)}, "
            f"{quoted(op.offset)}."
        )
    if isinstance(op, SearchOp):
        _check_encodable(as_text(op.namespace_prefix))
        _check_filter(op.filter or {})
        return
    if not isinstance(op.max_depth, int | None):
        raise InvalidInputError(
            f"max_depth is a number of labels, not {quoted(op.max_depth)}."
        )
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidInputError(
                "match_type must be 'prefix' or 'suffix', not "
                f"{quoted(condition.match_type)}."
            )


def _check_labels(op: Op) -> None:
    """Raise LangGraph's error for a namespace that is a text: each letter would be a
    label.
    """
    named = [getattr(op, name, None) for name in ("namespace", "namespace_prefix")]
    for path in [
        *named,
        *(one.path for one in getattr(op, "match_conditions", None) or ()),
    ]:
        if isinstance(path, str):
            raise InvalidNamespaceError(
                f"A namespace is a tuple of labels: {(path,)!r}, not {quoted(path)}."
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
    if op.ttl is not None and not (
        isinstance(op.ttl, (int, float)) and abs(op.ttl) <= _LONGEST
    ):
        raise InvalidInputError(
            f"ttl is a number of minutes up to {_LONGEST:,}, not {quoted(op.ttl)}."
        )
    namespace = as_text(op.namespace)
    key = str(op.key)
    _check_encodable(namespace, key)
    if op.value is None:
        return Put(namespace, key, None, ())
    value = _as_json(op.value, key)
    paths = (
        ()
        if op.index is False
        else fields
        if op.index is None
        else check_paths(op.index)
    )
    return Put(namespace, key, value, _texts(json.loads(value), paths), op.ttl)


def _as_json(value: Any, key: str) -> str:
    try:
        stored = dict(value)
        unnamed = next(_unnamed(stored), None)
        if unnamed is not None:
            raise TypeError(f"the key {unnamed} is no text")
        written = json.dumps(stored, ensure_ascii=False, allow_nan=False)
        return written.encode().decode()  # lone surrogates are refused
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The value of {key!r} cannot be written as JSON: {error}. Nothing of "
            "this call was "
            "stored. Give a dict of texts, finite numbers, booleans, None, lists and "
            "dicts."
        ) from error


def _unnamed(value: Any) -> Iterator[str]:
    """Yield the keys that are no texts; JSON would write `1` and `"1"` as the
    same key.
    """
    if isinstance(value, dict):
        yield from (repr(name) for name in value if not isinstance(name, str))
    parts = value.values() if isinstance(value, dict) else value
    for part in parts if isinstance(value, (dict, list, tuple)) else ():
        yield from _unnamed(part)


def check_paths(paths: Any) -> Sequence[str]:
    """The paths, or an `InvalidInputError` where they are no list of texts."""
    if isinstance(paths, (list, tuple)) and all(
        isinstance(path, str) for path in paths
    ):
        return paths
    raise InvalidInputError(
        f"Indexed paths are a list such as ['text'], not {quoted(paths)}."
    )


def _texts(value: Any, paths: Sequence[str]) -> tuple[str, ...]:
    """The distinct texts at the paths."""
    texts = (
        text for path in paths for text in get_text_at_path(value, path) if text.strip()
    )
    return tuple(dict.fromkeys(texts))


def _check_filter(wanted: object, levels: int = _FILTER_LEVELS) -> None:
    """Raise if a filter is none, uses an unknown operator, or one that cannot compare
    with its value.
    """
    if not (
        levels
        and isinstance(wanted, Mapping)
        and all(isinstance(name, str) for name in wanted)
    ):
        raise InvalidInputError(
            "A filter is a dict of texts and conditions, of at most "
            f"{_FILTER_LEVELS} levels, such as {{'kind': 'note'}}."
        )
    for condition in wanted.values():
        if isinstance(condition, Mapping) and _has_operators(condition):
            for name, bound in condition.items():
                _check_operator(name, bound)
        elif isinstance(condition, Mapping):
            _check_filter(condition, levels - 1)


def _check_operator(name: str, bound: Any) -> None:
    if name not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        raise InvalidInputError(
            f"Unsupported filter operator {name!r}. There are {known}."
        )
    if name in _ORDER and not isinstance(bound, (int, float, str)):
        raise InvalidInputError(
            f"{name} compares with a number or a text, not with {quoted(bound)}."
        )


def as_text(namespace: Sequence[str]) -> str:
    """The labels joined by dots; LangGraph allows no dot in a label."""
    return ".".join(namespace)


def as_labels(text: str) -> Namespace:
    """The labels of a stored namespace."""
    return tuple(text.split("."))


def known_beginning(op: ListNamespacesOp) -> Namespace:
    """The labels with which every listed namespace begins: those of a prefix without
    wildcards.
    """
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix" and "*" not in condition.path:
            return tuple(condition.path)
    return ()


def listed(op: ListNamespacesOp, stored: Sequence[Namespace]) -> list[Namespace]:
    """The namespaces that meet the operation's conditions, cut to its depth and
    sorted.
    """
    conditions = op.match_conditions or ()
    meeting = (
        name
        for name in stored
        if all(_meets(name, condition) for condition in conditions)
    )
    cut = sorted({name[: op.max_depth] for name in meeting})
    return cut[op.offset : op.offset + op.limit]


def _meets(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    at_end = condition.match_type == "suffix"
    part = namespace[len(namespace) - len(path) :] if at_end else namespace[: len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _has_operators(condition: Mapping[str, Any]) -> bool:
    return any(isinstance(name, str) and name.startswith("$") for name in condition)


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value matches a filter; a key that the value lacks counts as null."""
    return all(
        _matches(value.get(key), condition) for key, condition in (wanted or {}).items()
    )


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
    """Compare as LangGraph's databases do: `$ne` and the order operators never match
    null.
    """
    if name == "$eq":
        return bool(value == bound)
    if name == "$ne":
        return value is not None and bool(value != bound)
    for kind in (str, (int, float)):
        if isinstance(value, kind) and isinstance(bound, kind):
            return bool(_ORDER[name](value, bound))
    return False
