"""What the inspector changes in a memory, where it was allowed to."""

from collections.abc import Callable

from langmem_graph.errors import InvalidInputError, ReadOnlyError
from langmem_graph.inspector.visit import Visit

Where = tuple[str, dict[str, str]]
"""The page that is shown next, and what its address says."""


def carry_out(visit: Visit) -> Where:
    """Do what the form asks for; which page is shown next.

    Raises:
        ReadOnlyError: the inspector was opened without changes, or shows a shared room.
        InvalidInputError: there is no such change, or it cannot be made.
    """
    visit.check_no_room()
    if not visit.allow_changes:
        raise ReadOnlyError(
            "This inspector only shows. To change something open it with --allow-changes, or "
            "create_inspector(memory, allow_changes=True)."
        )
    action = _ACTIONS.get(visit.get("action"))
    if action is None:
        raise InvalidInputError("There is no such change.")
    page, query = action(visit)
    return page, {"user": visit.user.id, **query, "done": visit.get("action")}


def _correct(visit: Visit) -> Where:
    right = visit.user.correct(visit.get("record"), visit.get("text"))
    return "record", {"id": right.record_id}


def _undo(visit: Visit) -> Where:
    if message := visit.get("message"):
        visit.user.undo(message=message)
        return "message", {"id": message}
    touched = visit.user.undo(visit.get("record"))
    if not touched:
        raise InvalidInputError("There is nothing to undo.")
    return "record", {"id": visit.get("record")}


def _forget(visit: Visit) -> Where:
    named = {kind: visit.get(kind) or None for kind in ("record", "message", "session")}
    visit.user.forget(**named)
    return "person", {}


def _confirm(visit: Visit) -> Where:
    visit.user.confirm(visit.get("message"))
    return "message", {"id": visit.get("message")}


_ACTIONS: dict[str, Callable[[Visit], Where]] = {
    "correct": _correct,
    "undo": _undo,
    "forget": _forget,
    "confirm": _confirm,
}
