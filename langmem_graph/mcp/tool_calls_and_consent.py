"""The memory tools as MCP tools: how they are listed and called, and how `forget` is confirmed."""

import logging
from functools import partial
from typing import Any

import anyio
from mcp import types
from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from mcp.shared.exceptions import McpError
from pydantic import Field, ValidationError

from langmem_graph.errors import InvalidInputError, explain, for_log
from langmem_graph.memory import UserMemory
from langmem_graph.settings import Settings
from langmem_graph.tools import tool_answers
from langmem_graph.tools.tool_definitions import (
    FORGET,
    READING,
    REMEMBER,
    ForgetArguments,
    MemoryTool,
)
from langmem_graph.tools.tool_turn_budget import Answer, Call

_log = logging.getLogger(__name__)
Context = RequestContext[ServerSession, Any, Any]


class ConfirmedForgetArguments(ForgetArguments):
    """Arguments of `forget` over MCP, where no graph can be interrupted."""

    confirm: bool = Field(
        default=False, description="True only after the user agreed to delete this very record."
    )


CONFIRMED_FORGET = MemoryTool(
    FORGET.name,
    f"{FORGET.description} Show them the record and ask first; this cannot be undone.",
    ConfirmedForgetArguments,
    lambda call, record_id, **_: tool_answers.forget(call, record_id),
)


def offered(allow_forget: bool) -> tuple[MemoryTool, ...]:
    """The tools of a server."""
    return (*READING, REMEMBER, *([CONFIRMED_FORGET] if allow_forget else []))


def described(tool: MemoryTool) -> types.Tool:
    """The tool as MCP clients list it."""
    schema = tool.arguments.model_json_schema()
    arguments = {key: schema[key] for key in ("type", "properties", "required")}
    hints = types.ToolAnnotations(
        readOnlyHint=tool in READING,
        destructiveHint=tool is CONFIRMED_FORGET,
        idempotentHint=True,  # the same sentence is remembered once
        openWorldHint=False,
    )
    return types.Tool(
        name=tool.name, description=tool.description, inputSchema=arguments, annotations=hints
    )


async def call_tool(
    tool: MemoryTool | None,
    given: dict[str, Any],
    user: UserMemory,
    settings: Settings,
    context: Context,
) -> types.CallToolResult:
    """The tool's answer as text and as data, or a tool error that says what to do instead."""
    if tool is None:
        return _failed("There is no such tool; list the tools to see which there are.")
    try:
        text, data = await _answer(tool, given, Call(user, settings, frozenset()), context)
    except ValidationError as error:
        return _failed(f"The arguments do not fit: {explain(error)}.")
    except (InvalidInputError, Refusal) as error:
        return _failed(str(error))
    except Exception as error:  # noqa: BLE001  # the model is told, and the log the rest
        _log.warning("the memory tool %s failed: %s", tool.name, for_log(error))
        return _failed("Memory cannot be reached right now. Go on without it, and say so.")
    return types.CallToolResult(content=[_text(text)], structuredContent=data)


async def _answer(tool: MemoryTool, given: dict[str, Any], call: Call, context: Context) -> Answer:
    arguments = tool.arguments.model_validate(given).model_dump()
    if tool is CONFIRMED_FORGET:
        await _confirm(context, arguments["record_id"], arguments["confirm"])
    return await anyio.to_thread.run_sync(partial(tool.work, call, **arguments))


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """The record is not deleted; the text says why."""


async def _confirm(context: Context, record_id: str, confirm: bool) -> None:
    """Return when the record may be deleted.

    A client that can ask its human (elicitation) has to ask, whatever the model says; with any
    other client the argument `confirm` decides.

    Raises:
        Refusal: the human or the model did not agree.
    """
    client = context.session.client_params
    asks = client.capabilities.elicitation if client else None
    if asks is None or (asks.form is None and asks.url is not None):  # it can show no form
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


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(text)], isError=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
