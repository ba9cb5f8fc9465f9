"""Requests that need a model, checked before any work begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from langmem_graph.config import Settings
from langmem_graph.errors import InvalidInputError
from langmem_graph.intake import to_utc
from langmem_graph.models import RecallMode
from langmem_graph.recall.fast import check_request

if TYPE_CHECKING:
    from langmem_graph.grounding.state import GroundingState
    from langmem_graph.write.mind import Mind


@dataclass(frozen=True)
class RecallRequest:
    """Request of a recall; None takes the default of the settings."""

    query: str
    mode: RecallMode = "auto"
    k: int | None = None
    """Number of facts of the first look-up."""
    max_tokens: int | None = None
    """Token budget of the context."""
    in_view: Sequence[str] = ()
    """Ids and texts of messages that the model sees anyway; they are not quoted again."""
    now: str | None = None
    """ISO time of the request; None is the present."""


def to_reason(mind: "Mind | None", settings: Settings, request: RecallRequest) -> "Mind":
    """What reasons, once the request is in order.

    Raises:
        InvalidInputError: an unusable query or option, or no model.
    """
    check_request(settings, request.query, request.k, request.max_tokens)
    mode = request.mode
    if mode not in get_args(RecallMode):
        raise InvalidInputError(
            f"mode must be one of {', '.join(get_args(RecallMode))}, not {mode!r}."
        )
    if mind is None:
        raise InvalidInputError(
            f"recall(mode={mode!r}) needs a model: Memory(path, model='openai:…'). "
            "Without one there is mode='fast'."
        )
    return mind


def to_ground(
    mind: "Mind | None", tool: Any, request: str, policy: object, at: object
) -> "tuple[Mind, GroundingState]":
    """What fills tool calls, and the request as it takes it.

    Raises:
        InvalidInputError: an unusable tool, request or option, or no model.
    """
    from langmem_graph.grounding.grounder import grounding_request  # slow to import

    if mind is None:
        raise InvalidInputError("ground needs a model: Memory(path, model='openai:…').")
    now = iso(at) or datetime.now(UTC).isoformat(timespec="minutes")
    return mind, grounding_request(tool, request, policy, now)


def iso(at: object) -> str | None:
    """A time as ISO text; None stays None."""
    return None if at is None else to_utc(at).isoformat(timespec="minutes")
