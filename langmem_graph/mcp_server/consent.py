"""Nothing is deleted on a model's word where a human can be asked."""

from typing import Any

from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from mcp.shared.exceptions import McpError


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """Why nothing was deleted."""


async def agreed(
    context: RequestContext[ServerSession, Any, Any], record_id: str, confirm: bool
) -> None:
    """Return when the record may be deleted.

    A client that can ask its human (elicitation) is made to, whatever the model says; with any
    other the argument `confirm` decides.

    Raises:
        Refusal: otherwise.
    """
    if not _can_ask(context.session):
        if not confirm:
            raise Refusal("Nothing was deleted. Ask the user; if they agree, give confirm: true.")
        return
    try:
        answer = await context.session.elicit_form(
            f"Delete the remembered record {record_id!r} for good?",
            {"type": "object", "properties": {}},
            context.request_id,
        )
    except McpError as error:
        raise Refusal(f"The user could not be asked; nothing was deleted: {error}") from error
    if answer.action != "accept":
        raise Refusal("The user did not agree; nothing was deleted.")


def _can_ask(session: ServerSession) -> bool:
    """True for a client that shows its human a form."""
    can = session.client_params.capabilities.elicitation if session.client_params else None
    return can is not None and (can.form is not None or can.url is None)
