"""A batch of store operations, checked as a whole before any of it is carried out."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from langmem_graph.errors import InvalidInputError
from langmem_graph.store.namespaces_and_filters import as_text, check_filter, check_labels


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
