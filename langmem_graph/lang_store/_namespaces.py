"""Namespaces: tuples of labels, compared label by label, never as pieces of text."""

from collections.abc import Sequence

from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition, Op
from sqlalchemy import ColumnElement, true

from langmem_graph.errors import InvalidInputError
from langmem_graph.lang_store._tables import items

Namespace = tuple[str, ...]


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
    found = [one for one in stored if all(_fits(one, condition) for condition in conditions)]
    cut = sorted({one[: op.max_depth] for one in found})
    return cut[op.offset : op.offset + op.limit]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    at_end = condition.match_type == "suffix"
    part = namespace[len(namespace) - len(path) :] if at_end else namespace[: len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
